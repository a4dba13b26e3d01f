"""Callbacks in C, as the guideline of the profiler describes them: the table that they leave in
memory holds what Python callbacks count on the simulated runtime."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from boards.emulated.guideline import Example, Row
from boards.emulated.guideline_page import OURS, printed, written
from boards.emulated.loads import Net33, packaged, sample
from boards.emulated.programs import FIRMWARE
from npuscope.boards.runtime import EpochBlock, EpochEvent, Runtime
from npuscope.sim.debug_unit import (
    DebugUnit,
    bits,
    cache_rows,
    watch_all_bursts,
    watch_clock,
    watch_engines,
    watch_epoch_length,
)
from npuscope.sim.run import execute

FIRST_ENGINE, LENGTH = 1, 13


def columns(
    number: int, masks: tuple[int, int], core: int, engines: tuple[int, ...], length: int
) -> tuple[object, ...]:
    """What must agree. Where no engine works the core phase is the processor's own time."""
    return number, *masks, core if any(engines) else None, engines, length


@dataclass(slots=True)
class Engines:
    """The first inference: the clock, the engines and the length of each epoch."""

    rows: list[tuple[object, ...]] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)

    def __call__(self, event: EpochEvent, unit: DebugUnit, block: EpochBlock) -> None:
        if event is EpochEvent.PRE_START:
            unit.release()
            self.stamps.clear()
            watch_clock(unit)
            watch_engines(unit, block.in_mask, block.out_mask, FIRST_ENGINE)
            if block.in_mask and block.out_mask:
                ends = (bits(block.in_mask)[0], bits(block.out_mask)[-1])
                watch_epoch_length(unit, *ends, first=LENGTH)
        self.stamps.append(unit.read(0))
        if event is EpochEvent.POST_END:
            core = self.stamps[2] - self.stamps[1]
            counts = [unit.read(FIRST_ENGINE + i) for i in range(block.engines)]
            length = unit.read(LENGTH) if block.in_mask and block.out_mask else 0
            masks = (block.in_mask, block.out_mask)
            self.rows.append(columns(block.number, masks, core, tuple(counts), length))


@dataclass(slots=True)
class Bursts:
    """The second inference: bursts, and the monitors of the cache."""

    rows: list[tuple[object, ...]] = field(default_factory=list)

    def __call__(self, event: EpochEvent, unit: DebugUnit, block: EpochBlock) -> None:
        if event is EpochEvent.PRE_START:
            unit.release()
            watch_all_bursts(unit)
            unit.cache.start()
        if event is EpochEvent.POST_END:
            reads, writes = cache_rows(unit.cache.read())
            counts = tuple(unit.read(i) for i in range(16))
            self.rows.append((block.number, counts, (*reads, *writes)))
            unit.cache.stop()


def engine_columns(row: Row) -> tuple[object, ...]:
    used = row.inputs.bit_count() + row.outputs.bit_count()
    assert not any(row.engines[used:])
    masks = (row.inputs, row.outputs)
    return columns(row.number, masks, row.npu[1], row.engines[:used], row.length)


def simulated(net: Net33, callback: Engines | Bursts) -> list[tuple[object, ...]]:
    with Runtime(net.program, net.machine, on_epoch=callback) as runtime:
        runtime.infer()
    return callback.rows


@pytest.mark.parametrize(
    ("name", "generation"), [("hardware", "4.0"), ("hardware", "2.2"), ("mixed", "4.0")]
)
def test_the_table_in_memory_is_what_python_callbacks_count(name: str, generation: str) -> None:
    net = packaged(name, generation, controller=False)
    example = Example(net)
    outputs = example.run()
    assert (example.code, example.reason) == (0, "")
    for output, wanted in execute(net.program, sample(net.graph)).outputs.items():
        np.testing.assert_array_equal(outputs[output], wanted)
    assert list(map(engine_columns, example.rows)) == simulated(net, Engines())
    bursts = [(row.number, row.bursts, row.cache) for row in example.rows]
    assert bursts == simulated(net, Bursts())
    assert any(sum(row.cache) for row in example.rows)
    assert all(row.mcu[0] and row.mcu[2] for row in example.rows)


def check_pieces(pieces: dict[str, str], folder: Path, name: str, generation: str) -> None:
    net = packaged(name, generation, controller=False)
    example = Example(net, pieces=written(pieces, folder))
    example.run()
    assert (example.code, example.reason) == (0, "")
    assert list(map(engine_columns, example.rows)) == simulated(net, Engines())
    bursts = [(row.number, row.bursts) for row in example.rows]
    assert bursts == [row[:2] for row in simulated(net, Bursts())]
    assert any(any(row.bursts) for row in example.rows)


@pytest.mark.parametrize("generation", ["4.0", "2.2"])
def test_a_program_with_the_calls_of_the_guideline(generation: str, tmp_path: Path) -> None:
    check_pieces(OURS, tmp_path, "hardware", generation)


@pytest.mark.parametrize(
    ("name", "generation"), [("hardware", "4.0"), ("hardware", "2.2"), ("mixed", "4.0")]
)
def test_the_code_that_the_guideline_prints(
    vendor_documents: Path, name: str, generation: str, tmp_path: Path
) -> None:
    """As it is printed: only names that left their line in the page's text are put back."""
    page = (vendor_documents / "000_profile_a_deployed_model.txt").read_text(encoding="utf-8")
    check_pieces(printed(page), tmp_path, name, generation)


def test_an_image_that_is_refused_runs_nothing() -> None:
    net = packaged("hardware", controller=False)
    example = Example(net, net.file[:-1] + bytes([net.file[-1] ^ 1]))
    example.run()
    assert (example.code, example.rows) == (-1, [])
    assert example.reason == "the checksum is wrong: the file is damaged"


def test_the_page_names_what_the_headers_have() -> None:
    page = (FIRMWARE.parent / "docs" / "callbacks.md").read_text(encoding="utf-8")
    headers = "".join(path.read_text() for path in FIRMWARE.rglob("*.h"))
    names = set(re.findall(r"\b(?:LL_|DBGTRC_|npu_cache_|callbacks_|ll_aton_)\w+", page))
    assert len(names) > 10
    for name in names - {"callbacks_"}:
        assert re.search(rf"\b{name}\b", headers), name
