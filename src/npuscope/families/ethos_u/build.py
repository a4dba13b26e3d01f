"""A network on an Ethos-U: compiled by Vela, timed from its streams, executed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.building import ReadOptions, read_graph
from npuscope.errors import ModelError, NpuscopeError, UsageError
from npuscope.families.ethos_u.container import VelaFile, arena_bytes, read_vela, tensor_bytes
from npuscope.families.ethos_u.debug_database import source_names, source_ops
from npuscope.families.ethos_u.executorch import read_program
from npuscope.families.ethos_u.known_error import known_error
from npuscope.families.ethos_u.machine import EthosMachine, load_machine, machine_names
from npuscope.families.ethos_u.marks import program_in
from npuscope.families.ethos_u.network import operator_graph
from npuscope.families.ethos_u.timing import KernelLimit, KernelTime, StreamTime, time_stream
from npuscope.families.ethos_u.vela import VelaOptions, run_vela, vela_version
from npuscope.files.load import is_tflite, read_model
from npuscope.files.tflite.file import SourceOp, TfliteModel, parse
from npuscope.files.tflite.write_graph import write_tflite
from npuscope.graph.model import DType, Graph
from npuscope.machine.load import load_machine as load_cpu
from npuscope.ops.table import having, macs
from npuscope.ops.traits import Trait
from npuscope.profiling.model import (
    EpochProfile,
    Fit,
    MachineInfo,
    MemoryUse,
    ModelInfo,
    Profile,
    TensorInfo,
)
from npuscope.profiling.plain import plain_part, plain_profile
from npuscope.program.model import EpochKind
from npuscope.progress import progress
from npuscope.sim.counters import Bound, EpochCounters
from npuscope.structs import replace
from npuscope.text import safe_terminal

FAMILY = "ethos-u"
_OF_COMPILATION = ("optimise", "arena_cache_size", "vela")  # Vela's own work
_HOST = "start of the inference on the host, assumed"
_WITHOUT_HOST = (
    "the time is that of the NPU and of operators on the CPU, without what the host and its driver "
    "take to start an inference (--set host_ms=MS adds it)"
)
VARIED_MODES = ("Sram_Only", "Shared_Sram", "Dedicated_Sram")  # those of Arm, without sizes


class EthosBuild(Struct, frozen=True):
    """`graph` is None where only Vela's file is known."""

    file: VelaFile
    data: bytes
    machine: EthosMachine
    name: str
    md5: str
    graph: Graph | None = None
    source: TfliteModel | None = None
    names: tuple[str, ...] = ()  # of the operators of `source`
    origins: Mapping[tuple[int, int], str] = {}  # of a kernel, by stream and place
    written: bytes = b""  # the TFLite file that was made of another format
    debug: str = ""  # Vela's debug database
    vela_cycles: float | None = None
    reasons: Mapping[str, str] = {}  # Vela's, for operators on the CPU, by their first output
    compiler: str = ""  # the version of Vela, where it was run from here


class OffloadTime(Struct, frozen=True):
    """One command stream with its time; `number` counts them in the file."""

    number: int
    stream: StreamTime


class ModeTrial(Struct, frozen=True):
    """The same network, compiled and timed in another memory mode."""

    mode: str
    total_ms: float
    sram_bytes: int


class EthosRun(Struct, frozen=True):
    """The payload of a profile: what rules and reports look at."""

    build: EthosBuild
    offloads: tuple[OffloadTime, ...]
    parts: Mapping[int, tuple[KernelTime, ...]] = {}  # kernels by the number of their part
    reasons: Mapping[int, str] = {}  # why a part is on the CPU, by its number, where Vela said it
    other_modes: tuple[ModeTrial, ...] = ()  # that were tried

    def origin(self, number: int, kernel: KernelTime) -> tuple[str, ...]:
        name = self.build.origins.get((number, kernel.kernel.place), "")
        return (name,) if name else ()


# --- Compilation and files ---


def compiled(source: str | Path | Graph, options: Mapping[str, Any]) -> EthosBuild:
    if isinstance(source, Graph) or options.get("as_int8"):
        stand_in: ReadOptions = {"as_int8": bool(options.get("as_int8"))}
        graph = read_graph(source, {**stand_in, "shapes": options.get("shapes") or {}})
        path = Path(f"{graph.name}.tflite" if isinstance(source, Graph) else source)
        return _compiled(graph, path, b"", options)
    path = Path(source)
    return compile_bytes(path, read_bytes(path, MODEL), options)


def compiled_like(
    build: EthosBuild, source: str | Path | Graph, options: Mapping[str, Any]
) -> EthosBuild:
    """The source, compiled for the machine of another build."""
    machine = build.machine
    names = {"system_config": machine.system, "memory_mode": machine.memory_mode}
    return compiled(source, {**options, "machine": machine.name, **names})


def compile_bytes(path: Path, data: bytes, options: Mapping[str, Any]) -> EthosBuild:
    """Content that is not, or not yet, in the file."""
    return _compiled(read_model(path, data, options.get("shapes")), path, data, options)


def _compiled(graph: Graph, path: Path, data: bytes, options: Mapping[str, Any]) -> EthosBuild:
    """Vela reads TFLite: another source is written in that format first."""
    machine = machine_of(str(options["machine"]), options)
    _refuse_floats(graph, path)
    file = TfliteSource(data) if is_tflite(data) else written_tflite(graph)
    output = run_vela(
        file.data,
        machine,
        VelaOptions(
            options.get("vela") or "",
            options.get("optimise") or "",
            options.get("vela_config") or "",
            options.get("arena_cache_size"),
        ),
    )
    model = parse(file.data)
    names = file.names or tuple(op.origin for op in model.ops)
    places = source_ops(output.debug)
    return EthosBuild(
        read_vela(output.file, compiled=True),
        output.file,
        machine,
        path.name,
        hashlib.md5(data or file.data, usedforsecurity=False).hexdigest(),
        graph,
        model,
        names,
        {place: names[number] for place, number in places.items() if number < len(names)},
        file.data if file.names else b"",
        output.debug,
        output.cycles,
        output.reasons,
        compiler=vela_version(options.get("vela") or ""),
    )


class TfliteSource(Struct, frozen=True):
    """What Vela is given. `names` are those of the operators in another source."""

    data: bytes
    names: tuple[str, ...] = ()


def _refuse_floats(graph: Graph, path: Path) -> None:
    """Vela leaves all of such a network to the CPU, whose time for layers is not known here."""
    layers = [op for op in graph.ops if op.kind in having(Trait.PRODUCT)]
    floats = all(graph.first_input(op).dtype is DType.FLOAT32 for op in layers)
    quantized = any(tensor.quant for tensor in graph.tensors.values())
    if quantized and not (layers and floats):
        return
    way = "`npuscope quantize MODEL -o OUT --data random` makes an int8 network of it"
    if quantized:
        way = "activations need scales too: quantize the float model that it was made from"
    says = "Vela compiles quantized networks only, and this one computes on floats"
    raise ModelError(says, where=str(path), hint=way)


def as_vela_reads(graph: Graph, file: TfliteSource) -> Graph:
    """The network with the types and operators that Vela sees; operators keep the names that they
    have in the source."""
    if not file.names:
        return graph
    names = {op.origin: name for op, name in zip(parse(file.data).ops, file.names, strict=True)}
    written = read_model(Path(f"{graph.name}.tflite"), file.data)
    ops = (op.replace(origin=tuple(names.get(o, o) for o in op.origin)) for op in written.ops)
    tensors = written.tensors.values()
    return Graph(graph.name, tensors, ops, written.inputs, written.outputs, written.numerics)


def written_tflite(graph: Graph) -> TfliteSource:
    file = write_tflite(graph)
    return TfliteSource(file.data, tuple(origin[0] if origin else "" for origin in file.origins))


def machine_of(name: str, options: Mapping[str, Any]) -> EthosMachine:
    return load_machine(
        name,
        system=options.get("system_config") or "",
        memory_mode=options.get("memory_mode") or "",
        overrides=options.get("overrides"),
        config=options.get("vela_config") or "",
    )


def read_build(path: Path, options: Mapping[str, Any]) -> EthosBuild:
    """A file that Vela wrote, or the one in a folder, for the machine that its stream names."""
    path = program_in(path) or path
    late = next((name for name in _OF_COMPILATION if options.get(name)), None)
    if late is not None:
        raise UsageError(
            f"{safe_terminal(path.name)} is compiled already",
            where=f"--{late.replace('_', '-')}",
            hint="give the model that Vela was given",
        )
    data = read_bytes(path, MODEL)
    file = read_program(data)
    name = _stated_machine(file) or machine_names()[0]
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return EthosBuild(
        file,
        data,
        machine_of(name, options),
        path.name,
        md5,
        origins=_origins_beside(path),
    )


def compiled_for(path: Path) -> str:
    """The machine that a compiled file, or the one in a folder, names."""
    return _stated_machine(read_program(read_bytes(program_in(path) or path, MODEL)))


def _stated_machine(file: VelaFile) -> str:
    """Streams begin with the configuration of the machine; empty where this one does not."""
    configuration = next(iter(file.offloads.values())).stream.configuration
    return configuration.machine if configuration is not None else ""


def _origins_beside(path: Path) -> dict[tuple[int, int], str]:
    """Of the debug database that Vela writes into the same folder where it is asked to."""
    database = path.with_name(f"{path.stem.removesuffix('_vela')}_debug.xml")
    if not path.stem.endswith("_vela") or not database.is_file():
        return {}
    return source_names(read_bytes(database, MODEL).decode(errors="replace"))


def with_other_modes(
    profile: Profile, source: str | Path | Graph, options: Mapping[str, Any]
) -> Profile:
    """The profile, with what the network takes in the other memory modes that Vela has for it."""
    run: EthosRun = profile.payload
    trials = []
    for mode in VARIED_MODES:
        if mode == run.build.machine.memory_mode:
            continue
        progress("trying %s", mode)
        try:
            other = timed(compiled(source, {**options, "memory_mode": mode}))
        except NpuscopeError:  # Vela does not take it with these memories
            continue
        memory, machine = other.memory, other.payload.build.machine
        weights = memory.weights_bytes if machine.constants == "sram" else 0
        trials.append(ModeTrial(mode, other.total_ms, memory.internal_ram_bytes + weights))
    return replace(profile, payload=replace(run, other_modes=tuple(trials)))


# --- Time ---


def timed(build: EthosBuild) -> Profile:
    offloads: list[OffloadTime] = []
    parts: list[EpochProfile] = []
    kernels: dict[int, tuple[KernelTime, ...]] = {}
    reasons: dict[int, str] = {}
    for op in build.file.model.ops:
        parts += _runtime_parts(build, op.index, len(parts))
        offload = build.file.offloads.get(op.index)
        if offload is None:
            names = (build.file.tensor(index).name for index in op.outputs[:1])
            reasons[len(parts)] = "".join(build.reasons.get(name, "") for name in names)
            parts.append(_cpu_part(build, op, len(parts)))
            continue
        time = OffloadTime(len(offloads), time_stream(offload.stream, build.machine))
        offloads.append(time)
        for part, group in _npu_parts(build, time, len(parts)):
            kernels[part.index] = group
            parts.append(part)
    parts += _runtime_parts(build, len(build.file.model.ops), len(parts))
    if build.machine.host_ms:
        parts.append(plain_part(len(parts), _HOST, build.machine.host_ms, kind=EpochKind.SW))
    run = EthosRun(build, tuple(offloads), kernels, reasons)
    machine = build.machine
    # What is assumed has no error that is known.
    low, high = known_error(machine).interval(sum(part.ms for part in parts) - machine.host_ms)
    return plain_profile(
        _model_info(build, run),
        MachineInfo(
            machine.name,
            "",
            False,
            machine.cpu_mhz,
            machine.clock_mhz,
            chip=f"Arm Ethos-{machine.product.upper()}",
            board=machine.board,
            compiler=f"Vela {build.file.version or build.compiler}".strip(),
        ),
        parts,
        interval_ms=(low + machine.host_ms, high + machine.host_ms),
        model_error=known_error(machine).words,
        memory=_memory(build),
        fit=Fit(machine.constants == "sram", machine.arena == "sram", True, "as Vela placed it"),
        notes=_notes(build),
        family=FAMILY,
        machine_words=f"{machine.clock_mhz:g} MHz, {machine.system}, {machine.memory_mode}",
        figures=_figures(build, run, parts),
        payload=run,
    )


def _npu_parts(
    build: EthosBuild, time: OffloadTime, first: int
) -> Iterator[tuple[EpochProfile, tuple[KernelTime, ...]]]:
    """Kernels of one source operator that follow each other are one part; so are slices of a
    layer's channels, which read the same, where operators have no names."""
    groups: list[tuple[str, str, list[KernelTime]]] = []
    for one in time.stream.kernels:
        origin = build.origins.get((time.number, one.kernel.place), "")
        name = origin or f"{one.kernel.kind} {one.kernel.mode}".strip()
        last = groups[-1] if groups else ("", "", [])
        if last[2] and (last[0] == origin if origin else _is_slice(last[2][-1], one)):
            last[2].append(one)
        else:
            groups.append((origin, name, [one]))
    # What follows the last kernel is part of it.
    rest = time.stream.cycles - (time.stream.kernels[-1].end if time.stream.kernels else 0.0)
    for number, (origin, name, kernels) in enumerate(groups):
        cycles = sum(one.cycles for one in kernels) + (rest if number == len(groups) - 1 else 0.0)
        index = first + number
        part = plain_part(
            index,
            name,
            cycles / (1e3 * build.machine.clock_mhz),
            operators=tuple(dict.fromkeys(one.kernel.kind for one in kernels)),
            origin=(origin,) if origin else (),
            counters=EpochCounters(index, index, 0.0, cycles, 0.0, _bound(kernels)),
        )
        yield part, tuple(kernels)


def _is_slice(before: KernelTime, after: KernelTime) -> bool:
    """Other channels of the same convolution."""
    x, y = before.kernel, after.kernel
    same_layer = x.kind == y.kind == "CONV" and (x.ifm, x.window) == (y.ifm, y.window)
    return same_layer and x.shape[:2] == y.shape[:2] and x.ofm.stride_y == y.ofm.stride_y


_BOUNDS = {
    KernelLimit.MAC: Bound.ACCUMULATOR,
    KernelLimit.OUTPUT: Bound.OUTPUT,
    KernelLimit.PORT: Bound.BUSIF,
    KernelLimit.CONSTANTS: Bound.WEIGHTS,
}


def _bound(kernels: list[KernelTime]) -> Bound:
    """What holds the longest of them."""
    return _BOUNDS[max(kernels, key=lambda one: one.cycles).limit]


def _runtime_parts(build: EthosBuild, before: int, first: int) -> list[EpochProfile]:
    """Kernels of the program around its delegates, and copies into another order of axes."""
    steps = [one for one in build.file.steps if one.before == before]
    cpu, mhz = load_cpu(), build.machine.cpu_mhz
    return [
        plain_part(
            first + number,
            step.name,
            cpu.software_cost(step.cost).cycles(step.elements) / (1e3 * mhz),
            kind=EpochKind.SW,
            operators=(step.name,),
        )
        for number, step in enumerate(one for one in steps if one.reorders or not one.shape)
    ]


def _cpu_part(build: EthosBuild, op: SourceOp, number: int) -> EpochProfile:
    """By what kernels of a Cortex-M55 take per element or product."""
    cycles = _cpu_cycles(build.file, op)
    origin = _source_origin(build, op)
    return plain_part(
        number,
        origin or op.origin,
        cycles / (1e3 * build.machine.cpu_mhz),
        kind=EpochKind.SW,
        operators=(op.kind,),
        origin=(origin,) if origin else (),
    )


def _cpu_cycles(file: VelaFile, op: SourceOp) -> float:
    cpu = load_cpu()
    try:
        graph = operator_graph(file.model, op)
    except NpuscopeError:  # an operator that is not known here
        elements = sum(prod(file.tensor(index).shape) for index in op.outputs)
        return cpu.software_cost("default").cycles(elements)
    cycles = 0.0
    for one in graph.ops:
        work = macs(graph, one)
        kernel = cpu.software_cost(one.kind).cycles(graph.output_tensor(one).elements)
        cycles += work / cpu.software_limits.int8_macs_per_cycle if work else kernel
    return cycles


def _source_origin(build: EthosBuild, op: SourceOp) -> str:
    """The operator of the source that makes a tensor of the same name."""
    if build.source is None:
        return ""
    names = {build.file.tensor(index).name for index in op.outputs}
    for other in build.source.ops:
        if any(build.source.tensors[index].name in names for index in other.outputs):
            return build.names[other.index]
    return ""


def _model_info(build: EthosBuild, run: EthosRun) -> ModelInfo:
    file = build.file
    products = sum(one.work.macs for time in run.offloads for one in time.stream.kernels)
    parameters = build.graph.parameters() if build.graph is not None else 0
    inputs, outputs = (
        tuple(_tensor(file, index) for index in indices)
        for indices in (file.model.inputs, file.model.outputs)
    )
    return ModelInfo(build.name, build.md5, inputs, outputs, products, parameters)


def _tensor(file: VelaFile, index: int) -> TensorInfo:
    tensor = file.tensor(index)
    size = tensor_bytes(tensor)
    return TensorInfo(tensor.name, tensor.shape, tensor.type.lower(), None, None, size)


def _memory(build: EthosBuild) -> MemoryUse:
    file = build.file
    constants = sum(len(offload.constants) for offload in file.offloads.values())
    fast = {one.fast for one in file.offloads.values() if one.fast != one.arena}
    fast_bytes = sum(tensor_bytes(file.tensor(index)) for index in fast)
    arena = arena_bytes(file)
    inside = (arena if build.machine.arena == "sram" else 0) + fast_bytes
    outside = 0 if build.machine.arena == "sram" else arena
    return MemoryUse(inside, outside, constants, 0, ())


def _notes(build: EthosBuild) -> tuple[str, ...]:
    notes = [] if build.graph is None else list(build.graph.notes)
    if not build.machine.host_ms:
        notes.append(_WITHOUT_HOST)
    if build.vela_cycles is not None:
        ms = build.vela_cycles / (1e3 * build.machine.clock_mhz)
        notes.append(f"Vela's own estimate: {build.vela_cycles:,.0f} cycles, {ms:.4g} ms")
    if build.file.offloads and not build.origins:
        notes.append("kernels have no names of operators: Vela's file does not tell them")
    return tuple(notes)


def _figures(build: EthosBuild, run: EthosRun, parts: list[EpochProfile]) -> dict[str, float]:
    """What only this family counts, by the names that limits take."""
    figures = {
        "npu_cycles": round(sum(one.stream.cycles for one in run.offloads)),
        "cpu_operators": sum(part.kind is EpochKind.SW and part.name != _HOST for part in parts),
        "command_streams": len(run.offloads),
    }
    for writes, word in ((False, "read"), (True, "write")):
        for one in run.offloads:
            for region, beats in one.stream.beats(build.machine, writes=writes).items():
                name = "sram" if build.machine.port(region) is build.machine.sram else "external"
                key = f"{name}_{word}_bytes"
                figures[key] = figures.get(key, 0) + beats * build.machine.port_bytes
    return {name: float(value) for name, value in figures.items()}
