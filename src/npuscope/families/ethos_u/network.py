"""A whole file of Vela's, executed: offloaded layers by their streams, the other operators by the
reference executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from npuscope.errors import FileError, ModelError
from npuscope.families.ethos_u.container import (
    Offload,
    VelaFile,
    arena_bytes,
    tensor_bytes,
)
from npuscope.families.ethos_u.execute import execute
from npuscope.families.ethos_u.jobs import NpuKernel
from npuscope.families.ethos_u.layers import WeightCache
from npuscope.families.ethos_u.memory import Memories
from npuscope.files.sizes import Pins
from npuscope.files.tflite.file import SourceOp, TfliteModel
from npuscope.files.tflite.reader import TfliteReader
from npuscope.files.tflite.state import with_state
from npuscope.files.tflite.tensors import TYPES
from npuscope.graph.limits import Budget
from npuscope.graph.model import Graph
from npuscope.ops.run import run_once
from npuscope.text import safe_terminal

Array = np.ndarray[Any, np.dtype[Any]]
Watch = Callable[[Offload, NpuKernel, Array], Array | None]
_FIRST_TENSOR_REGION = 3


class Network:
    """A file, ready to run; decoded weights are kept between runs."""

    def __init__(self, file: VelaFile) -> None:
        self.file = file
        self.model = with_state(file.model)  # variables are inputs and outputs
        self.cache = WeightCache({})
        self._graphs: dict[int, Graph] = {}

    @cached_property
    def inputs(self) -> dict[str, int]:
        return {self.file.tensor(index).name: index for index in self.model.inputs}

    def run(self, inputs: Mapping[str, Array], watch: Watch | None = None) -> dict[str, Array]:
        values: dict[int, Array] = {}
        for name, index in self.inputs.items():
            tensor = self.file.tensor(index)
            if name not in inputs:
                raise ModelError(f"no values were given for input '{safe_terminal(name)}'")
            if inputs[name].nbytes != tensor_bytes(tensor):
                raise ModelError(
                    f"input '{safe_terminal(name)}' has {inputs[name].nbytes} bytes, "
                    f"expected {tensor_bytes(tensor)}"
                )
            values[index] = inputs[name].view(TYPES[tensor.type].numpy).reshape(tensor.shape)
        arena = np.zeros(arena_bytes(self.file), np.uint8)
        fast: dict[int, Array] = {}
        for op in self.model.ops:
            offload = self.file.offloads.get(op.index)
            if offload is None:
                values.update(self._on_cpu(op, values))
            else:
                reads = op.inputs[len(op.inputs) - len(offload.inputs) :]
                arguments = {
                    i: values[j] for i, j in zip(offload.inputs, reads, strict=True) if j in values
                }
                values.update(self._on_npu(offload, arguments, (arena, fast), watch))
        return {self.file.tensor(index).name: values[index] for index in self.model.outputs}

    # --- The NPU ---

    def _on_npu(
        self,
        offload: Offload,
        values: Mapping[int, Array],
        memory: tuple[Array, dict[int, Array]],
        watch: Watch | None,
    ) -> dict[int, Array]:
        arena, fast = memory
        # tensors may lie behind the one that stands for the arena
        regions = {0: offload.constants, 1: arena[max(self.file.places[offload.arena], 0) :]}
        regions[2] = regions[1]
        if offload.fast != offload.arena:
            size = tensor_bytes(self.file.tensor(offload.fast))
            regions[2] = fast.setdefault(offload.fast, np.zeros(size, np.uint8))
        for number, index in enumerate(offload.inputs + offload.outputs):
            if self.file.places[index] >= 0:
                regions[_FIRST_TENSOR_REGION + number] = self._room(index, arena)
        for index in offload.inputs:
            if index in values and self.file.places[index] >= 0:
                room, data = self._room(index, arena), values[index].tobytes()
                if room.size != len(data):
                    name = safe_terminal(self.file.tensor(index).name)
                    raise ModelError(
                        f"'{name}' has {len(data)} bytes, and Vela's file has room for {room.size}",
                        hint="Vela gave an operator on the CPU a tensor of another shape",
                    )
                room[...] = np.frombuffer(data, np.uint8)
        execute(
            offload.stream,
            Memories(regions),
            self.cache,
            None if watch is None else lambda job, result: watch(offload, job, result),
        )
        return {index: self._value(index, arena) for index in offload.outputs}

    def _room(self, index: int, arena: Array) -> Array:
        place, size = self.file.places[index], tensor_bytes(self.file.tensor(index))
        if place < 0:
            name = safe_terminal(self.file.tensor(index).name)
            raise FileError(f"tensor '{name}' has no place in the arena")
        return arena[place : place + size]

    def _value(self, index: int, arena: Array) -> Array:
        tensor = self.file.tensor(index)
        dtype = TYPES[tensor.type].numpy
        return self._room(index, arena).copy().view(dtype).reshape(tensor.shape)

    # --- The CPU ---

    def _on_cpu(self, op: SourceOp, values: Mapping[int, Array]) -> dict[int, Array]:
        graph = self._graphs.get(op.index)
        if graph is None:
            graph = self._graphs[op.index] = self._graph(op)
        reads = [index for index in dict.fromkeys(op.inputs) if index in values]
        arrays = {name: values[i] for name, i in zip(graph.inputs, reads, strict=True)}
        results = run_once(graph, arrays)
        return dict(zip(op.outputs, (results[name] for name in graph.outputs), strict=True))

    def _graph(self, op: SourceOp) -> Graph:
        return operator_graph(self.file.model, op)


def operator_graph(model: TfliteModel, op: SourceOp) -> Graph:
    """One operator as a network of its own."""
    reads = tuple(
        index
        for index in dict.fromkeys(op.inputs)
        if index >= 0 and model.tensors[index].data is None
    )
    source = TfliteModel(model.tensors, (op,), reads, op.outputs)
    return TfliteReader(source, op.origin, Pins(), Budget(1 << 24)).run()


def executed(
    file: VelaFile, compiled: Graph | None, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Outputs by the names of the network that was compiled, in its types, where it is known."""
    network = Network(file)
    arrays = {
        name: moved(values, network.file.tensor(network.inputs[name]).type)
        for name, values in renamed(inputs, tuple(network.inputs), "inputs").items()
    }
    results = network.run(arrays)
    if compiled is None:
        return results
    return {
        name: moved(values, compiled.tensors[name].dtype.value.upper())
        for name, values in renamed(results, compiled.outputs, "outputs").items()
    }


def renamed(arrays: Mapping[str, Array], names: tuple[str, ...], what: str) -> dict[str, Array]:
    """In the order of `names`; where Vela has changed them, the order is the same."""
    if len(arrays) != len(names):
        raise ModelError(
            f"{len(arrays)} {what} on one side of Vela and {len(names)} on the other: what "
            "operators keep between inferences is not executed"
        )
    rows = [arrays[name] for name in names] if {*arrays} == {*names} else arrays.values()
    return dict(zip(names, rows, strict=True))


_HALVES = {("UINT8", "INT8"): -128, ("INT8", "UINT8"): 128}


def moved(values: Array, type: str) -> Array:
    """In that type, where it has another sign for the same values: Vela's file has signed ones."""
    half = _HALVES.get((str(values.dtype).upper(), type))
    return values if half is None else (values.astype(np.int16) + half).astype(type.lower())
