"""explain and compare for Ethos-U, with a compiler that hands out a stream made here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from ethos_u.networks import Convolution, vela_file
from ethos_u.streams import U55_128
from models import TfliteWriter, save
from npuscope.cli.main import main

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the compiler is a script")


@pytest.fixture
def vela(tmp_path: Path) -> str:
    """Whatever it is given, it answers with a convolution and an operator on the CPU."""
    answer = vela_file(Convolution(U55_128), tmp_path)
    script = tmp_path / "vela"
    script.write_text(
        f"""#!{sys.executable}
import pathlib, shutil, sys
out = pathlib.Path(sys.argv[sys.argv.index("--output-dir") + 1])
out.mkdir()
shutil.copy({str(answer)!r}, out / "network_vela.tflite")
(out / "network_summary_x.csv").write_text("a,cycles_total\\n1,4242\\n")
print("Warning (supported operators) operator: DEQUANTIZE, ofm: 'real'")
print("Reason: Unsupported opType")
"""
    )
    script.chmod(0o755)
    return str(script)


def network(tmp_path: Path, dtype: str) -> Path:
    """A transposed image, which Vela clips where its bytes are unsigned."""
    w = TfliteWriter()
    zero = 128 if dtype == "uint8" else 0
    x = w.tensor("x", (1, 6, 5, 8), dtype, scale=0.5, zero_point=zero)
    y = w.tensor("y", (1, 5, 6, 8), dtype, scale=0.5, zero_point=zero)
    w.op("TRANSPOSE", [x, w.constant("order", np.array([0, 2, 1, 3], np.int32))], [y])
    return save(tmp_path, f"{dtype}.tflite", w.finish([x], [y]))


@pytest.mark.parametrize(("dtype", "changed"), [("int8", False), ("uint8", True)])
def test_a_network_is_explained(
    dtype: str, changed: bool, vela: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(network(tmp_path, dtype))
    assert main(["explain", model, "--machine", "ethos-u55-128", "--vela", vela]) == 0
    text = capsys.readouterr().out
    first = text.splitlines()[0]
    assert "on ethos-u55-128" in first
    assert "ADV-ETHOS-CPU" in text
    assert ("LINT-ETHOS-VALUES" in text) is changed


def test_a_file_of_the_compiler_is_explained_without_its_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(vela_file(Convolution(U55_128), tmp_path))]) == 0
    text = capsys.readouterr().out
    assert "on ethos-u55-128" in text.splitlines()[0]
    assert "ADV-ETHOS-CPU" in text and "LINT-ETHOS-VALUES" not in text


def test_machines_are_compared(
    vela: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{Path(vela).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("npuscope.families.ethos_u.vela.find_spec", lambda name: None)
    model = str(network(tmp_path, "int8"))
    assert main(["compare", model, "--machines", "ethos-u55-128,ethos-u55-64"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.split()]
    assert {"ethos-u55-128", "ethos-u55-64"} <= set(rows)
