"""The Pass protocol, the edits that passes share, constant folding, and the refusal of float
networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.graph.limits import Computed
from npuscope.graph.model import AS_INT8, DYNAMIC_RANGE, FRONT_END, WEIGHTS_ALONE, DType, Graph, Op
from npuscope.machine.model import Machine
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait
from npuscope.ops.unknown import UNKNOWN
from npuscope.structs import replace

# --- The protocol, and the edits that passes share ---


class Pass(Protocol):
    """Edits a graph; says whether it changed anything."""

    @property
    def name(self) -> str: ...

    def run(self, graph: Graph, machine: Machine) -> bool: ...


def replace_each(graph: Graph, parts: Callable[[Op], list[Op] | None]) -> bool:
    """Every op by the ones that `parts` gives for it; None keeps it."""
    before = graph.ops
    answers = [(op, parts(op)) for op in before]
    graph.ops = [part for op, new in answers for part in ([op] if new is None else new)]
    graph.drop_unused()
    return any(new is not None for _, new in answers)


class Edits:
    """Edits of one graph, with places and readers at hand: none of them searches all ops.

    Ops are taken by identity. `finish` puts what is left back into the graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.slots: list[Op | None] = list(graph.ops)
        self._place = {id(op): place for place, op in enumerate(graph.ops)}
        self._readers: dict[str, dict[int, None]] = {}
        self._outputs = set(graph.outputs)
        for place, op in enumerate(graph.ops):
            self._reads(place, op)

    def only_reader(self, tensor: str) -> Op | None:
        """The single op that reads a tensor which is not a graph output; else None."""
        readers = self._readers.get(tensor, {})
        if len(readers) != 1 or tensor in self._outputs:
            return None
        return self.slots[next(iter(readers))]

    def place(self, op: Op) -> int:
        return self._place[id(op)]

    def replace(self, old: Op, new: Op) -> None:
        place = self._forget(old)
        self.slots[place] = new
        self._place[id(new)] = place
        self._reads(place, new)

    def remove(self, op: Op) -> None:
        self.slots[self._forget(op)] = None

    def bypass(self, op: Op) -> None:
        """Remove an op that passes its first input on; its readers read that input instead."""
        source, target = op.inputs[0], op.outputs[0]
        self.remove(op)
        for place in list(self._readers.get(target, {})):
            reader = self.slots[place]
            if reader is not None:
                inputs = tuple(source if name == target else name for name in reader.inputs)
                self.replace(reader, reader.replace(inputs=inputs))

    def finish(self) -> bool:
        """Whether an op went."""
        before = len(self.graph.ops)
        self.graph.ops = [op for op in self.slots if op is not None]
        self.graph.drop_unused()
        return len(self.graph.ops) < before

    def _reads(self, place: int, op: Op) -> None:
        for name in op.inputs:
            self._readers.setdefault(name, {})[place] = None

    def _forget(self, op: Op) -> int:
        place = self._place.pop(id(op))
        for name in set(op.inputs):
            del self._readers[name][place]
        return place


# --- Constant folding: compute once what does not depend on the input ---


class FoldConstants(Struct, frozen=True):
    name: str = "fold-constants"

    def run(self, graph: Graph, machine: Machine) -> bool:
        constant_bytes = sum(t.size_bytes for t in graph.tensors.values() if t.is_constant)
        computed, remaining = Computed(constant_bytes), list[Op]()
        for op in graph.ops:  # in order, so that a chain folds from its beginning
            inputs = [graph.tensor(name) for name in op.inputs if name]
            computable = op.kind != UNKNOWN
            if computable and bool(inputs) and all(tensor.is_constant for tensor in inputs):
                _fold(graph, op, computed)
            else:
                remaining.append(op)
        changed = len(remaining) < len(graph.ops)
        graph.ops = remaining
        return changed


def _fold(graph: Graph, op: Op, computed: Computed) -> None:
    from npuscope.ops.run import run  # networks whose constants are all given need no kernels

    for name in op.outputs:
        tensor = graph.tensor(name)
        try:
            computed.check(tensor.shape, tensor.dtype.numpy.itemsize)
        except ModelError as error:
            error.where = op.name
            raise
        computed.take(tensor.elements * tensor.dtype.numpy.itemsize)
    names = [name for name in op.inputs if name] + list(op.outputs)
    tensors = [graph.tensor(name) for name in names]
    alone = Graph(op.name, tensors, [op], (), op.outputs, graph.numerics)
    results = run(alone, {})
    for name in op.outputs:
        graph.tensors[name] = replace(graph.tensor(name), data=results[name])


# --- Float networks: without a quantized layer nothing would run on the NPU ---


def refuse_float_network(graph: Graph) -> None:
    """Raise if all layers compute in float32."""
    layers = [op for op in graph.ops if OPS[op.kind].has(Trait.PRODUCT)]
    if not layers or any(graph.first_input(op).dtype is not DType.FLOAT32 for op in layers):
        return
    if any(_between_conversions(graph, op) for op in layers):
        return
    # Files that are called int8 and are refused as float need the reason.
    count = f"{len(layers)} layers" if len(layers) > 1 else "layers"
    raise ModelError(
        f"the network is float32: none of its {count} is quantized, and the NPU has no float unit",
        hint="; ".join(_ways_to_integers(graph, layers)),
    )


def _between_conversions(graph: Graph, layer: Op) -> bool:
    """Whether integers go into a layer and come out of it, although it computes on floats itself,
    as where a function stands between it and the QuantizeLinear. No other layer is in between."""
    makers, readers = graph.producers(), graph.consumers()
    before = makers.get(layer.inputs[0])
    while before is not None and before.kind != "Dequantize":
        if OPS[before.kind].has(Trait.PRODUCT) or not before.inputs:
            return False
        before = makers.get(before.inputs[0])
    if before is None:
        return False
    waiting, seen = [layer], set[str]()
    while waiting:
        for op in readers[waiting.pop().outputs[0]]:
            if op.kind == "Quantize":
                return True
            if op.name not in seen and not OPS[op.kind].has(Trait.PRODUCT):
                seen.add(op.name)
                waiting.append(op)
    return False


def _ways_to_integers(graph: Graph, layers: list[Op]) -> Iterator[str]:
    """Why the file counts as float, where its user holds it for quantized, and what to do."""
    if FRONT_END in graph.notes:
        yield FRONT_END
        yield "put that file beside this one, or use the model that you quantized"
        return
    why = _why_float(graph, layers)
    if not why:
        yield _QUANTIZE
        return
    # `quantize` takes such a file no more than `estimate` does.
    yield why
    yield "quantize the float model that it was made from, with samples (full-integer)"
    yield AS_INT8


def _why_float(graph: Graph, layers: list[Op]) -> str:
    weights = (graph.tensors.get(name) for op in layers for name in op.inputs[1:2])
    if any(tensor is not None and tensor.quant is not None for tensor in weights):
        return WEIGHTS_ALONE
    if DYNAMIC_RANGE in graph.notes:
        return DYNAMIC_RANGE
    if any(tensor.quant is not None for tensor in graph.tensors.values()):
        return "some of its tensors are quantized, but none that a layer reads"
    return ""


_QUANTIZE = (
    "quantize it to int8 first: `npuscope quantize MODEL -o OUT --data random` (for real use "
    "samples of your own instead of random), TFLite's full-integer conversion, or onnxruntime's "
    f"quantize_static with QDQ format; {AS_INT8}"
)
