"""`npuscope deploy`: the recipe, and its commands against a programmer that is not one."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from pathlib import Path

import pytest

import npuscope
from loadable.samples import FLAGS
from loadable.samples import image as loadable
from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from npuscope.loadable.codes import Cpu
from npuscope.structs import replace

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")

STAND_IN = """\
#!{python}
import json, os, pathlib, sys
log = pathlib.Path({log!r})
log.write_text(log.read_text() + json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
if "SigningTool" in sys.argv[0]:
    at = sys.argv.index("-o") + 1
    pathlib.Path(sys.argv[at]).write_bytes(b"signed")
print("{says}")
sys.exit({code})
"""


@pytest.fixture
def build(tmp_path: Path) -> Path:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    assert main(["compile", str(model), "-o", str(tmp_path / "net"), "-q"]) == 0
    return tmp_path / "net"


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str, code: int = 0, says: str = "done"
) -> Path:
    """Programs of these names that write down how they are called."""
    log, tools = folder / "calls.log", folder / "tools"
    log.write_text("")
    tools.mkdir(exist_ok=True)
    for name in names:
        text = STAND_IN.format(python=sys.executable, log=str(log), code=code, says=says)
        (tools / name).write_text(text)
        (tools / name).chmod((tools / name).stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tools))
    # Somebody sets the switches, and no board answers.
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n" * 8))
    return log


def calls(log: Path) -> list[list[str]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_the_recipe_is_printed_and_nothing_is_done(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    log = install(tmp_path, monkeypatch, "STM32_Programmer_CLI", "STM32_SigningTool_CLI")
    capsys.readouterr()
    words = ["deploy", str(build), "--application", "app.bin", "--fsbl", "fsbl.hex"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert calls(log) == []
    order = ["dev mode", "fsbl.hex", "network_data.xSPI2.hex", "-nk -t ssbl -hv 2.3"]
    order += ["app_signed.bin 0x70100000", "boot from flash", "profile --connect serial"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["ran"]) == ("npuscope/deploy/1", False)
    assert len(found["steps"]) == 7


def test_the_commands_are_run_in_order(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    log = install(tmp_path, monkeypatch, "STM32_Programmer_CLI", "STM32_SigningTool_CLI")
    (tmp_path / "app.bin").write_bytes(b"code")
    assert main(["deploy", str(build), "--application", str(tmp_path / "app.bin"), "--run"]) == 0
    data, sign, program = calls(log)
    assert data[0] == program[0] == "STM32_Programmer_CLI"
    assert data[-1].endswith("network_data.xSPI2.hex")
    loader = data[data.index("-el") + 1]
    assert Path(loader) == (tmp_path / "tools" / "ExternalLoader").resolve() / (
        "MX66UW1G45G_STM32N6570-DK.stldr"
    )
    assert sign[0] == "STM32_SigningTool_CLI"
    assert program[-2:] == [str(tmp_path / "app_signed.bin"), "0x70100000"]
    told = capsys.readouterr()
    assert "deployed" in told.out
    assert told.err.count(", then press Enter") == 2
    assert "not profiled: " in told.out


def test_a_model_is_compiled_checked_and_deployed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    log = install(tmp_path, monkeypatch, "STM32_Programmer_CLI")
    save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", "net.tflite", "--board", "stm32n6570-dk", "--go"]) == 0
    (data,) = calls(log)
    assert data[-1] == str(Path("st_ai_output", "network_data.xSPI2.hex"))
    text = capsys.readouterr().out
    order = [
        "11 epochs in st_ai_output",
        "checklist",
        "dev mode",
        "boot from flash",
        "not profiled",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


NUCLEO = "nucleo-n657x0-q"


def test_a_model_is_compiled_for_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The Nucleo has no external RAM: what would spill there must not be programmed."""
    monkeypatch.chdir(tmp_path)
    seen: list[dict[str, object]] = []
    real = npuscope.verbs.compile.compilation

    def compilation(source: str, folder: str, **options: object) -> object:
        seen.append(options)
        return real(source, folder, **options)

    monkeypatch.setattr("npuscope.verbs.compile.compilation", compilation)
    save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    assert main(["deploy", "net.tflite", "--board", NUCLEO, "--npu-mhz", "1000"]) == 0
    assert seen == [{"board": NUCLEO, "npu_mhz": 1000.0}]
    text = capsys.readouterr().out
    assert f"npuscope compile net.tflite -o st_ai_output --board {NUCLEO}" in text
    assert (
        f"npuscope profile --connect serial st_ai_output --board {NUCLEO} --npu-mhz 1000\n" in text
    )
    assert "ms predicted" in text


def test_a_build_for_memory_that_the_board_lacks(tmp_path: Path, capsys: Capture) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    banks = [f"pools.{name}.size_kib=0" for name in ("cpuRAM2", *(f"npuRAM{i}" for i in "3456"))]
    words = [word for bank in banks for word in ("--set", bank)]
    folder = str(tmp_path / "net")
    assert main(["compile", str(model), "-o", folder, "-q", *words]) == 0
    assert main(["deploy", folder]) == 0
    assert main(["deploy", folder, "--board", NUCLEO]) == 3
    told = capsys.readouterr().err
    assert f"bytes of xSPI1 at 0x90000000, and {NUCLEO} has none there" in told
    assert f"npuscope compile MODEL --board {NUCLEO}" in told
    # Somebody's has external RAM.
    assert main(["deploy", folder, "--board", NUCLEO, "--psram", "hexa-dtr-200"]) == 0
    assert f"{folder} --board {NUCLEO} --psram hexa-dtr-200\n" in capsys.readouterr().out


def test_nobody_at_the_switches(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    log = install(tmp_path, monkeypatch, "STM32_Programmer_CLI")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["deploy", str(build), "--run"]) == 4
    assert "nobody pressed Enter" in capsys.readouterr().err
    assert calls(log) == []


def test_a_missing_file_is_an_error_before_anything_is_done(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    log = install(tmp_path, monkeypatch, "STM32_Programmer_CLI")
    missing = str(tmp_path / "fsbl_signed.bin")
    assert main(["deploy", str(build), "--fsbl", missing, "--run"]) == 3
    assert "file not found" in capsys.readouterr().err
    assert calls(log) == []


def test_an_image_for_another_processor_is_refused(tmp_path: Path, capsys: Capture) -> None:
    """What the firmware would refuse is not offered to it."""
    image = tmp_path / "network_rel.bin"
    image.write_bytes(loadable(flags=replace(FLAGS, cpu=Cpu.CORTEX_M33)))
    for words in (["deploy", str(image)], ["run", "--board", "stm32n6570-dk", "-i", str(image)]):
        assert main(words) == 3
        told = capsys.readouterr().err
        assert "would not load it: CPU Cortex-M33, the board's is Cortex-M55" in told
        assert "--cpu cortex-m55" in told


def test_a_programmer_that_fails_ends_it(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    log = install(tmp_path, monkeypatch, "STM32_Programmer_CLI", code=3, says="no ST-LINK")
    assert main(["deploy", str(build), "--run"]) == 4
    assert "ended with code 3: no ST-LINK" in capsys.readouterr().err
    assert len(calls(log)) == 1
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert main(["deploy", str(build), "--run"]) == 4
    assert "STM32_Programmer_CLI is not installed" in capsys.readouterr().err


def test_another_tool_must_know_the_chip(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    words = ["deploy", str(build), "--tool", "probe-rs", "--run"]
    install(tmp_path, monkeypatch, "probe-rs", says="STM32F4")
    assert main(words) == 4
    assert "probe-rs does not know the STM32N657" in capsys.readouterr().err
    log = install(tmp_path, monkeypatch, "probe-rs", says="STM32N645 STM32N657")
    assert main(words) == 0
    data = str(build / "network_data.xSPI2.hex")
    form = ["--binary-format", "hex"]
    assert calls(log)[0] == ["probe-rs", "chip", "list"]
    assert calls(log)[1] == ["probe-rs", "download", "--chip", "STM32N657", *form, data]
    assert main([*words, "--board", "nucleo-n657x0-q"]) == 2
    assert "probe-rs does not know the flash of nucleo-n657x0-q" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tool", "known", "command"),
    [
        ("probe-rs", "STM32N657", "download --chip STM32N657 --binary-format bin"),
        ("pyocd", "stm32n657x0hxq", "load --no-wait --target stm32n657x0hxq --format bin"),
    ],
)
def test_an_image_goes_where_the_board_expects_it(
    tool: str, known: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A binary has no addresses of its own; the tool's name of the chip is used."""
    image, params = tmp_path / "network_rel.bin", tmp_path / "network_rel_params.bin"
    image.write_bytes(loadable(split=True))
    params.write_bytes(b"weights")
    log = install(tmp_path, monkeypatch, tool, says=f"x {known} STMicroelectronics")
    assert main(["deploy", str(image), "--tool", tool, "--run", "-q"]) == 0
    _, first, second = calls(log)
    words = [tool, *command.split(), "--base-address"]
    assert first == [*words, "0x71000000", str(image)]
    assert second == [*words, "0x71800000", str(params)]


def test_what_cannot_be_deployed(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["deploy", str(tmp_path / "empty")]) == 3
    assert "has no parameters as .hex" in capsys.readouterr().err
    with pytest.raises(Exception, match="unknown board"):
        npuscope.deploy(tmp_path / "empty", board="other")


def test_deploy_takes_the_options_of_a_compilation(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    words = ["-O0", "--Oalt-sched", "--no-epoch-controller", "--set", "units.CONVACC=2"]
    assert main(["deploy", "net.tflite", *words, "--json", "told.json"]) == 0
    text = capsys.readouterr().out
    assert "st_ai_output written, nothing was done on the board" in text
    for word in ("--optimization 0", "--Oalt-sched", "--no-epoch-controller", "units.CONVACC=2"):
        assert word in text
    assert json.loads(Path("told.json").read_text())["written"] == ["st_ai_output"]
    assert "ll_aton" in Path("st_ai_output/network.c").read_text().lower()
    assert main(["deploy", str(build), "-O0"]) == 2
    assert "is compiled already" in capsys.readouterr().err
