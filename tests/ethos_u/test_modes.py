"""Memory modes that are tried for the user, with Vela."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite

pytest.importorskip("ethosu.vela", reason="Vela is not installed")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Weights from flash hold it up."""
    return save(tmp_path, "net.tflite", to_tflite(mobilenet_like(width=32)))


def test_explain_names_a_faster_mode_and_what_it_saves(model: Path) -> None:
    result = npuscope.explain(model, machine="ethos-u55-128")
    change = next(one for one in result.changes if one.rule == "ADV-ETHOS-MODE")
    assert change.gain.is_timed and "--memory-mode Sram_Only" in change.fix.title
    other = npuscope.estimate(model, machine="ethos-u55-128", memory_mode="Sram_Only")
    assert change.gain_ms == pytest.approx(result.profile.total_ms - other.total_ms)
    assert change.gain_ms > 0.01 * result.profile.total_ms


def test_a_mode_that_was_asked_for_is_kept(model: Path) -> None:
    result = npuscope.explain(model, machine="ethos-u55-128", memory_mode="Shared_Sram")
    assert not [finding for finding in result.findings if finding.rule == "ADV-ETHOS-MODE"]


def test_tune_chooses_a_memory_mode(model: Path) -> None:
    result = npuscope.tune(model, machine="ethos-u55-128", limits=["ms=1"], jobs=1)
    assert result.axes["memory mode"] == ("as it is", "Sram_Only", "Dedicated_Sram")
    assert result.best is not None and result.best.choices["memory mode"] == "Sram_Only"
    assert result.best.command.endswith("--memory-mode Sram_Only")
    assert result.best.weights_bytes == 0 < result.start.weights_bytes
    plain = npuscope.tune(model, machine="ethos-u55-128", memory_mode="Shared_Sram", jobs=1)
    assert "memory mode" not in plain.axes
    assert "--memory-mode Shared_Sram" in plain.start.command


def test_advice_names_options_that_the_machine_has(tmp_path: Path) -> None:
    """No fix of a rule of this family speaks of an option that its verbs refuse."""
    from npuscope.advice.catalogue import catalogue
    from npuscope.families.ethos_u.family import FAMILY
    from npuscope.options.rows import BUILDING

    refused = {row.long for row in BUILDING.values() if row.of_family} - {
        row.long for name, row in BUILDING.items() if name in (FAMILY.understands or ())
    }
    for rule in catalogue().values():
        if rule.family == FAMILY.name:
            for fix in rule.fixes:
                assert not refused & set(fix.title.replace("(", " ").replace(")", " ").split())
