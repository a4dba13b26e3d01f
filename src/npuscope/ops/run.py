"""The reference executor: runs a Graph on inputs, bit-exact with the graph's numerics.

A graph is prepared once (weights as floats, multipliers, tables) and the plan kept as long as the
graph lives and its ops and tensors stay the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from math import prod

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.graph.limits import check_run
from npuscope.graph.model import Graph, Op, Tensor
from npuscope.ops.kernels.dense import Room
from npuscope.ops.kernels.step import Array, Steps
from npuscope.ops.kernels.table import make_step
from npuscope.ops.layers import ConvAttrs, TransposeConvAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.ops.table import OPS, spec
from npuscope.ops.unknown import check_executable
from npuscope.text import safe_terminal

_ITEM_BYTES = 8  # of kernels' intermediate values, at most
# What numpy raises for shapes and types that do not fit and sizes beyond the memory.
_REFUSALS = (ValueError, IndexError, TypeError, MemoryError)


def run(
    graph: Graph, inputs: Mapping[str, Array], keep: Iterable[str] | None = None
) -> dict[str, Array]:
    """One inference: the graph's outputs, and the intermediate tensors named in `keep`."""
    return plan_of(graph).run(inputs, keep or ())


def run_once(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The graph's outputs, without a plan that is kept, or memory that is bounded: for few values
    of a graph that was made for them."""
    values = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    values |= inputs
    for op in graph.ops:
        _execute(_stage(graph, op, []), values)
    return {name: values[name] for name in graph.outputs}


def run_some(graph: Graph, ops: Iterable[Op], values: Mapping[str, Array]) -> dict[str, Array]:
    """Some ops of a graph, of which each has one output, on few values, whose number need not be
    that of the graph's tensors; no plan is kept."""
    results = dict(values)
    for op in ops:
        inputs = [_value(graph, name, results) for name in op.inputs if name]
        (results[op.outputs[0]],) = _step(graph, op)(inputs)
    return results


def _value(graph: Graph, name: str, values: Mapping[str, Array]) -> Array:
    data = graph.tensors[name].data
    return values[name] if data is None else data


def disturbed(
    graph: Graph, inputs: Mapping[str, Array], change: Callable[[str, Array], Array]
) -> dict[str, Array]:
    """The graph's outputs when every result of an op is changed before others read it."""
    plan = plan_of(graph)
    values = {**plan.constants, **checked_inputs(plan.inputs, inputs)}
    for stage in plan.stages:
        _execute(stage, values)
        for name in stage.op.outputs:
            values[name] = change(name, values[name])
        for name in stage.dying:
            if name not in plan.outputs:
                del values[name]
    return {name: values[name] for name in plan.outputs}


def each_alone(
    graph: Graph,
    values: Mapping[str, Array],
    kinds: Container[str],
    change: Callable[[str, Array], Array],
) -> Iterator[tuple[str, Array]]:
    """What every op of some kinds makes by itself of known inputs that are changed."""
    plan = plan_of(graph)
    tensors = {**plan.constants, **values}
    for stage in plan.stages:
        if stage.op.kind not in kinds:
            continue
        inputs = {
            n: tensors[n] if n in plan.constants else change(n, tensors[n]) for n in stage.reads
        }
        _execute(stage, inputs)
        yield from ((name, inputs[name]) for name in stage.op.outputs)


def trace(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """One inference with every tensor that an op makes, in the order they are made."""
    return run(graph, inputs, [name for op in graph.ops for name in op.outputs])


class RunStage(Struct, frozen=True):
    """One op ready to run; `dying` are the tensors nobody reads after it."""

    op: Op
    step: Steps
    reads: tuple[str, ...]  # inputs that are present
    makes: tuple[tuple[str, tuple[int, ...], np.dtype[np.generic]], ...]
    dying: tuple[str, ...]


class RunPlan(Struct, frozen=True):
    """A prepared graph. It may be run from several threads: runs share constants only."""

    ops: tuple[Op, ...]
    tensors: dict[str, Tensor]
    constants: dict[str, Array]
    inputs: tuple[Tensor, ...]
    outputs: tuple[str, ...]
    stages: tuple[RunStage, ...]

    def run(self, inputs: Mapping[str, Array], keep: Iterable[str] = ()) -> dict[str, Array]:
        names = dict.fromkeys((*self._known(keep), *self.outputs))
        values = {**self.constants, **checked_inputs(self.inputs, inputs)}
        for stage in self.stages:
            _execute(stage, values)
            for name in stage.dying:
                if name not in names:
                    del values[name]
        return {name: values[name] for name in names}

    def _known(self, names: Iterable[str]) -> list[str]:
        listed = list(names)
        for name in listed:
            if name not in self.tensors:
                raise ModelError(f"the graph has no tensor '{safe_terminal(name)}' to keep")
        return listed

    def fits(self, graph: Graph) -> bool:
        """The graph was not edited since; ops and tensors are frozen, so identity is enough."""
        return (
            len(graph.ops) == len(self.ops)
            and all(a is b for a, b in zip(graph.ops, self.ops, strict=True))
            and len(graph.tensors) == len(self.tensors)
            and all(graph.tensors.get(name) is t for name, t in self.tensors.items())
            and graph.outputs == self.outputs
            and graph.inputs == tuple(t.name for t in self.inputs)
        )


def _execute(stage: RunStage, values: dict[str, Array]) -> None:
    try:
        with np.errstate(all="ignore"):  # infinities and NaN are results like any other
            results = stage.step([values[name] for name in stage.reads])
    except _REFUSALS as error:
        raise _refusal("the op cannot run", error, stage.op) from error
    for result, (name, shape, dtype) in zip(results, stage.makes, strict=True):
        if result.shape != shape or result.dtype != dtype:
            raise ModelError(
                f"the op gives {result.dtype} {result.shape}, but the graph states {dtype} {shape}",
                where=_place(stage.op),
            )
        values[name] = np.asarray(result)  # kernels may give a scalar


def _refusal(what: str, error: Exception, op: Op) -> ModelError:
    reason = "not enough memory" if isinstance(error, MemoryError) else str(error)
    return ModelError(f"{what}: {reason}", where=_place(op))


def _place(op: Op) -> str:
    return safe_terminal(f"op '{op.name}' ({op.kind})")


def check_work(graph: Graph, keeps_all: bool = False) -> None:
    """Refuse a network whose inference takes too much memory or time, before either is spent."""
    last_reader = {name: index for index, op in enumerate(graph.ops) for name in op.inputs}
    alive = sum(graph.tensors[name].size_bytes for name in graph.inputs)
    macs = 0
    for index, op in enumerate(graph.ops):
        alive += sum(graph.tensors[name].size_bytes for name in op.outputs)
        macs += spec(op).macs(graph, op) if op.kind in OPS else 0  # `prepare` refuses the others
        check_run(alive + _scratch(graph, op), macs, _place(op))
        if not keeps_all:
            dying = (n for n in _touched(graph, op) if last_reader.get(n, index) == index)
            alive -= sum(graph.tensors[name].size_bytes for name in dying)


def _scratch(graph: Graph, op: Op) -> int:
    """Bytes that a kernel may hold in addition to its tensors: wide copies, padding, windows."""
    tensors = [graph.tensors[name] for name in (*op.inputs, *op.outputs) if name]
    wide = _ITEM_BYTES * max(tensor.elements for tensor in tensors)
    if isinstance(op.attrs, PoolAttrs):
        return wide + _ITEM_BYTES * _padded(graph, op, op.attrs)
    if isinstance(op.attrs, TransposeConvAttrs):
        shapes = [graph.tensors[name].shape for name in (*op.inputs[:2], op.outputs[0])]
        patches = prod(shapes[0][:3]) * prod(shapes[1][:3])
        return wide + _ITEM_BYTES * (patches + prod(Room(op.attrs, *shapes).shape))
    if isinstance(op.attrs, ConvAttrs):
        return wide + _ITEM_BYTES * _padded(graph, op, op.attrs) + _windows(graph, op)
    return wide


def _padded(graph: Graph, op: Op, attrs: ConvAttrs | PoolAttrs) -> int:
    images, height, width, channels = graph.first_input(op).shape
    top, left, bottom, right = map(abs, attrs.pads)
    return images * (top + height + bottom) * (left + width + right) * channels


def _windows(graph: Graph, op: Op) -> int:
    """The pixels under all windows of an output row; floats are multiplied all rows at once."""
    source, kernel = (graph.tensors[name] for name in op.inputs[:2])
    images, rows, columns, _ = graph.output_tensor(op).shape
    pixels = columns * prod(kernel.shape[1:3]) * source.shape[3]
    if source.dtype.is_float:
        return images * rows * pixels * source.dtype.bits // 8
    return _ITEM_BYTES * pixels


def prepare(graph: Graph) -> RunPlan:
    """Makes all kernels; an op without one is refused here, before anything runs."""
    check_work(graph)
    last_reader = {name: index for index, op in enumerate(graph.ops) for name in op.inputs}
    stages = tuple(
        _stage(graph, op, [n for n in _touched(graph, op) if last_reader.get(n, index) == index])
        for index, op in enumerate(graph.ops)
    )
    return RunPlan(
        tuple(graph.ops),
        dict(graph.tensors),
        {name: t.data for name, t in graph.tensors.items() if t.data is not None},
        tuple(graph.tensors[name] for name in graph.inputs),
        graph.outputs,
        stages,
    )


def _touched(graph: Graph, op: Op) -> list[str]:
    """Tensors that may be freed after an op: its inputs and outputs, but no constants."""
    names = dict.fromkeys((*op.inputs, *op.outputs))
    return [name for name in names if name and not graph.tensors[name].is_constant]


def _step(graph: Graph, op: Op) -> Steps:
    try:
        return make_step(graph, op)
    except ModelError as error:
        error.where = error.where or _place(op)
        raise
    except _REFUSALS as error:
        raise _refusal("the op cannot be prepared", error, op) from error


def _stage(graph: Graph, op: Op, dying: list[str]) -> RunStage:
    step = _step(graph, op)
    outputs = [graph.tensors[name] for name in op.outputs]
    makes = tuple((tensor.name, tensor.shape, tensor.dtype.numpy) for tensor in outputs)
    reads = tuple(name for name in op.inputs if name)
    return RunStage(op, step, reads, makes, tuple(dying))


_PLANS: dict[int, RunPlan] = {}


def plan_of(graph: Graph) -> RunPlan:
    """The graph's plan, prepared again after an edit. Graphs have no hash, so ids are keys."""
    key = id(graph)
    plan = _PLANS.get(key)
    if plan is None:
        weakref.finalize(graph, _PLANS.pop, key, None)
    if plan is None or not plan.fits(graph):
        check_executable(graph)
        plan = _PLANS[key] = prepare(graph)
    return plan


def checked_inputs(tensors: Iterable[Tensor], values: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs by name, each of the right type and shape."""
    by_name = {tensor.name: tensor for tensor in tensors}
    unknown = [name for name in values if name not in by_name]
    if unknown:
        expected = ", ".join(f"'{safe_terminal(name)}'" for name in by_name)
        raise ModelError(
            f"the graph has no input '{safe_terminal(unknown[0])}', it takes {expected}"
        )
    return {name: _checked(tensor, values) for name, tensor in by_name.items()}


def _checked(tensor: Tensor, values: Mapping[str, Array]) -> Array:
    name = safe_terminal(tensor.name)
    if tensor.name not in values:
        raise ModelError(f"no values were given for input '{name}'")
    value = values[tensor.name]
    if not isinstance(value, np.ndarray):
        raise ModelError(f"input '{name}' is a {type(value).__name__}, expected a numpy array")
    if value.dtype != tensor.dtype.numpy or value.shape != tensor.shape:
        raise ModelError(
            f"input '{name}' is {value.dtype} {value.shape}, "
            f"expected {tensor.dtype.numpy} {tensor.shape}"
        )
    return value
