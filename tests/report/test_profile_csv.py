"""The profile as a table: one row an epoch, every figure, safe names."""

from __future__ import annotations

import csv
import io

from npuscope.profiling.model import Profile, Provenance
from npuscope.report.profile_csv import profile_csv_text
from npuscope.sim.counters import CacheCounts, EngineActivity, PoolTraffic
from npuscope.structs import replace
from sample_profile import hardware_epoch, sample_profile


def rows(profile: Profile) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(profile_csv_text(profile))))


def with_epoch(**changes: object) -> Profile:
    epoch = replace(hardware_epoch(), **changes)  # type: ignore[arg-type]
    return replace(sample_profile(), epochs=(epoch,))


def test_one_row_an_epoch() -> None:
    hardware, software = rows(sample_profile())
    assert (hardware["name"], hardware["kind"], hardware["bound"]) == (
        "EpochBlock_186",
        "HW",
        "weights",
    )
    assert (software["kind"], software["units"]) == ("SW", "PROCESSOR=1")


def test_every_figure_of_the_published_epoch() -> None:
    row = rows(sample_profile())[0]
    expected = {
        "index": "192",
        "operations": "hw.conv=4 hw.mul=1 hw.add=2 hw.sigmoid=1 hw.dmain=6 hw.dmaout=2",
        "units": "CONV_ACC=4 ARITH_ACC=3 ACTIV_ACC=1 STR_ENG=8",
        "ops": "453348",
        "compute_cycles": "4608",
        "max_cycles": "27648",
        "core_vs_max_percent": "-107.88",
        "pre_cycles": "18859",
        "core_cycles": "13300",
        "post_cycles": "5253",
        "core_ops_per_cycle": "34.086",
        "core_compute_ratio_percent": "34.647",
        "ms": "0.04344",
        "provenance": "simulation",
        "median_ms": "0.0434",
        "runs": "3",
        "busif_0_read_bytes": "14080",
        "busif_0_read_bursts_x8": "208",
        "busif_1_write_bytes": "7960",
        "busif_1_write_bursts_x1": "5",
        "streng_4_i_active_cycles": "15190",
        "streng_4_i_bytes": "4608",
        "streng_4_i_pool": "octoFlash",
        "streng_8_o_active_cycles": "13785",
        "cache_read_miss": "80",
        "cache_write_through": "0",
        "pool_octoFlash_read_bytes": "4608",
        "pool_npuRAM5_write_bytes": "8820",
    }
    assert {name: row[name] for name in expected} == expected
    shares = [float(r["share_percent"]) for r in rows(sample_profile())]
    assert abs(sum(shares) - 100) < 0.01


def test_what_was_not_counted_is_empty() -> None:
    software = rows(sample_profile())[1]
    empty = ("busif_0_read_bytes", "streng_4_i_pool", "cache_read_miss", "core_vs_max_percent")
    assert [software[name] for name in empty] == [""] * 4
    counters = replace(hardware_epoch().counters, busif=(), cache=CacheCounts(read_hit=3))
    (row,) = rows(with_epoch(counters=counters))
    assert (row["cache_read_hit"], row["cache_read_miss"]) == ("3", "0")


def test_predicted_beside_measured() -> None:
    measured = sample_profile(Provenance.BOARD)
    known = replace(measured.epochs[0], predicted_ms=2 * measured.epochs[0].ms)
    first, second = rows(replace(measured, epochs=(known, *measured.epochs[1:])))
    assert (first["predicted_ms"], first["predicted_error_percent"]) == ("0.08688", "100.0")
    assert first["provenance"] == "board"
    assert (second["predicted_ms"], second["predicted_error_percent"]) == ("", "")
    assert "predicted_ms" not in rows(measured)[0]


def test_engines_stand_in_order_and_add_up() -> None:
    engines = (
        EngineActivity(8, "o", 1, 10, "npuRAM5", 100),
        EngineActivity(2, "i", 0, 20, "npuRAM5", 200),
        EngineActivity(2, "i", 0, 30, "octoFlash", 300),
    )
    late = replace(hardware_epoch().counters, engines=(EngineActivity(0, "o", 0, 1, "a", 1),))
    first = replace(hardware_epoch(), counters=replace(late, engines=engines))
    second = replace(hardware_epoch(), counters=late)
    profile = replace(sample_profile(), epochs=(first, second))
    row = rows(profile)[0]
    names = [n for n in row if n.startswith("streng_") and n.endswith("_pool")]
    assert names == ["streng_0_o_pool", "streng_2_i_pool", "streng_8_o_pool"]
    assert (row["streng_2_i_active_cycles"], row["streng_2_i_bytes"]) == ("50", "500")
    assert row["streng_2_i_pool"] == "npuRAM5 | octoFlash"


def test_names_are_foreign() -> None:
    counters = replace(hardware_epoch().counters, traffic=(PoolTraffic('=a,"b', 1, 2),))
    profile = with_epoch(name="=cmd()", origin=("+1,2", "\x1b[31mred\n"), counters=counters)
    (row,) = rows(profile)
    assert row["name"] == "'=cmd()"
    assert row["origin"] == "'+1;2 | \\x1b[31mred\\n"
    assert row["pool_'=a;\"b_write_bytes"] == "2"
    assert len(profile_csv_text(profile).splitlines()) == 2


def test_no_epochs_give_no_rows() -> None:
    assert rows(replace(sample_profile(), epochs=())) == []
