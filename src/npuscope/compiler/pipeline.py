"""The compiler, top to bottom: from a quantized Graph to a Program."""

from __future__ import annotations

from msgspec import Struct

from npuscope.compiler.emit.program import emit_program, one_blob_an_epoch
from npuscope.compiler.lower.graph import lower_graph
from npuscope.compiler.passes import run_passes
from npuscope.compiler.passes.order import last_reader_first
from npuscope.compiler.place import place
from npuscope.compiler.schedule import schedule
from npuscope.graph.model import Graph, Numerics
from npuscope.machine.model import Machine
from npuscope.ops.table import total_macs
from npuscope.program.balance import check_balance
from npuscope.program.claims import with_claims
from npuscope.program.model import Program
from npuscope.program.verify import verify
from npuscope.structs import replace


class CompileOptions(Struct, frozen=True):
    """What a user may ask of the compiler, beside the machine and its generation."""

    optimization: int | None = None  # the generation's own when None
    single_epoch_blobs: bool = False  # the epoch controller runs one epoch at a time
    alternative_schedule: bool = False


def compile_graph(graph: Graph, machine: Machine, options: CompileOptions | None = None) -> Program:
    """Clean the graph, lower it to unit stages, group them into epochs, place, account, check."""
    options = options or CompileOptions()
    level = options.optimization
    if level is None:
        level = machine.generation.default_optimization
    macs, params = total_macs(graph), graph.parameters()
    graph = run_passes(graph, machine)
    # Of a TFLite network it takes the readers of a value one by one, the last one first.
    one_by_one = options.alternative_schedule and graph.numerics is Numerics.LITERT
    if one_by_one:
        graph = last_reader_first(graph)
    lowered = lower_graph(graph, machine, level)
    groups = schedule(lowered, machine, options.alternative_schedule, one_by_one)
    program = emit_program(graph, lowered, groups, machine)
    program = place(program, machine)
    if options.single_epoch_blobs:
        program = one_blob_an_epoch(program)
    program = with_claims(program, machine)
    verify(program, machine.units)
    check_balance(program)
    return replace(program, macs=macs, params=params)
