"""An STM32N6 program against the network that it was compiled from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from npuscope.building import (
    Build,
    build,
    is_as_filed,
    is_program,
    read_graph,
    reference_of,
    refuse_other_model,
)
from npuscope.compiler.pipeline import compile_graph
from npuscope.errors import UsageError
from npuscope.families.interface import Options, Source
from npuscope.graph.model import Graph
from npuscope.options.rows import BUILDING
from npuscope.profiling.validate import Validation, validate
from npuscope.profiling.verdict import MUCH_SATURATED, Verdict
from npuscope.program.flashed import as_flashed
from npuscope.program.model import Epoch, Program
from npuscope.program.serialize import OWN_SOURCE
from npuscope.shown import counted
from npuscope.sim.memory import Memory
from npuscope.sim.run import execute, written
from npuscope.structs import replace
from npuscope.text import safe_terminal


def executed(build: Build, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of a program that was compiled here, and every tensor of the network that it writes
    whole."""
    assert build.graph is not None  # its own compiler keeps the network
    tensors: dict[str, np.ndarray] = {}
    buffers, graph = build.program.buffer_map(), build.graph

    def keep(epoch: Epoch, memory: Memory) -> None:
        for name in written(epoch):
            tensor = graph.tensors.get(buffers[name].tensor or name)
            if tensor is None or name.endswith(".sub"):
                continue
            values = memory.read(name)
            if values.size == tensor.elements and values.dtype == tensor.dtype.numpy:
                tensors[tensor.name] = values.reshape(tensor.shape)

    run = execute(build.program, dict(inputs), observe=keep)
    return {**tensors, **{name: run.outputs[name] for name in graph.outputs}}


def _damaged(program: Program, fresh: Program) -> Iterator[str]:
    """Weights of a program that are not those of its model, compiled again. Other options may lay
    the same bytes out in another order, or none in the same buffer."""
    there, ours = fresh.buffer_map(), program.buffer_map()
    pairs = {
        name: (_bytes(program.constants[name]), _bytes(fresh.constants[name]))
        for name in program.constants
        if name in fresh.constants and ours[name].size_bytes == there[name].size_bytes
    }
    off = {
        name: pair
        for name, pair in pairs.items()
        if (np.bincount(pair[0], minlength=256) != np.bincount(pair[1], minlength=256)).any()
    }
    if len(off) > _MOST_DAMAGED * len(pairs):
        return  # compiled with other options
    for name, (found, right) in off.items():
        layer = safe_terminal(name.removesuffix(".weights"))
        yield f"'{layer}', {int((found != right).sum()):,} of {counted(right.size, 'byte')} differ"


_MOST_DAMAGED = 0.5  # of the buffers: above, it is not damage that makes them differ


def _bytes(data: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def validate_program(source: Source, options: Options) -> Validation:
    """Options hold `inputs`, `seeds` and `model` beside those of a build."""
    plain = {name: value for name, value in options.items() if name in BUILDING}
    model = options.get("model")
    from_model = {**plain, "compiled_from": model or plain.get("compiled_from")}
    network = build(source, from_model)  # type: ignore[arg-type]
    compiled = not isinstance(source, Graph) and is_program(source)
    original = model if compiled else source
    if original is None and compiled:
        original = reference_of(Path(str(source)), network.program)
    if original is None:
        raise UsageError(
            "a compiled program is validated against its model",
            where="--model",
            hint="give the .tflite or .onnx file it was compiled from",
        )
    graph = network.graph or read_graph(original, plain)  # type: ignore[arg-type]
    as_filed = is_as_filed(plain) and not isinstance(original, Graph)  # type: ignore[arg-type]
    file = Path(original) if as_filed else None
    if compiled and network.program.source == OWN_SOURCE and not isinstance(source, Graph):
        words = plain.get("weights") or ()
        flashed = as_flashed(Path(source), network.program, network.machine, words)
        network = replace(network, program=flashed)
    if compiled and not isinstance(original, Graph):
        refuse_other_model(Path(str(source)), network.program, Path(original))
    inputs, seeds = options.get("inputs"), options.get("seeds", 1)
    result = validate(network.program, graph, network.machine, inputs, seeds, file)
    ours = network.program.source == OWN_SOURCE
    ours |= "--network-name" in dict(network.program.compiler_options)
    if compiled and ours and not result.contradictions:
        fresh = compile_graph(graph, network.machine)
        damaged = tuple(_damaged(network.program, fresh))
        if damaged:
            return replace(result, verdict=Verdict.WRONG, passed=False, damaged=damaged)
    off = {layer.epoch for layer in result.broken}
    saturating = {name for name, share in result.saturating if share > MUCH_SATURATED}
    if result.verdict is not Verdict.WRONG or network.program.source != OWN_SOURCE:
        return result
    if not saturating or not off <= saturating:
        return result
    # Vendor compilers scale sums by what weights add up to, so that 16 bits saturate where weights
    # of both signs cancel out. Is that all? Then the network agrees where sums have room.
    roomy = replace(network.machine.generation, saturation_safe_shift=True)
    machine = replace(network.machine, generation=roomy)
    wider = validate(compile_graph(graph, machine), graph, machine, inputs, seeds)
    if not wider.passed:
        return result
    return replace(result, verdict=Verdict.DIFFERS, passed=True, saturation_explains=True)
