"""A batch that does not fit VTCM goes through several layers in parts."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuscope
from many_core.nets import convolutions, graph_of, save
from npuscope.errors import UsageError
from npuscope.families.many_core.compiler.depth_first import batch_of, batch_parts, held_bytes
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.compiler.simplify import prepared
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.report.manycore import CompiledPrograms, compile_text
from npuscope.families.many_core.sim.plan import Costs, plan_of
from npuscope.families.many_core.sim.pmu import ddr_bytes
from npuscope.structs import replace

MACHINE = load_core_machine(overrides={"memory.vtcm_bytes": 1 << 20, "memory.tile_bytes": 1 << 16})
OPTION = "-aic-enable-depth-first"
PICTURES = graph_of(convolutions(size=48, channels=64, batch=8))


def traffic(program: CoreProgram) -> int:
    return sum(sum(ddr_bytes(task)) for task in plan_of(program, Costs(MACHINE)).tasks)


def new_notes(before: CoreProgram, after: CoreProgram) -> list[str]:
    return [note for note in after.layout.notes if note not in before.layout.notes]


def test_parts_keep_activations_in_vtcm_and_load_weights_again() -> None:
    """64 channels of 48 x 48 pixels are 288 KB per picture; the weights have 190 KB."""
    usual, parted = (
        compile_graph(PICTURES, MACHINE, CoreCompileOptions(1, depth_first=depth_first))
        for depth_first in (False, True)
    )
    assert usual.spilled
    assert len(parted.spilled) < len(usual.spilled)
    assert traffic(parted) < 0.6 * traffic(usual)


def test_layers_that_hold_the_whole_batch_are_not_parted() -> None:
    ready = prepared(PICTURES).graph
    held = held_bytes(ready, ready.ops)
    assert batch_parts(ready, 8, float(held.during.max())) == {}
    parts = batch_parts(ready, 8, float(held.during.max()) / 3)
    assert {one.parts for one in parts.values()} == {8}
    # The last layers are small: they take the batch at once, with weights that come once.
    assert len(ready.ops) - 1 not in parts


def test_a_batch_of_one_has_no_parts() -> None:
    one = graph_of(convolutions(size=48, channels=64))
    assert batch_of(one) == 1
    usual, parted = (
        compile_graph(one, MACHINE, CoreCompileOptions(1, depth_first=depth_first))
        for depth_first in (False, True)
    )
    assert usual.devices == parted.devices
    assert usual.layout.specializations == parted.layout.specializations
    assert new_notes(usual, parted) == [f"{OPTION}: no effect, the inputs have no batch above 1"]


def test_a_batch_that_fits_has_no_parts() -> None:
    machine = load_core_machine()
    usual, parted = (
        compile_graph(PICTURES, machine, CoreCompileOptions(1, depth_first=on, depth_first_mb=mb))
        for on, mb in ((False, None), (True, 7))
    )
    assert usual.devices == parted.devices
    assert new_notes(usual, parted) == [
        f"{OPTION}, -aic-depth-first-mem: no effect, every layer holds the whole batch in VTCM"
    ]


def test_parts_and_programs_without_the_option_have_no_note() -> None:
    usual, parted, memory = (
        compile_graph(PICTURES, MACHINE, CoreCompileOptions(1, depth_first=on, depth_first_mb=mb))
        for on, mb in ((False, None), (True, None), (False, 1))
    )
    assert new_notes(usual, parted) == []
    assert new_notes(usual, memory) == [f"-aic-depth-first-mem: no effect without {OPTION}"]


def test_a_note_of_one_of_several_programs_has_its_name() -> None:
    options = CoreCompileOptions(1, depth_first=True)
    one = graph_of(convolutions(size=48, channels=64))
    many, single = (
        compile_graph(graph, MACHINE, replace(options, network=name))
        for graph, name in ((PICTURES, "QAicGraph"), (one, "QAicGraph_s1"))
    )
    build = CompiledPrograms(many, MACHINE, None, (single,))
    text = compile_text(build, perf_warnings=False, perf_metrics=False, unused=())
    note = f"note     QAicGraph_s1: {OPTION}: no effect, the inputs have no batch above 1"
    assert note in text.splitlines()
    assert text.count("float values have 16 bits") == 1


def test_less_memory_makes_smaller_parts() -> None:
    options = (CoreCompileOptions(1, depth_first=True, depth_first_mb=mb) for mb in (None, 1, 7))
    machine = load_core_machine()
    rooms = [one.depth_first_room(machine) for one in options]
    assert rooms[1] == 2**20
    assert rooms[0] == rooms[2] == machine.memory.vtcm_bytes * machine.memory.activation_share


def test_the_option_is_taken_bare_and_with_a_value(tmp_path: Path) -> None:
    model = save(tmp_path / "pictures.onnx", convolutions(size=48, channels=64, batch=8))
    small = {"memory.vtcm_bytes": 1 << 20, "memory.tile_bytes": 1 << 16}
    programs = {
        word: npuscope.manycore_compile(
            model, cores=1, aic_enable_depth_first=word, overrides=small
        ).program.devices
        for word in (True, "true", "1", False, "0")
    }
    assert programs[True] == programs["true"] == programs["1"]
    assert programs[False] == programs["0"] != programs[True]
    with pytest.raises(UsageError, match="true or false"):
        npuscope.manycore_compile(model, cores=1, aic_enable_depth_first="deep")
    with pytest.raises(UsageError, match="at least 1 MB"):
        npuscope.manycore_compile(model, cores=1, aic_depth_first_mem=0)
