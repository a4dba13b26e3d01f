"""Pages of machines without epochs of the NPU: what they show is true of that machine."""

from __future__ import annotations

from typing import Any

import pytest

import npuscope
from models import mobilenet_like, to_tflite
from npuscope.demo_network import demo_graph
from npuscope.families.registry import family_for
from npuscope.profiling.model import Profile
from npuscope.profiling.plain import plain_part
from npuscope.report.figures import answer
from npuscope.report.html.data import explained_data, profile_data
from npuscope.structs import replace
from sample_profile import sample_profile

CORES = {"machine": "cloudai100"}


@pytest.fixture(scope="module")
def many_core() -> Any:
    return family_for(None, CORES).explain(demo_graph(), CORES)


@pytest.fixture(scope="module")
def data(many_core: Any) -> dict[str, Any]:
    return explained_data(many_core, None)


def figures(data: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in data["figures"]}


def test_layers_that_overlap_are_no_parts_of_the_run(many_core: Any, data: dict[str, Any]) -> None:
    assert many_core.profile.overlaps and data["overlaps"]
    assert data["time"] == []
    assert not any(any(epoch["phases"]) for epoch in data["epochs"])  # no timeline
    assert "NPU utilisation" not in figures(data)
    shares = figures(data)["Shares of the time"]
    assert shares["value"].endswith(" %")
    named = {text.rsplit(" ", 2)[0] for text in (shares["value"], *shares["detail"].split(", "))}
    assert named >= {"DDR", "HVX", "HMX", "host"}


def test_the_first_line_is_that_of_the_text(many_core: Any, data: dict[str, Any]) -> None:
    screen = family_for(None, CORES).screen(many_core.profile)
    assert screen is not None
    verdict = screen.text.split(";")[0]
    assert verdict == "activations stay in VTCM"
    assert data["answer"].startswith(f"{verdict}; ")
    assert answer(many_core.profile) == data["answer"]


def test_findings_are_shown(many_core: Any, data: dict[str, Any]) -> None:
    assert data["explained"] is True
    assert [row["rule"] for row in data["findings"]] == [one.rule for one in many_core.findings]
    assert data["findings"]


def test_nothing_is_stated_that_this_machine_does_not_have(data: dict[str, Any]) -> None:
    facts = dict(data["facts"])
    assert facts["Machine"] == data["machine"]
    assert data["machine"].startswith("cloudai100 (Cloud AI 100), ")
    assert data["machine"].endswith(", 16 of 16 cores, batch 1")
    assert not {"Epoch controller", "Clocks"} & set(facts)
    assert "External RAM" not in figures(data)
    assert figures(data)["Internal RAM"]["detail"] == "activations stay in VTCM"


def of_ethos_u() -> Profile:
    """Two layers on the NPU that were counted, one on the CPU that was not."""
    sample = sample_profile()
    parts = tuple(replace(epoch, ms=1.0) for epoch in sample.epochs)
    on_cpu = plain_part(99, "DEQUANTIZE:#9", 0.5)
    total = sum(part.ms for part in parts) + on_cpu.ms
    return replace(sample, epochs=(*parts, on_cpu), total_ms=total, family="ethos-u")


def test_a_part_without_counters_has_its_place_on_the_time_axis() -> None:
    epochs = profile_data(of_ethos_u())["epochs"]
    assert epochs[-1]["phases"] == [0.0, 0.5, 0.0]
    assert epochs[0]["phases"] != [0.0, 1.0, 0.0]  # it was counted


def test_figures_of_the_vendors_compiler_are_not_zero_but_unknown() -> None:
    assert all(epoch["max_cycles"] is None for epoch in profile_data(of_ethos_u())["epochs"])
    neural = replace(of_ethos_u(), family="")
    assert any(epoch["max_cycles"] is not None for epoch in profile_data(neural)["epochs"])


def test_the_least_ram_is_stated_where_it_is_known(tmp_path: Any) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(to_tflite(mobilenet_like()))
    here = profile_data(npuscope.estimate(path))
    assert figures(here)["Internal RAM"]["detail"].startswith("any placement needs at least ")
    assert "External RAM" in figures(here)
