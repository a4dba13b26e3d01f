"""The sweep file: what it may say, and one sentence for whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from advice.sweep.samples import spec_file, two_models
from npuscope.advice.sweep.drive import sweep
from npuscope.advice.sweep.spec import Choice, SpecMachine, read_spec
from npuscope.errors import FileError, NpuscopeError, UsageError

FULL = """
models = ["dense.tflite", "nets/*.tflite", { path = "conv.tflite", shapes = { x = [1, 8, 8, 3] } }]
machines = ["stm32n6"]
machine_files = ["own.toml"]
generations = ["2.2", "4.0"]
epoch_controller = [true, false]
optimization = [0, 3]
input_data_type = "int8"
output_data_type = ["int8", "float32"]
findings = true
[[pools]]
name = "default"
[[pools]]
mpool = "vendor.mpool"
[[pools]]
set = { pools.hyperRAM.size_kib = 0, "pools.octoFlash.size_kib" = 1024 }
[[clocks]]
mcu_mhz = 600
npu_mhz = 800.5
[[sets]]
name = "small cache"
set = { cache.size_bytes = 65536 }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    two_models(tmp_path)
    return tmp_path


def test_everything_that_it_may_say(folder: Path) -> None:
    (folder / "nets").mkdir()
    for name in ("b.tflite", "a.tflite", "c.onnx"):
        (folder / "nets" / name).write_bytes(b"x")
    spec = read_spec(spec_file(folder, FULL))
    labels = ["dense.tflite", "nets/a.tflite", "nets/b.tflite", "conv.tflite"]
    assert [model.label for model in spec.models] == labels
    assert all(model.path == folder / model.label for model in spec.models)
    assert spec.models[-1].shapes == {"x": (1, 8, 8, 3)}
    assert spec.machines == (SpecMachine("stm32n6"), SpecMachine("own", folder / "own.toml"))
    assert (spec.generations, spec.epoch_controller) == (("2.2", "4.0"), (True, False))
    assert (spec.optimization, spec.findings) == ((0, 3), True)
    assert (spec.input_data_type, spec.output_data_type) == (("int8",), ("int8", "float32"))
    sizes = {"pools.hyperRAM.size_kib": 0, "pools.octoFlash.size_kib": 1024}
    assert spec.pools == (
        Choice("default"),
        Choice("vendor", mpool=folder / "vendor.mpool"),
        Choice("pools.hyperRAM.size_kib=0, pools.octoFlash.size_kib=1024", sizes),
    )
    assert spec.clocks == (Choice("600/800.5", {"clocks.mcu_mhz": 600, "clocks.npu_mhz": 800.5}),)
    assert spec.sets == (Choice("small cache", {"cache.size_bytes": 65536}),)
    assert spec.size == 4 * 2 * 2 * 2 * 2 * 1 * 2 * 3


def test_models_alone_are_enough(folder: Path) -> None:
    spec = read_spec(spec_file(folder, 'models = ["conv.tflite"]'))
    assert (spec.size, spec.generations, spec.pools) == (1, ("4.0",), (Choice("default"),))


LONG = "x" * 300  # longer than a file name may be
WRONG = {
    'modles = ["a"]': ": modles: unknown key\n  hint: did you mean models?",
    "": ': no models\n  hint: name them: models = ["a.tflite", "nets/*.onnx"]',
    "models = []": ': no models\n  hint: name them: models = ["a.tflite", "nets/*.onnx"]',
    'models = ["no.tflite"]': ": models[0]: no such file: 'no.tflite'\n"
    "  hint: paths are relative to the sweep file",
    'models = ["*.onnx"]': ": models[0]: no file matches '*.onnx'\n"
    "  hint: paths are relative to the sweep file",
    f'models = ["{LONG}"]': f": models[0]: no such file: '{LONG}'\n"
    "  hint: paths are relative to the sweep file",
    f'models = ["{LONG}*"]': f": models[0]: no file matches '{LONG}*'\n"
    "  hint: paths are relative to the sweep file",
    "models = [3]": ": models[0]: expected a table, found 3",
    "models = [{ shapes = {} }]": ": models[0].path: this key is missing",
    'models = [{ path = "conv.tflite", shape = 1 }]': ": models[0].shape: unknown key\n"
    "  hint: did you mean shapes?",
    'models = [{ path = "conv.tflite", shapes = { x = [0] } }]': ": models[0].shapes.x[0]: "
    "must be above 0, found 0",
    "generations = 4.0": ": generations: expected text, found 4.0",
    "generations = []": ": generations: the list is empty\n"
    "  hint: leave the key out for the default",
    "epoch_controller = [1]": ": epoch_controller[0]: expected true or false, found 1",
    "optimization = [true]": ": optimization[0]: expected a whole number, found true",
    "optimization = [4]": ": optimization: unknown value 4\n  hint: known: 0, 1, 2, 3",
    'input_data_type = ["int4"]': ": input_data_type: unknown value 'int4'\n"
    "  hint: known: float32, int8, uint8",
    "pools = 3": ": pools: expected a list, found 3",
    "[[pools]]\nsize = 1": ": pools[0].size: unknown key\n  hint: known: name, mpool, set",
    "[[pools]]\nset = 1": ": pools[0].set: expected a table, found 1",
    '[[clocks]]\nnpu_mhz = "fast"': ": clocks[0].npu_mhz: expected a number, found 'fast'",
    "[[sets]]\n[[sets]]": ": sets: two of them have the name 'default'",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_named_with_its_place(folder: Path, text: str) -> None:
    ok = 'models = ["conv.tflite"]\n'
    path = spec_file(folder, text if text == "" or text.startswith("mod") else ok + text)
    with pytest.raises(FileError) as caught:
        read_spec(path)
    assert str(caught.value) == f"{path}{WRONG[text]}"


MACHINE_FAULTS = {
    'generations = ["5.0"]': ": generations: unknown generation '5.0'\n"
    "  hint: known: 2.0, 2.1, 2.2, 3.0, 4.0, open",
    'machines = ["n7"]': ": machines: unknown machine 'n7'\n"
    "  hint: known: stm32n6; machine_files adds others",
    "[[sets]]\nset = { clocks.npu_mhz = -1 }": ": set clocks.npu_mhz: must be above 0, found -1",
}


@pytest.mark.parametrize("text", MACHINE_FAULTS)
def test_machines_are_looked_at_before_anything_runs(folder: Path, text: str) -> None:
    path = spec_file(folder, f'models = ["conv.tflite"]\n{text}')
    with pytest.raises(NpuscopeError) as caught:
        sweep(path)
    assert str(caught.value) == f"{path}{MACHINE_FAULTS[text]}"
    assert not path.with_suffix(".jsonl").exists()


def test_what_is_no_toml(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none\.toml: cannot be read: No such file"):
        read_spec(tmp_path / "none.toml")
    for data in (b"models = [", b"\xff\xfe", b"a = " + b"[" * 5000):
        path = tmp_path / "bad.toml"
        path.write_bytes(data)
        with pytest.raises(FileError, match="is not valid TOML"):
            read_spec(path)
    path.write_bytes(b"#" * (1 << 21))
    with pytest.raises(FileError, match="a sweep file has at most 1,048,576"):
        read_spec(path)


def test_a_file_may_be_called_like_a_pattern(folder: Path) -> None:
    (folder / "a[1].tflite").write_bytes(b"x")
    spec = read_spec(spec_file(folder, 'models = ["a[1].tflite"]'))
    assert [model.label for model in spec.models] == ["a[1].tflite"]


def test_many_runs_are_done_only_on_request(folder: Path) -> None:
    clocks = "".join(f"[[clocks]]\nnpu_mhz = {mhz}\n" for mhz in range(400, 5401))
    path = spec_file(folder, f'models = ["conv.tflite", "dense.tflite"]\n{clocks}')
    with pytest.raises(UsageError) as caught:
        sweep(path)
    said = (
        f"{path}: this sweep has 10,002 runs, more than 10,000\n  hint: add --yes to run them all"
    )
    assert str(caught.value) == said
