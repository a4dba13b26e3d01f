"""`compile` as the vendor's documents write it: their options, and the files they name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edits.channel_nets import two_cell_denoiser
from models import mobilenet_like, save, to_tflite
from npuscope import inspect
from npuscope.cli.main import main
from npuscope.program.weight_files import read_hex
from processes import LIMIT_S

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))


def test_the_options_of_the_thread(model: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["-m", str(model), "--target", "stm32n6", "--verbosity", "1", "--mvei"]
    words += ["--no-hw-sw-parallelism", "--Oshuffle-dma", "--Ocache-opt", "--d-lower", "50"]
    assert main(["compile", *words, "-o", str(tmp_path / "net")]) == 0
    text = capsys.readouterr().out
    for part in ("Exec/report summary", "model_fmt", "Lowering ", " with Lowerer "):
        assert part in text
    assert main(["compile", *words[:2], "--verbosity", "0", "-o", str(tmp_path / "quiet")]) == 0
    assert "Exec/report summary" not in capsys.readouterr().out


def test_the_log_of_the_lowering_has_the_tensors(tmp_path: Path, capsys: Capture) -> None:
    """As the vendor prints them for the three layers of the thread: `ch` are the inputs."""
    path = save(tmp_path, "denoiser.onnx", two_cell_denoiser())
    words = ["--generation", "2.1", "--d-lower", "50", "-o", str(tmp_path / "net")]
    assert main(["compile", str(path), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("Standard Software Lowering")]
    tensors = [[line.rpartition(": ")[2] for line in lines[n + 1 : n + 5]] for n in starts]
    assert tensors == [
        ["1", "1", "257", "257"],
        ["1", "1", "257", "1024"],
        ["1", "1", "257", "257"],
    ]
    assert lines[starts[1] + 3] == "tensor ch: 257" and lines[starts[1] + 4] == "tensor chin: 1024"


def test_a_model_is_given_once(model: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = ["-o", str(tmp_path / "net")]
    assert main(["compile", str(model), "-m", str(model), *folder]) == 2
    assert "the model is given twice" in capsys.readouterr().err
    assert main(["compile", *folder]) == 2
    assert "no model to compile" in capsys.readouterr().err


def test_parameters_for_linker_and_programmer(model: Path, tmp_path: Path) -> None:
    """network_data_params.c compiles to the bytes of the image, and so does the HEX file."""
    folder = tmp_path / "net"
    assert main(["compile", str(model), "-o", str(folder), "-q"]) == 0
    image = (folder / "atonbuf.xSPI2.raw").read_bytes()
    segments = read_hex(folder / "network_data.xSPI2.hex")
    assert b"".join(segment.data for segment in segments) == image
    assert segments[0].address == 0x71000000
    found = inspect(str(folder / "network_data_params.c"))
    assert found.identity.kind == "weights_c"
    pytest.importorskip("ziglang", reason="ziglang is not installed: no C compiler")
    made = tmp_path / "params.o"
    source = str(folder / "network_data_params.c")
    command = [sys.executable, "-m", "ziglang", "cc", "-Wall", "-Werror", "-c", source]
    done = subprocess.run(
        [*command, "-o", str(made)], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert not done.returncode, done.stderr
    assert image in made.read_bytes()
