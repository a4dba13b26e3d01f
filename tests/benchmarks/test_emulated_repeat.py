"""Emulated runs beside busy processes are equal, and one that differs would be told."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from models import dense_net, mobilenet_like, save, to_tflite

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "emulated_repeat.py"


@pytest.fixture
def repeat() -> ModuleType:
    for module in ("ziglang", "unicorn", "elftools"):
        pytest.importorskip(module, reason=f"{module} is not installed: no emulated board")
    spec = importlib.util.spec_from_file_location("emulated_repeat", SCRIPT)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # where dataclasses look for it
    spec.loader.exec_module(found)
    return found


def test_a_busy_host_changes_no_number(
    repeat: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, "dense.tflite", to_tflite(dense_net()))
    save(tmp_path, "mobile.tflite", to_tflite(mobilenet_like()))
    assert repeat.main([str(tmp_path), "--loops", "2"]) == 0
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head[-1] == "equal"
    assert [(row[0], row[-1]) for row in rows] == [("dense", "yes"), ("mobile", "yes")]
    assert int(rows[1][1]) > int(rows[0][1]) > 5


def test_one_other_digit_is_told(
    repeat: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    save(tmp_path, "net.tflite", b"")
    idle = repeat.Answer('{"phases": [133576, 1]}', 1.0)
    busy = replace(idle, text='{"phases": [133577, 1]}')
    monkeypatch.setattr(repeat, "compared", lambda model, _: repeat.Row(model.stem, idle, busy))
    assert repeat.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines()[1].split() == ["net", "2", "1.0", "1.0", "NO"]
