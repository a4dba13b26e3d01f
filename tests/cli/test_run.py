"""`npuscope run`: images and build folders on the emulated board."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuscope
from boards.emulated.loads import GRAPHS, Net33, packaged
from loadable.samples import Sample
from loadable.samples import build as sample_build
from loadable.samples import image as for_the_kit
from models import dense_net, save, to_tflite
from npuscope import building
from npuscope.boards.emulated.system import CYCLES_PER_INSTRUCTION
from npuscope.boards.simulated import SimulatedBoard
from npuscope.cli.main import main
from npuscope.errors import UsageError
from npuscope.profiling.measure import random_inputs
from npuscope.report.build_files import write_network as write_build
from npuscope.sim.run import execute

for module in ("ziglang", "unicorn", "elftools"):
    pytest.importorskip(module, reason=f"{module} is not installed: no emulated board")

Capture = pytest.CaptureFixture[str]
ANSWER = re.compile(
    r"network: NPU \d+\.\d{3} ms(?:, predicted total \d+\.\d{3} ms \([\d.]+ inf/s\))?; "
    r"[\d,]+ CPU instructions without vectors on the emulated board \(Cortex-M33\), "
    r"(copied to RAM|executed in place) from (0x[0-9a-f]+)"
)
DEFAULT = Path("build") / "network_rel.bin"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def net() -> Net33:
    return packaged("hardware", controller=False)


@pytest.fixture
def image(folder: Path, net: Net33) -> Path:
    """Where `npuscope package` puts it."""
    return written(folder / DEFAULT, net)


def written(path: Path, net: Net33) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(net.file)
    if net.params is not None:
        path.with_name(f"{path.stem}_params.bin").write_bytes(net.params)
    return path


def run(capsys: Capture, *words: object, code: int = 0) -> str:
    """What is printed: the answer, or the error."""
    assert main(["run", *map(str, words)]) == code
    told = capsys.readouterr()
    return told.err if code else told.out


def as_json(capsys: Capture, *words: object) -> dict[str, Any]:
    return json.loads(run(capsys, *words, "--json"))


def answer(text: str) -> tuple[str, ...]:
    found = ANSWER.fullmatch(text.splitlines()[0])
    assert found, text
    return found.groups()


def test_an_image_wherever_it_is_named(image: Path, folder: Path, capsys: Capture) -> None:
    other = image.rename(folder / "face rel.bin")
    for words in ((other,), ("-i", other), ("--input", other)):
        assert answer(run(capsys, *words)) == ("copied to RAM", "0x71000000")
    other.rename(image)
    assert answer(run(capsys)) == ("copied to RAM", "0x71000000")


def test_the_report_has_steps_and_every_epoch(net: Net33, image: Path, capsys: Capture) -> None:
    lines = run(capsys, image).splitlines()
    assert lines[2:11] == [
        f"Entry point    : '{image}'",
        "Board          : 'emulated', Cortex-M33, memories of the STM32N6570-DK",
        "no split model",
        "",
        "Resetting the board.",
        f"Flashing the image at address 0x71000000 (size={len(net.file)})..",
        "Loading & start the validation application 'emulated-validation-reloc-copy'..",
        "Deployed model is started and ready to be used.",
        "Executing the deployed model (desc=emulated)..",
    ]
    rows = [line for line in lines if line.startswith("  EpochBlock_")]
    assert [row.split()[:2] for row in rows] == [[e.name, "HW"] for e in net.program.executed]
    sums = next(line for line in lines if line.startswith("  emulated")).split()[1:]
    assert sum(float(row.split()[2]) for row in rows) == pytest.approx(float(sums[0]), abs=0.01)
    assert sum(int(row.split()[3].replace(",", "")) for row in rows) == int(
        sums[1].replace(",", "")
    )
    # No program is beside this image: instructions are not turned into a time.
    assert lines[-4] == (
        "  no total is predicted: the image's NAME_rel.program.json is not beside it; `npuscope "
        "estimate BUILD` gives it"
    )
    assert "inf/s" not in "\n".join(lines)


def test_json_as_promised(net: Net33, image: Path, capsys: Capture) -> None:
    found = as_json(capsys, image, "--batch", 2)
    assert (found["schema"], found["mode"]) == ("npuscope/run/1", "copy")
    assert found["network"] == "network"
    assert "emulated" in found["board"]
    # Of an image alone nothing is predicted.
    assert (found["total_ms"], found["inferences_per_s"], found["provenance"]) == (None,) * 3
    assert found["npu_ms"] == pytest.approx(found["phases"][1] / 800e3, rel=1e-4)
    around = found["phases"][0] + found["phases"][2]
    assert found["cpu_instructions"] == pytest.approx(around / CYCLES_PER_INSTRUCTION, abs=3)
    epochs = net.program.executed
    keys = ("name", "first", "last", "kind")
    assert [tuple(row[key] for key in keys) for row in found["epochs"]] == [
        (e.name, e.number, e.last_number, e.kind.value) for e in epochs
    ]
    columns = zip(*(row["mcu_cycles"] for row in found["epochs"]), strict=True)
    assert [sum(column) for column in columns] == found["phases"]
    assert found["outputs"] == simulated_outputs(net)


def simulated_outputs(net: Net33) -> list[dict[str, str]]:
    """Of the inputs that `run` makes up."""
    described = SimulatedBoard(net.program, net.machine).info().networks[0]
    values = dict(zip(net.program.inputs, random_inputs(described), strict=True))
    outputs = execute(net.program, values).outputs
    return [
        {"name": name, "sha256": hashlib.sha256(np.ascontiguousarray(out).tobytes()).hexdigest()}
        for name, out in outputs.items()
    ]


def test_json_into_a_file(image: Path, folder: Path, capsys: Capture) -> None:
    answer(run(capsys, image, "--json", "out.json"))
    assert json.loads((folder / "out.json").read_text())["network"] == "network"
    text = run(capsys, f"--json={image}", image, code=2)
    assert "this is the input file" in text
    assert image.read_bytes()[:4] == b"NBIN"


def test_a_build_folder_is_packaged_for_the_board(folder: Path, capsys: Capture) -> None:
    made = building.build(GRAPHS["mixed"](), {"relocatable": True})
    write_build(made, folder / "built")
    found = as_json(capsys, folder / "built")
    assert {row["kind"] for row in found["epochs"]} >= {"HW", "SW"}
    assert not (folder / "build").exists()
    plain = building.build(GRAPHS["mixed"](), {})
    write_build(plain, folder / "plain")
    assert "--relocatable" in run(capsys, folder / "plain", code=3)


def test_addresses_and_modes(image: Path, capsys: Capture) -> None:
    text = run(capsys, image, "--address", "0x72000000", "--mode", "xip")
    assert answer(text) == ("executed in place", "0x72000000")
    assert "at address 0x72000000 " in text
    text = run(capsys, image, "--mode", "copy,max-speed", "--cube-ide-dir", "/opt/ide")
    assert "ms at 5,529,600 baud" in text
    usual, fast = (as_json(capsys, image, "--mode", mode) for mode in ("copy", "copy,max-speed"))
    assert usual["line"]["ms"] == pytest.approx(6 * fast["line"]["ms"])
    assert usual["phases"] == fast["phases"]
    assert "note     --cube-ide-dir is not needed: the emulated board needs no debugger" in text


def test_load_only(image: Path, capsys: Capture) -> None:
    text = run(capsys, image, "--mode", "no-run")
    assert text.splitlines()[0] == "network is loaded and ready: copied to RAM from 0x71000000"
    assert "EpochBlock" not in text
    found = as_json(capsys, image, "--mode", "xip,no-run")
    assert (found["mode"], found["total_ms"], found["phases"]) == ("xip", None, None)
    assert (found["npu_ms"], found["cpu_instructions"]) == (None, None)
    assert (found["epochs"], found["outputs"]) == ([], [])


def test_parameters_are_found_beside_the_image(folder: Path, capsys: Capture) -> None:
    split = packaged("hardware", controller=False, split=True)
    path = written(folder / "face_rel.bin", split)
    text = run(capsys, path, "--address", "0x71000000,0x73000000")
    answer(text)
    assert "\nsplit model\n" in text
    assert f"Flashing parameters at address 0x73000000 (size={len(split.params or b'')}).." in text
    assert as_json(capsys, path)["outputs"] == simulated_outputs(split)
    text = run(capsys, path, "--address", "0x71000000,0x71000100", code=4)
    assert "overlap the file at 0x71000100" in text
    (folder / "face_rel_params.bin").unlink()
    text = run(capsys, path, code=3)
    assert f"{path}: the parameters are in a separate file, which is missing" in text


def test_parameters_beside_a_whole_image_are_old_ones(image: Path, capsys: Capture) -> None:
    image.with_name("network_rel_params.bin").write_bytes(b"of another day")
    text = run(capsys, image)
    answer(text)
    assert "\nno split model\n" in text
    whole = image.with_name("kit_rel.bin")
    whole.write_bytes(for_the_kit())
    image.with_name("kit_rel_params.bin").write_bytes(b"of another day")
    assert "params" not in run(capsys, whole, "--board", "stm32n6570-dk")
    assert "CPU Cortex-M33" in run(capsys, image, "--board", "stm32n6570-dk", code=3)


def test_network_c_stands_for_its_folder(folder: Path, capsys: Capture) -> None:
    """As the vendor's script takes it."""
    model = save(folder, "net.tflite", to_tflite(dense_net()))
    assert main(["compile", str(model), "-o", str(folder / "net"), "--relocatable", "-q"]) == 0
    capsys.readouterr()
    whole, file = (as_json(capsys, "-i", folder / "net" / name) for name in ("", "network.c"))
    assert whole["outputs"] == file["outputs"]


def test_clocks_and_generation(image: Path, capsys: Capture) -> None:
    usual = as_json(capsys, image)
    slow = as_json(capsys, image, "--mcu-mhz", 400, "--npu-mhz", 500, "--generation", "3.0")
    # As many instructions; the memories keep their clocks.
    assert (slow["phases"][0], slow["phases"][2]) == (usual["phases"][0], usual["phases"][2])
    assert slow["cpu_instructions"] == usual["cpu_instructions"]
    fast_ms, slow_ms = sum(usual["phases"]) / 800e3, sum(slow["phases"]) / 400e3
    assert 1.5 * fast_ms < slow_ms < 2 * fast_ms
    assert usual["npu_ms"] < slow["npu_ms"] < 2 * usual["npu_ms"]
    assert "400" in slow["board"]


def test_more_words_on_request(image: Path, capsys: Capture) -> None:
    text = run(capsys, image, "-v", 2)
    assert main(["run", str(image)]) == 0
    usual = capsys.readouterr()
    for part in ("COPY size     =", "RESET.ACTIV.WRITE", "n_nodes             : "):
        assert part in text
        assert part not in usual.out
    assert main(["run", str(image), "--debug"]) == 0
    said = capsys.readouterr().err
    for part in ("image: Cortex-M33, secure", "mode COPY|CLEAR", "inference 1: ", "CRC-32 0x"):
        assert part in said
    assert "inference 1: " not in usual.err


def test_package_then_run_with_defaults(folder: Path, capsys: Capture) -> None:
    npuscope.compile(GRAPHS["hardware"](), folder / "st_ai_output", relocatable=True)
    assert main(["package"]) == 0
    assert "package with --cpu cortex-m55" in capsys.readouterr().out
    assert answer(run(capsys)) == ("copied to RAM", "0x71000000")
    assert as_json(capsys)["cpu"] == "Cortex-M33"


def test_the_total_is_that_of_estimate(folder: Path, capsys: Capture) -> None:
    """One number wherever a reader meets it: of the model, the build, the image, in text and JSON.
    The network has kernels of the processor."""
    npuscope.compile(GRAPHS["mixed"](), folder / "net", relocatable=True)
    npuscope.package(folder / "net", folder / "build")
    image = folder / DEFAULT
    predicted = npuscope.estimate(folder / "net")
    assert predicted.counts["SW"]
    for source in (image, folder / "net", folder / "net" / "network.c"):
        found = as_json(capsys, source)
        assert found["total_ms"] == pytest.approx(predicted.total_ms, rel=1e-12)
        assert found["inferences_per_s"] == pytest.approx(1e3 / predicted.total_ms)
        assert found["provenance"] == "estimate"
    text = run(capsys, image)
    shown = f"{predicted.total_ms:.3f}"
    assert f", predicted total {shown} ms (" in answer_line(text)
    total, speed = (
        line.split()
        for line in text.splitlines()
        if "predicted total  " in line or " inf/s  " in line
    )
    assert total[:3] == ["predicted", "total", shown]
    phases = [int(cell.replace(",", "")) for cell in total[4:7]]
    assert sum(phases) / 800e3 == pytest.approx(predicted.total_ms, abs=1e-5)
    assert float(speed[0]) == pytest.approx(1e3 / predicted.total_ms, rel=1e-3)
    kernels = [
        row for row in text.splitlines() if row.startswith("  EpochBlock_") and " SW " in row
    ]
    assert kernels and all(row.split()[2] == "-" for row in kernels)
    assert repr(npuscope.run(image)).endswith(f", predicted total {shown} ms, 1 inference>")
    slow = {"mcu_mhz": 400, "npu_mhz": 500, "generation": "3.0"}
    expected = npuscope.estimate(folder / "net", **slow).total_ms
    assert npuscope.run(image, **slow).total_ms == pytest.approx(expected, rel=1e-12)


def answer_line(text: str) -> str:
    answer(text)
    return text.splitlines()[0]


def test_a_program_of_another_image_predicts_nothing(folder: Path, capsys: Capture) -> None:
    npuscope.compile(GRAPHS["hardware"](), folder / "net", relocatable=True)
    files = npuscope.package(folder / "net", folder / "build").files
    beside = folder / "build" / "network_rel.program.json"
    assert json.loads(files[beside.name])["image_sha256"] == (
        hashlib.sha256(files["network_rel.bin"]).hexdigest()
    )
    assert as_json(capsys)["total_ms"]
    npuscope.compile(GRAPHS["mixed"](), folder / "mixed", relocatable=True)
    other = npuscope.package(folder / "mixed").files[beside.name]
    for data in (other, b"{", b"[]", b""):
        beside.write_bytes(data)
        assert as_json(capsys)["total_ms"] is None
    beside.unlink()
    assert as_json(capsys)["total_ms"] is None


@pytest.mark.parametrize("mode", ["copy", "xip"])
def test_the_non_secure_world(mode: str, folder: Path, capsys: Capture) -> None:
    """Other addresses, the same network: values and times do not change."""
    for world, name in ((False, "usual"), (True, "other")):
        graph = GRAPHS["hardware"]()
        made = npuscope.compile(graph, folder / name, relocatable=True, no_secure=world)
        inside = [p for p in made.pools if not p.relative and p.size_bytes]
        assert {p.address >> 28 for p in inside} == {2 if world else 3}
    usual, other = (as_json(capsys, folder / name, "--mode", mode) for name in ("usual", "other"))
    assert other["outputs"] == usual["outputs"]
    assert other["phases"][1] == usual["phases"][1]
    assert main(["package", str(folder / "other"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert not told["secure"]
    assert "packaged for the non-secure world" in " ".join(told["notes"])


def test_code_in_flash_costs_time(folder: Path, capsys: Capture) -> None:
    """Executed in place, the first inference waits for lines of code; later ones find them in the
    processor's cache. Copied to RAM, there is nothing to wait for."""
    net = packaged("mixed", controller=False)
    path = written(folder / "mixed_rel.bin", net)

    copied, placed = (as_json(capsys, path, "--mode", mode) for mode in ("copy", "xip"))
    assert sum(placed["phases"]) > sum(copied["phases"])
    assert placed["outputs"] == copied["outputs"]
    more = as_json(capsys, path, "--mode", "xip", "--batch", 3)
    assert sum(more["phases"]) < sum(placed["phases"])
    assert as_json(capsys, path, "--batch", 3)["phases"] == copied["phases"]


def test_an_image_for_another_core(folder: Path, capsys: Capture) -> None:
    m55 = packaged("hardware", controller=False, cpu="cortex-m55")
    path = written(folder / "m55_rel.bin", m55)
    text = run(capsys, path, code=3)
    assert f"{path}: the image is built for Cortex-M55" in text
    assert "--cpu cortex-m33" in text


def test_damaged_images(net: Net33, folder: Path, capsys: Capture) -> None:
    path = folder / "bad_rel.bin"
    path.write_bytes(net.file[:3000] + bytes([net.file[3000] ^ 1]) + net.file[3001:])
    assert f"{path}: the checksum is wrong: the file is damaged" in run(capsys, path, code=3)
    for size in (0, 50, 3000, len(net.file) - 20):
        path.write_bytes(net.file[:size])
        text = run(capsys, path, code=3)
        assert text.startswith(f"npuscope: {path}")
        assert "Traceback" not in text
    path.write_bytes(net.file[:3000])
    assert main(["run", str(path), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "file"


def test_what_the_boards_loader_refuses(image: Path, capsys: Capture) -> None:
    text = run(capsys, image, "--address", "0x71000004", code=4)
    assert "the board's loader refused image 1: the address is not aligned (code -1)" in text
    text = run(capsys, image, "--address", "0x34000000", code=4)
    assert "are outside of the flash" in text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["IMAGE", "-i", "IMAGE"], 2, "the image is given twice"),
        (["IMAGE", "--mode", "fast"], 2, "--mode: unknown mode 'fast'"),
        (["IMAGE", "--mode", "copy,xip"], 2, "copied or executed in place, not both"),
        (["IMAGE", "--mode", "no-flash"], 2, "the emulated board starts with empty flash"),
        (["IMAGE", "--address", "here"], 2, "expected NET[,PARAMS], found 'here'"),
        (["IMAGE", "--address", "1,2,3"], 2, "expected NET[,PARAMS]"),
        (["IMAGE", "--address", "0x171000000"], 2, "expected NET[,PARAMS]"),
        (["IMAGE", "--batch", "0"], 2, "expected at least 1 inference, found 0"),
        (["IMAGE", "--generation", "9"], 2, "unknown generation '9'"),
        (["IMAGE", "--mcu-mhz", "0"], 2, "must be above 0"),
        (["IMAGE", "--board", "toaster"], 2, "invalid choice: 'toaster'"),
        (["nothing.bin"], 3, "nothing.bin: cannot be read: No such file or directory"),
        (["nothing.bin", "--board", "stm32n6570-dk"], 3, "nothing.bin: cannot be read"),
        ([], 3, f"{DEFAULT}: cannot be read"),
    ],
)
def test_errors(
    net: Net33, folder: Path, capsys: Capture, words: list[str], code: int, message: str
) -> None:
    path = written(folder / "face_rel.bin", net)
    text = run(capsys, *(path if word == "IMAGE" else word for word in words), code=code)
    assert message in text


def test_commands_for_a_real_board(folder: Path, capsys: Capture) -> None:
    path = folder / "my nets" / "face_rel.bin"
    path.parent.mkdir()
    image, params = sample_build(Sample(split=True))
    path.write_bytes(image)
    path.with_name("face_rel_params.bin").write_bytes(params)
    words = (path, "--board", "stm32n6570-dk", "--address", "0x72000000")
    lines = run(capsys, *words).splitlines()
    assert lines[0].startswith("npuscope does not flash real boards")
    image, params, script, profile = as_json(capsys, *words)["commands"]
    assert [line.strip() for line in lines[1:]] == [image, params, script, profile]
    assert image.endswith(f"-w '{path}' 0x72000000")
    assert params.endswith(f"-w '{path.with_name('face_rel_params.bin')}' 0x71800000")
    assert script.endswith(f"-i '{path}' --address 0x72000000,0x71800000 --mode copy,no-flash")
    assert profile == "npuscope profile --connect serial"
    only = as_json(capsys, *words, "--mode", "no-flash,xip")["commands"]
    assert len(only) == 2
    assert only[0].endswith("--mode xip,no-flash")
    (folder / "my nets" / "network.c").touch()
    first, *_ = as_json(capsys, folder / "my nets", "--board", "stm32n6570-dk")["commands"]
    assert first == f"npuscope package '{folder / 'my nets'}' -n network --board stm32n6570-dk"


def test_the_folder_of_an_image_is_the_image(image: Path, folder: Path, capsys: Capture) -> None:
    """Also where it lies elsewhere: no command flashes the image of the default folder instead."""
    assert run(capsys, "-i", "build") == run(capsys, image.relative_to(folder))
    kit = folder / "other" / "mine_rel.bin"
    kit.parent.mkdir()
    kit.write_bytes(for_the_kit())
    words = ("--board", "stm32n6570-dk", "--json")
    assert run(capsys, "-i", "other", *words) == run(capsys, kit.relative_to(folder), *words)
    assert "build/network_rel.bin" not in run(capsys, "-i", "other", *words)
    kit.with_name("yours_rel.bin").write_bytes(kit.read_bytes())
    assert "mine_rel.bin, yours_rel.bin" in run(capsys, "-i", "other", *words[:2], code=3)


def test_verbosity_and_log(image: Path, folder: Path, capsys: Capture) -> None:
    brief = [run(capsys, image, *words) for words in (("-v", 0), ("-q",))]
    assert [text.count("\n") for text in brief] == [1, 1]
    usual = run(capsys, image, "--log")
    assert usual.count("\n") > 10
    log = (folder / "run.log").read_text()
    assert log.startswith("image: Cortex-M33, secure")
    assert "\nCreating date : " in log and "\nEntry point    : '" in log
    assert usual.splitlines()[0] in log
    run(capsys, "nothing.bin", "--log", "failed.log", code=3)
    assert (folder / "failed.log").exists()


def test_python_takes_the_same_image_and_options(image: Path, capsys: Capture) -> None:
    result = json.loads(run(capsys, image, "--mode", "xip", "--json"))
    found = npuscope.run(image, mode="xip")
    assert found.npu_ms == result["npu_ms"]
    assert repr(found) == f"<LoadAndRun network: NPU {found.npu_ms:.3f} ms, 1 inference>"
    with pytest.raises(UsageError, match="--mode: unknown mode 'fast'"):
        npuscope.run(image, mode="fast")
