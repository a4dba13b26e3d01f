"""`osb.layout`: round trips, the order of its keys, and every way in which it may be wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from many_core import samples
from npuscope.errors import FileError
from npuscope.families.many_core.layout import Layout, Pmu
from npuscope.families.many_core.layout_json import layout_from_json, layout_json
from npuscope.families.many_core.records import SECTIONS, SectionId
from npuscope.structs import replace

LAYOUTS = {
    "one device": samples.layout(),
    "two devices": samples.layout(cores=3, devices=2),
    "level 40, nothing more": samples.layout(level=40, pmu=Pmu(), ddr=False),
    "notes": replace(samples.layout(), notes=("VTCM was full", "zweite Größe")),
}
KEYS = [
    "format",
    "version",
    "program_uuid",
    "network",
    "stats_level",
    "stats_batch",
    "ddr_stats",
    "clocks",
    "cores",
    "threads",
    "groups",
    "ports",
    "pmu",
    "specializations",
    "sections",
    "deps",
    "notes",
]
OPTIONAL = ["machine", "levers"]  # younger than the first containers
OP_KEYS = [
    "oc",
    "name",
    "kind",
    "memory",
    "dtypes",
    "shape",
    "out_bytes",
    "attrs",
    "operands",
    "macs",
    "rd_bytes",
    "wr_bytes",
    "async",
    "origin",
]


def record(layout: Layout | None = None) -> dict[str, Any]:
    made: dict[str, Any] = orjson.loads(layout_json(layout or samples.layout()))
    return made


def refused(changed: dict[str, Any]) -> str:
    with pytest.raises(FileError) as caught:
        layout_from_json(orjson.dumps(changed))
    return str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_what_is_written_reads_the_same(layout: Layout) -> None:
    assert layout_from_json(layout_json(layout)) == layout


def test_keys_have_a_fixed_order() -> None:
    made = record()
    assert list(made) == [*KEYS, *OPTIONAL]
    assert list(made["specializations"][0]["ops"][0][0][0]) == OP_KEYS
    assert (made["format"], made["version"]) == ("osb", [1, 0])
    assert made["clocks"][0] == {"name": "utimer", "hz": 19_200_000}


def test_records_can_be_read_with_the_json_alone() -> None:
    for entry in record()["sections"]:
        section = SECTIONS[SectionId(entry["id"])]
        fields = [(field["name"], field["type"]) for field in entry["record"]]
        assert np.dtype(fields) == section.dtype
        assert (entry["name"], entry["min_level"]) == (section.id.name, section.min_level)
    rows = {entry["name"]: entry["index"] for entry in record()["sections"]}
    assert rows["OP_REC"] == "core,thread,oc,sample"
    assert rows["DDR_CORE"] == "core"


def test_names_that_utf8_cannot_hold_are_written_all_the_same() -> None:
    layout = replace(samples.layout(), network="half \udc80")
    assert layout_from_json(layout_json(layout)).network == "half ?"


@pytest.mark.parametrize("key", [key for key in KEYS if key != "sections"])
def test_each_part_is_needed(key: str) -> None:
    made = record()
    del made[key]
    assert f"osb.layout.{key}: this key is missing" in refused(made)


@pytest.mark.parametrize("key", OP_KEYS)
@pytest.mark.parametrize("value", [None, 1.5, {}])
def test_each_part_of_an_op_has_its_type(key: str, value: object) -> None:
    made = record()
    made["specializations"][0]["ops"][1][2][0][key] = value
    assert f"osb.layout.specializations[0].ops[1][2][0].{key}: expected " in refused(made)


@pytest.mark.parametrize("key", [*KEYS, *OPTIONAL])
@pytest.mark.parametrize("value", [None, -1, 1 << 62, "x", [], [None], [{}], {}, {"ops": 3}])
def test_other_types_are_refused_or_mean_nothing(key: str, value: object) -> None:
    made = record()
    made[key] = value
    try:
        layout_from_json(orjson.dumps(made))
    except FileError as error:
        assert error.where.startswith("osb.layout")
    else:
        absent = key in OPTIONAL and value is None
        assert absent or key in ("sections", "network", "notes", "deps", "ports", "levers")


def op(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made["specializations"][0]["ops"][0][0][0]
    return found


def test_parts_have_to_agree() -> None:
    made = record()
    made["cores"] = 3
    assert "has 2 cores, the layout 3" in refused(made)
    made = record()
    del made["specializations"][0]["ops"][1][0]
    assert "has 2 thread groups, the layout 3" in refused(made)
    made = record()
    made["threads"][0]["id"] = 9
    assert "do not match the groups: each thread belongs to exactly one group" in refused(made)
    made = record()
    made["threads"][0]["group"] = 3
    assert "osb.layout.threads[0].group: expected a number from 0 to 2, found 3" in refused(made)


def test_numbers_have_ranges() -> None:
    for key, value in (("oc", 1 << 32), ("out_bytes", -1), ("macs", 1 << 63), ("shape", [-1])):
        made = record()
        op(made)[key] = value
        assert "has a number out of range" in refused(made)
    made = record()
    op(made)["oc"] = 4
    assert "has two ops with the same number" in refused(made)
    made = record()
    op(made)["memory"] = "L3"
    assert "expected one of TCM, DDR, CacheableDDR, found 'L3'" in refused(made)
    made = record()
    made["cores"] = 1 << 20
    assert "expected a number from 1 to 1024" in refused(made)


def test_ids_and_versions() -> None:
    made = record()
    made["program_uuid"] = "0" * 31 + "G"
    assert "expected 32 hexadecimal digits" in refused(made)
    made = record()
    made["version"] = [2, 0]
    assert "osb.layout.version: expected 1.x, found 2.0" in refused(made)
    made["version"] = [1, 7]
    assert layout_from_json(orjson.dumps(made)) == samples.layout()


def test_dependencies_lead_from_op_to_op() -> None:
    made = record()
    made["deps"][0]["src"] = [0, 999]
    assert "a dependency from (0, 999) to (0, 1)" in refused(made)
    made["deps"][0]["src"] = [0]
    assert "does not lead from [core, oc] to [core, oc]" in refused(made)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 5000, b"1" * 5000, b"[]", b"null"])
def test_what_is_no_layout(data: bytes) -> None:
    with pytest.raises(FileError, match=r"osb\.layout"):
        layout_from_json(data)
