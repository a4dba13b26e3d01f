"""The README shows what the demo really prints; NPUSCOPE_UPDATE_GOLDEN=1 writes it anew."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from npuscope.cli.main import main

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"(<!-- example -->\n).*(<!-- /example -->)", re.DOTALL)
FAMILIES = re.compile(r"(<!-- families -->\n).*(<!-- /families -->)", re.DOTALL)
MODEL = README.parents[1] / "shared" / "data" / "models" / "vww_96_int8.tflite"
MACHINES = ("stm32n6", "ethos-u55-128", "cloudai100")


def test_the_example_is_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path / "demo")]) == 0
    shown = capsys.readouterr().out.replace(str(tmp_path / "demo"), "build/demo").rstrip()
    text = README.read_text(encoding="utf-8")
    example = f"```\n$ npuscope demo -o build/demo\n{shown}\n```\n"
    wanted = BLOCK.sub(lambda found: found[1] + example + found[2], text)
    if os.environ.get("NPUSCOPE_UPDATE_GOLDEN"):
        README.write_text(wanted, encoding="utf-8")
    assert text == wanted or os.environ.get("NPUSCOPE_UPDATE_GOLDEN")


@pytest.mark.skipif(not MODEL.exists(), reason="a model that is not part of the repository")
@pytest.mark.skipif(find_spec("ethosu") is None, reason="Vela is not installed")
def test_the_families_are_real(capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for machine in MACHINES:
        assert main(["estimate", str(MODEL), "--machine", machine]) == 0
        lines.append(f"$ npuscope estimate {MODEL.name} --machine {machine}")
        lines.append(capsys.readouterr().out.splitlines()[0])
    assert main(["compare", str(MODEL), "--machines", ",".join(MACHINES)]) == 0
    lines.append(f"$ npuscope compare {MODEL.name} --machines {','.join(MACHINES)}")
    lines += [line.rstrip() for line in capsys.readouterr().out.splitlines()[: len(MACHINES) + 3]]
    text = README.read_text(encoding="utf-8")
    example = "```\n" + "\n".join(lines) + "\n```\n"
    wanted = FAMILIES.sub(lambda found: found[1] + example + found[2], text)
    if os.environ.get("NPUSCOPE_UPDATE_GOLDEN"):
        README.write_text(wanted, encoding="utf-8")
    assert text == wanted or os.environ.get("NPUSCOPE_UPDATE_GOLDEN")
