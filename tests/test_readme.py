"""The README shows what the demo really prints; NPUSCOPE_UPDATE_GOLDEN=1 writes it anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from npuscope.cli.main import main

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"(<!-- example -->\n).*(<!-- /example -->)", re.DOTALL)


def test_the_example_is_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path / "demo")]) == 0
    shown = capsys.readouterr().out.replace(str(tmp_path / "demo"), "build/demo").rstrip()
    text = README.read_text(encoding="utf-8")
    example = f"```\n$ npuscope demo -o build/demo\n{shown}\n```\n"
    wanted = BLOCK.sub(lambda found: found[1] + example + found[2], text)
    if os.environ.get("NPUSCOPE_UPDATE_GOLDEN"):
        README.write_text(wanted, encoding="utf-8")
    assert text == wanted or os.environ.get("NPUSCOPE_UPDATE_GOLDEN")
