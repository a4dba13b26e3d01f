from __future__ import annotations

import json

import pytest

from npuscope.profiling.model import profile_to_json
from npuscope.report.json_report import estimate_json, profile_json
from sample_profile import sample_profile

ESTIMATE_KEYS = {
    "schema", "model", "machine", "total_ms", "interval_ms", "model_error", "inferences_per_s",
    "time", "memory", "counts", "epochs", "findings",
}  # fmt: skip
EPOCH_KEYS = {
    "index", "name", "first", "last", "kind", "blob", "ops", "origin", "compute_cycles",
    "max_cycles", "core_cycles", "pre_cycles", "post_cycles", "ms", "provenance", "bound",
    "units", "pools",
}  # fmt: skip


def test_estimate_has_the_keys_that_others_rely_on() -> None:
    result = estimate_json(sample_profile())
    assert result["schema"] == "npuscope/estimate/1"
    assert set(result) >= ESTIMATE_KEYS
    assert set(result["epochs"][0]) == EPOCH_KEYS
    keys = {"file", "md5", "inputs", "outputs", "macs", "params", "unknown_params"}
    assert set(result["model"]) == keys
    assert set(result["machine"]) == {
        "name", "generation", "epoch_controller", "mcu_mhz", "npu_mhz", "flash", "psram",
        "assumed", "chip", "board", "compiler",
    }  # fmt: skip
    assert set(result["time"]) == {"npu_core_ms", "control_ms", "software_ms", "hybrid_ms"}
    assert set(result["memory"]["pools"][0]) >= {"name", "used_bytes", "size_bytes"}
    assert result["findings"] == []


def test_time_adds_up() -> None:
    result = estimate_json(sample_profile())
    assert sum(result["time"].values()) == pytest.approx(result["total_ms"], abs=4e-6)
    assert sum(row["ms"] for row in result["epochs"]) == pytest.approx(result["total_ms"], abs=4e-6)


def test_profile_adds_runs_spread_and_counters() -> None:
    result = profile_json(sample_profile())
    assert result["schema"] == "npuscope/profile/1"
    assert result["runs"] == [
        {
            "source": "simulation",
            "clocks": {"mcu_mhz": 800.0, "npu_mhz": 1000.0, "noc_mhz": 400.0, "nic_mhz": 900.0},
            "n": 3,
        }
    ]
    epoch = result["epochs"][0]
    assert set(epoch) == EPOCH_KEYS | {"spread", "predicted_ms", "counters"}
    assert epoch["spread"] == {"min": 0.043, "median": 0.0434, "max": 0.044, "n": 3}
    counters = epoch["counters"]
    assert counters["mcu_cycles"] == [18859, 10640, 5253]
    assert counters["npu_cycles"] == [23574, 13300, 6566]
    assert counters["stream_engines"][0] == {
        "id": 1, "dir": "i", "busif": 0, "active_cycles": 5845, "pool": "npuRAM5", "bytes": 12544,
    }  # fmt: skip
    assert counters["busif"][1]["write_bursts"] == [5, 9, 9, 117]
    assert counters["npu_cache"] == {
        "read": {"hit": 0, "miss": 80, "alloc_miss": 0, "evict": 0},
        "write": {"hit": 0, "miss": 0, "alloc_miss": 0, "through": 0},
    }


def test_values_are_plain_json() -> None:
    result = profile_json(sample_profile())
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_what_readers_get_is_what_is_saved() -> None:
    profile = sample_profile()
    saved, told = json.loads(profile_to_json(profile)), profile_json(profile)
    # Files leave defaults out.
    saved["model"] = {"unknown_params": 0, **saved["model"]}
    saved["machine"] = dict.fromkeys(("flash", "psram", "chip", "board", "compiler"), "") | {
        "assumed": [],
        **saved["machine"],
    }
    saved["memory"] = {"known_error": "", **saved["memory"]}
    for key in ("model", "machine", "runs", "memory", "counts"):
        assert told[key] == saved[key]
    engines = [epoch["counters"]["stream_engines"] for epoch in told["epochs"]]
    assert engines[0] == saved["epochs"][0]["counters"]["engines"]
