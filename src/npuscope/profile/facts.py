"""What a profile says of its Program, however fast the machine is."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

import orjson

from npuscope.graph.model import Graph, Tensor
from npuscope.machine.model import Machine
from npuscope.ops.table import total_macs
from npuscope.profile.memory import fit, memory_use
from npuscope.profile.model import Fit, MemoryUse, ModelInfo, TensorInfo
from npuscope.program.model import Buffer, Epoch, EpochKind, Program


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """Prepared once for a Program and the mapping keys of its machine."""

    program_hash: str
    model: ModelInfo
    memory: MemoryUse
    fit: Fit
    counts: dict[str, int]
    notes: tuple[str, ...]
    epochs: tuple[Epoch, ...]
    names: tuple[str, ...]
    units: tuple[dict[str, int], ...]  # by epoch


def program_facts(program: Program, machine: Machine, graph: Graph | None) -> ProgramFacts:
    epochs = program.executed
    return ProgramFacts(
        program_hash(program),
        _model(program, graph),
        memory_use(program, machine),
        fit(program, machine),
        _counts(program),
        program.notes,
        epochs,
        tuple(epoch.name for epoch in epochs),
        tuple(dict(Counter(unit.unit for unit in epoch.units)) for epoch in epochs),
    )


def program_hash(program: Program) -> str:
    """Fingerprint of what is executed and where; names of files and models do not count."""
    places = [(b.name, b.pool, b.offset, b.size_bytes) for b in program.buffers]
    return hashlib.sha256(orjson.dumps((places, program.epochs))).hexdigest()


def _counts(program: Program) -> dict[str, int]:
    kinds = {kind.value: program.count(kind) for kind in EpochKind if kind is not EpochKind.EMPTY}
    return kinds | {"blobs": len({e.blob for e in program.epochs if e.blob is not None})}


def _model(program: Program, graph: Graph | None) -> ModelInfo:
    if graph is None:
        buffers = program.buffer_map()
        inputs = tuple(_buffer_info(buffers[name]) for name in program.inputs)
        outputs = tuple(_buffer_info(buffers[name]) for name in program.outputs)
        params = sum(b.size_bytes for b in program.buffers if b.is_param)
        return ModelInfo(program.model_file, program.model_md5, inputs, outputs, 0, params)
    return ModelInfo(
        program.model_file,
        program.model_md5,
        tuple(_tensor_info(graph.tensor(name)) for name in graph.inputs),
        tuple(_tensor_info(graph.tensor(name)) for name in graph.outputs),
        total_macs(graph),
        graph.parameters(),
    )


def _tensor_info(tensor: Tensor) -> TensorInfo:
    quant = tensor.quant
    scale = quant.scale if quant and not quant.per_channel else None
    zero = quant.zero_point if quant and not quant.per_channel else None
    return TensorInfo(tensor.name, tensor.shape, tensor.dtype.value, scale, zero, tensor.size_bytes)


def _buffer_info(buffer: Buffer) -> TensorInfo:
    kind = "float" if buffer.is_float else "int" if buffer.signed else "uint"
    scale = buffer.quant.scale if buffer.quant else None
    zero = buffer.quant.zero_point if buffer.quant else None
    return TensorInfo(
        buffer.name, buffer.shape, f"{kind}{buffer.nbits}", scale, zero, buffer.size_bytes
    )
