"""Edits that change outputs: off unless asked for, judged on real data, never proved by noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npuscope
from edits.test_nearest_resize import lite
from npuscope.advice.catalogue import catalogue
from npuscope.advice.fix.run import Fixed
from npuscope.cli.main import main
from npuscope.edits import formats
from npuscope.errors import FileError
from npuscope.report.fix import fix_text
from npuscope.rulebook.fix import FunctionEffect

FIX = "nearest-resize"
SIZE = (1, 12, 14, 16)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "network.tflite"
    found.write_bytes(lite(SIZE[1:3], (24, 28), SIZE[3], halfPixelCenters=True))
    return found


def tried(fixed: Fixed) -> set[str]:
    return {step.candidate.fix.id for step in fixed.steps}


def test_off_unless_asked_for(path: Path) -> None:
    assert FIX not in tried(npuscope.fix(path))
    assert FIX not in tried(npuscope.fix(path, everything=True))
    assert FIX in tried(npuscope.fix(path, lossy=True))
    assert [s.candidate.fix.id for s in npuscope.fix(path, only=[FIX]).applied] == [FIX]


def test_random_numbers_are_never_a_proof(path: Path) -> None:
    fixed = npuscope.fix(path, only=[FIX])
    text = fix_text(fixed)
    assert fixed.is_lossy
    assert "2 random inputs, which says little about real ones: check with --data" in text
    assert "equal" not in text.splitlines()[0]


def test_judged_on_real_data(path: Path, tmp_path: Path) -> None:
    data = tmp_path / "photos.npz"
    np.savez(data, np.random.default_rng(1).normal(size=(3, *SIZE[1:])).astype(np.float32))
    fixed = npuscope.fix(path, only=[FIX], data=data)
    assert fixed.inputs.is_real and len(fixed.inputs.samples) == 3
    first = fix_text(fixed).splitlines()[0]
    assert "on 3 samples of photos.npz" in first and "random" not in first


def test_data_of_another_shape_is_refused(path: Path, tmp_path: Path) -> None:
    data = tmp_path / "photos.npz"
    np.savez(data, np.zeros((3, 2, 2), np.float32))
    with pytest.raises(FileError, match="samples have the shape"):
        npuscope.fix(path, data=data)


def test_answers_that_change_on_real_data_are_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from npuscope.advice.fix import judge

    monkeypatch.setattr(judge, "_LEAST_SAME", 1.1)  # nothing is as good as that
    data = tmp_path / "photos.npz"
    np.savez(data, np.random.default_rng(1).normal(size=(2, *SIZE[1:])).astype(np.float32))
    fixed = npuscope.fix(path, lossy=True, data=data)
    (step,) = (step for step in fixed.steps if step.candidate.fix.id == FIX)
    assert not step.outcome.kept
    assert "of the positions in your data" in step.outcome.reason


def test_the_command_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", str(path), "--all"]) == 0
    assert FIX not in capsys.readouterr().out
    assert main(["fix", str(path), "--lossy", "--json"]) == 0
    assert f'"fix": "{FIX}"' in capsys.readouterr().out


def test_every_edit_says_what_it_does_to_the_function() -> None:
    known = {fix.id: fix for rule in catalogue().values() for fix in rule.fixes}
    edits = {name: fix.function for name, fix in known.items() if formats(name)}
    lossy = {name for name, function in edits.items() if function is FunctionEffect.CHANGED}
    assert lossy == {
        *("nearest-resize", "zero-point", "gate-form", "narrower-kernel", "four-bit-weights")
    }
    assert FunctionEffect.UNTOUCHED not in edits.values()
    for fix in known.values():
        assert not fix.automatic or formats(fix.id), fix.id
