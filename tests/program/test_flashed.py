"""`validate FOLDER` judges the files that a board gets, not program.json."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import npuscope
from models import conv_net, dense_net, save, to_tflite
from models_onnx_ops import OpCase, op_model
from npuscope.cli.main import main
from npuscope.files.load import load_model
from npuscope.profiling.agreement import InputKind, sample_of
from npuscope.program.network_c.stated_call import call_comment
from npuscope.program.sources import read_program
from npuscope.sim.memory import element_type
from npuscope.sim.run import execute
from npuscope.structs import replace


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("flashed"), "m.tflite", to_tflite(dense_net()))


@pytest.fixture
def build(model: Path, tmp_path: Path) -> Path:
    npuscope.compile(model, tmp_path / "net")
    return tmp_path / "net"


def validated(build: Path, model: Path) -> npuscope.Validation:
    return npuscope.validate(build, model=model)  # type: ignore[return-value]


def test_a_build_as_it_was_written(build: Path, model: Path) -> None:
    with_names = validated(build, model)
    assert with_names.passed and not with_names.contradictions
    (build / "program.json").unlink()
    alone = validated(build, model)
    assert alone.passed and not alone.contradictions


def noise(path: Path) -> None:
    data = np.random.default_rng(1).integers(0, 256, path.stat().st_size, np.uint8)
    path.write_bytes(data.tobytes())


def digit(path: Path) -> None:
    """One word of the blob that is no address."""
    text = path.read_text(encoding="utf-8")
    place = text.index("0x", len(text) // 2) + 12
    path.write_text(text[:place] + f"{int(text[place], 16) ^ 1:x}" + text[place + 1 :], "utf-8")


def record(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[2] = lines[2][:9] + "00" * ((len(lines[2]) - 11) // 2) + "00"
    lines[2] = f"{lines[2][:-2]}{-sum(bytes.fromhex(lines[2][1:-2])) & 255:02X}"
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("atonbuf.xSPI2.raw", noise),
        ("network_data.xSPI2.hex", record),
        ("network_ecblobs.h", digit),
    ],
)
def test_files_that_contradict_program_json(
    name: str, damage: Callable[[Path], None], build: Path, model: Path
) -> None:
    damage(build / name)
    found = validated(build, model)
    assert not found.passed and found.verdict == "wrong"
    assert name in found.contradictions[0] and name in found.sentence


def test_comments_and_space_are_no_contradiction(build: Path, model: Path) -> None:
    path = build / "network.c"
    text = path.read_text(encoding="utf-8").replace("\n  ", "\n      /* moved */ ")
    path.write_text(text, encoding="utf-8")
    assert validated(build, model).passed


@pytest.fixture(scope="module")
def softmax(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("softmax")
    net = dense_net()
    net.softmax()
    model = save(folder, "m.tflite", to_tflite(net))
    npuscope.compile(model, folder / "net")
    return folder / "net", model


def test_the_statement_counts_not_its_comment(softmax: tuple[Path, Path], tmp_path: Path) -> None:
    """The comment of a software kernel is believed where the C does what it says."""
    build, model = softmax
    program = read_program(build)
    call = next(e.call for e in program.executed if e.call)
    for place, other in enumerate(("sums", "comment")):
        folder = tmp_path / str(place)
        shutil.copytree(build, folder)
        (folder / "program.json").unlink()
        path = folder / "network.c"
        text = path.read_text(encoding="utf-8")
        if other == "comment":
            args = tuple((k, 0.25 if k == "beta" else v) for k, v in call.args)
            changed = text.replace(call_comment(call), call_comment(replace(call, args=args)))
        else:
            changed = text.replace("npuscope_softmax_integer(&", "npuscope_log_softmax(&")
        assert changed != text
        path.write_text(changed, encoding="utf-8")
        found = validated(folder, model)
        words = ["validate", str(folder), "--model", str(model), "-q"]
        assert main(words) == 1
        assert found.verdict == "wrong" and "comment" in found.contradictions[0]


def test_a_constant_of_its_own_rank_is_read_back(tmp_path: Path) -> None:
    """(8, 1, 1) beside (1, 8, 4, 4): the axes of a constant per channel are those of the C."""
    factors = np.linspace(-1.5, 1.5, 8, dtype=np.float32).reshape(1, 8, 1, 1)
    product = OpCase(lambda w, x, rng: w.node("Add", w.constant(factors), x), (1, 8, 5, 4))
    file = save(tmp_path, "m.onnx", op_model(product, quantized=True))
    program = npuscope.compile(file, tmp_path / "net")
    (tmp_path / "net" / "program.json").unlink()
    found = read_program(tmp_path / "net")
    rng, buffers = np.random.default_rng(2), program.buffer_map()
    values = {
        name: rng.integers(-90, 90, buffers[name].shape).astype(element_type(buffers[name]))
        for name in program.inputs
    }
    wanted, got = execute(program, values).outputs, execute(found, values).outputs
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)


def test_weights_that_are_not_those_of_the_model(tmp_path: Path) -> None:
    """Also where the outputs do not show it, and nothing but the image is left of the build."""
    model = save(tmp_path, "m.tflite", to_tflite(conv_net(out=16)))
    npuscope.compile(model, tmp_path / "net")
    path = tmp_path / "net" / "atonbuf.xSPI2.raw"
    for name in ("program.json", "network_data.xSPI2.hex", "network_data_params.c"):
        (tmp_path / "net" / name).unlink()
    assert validated(tmp_path / "net", model).damaged == ()
    data = bytearray(path.read_bytes())
    data[100:104] = bytes(4)
    path.write_bytes(data)
    found = validated(tmp_path / "net", model)
    assert found.verdict == "wrong" and "of 432 bytes differ" in found.damaged[0]
    assert "weights are not those of the model" in found.sentence


def test_other_kinds_of_inputs(build: Path, model: Path) -> None:
    found = validated(build, model)
    assert [kind for kind, _ in found.kinds] == ["smooth", "sparse", "extreme", "calibrated"]
    graph = load_model(model)
    name, rng = graph.inputs[0], np.random.default_rng(1)
    samples = {kind: sample_of(graph, kind, rng)[name].astype(int) for kind in InputKind}
    quant = graph.tensor(name).quant
    assert quant is not None
    assert (samples[InputKind.SPARSE] == quant.zero_point).mean() > 0.6
    assert set(samples[InputKind.EXTREME].ravel()) == {-128, 127}
    assert np.abs(np.diff(samples[InputKind.SMOOTH].ravel())).max() < 255
    assert samples[InputKind.CALIBRATED].std() < 60
