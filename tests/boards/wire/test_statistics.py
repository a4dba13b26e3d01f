"""`s:` lines: exact text, and back to the same counters."""

from __future__ import annotations

import pytest

from fake_device import CLOCKS, NODES, counted
from npuscope.boards.device import CounterOption, NodeCounters
from npuscope.boards.wire.describe import node_message
from npuscope.boards.wire.messages import Operator
from npuscope.boards.wire.statistics import (
    NodePlace,
    config_clocks,
    config_lines,
    node_lines,
    number,
    read_config,
    read_node,
)
from npuscope.program.model import EpochKind

OPTIONS = [
    CounterOption(0),
    CounterOption.EPOCH_LEN,
    CounterOption.STRG_ACTIVE,
    CounterOption.STRG_HENV,
    CounterOption.BUSIF_RW_DATA | CounterOption.NPU_CACHE,
    CounterOption.STRG_I_ACTIVE,
    CounterOption.STRG_O_ACTIVE,
]


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("node", NODES, ids=lambda node: node.name)
def test_counters_survive_the_wire(node: NodeCounters, options: CounterOption) -> None:
    node = counted(node, options)
    operator = node_message(node, node.number, CLOCKS.mcu_hz, tensors=0)
    assert read_node(operator, node_lines(node, NodePlace(0, node.number))) == node


def test_lines_of_a_block_are_those_of_a_real_board() -> None:
    node = NodeCounters("", 1, 22, EpochKind.HW, flags=0x17, mcu_cycles=(1, 2, 3))
    assert node_lines(node, NodePlace(0, 1)) == [
        "s:node:evt_pre_start:0:1:1:22:00000017:05000004:EC",
        "s:node:evt_post_end:0:1:1:22:0",
        "s:node:mcu_cycles:1:2:3",
    ]


def test_lines_of_all_counters() -> None:
    lines = [
        line
        for options in OPTIONS
        for line in node_lines(counted(NODES[2], options), NodePlace(2, 4))
        if "mcu_cycles" not in line and "evt_" not in line
    ]
    assert sorted(set(lines)) == [
        "s:node:npu_cache:r:11:12:13:14",
        "s:node:npu_cache:w:21:22:23:24",
        "s:node:npu_cycles:9:400:8",
        "s:node:port0:burst:r:1:0:2:40",
        "s:node:port0:burst:w:1:0:2:40",
        "s:node:port1:burst:r:1:1:2:41",
        "s:node:port1:burst:w:1:1:2:41",
        "s:node:portx:burst:rw:5344:5344:10688:0",
        "s:node:streng_active:i:0:397:3",
        "s:node:streng_active:i:7:21:379",
        "s:node:streng_active:max:i:0:397",
        "s:node:streng_active:max:o:2:395",
        "s:node:streng_active:o:2:395:5",
        "s:node:streng_henv:i:0:399:1",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            CounterOption.STRG_I_ACTIVE | CounterOption.NPU_CACHE,
            ["s:node:streng_active:max:i:-1:0"],
        ),
        (CounterOption.STRG_O_ACTIVE, ["s:node:streng_active:max:o:-1:0"]),
        (CounterOption.STRG_ACTIVE, ["s:node:streng_active:max:i:-1:0"]),
        (
            CounterOption.STRG_I_ACTIVE | CounterOption.STRG_O_ACTIVE,
            ["s:node:streng_active:max:i:-1:0"],
        ),
        (CounterOption.STRG_HENV, []),
        (CounterOption.EPOCH_LEN, []),
        (CounterOption(0), []),
    ],
    ids=repr,
)
def test_a_software_epoch_tells_that_no_engine_was_active(
    options: CounterOption, expected: list[str]
) -> None:
    node = NodeCounters("EpochBlock_5", 5, 5, EpochKind.SW, flags=0x23, mcu_cycles=(44, 32, 5000))
    lines = node_lines(node, NodePlace(0, 5), options)
    assert [line for line in lines if "streng" in line] == expected
    operator = node_message(node, 5, CLOCKS.mcu_hz, tensors=0)
    assert read_node(operator, lines) == node


def test_of_equally_busy_engines_the_first_is_named() -> None:
    node = NodeCounters("", 1, 1, EpochKind.HW, engines={(7, "i"): 30, (2, "i"): 30, (3, "i"): 9})
    lines = node_lines(node, NodePlace(0, 1), CounterOption.STRG_I_ACTIVE)
    assert "s:node:streng_active:max:i:2:30" in lines


def test_the_clocks_of_a_board() -> None:
    lines = config_lines(0x486, CLOCKS, npu_cache=True)
    assert lines[:2] == ["s:config:version:1.0", "s:config:dev_id:0x486"]
    config = read_config(["noise", *lines])
    assert config_clocks(config) == CLOCKS
    assert config["npu_cache"] == "1"
    assert config_clocks({"mcu_freq": "1"}) is None


def test_names_are_made_from_the_numbers() -> None:
    ids = {1 << 16 | 1: "EpochBlock_1", 3 << 16 | 1: "EpochBlock_1 -> 3"}
    ids[0xFFFE << 16 | 4] = "EpochBlock_4 (2)"
    assert [read_node(Operator(id=key), ()).name for key in ids] == list(ids.values())


@pytest.mark.parametrize(
    "line",
    [
        "s:node:mcu_cycles:1:2",
        "s:node:mcu_cycles:1:2:x",
        "s:node:npu_cycles:" + "9" * 5000 + ":1:1",
        "s:node:streng_active:i:-1:5:5",
        "s:node:port0:burst:r:1:2:3",
        "s:node:port7:burst:r:1:2:3:4",
        "s:node:evt_pre_start:0:0:0:0:zz:0:EC",
        "s:node:npu_cache:r:²:1:1:1",
        "s:node:",
        "s:node:whatever:1",
    ],
)
def test_a_line_of_unknown_form_changes_nothing(line: str) -> None:
    operator = Operator(counters=(1, 2, 3))
    assert read_node(operator, [line]) == read_node(operator, ())


def test_numbers() -> None:
    assert [number(text) for text in ("0", "12", "", "-1", "1.5", "1" * 19)] == [
        0,
        12,
        None,
        None,
        None,
        None,
    ]
