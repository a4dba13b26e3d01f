"""TFLite -> Graph.

The file's tensors keep their shapes, because TFLite is channel-last already. Only depthwise weights
are transposed, and implicit flattening becomes an op. Shape arithmetic is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from npuscope.errors import InternalError, ModelError, NotComputed
from npuscope.files.builder import Builder, drop_dead, fold_last_op
from npuscope.files.other_files import refuse_other_npus
from npuscope.files.sizes import Dims, Pins, static_shape
from npuscope.files.tflite.file import SourceOp, SourceTensor, TfliteModel, parse
from npuscope.files.tflite.state import with_state
from npuscope.files.tflite.tensors import STAND_INS, TYPES, TfliteTensors, element_type
from npuscope.graph.limits import MAX_ELEMENTS, Budget
from npuscope.graph.model import Attrs, DType, Graph, Numerics, Tensor
from npuscope.ops.moves import SplitAttrs
from npuscope.ops.row import Shape, Tflite, named
from npuscope.ops.table import TFLITE
from npuscope.ops.unknown import UNKNOWN, UnknownAttrs
from npuscope.ops.verify import verify
from npuscope.shown import counted
from npuscope.structs import replace
from npuscope.text import safe_terminal

Convert = Callable[["TfliteReader", SourceOp], None]

# Operators whose results are known while reading: they become constants, not ops.
_CONSTANTS = {
    "SHAPE": Tflite("convert_moves:shape"),
    "RANK": Tflite("convert_moves:rank"),
    "FILL": Tflite("convert_moves:fill"),
    "RANGE": Tflite("convert_moves:span"),
}
_CUSTOM = "CUSTOM "
OPERATORS: dict[str, Tflite] = {**TFLITE, **_CONSTANTS}


@cache
def converter(operator: str) -> Convert:
    """The function that converts an operator to ops."""
    row = OPERATORS[operator]
    function = named("npuscope.files.tflite", row.converter)
    convert: Convert = function(*row.arguments) if row.arguments else function
    return convert


def read_tflite(data: bytes, name: str, pins: Pins) -> Graph:
    """The graph in a .tflite file.

    Some files state placeholders for the shapes of what they compute: where the stated ones do
    not fit together, or the file says that they are open, all are inferred from the inputs.
    """
    source = with_state(parse(data))
    stated = pins.used
    first: ModelError | None = None
    # Sizes that the file leaves open, other than the batch.
    given = set(source.inputs)
    rows = enumerate(source.tensors)
    is_open = any(-1 in t.signature[1:] for n, t in rows if n not in given)
    for inferred, lenient in _OPEN_ATTEMPTS if is_open else _ATTEMPTS:
        if lenient and not any(-1 in tensor.signature[1:] for tensor in source.tensors):
            break
        pins.used = stated or inferred
        reader = TfliteReader(source, name, pins, Budget(len(data)), lenient)
        try:
            graph = reader.run()
            verify(graph, ModelError)
            return graph
        except ModelError as error:
            first = first or error
    pins.used = stated
    raise first or InternalError("the file was not read")


# Stated shapes; inferred ones; inferred ones, with work of unknown cost where they do not fit.
_ATTEMPTS = ((False, False), (True, False), (True, True))
# A size of 1 may stand for any: shapes of ones fit together, and most of the work is missing.
_OPEN_ATTEMPTS = ((True, False), (False, False), (True, True))


class TfliteReader:
    """State of one reading. The operator table calls back into it."""

    def __init__(
        self,
        source: TfliteModel,
        name: str,
        pins: Pins,
        budget: Budget,
        lenient: bool = False,
    ) -> None:
        self.lenient = lenient
        self.source = source
        self.builder = Builder(name, Numerics.LITERT)
        self.pins = pins
        self.tensors = TfliteTensors(source, self.builder, budget)
        self.kept: list[str] = []  # what memories inside of operators hold after an inference

    def run(self) -> Graph:
        graph = self.builder.graph
        inputs = (self.source.tensors[index] for index in self.source.inputs)
        made = {self.source.tensors[index].name for op in self.source.ops for index in op.outputs}
        self.pins.check_names({tensor.name: _dims(tensor) for tensor in inputs}, made)
        graph.inputs = tuple(self._input(index) for index in self.source.inputs)
        ops = live_ops(self.source, shapes_are_stated=not self.pins.used)
        refuse_other_npus((op.kind.removeprefix(_CUSTOM), op.origin) for op in ops)
        needed = {index for op in ops for index in op.inputs} | set(self.source.outputs)
        for op in ops:
            if self._is_widening(op):
                data = self.tensor(op, 0).data
                assert data is not None  # a constant
                self.make_constant(op, data)
                self.tensors.widened.update(op.outputs)
            else:
                self._convert(op, needed)
        outputs = (self._output(index) for index in self.source.outputs)
        graph.outputs = (*outputs, *self.kept)
        if states := self.source.states + len(self.kept):
            variables = counted(states, "variable")
            graph.notes.append(f"{variables} of the network: each becomes an input and an output")
        drop_dead(graph)  # axes, pads and shapes became attributes
        return graph

    def _convert(self, op: SourceOp, needed: set[int]) -> None:
        if op.kind not in OPERATORS:
            self._unknown(op, needed)
            return
        try:
            converter(op.kind)(self, op)
        except ModelError as refusal:
            if not self.lenient and (self.pins.used or not isinstance(refusal, NotComputed)):
                raise  # the stated shapes do not hold
            if any(index in self.tensors.names for index in op.outputs):
                raise  # a part was made already
            where = refusal.where or op.origin
            note = f"{where}: {refusal.message}: work of unknown cost"
            self.builder.graph.notes.append(note)
            self._unknown(op, needed, refusal.message)

    def _input(self, index: int) -> str:
        tensor = self.source.tensors[index]
        real = tensor.type.startswith("FLOAT") or tensor.quant is not None
        notes = self.builder.graph.notes
        shape = static_shape(tensor.name, _dims(tensor), self.pins, notes, tensor.shape, real)
        return self.tensors.add(tensor, shape, STAND_INS.get(tensor.type)).name

    def memory(self, source: SourceTensor) -> Tensor:
        """What an operator keeps between inferences, as an input of the network."""
        state = self.tensors.add(source, source.shape)
        graph = self.builder.graph
        graph.inputs = (*graph.inputs, state.name)
        return state

    def _output(self, index: int) -> str:
        if index < 0:
            raise ModelError("a graph output has no tensor")
        return self.tensors.get(index).name

    def _is_widening(self, op: SourceOp) -> bool:
        """Constants of 16-bit floats, or sparse ones, which a file widens before their use."""
        if op.kind not in ("DEQUANTIZE", "DENSIFY") or len(op.outputs) != 1 or not op.inputs:
            return False
        index = op.inputs[0]
        source = self.source.tensors[index]
        constant = index in self.tensors.widened or (index >= 0 and source.data is not None)
        return constant and (op.kind == "DENSIFY" or source.type == "FLOAT16")

    def _unknown(self, op: SourceOp, needed: set[int], form: str = "") -> None:
        """An operator that nothing here computes: one op for every output that somebody reads."""
        inputs = tuple(tensor.name for tensor in map(self._known, op.inputs) if tensor is not None)
        # What cannot be named (handles, sparse constants) is stood for by the network's input.
        inputs = inputs or self.builder.graph.inputs[:1]
        wanted = [index for index in op.outputs if index in needed]
        for part, index in enumerate(wanted):
            source = self.source.tensors[index]
            if min(source.shape, default=1) < 1:
                raise ModelError(
                    f"the file does not state the shape of output {part}: {source.shape}",
                    where=op.origin,
                    hint="convert the model with static shapes",
                )
            shape = self._stated_size(op, index)
            result = self.tensors.add(source, shape, STAND_INS.get(source.type))
            attrs = UnknownAttrs(op.kind.removeprefix(_CUSTOM), shape, part, form)
            self.builder.emit(UNKNOWN, inputs, attrs, result, (op.origin,))

    def _stated_size(self, op: SourceOp, index: int) -> Shape:
        """What nothing here computes may have any size: a 1 in place of an open one says nothing,
        and all work that follows would be too little by as much."""
        source = self.source.tensors[index]
        if source.name in self.pins.shapes:
            return self.pins.shapes[source.name]
        is_read = any(index in other.inputs for other in self.source.ops)
        if -1 not in source.signature[1:] or not is_read:
            return source.shape
        label = safe_terminal(source.name)
        sizes = ",".join("?" if size < 0 else str(size) for size in source.signature)
        raise ModelError(
            f"the file leaves the shape of '{label}' open ({sizes}), and npuscope does not compute "
            "the operator that makes it",
            where=op.origin,
            hint=f"give it: --shape {label}=SIZES, as a run of the model shows it",
        )

    def _known(self, index: int) -> Tensor | None:
        """A tensor that can be named here; handles, strings and sparse constants cannot."""
        if index < 0:
            return None
        source = self.source.tensors[index]
        is_plain = source.data is not None and source.type in TYPES
        return self.tensors.get(index) if is_plain or index in self.tensors.names else None

    # what the operator table asks for

    def tensor(self, op: SourceOp, position: int) -> Tensor:
        """The graph tensor of a required input."""
        index = op.inputs[position] if position < len(op.inputs) else -1
        if index < 0:
            raise ModelError(f"input {position} is missing", where=op.origin)
        element_type(self.source.tensors[index])  # refuses types that have a stand-in only
        return self.tensors.get(index)

    def optional(self, op: SourceOp, position: int) -> str:
        """Name of an optional input, the empty string when it is absent."""
        if position >= len(op.inputs) or op.inputs[position] < 0:
            return ""
        return self.tensor(op, position).name

    def depthwise_weights(self, op: SourceOp, position: int) -> Tensor:
        return self.tensors.depthwise_weights(op, position)

    def integers(self, op: SourceOp, position: int) -> np.ndarray:
        """The values of an input that must be an integer constant."""
        tensor = self.tensor(op, position)
        if tensor.data is None or tensor.dtype not in (DType.INT32, DType.INT64):
            raise NotComputed(f"input {position} must be an integer constant", where=op.origin)
        return tensor.data

    def real_scalar(self, op: SourceOp, position: int) -> float:
        """The real value of a one-element constant."""
        tensor = self.tensor(op, position)
        if tensor.data is None or tensor.elements != 1:
            raise NotComputed(f"input {position} must be a constant number", where=op.origin)
        value = float(tensor.data.reshape(-1)[0])
        quant = tensor.quant
        return value if quant is None else (value - quant.zero_point) * quant.scale

    def axis(self, op: SourceOp, axis: int, tensor: Tensor) -> int:
        rank = len(tensor.shape)
        if not -rank <= axis < rank:
            raise ModelError(f"axis {axis} is outside shape {tensor.shape}", where=op.origin)
        return axis % rank

    def new_axis(self, op: SourceOp, axis: int, parts: list[Tensor]) -> int:
        """An axis to be added to tensors of one shape."""
        shapes = {part.shape for part in parts}
        rank = len(parts[0].shape) + 1 if parts else 0
        if len(shapes) != 1 or not -rank <= axis < rank:
            raise ModelError(
                f"axis {axis} cannot be added to tensors of shapes {sorted(shapes)}",
                where=op.origin,
            )
        return axis % rank

    def window_target(self, op: SourceOp, position: int) -> tuple[int, int]:
        """Height and width of the output, as an input states them, or the file where it is
        computed."""
        computed = self.tensor(op, position).data is None
        stated = self._output_source(op).shape
        sizes = list(stated) if computed else self.integers(op, position).ravel().tolist()
        if len(sizes) != 4:
            raise ModelError(f"output shape {sizes}, expected 4 axes", where=op.origin)
        return sizes[1], sizes[2]

    def check_size(self, op: SourceOp, sizes: Sequence[int]) -> None:
        """Check a shape that the file computes, before memory is allocated for it."""
        elements = int(np.prod(sizes, dtype=object))
        if min(sizes, default=1) < 1 or elements > MAX_ELEMENTS:
            raise ModelError(f"a constant of shape {tuple(sizes)}", where=op.origin)
        self.tensors.budget.take(elements)

    def reshape_target(self, op: SourceOp, x: Tensor) -> Shape:
        return _pinned_reshape(self, op, x) if self.pins.used else self._output_source(op).shape

    # --- Ops ---

    def reshaped(self, op: SourceOp, x: Tensor, shape: Shape) -> Tensor:
        """`x` after a Reshape that the file implies."""
        flat = self.builder.add(Tensor(f"{x.name}_flat", shape, x.dtype, x.quant))
        return self._append(op, "Reshape", (x.name,), Attrs(), (flat,))[0]

    def aside(self, op: SourceOp, kind: str, x: Tensor, attrs: Attrs) -> Tensor:
        """The result of an op that is not in the file, with the type of `x`."""
        return self._aside(op, kind, x, attrs)[0]

    def parts(self, op: SourceOp, x: Tensor, axis: int, shape: Shape) -> list[str]:
        """Slices of size 1 along an axis."""
        count = x.shape[axis]
        results = self._aside(op, "Split", x, SplitAttrs(axis, (shape[axis],) * count))
        return [tensor.name for tensor in results]

    def _aside(self, op: SourceOp, kind: str, x: Tensor, attrs: Attrs) -> list[Tensor]:
        shapes = self.builder.infer_all(kind, (x.name,), attrs, op.origin)
        stem = f"{x.name}_{kind.lower()}"
        results = tuple(self.builder.add(Tensor(stem, shape, x.dtype, x.quant)) for shape in shapes)
        return self._append(op, kind, (x.name,), attrs, results)

    def emit(
        self,
        op: SourceOp,
        kind: str,
        inputs: tuple[str, ...],
        attrs: Attrs,
        shape: Shape | None = None,
        output: int | None = None,
    ) -> None:
        """Append the op; shapes come from the file unless an input was pinned to another one."""
        inputs = inputs[:-1] if not inputs[-1] else inputs
        source = self._output_source(op, output)
        if shape is None:
            inferred = self.pins.used
            shape = self.builder.infer(kind, inputs, attrs, op.origin) if inferred else source.shape
        self._append(op, kind, inputs, attrs, (self.tensors.add(source, shape),))

    def emit_all(self, op: SourceOp, kind: str, inputs: tuple[str, ...], attrs: Attrs) -> None:
        """The same for all outputs of the operator at once."""
        sources = [self._output_source(op, place) for place in range(len(op.outputs))]
        shapes = self.builder.infer_all(kind, inputs, attrs, op.origin)
        if len(shapes) != len(sources):
            raise ModelError(f"{len(sources)} outputs, expected {len(shapes)}", where=op.origin)
        rows = zip(sources, shapes, strict=True)
        results = tuple(self.tensors.add(source, shape) for source, shape in rows)
        self._append(op, kind, inputs, attrs, results)

    def make_constant(self, op: SourceOp, data: np.ndarray) -> None:
        """The operator becomes a constant: its result is known."""
        self.tensors.add_constant(self._output_source(op), data)

    def _append(
        self,
        op: SourceOp,
        kind: str,
        inputs: tuple[str, ...],
        attrs: Attrs,
        outputs: tuple[Tensor, ...],
    ) -> list[Tensor]:
        self.builder.emit_all(kind, inputs, attrs, outputs, (op.origin,))
        fold_last_op(self.builder.graph)
        return [self.builder.graph.tensors[tensor.name] for tensor in outputs]

    def _output_source(self, op: SourceOp, place: int | None = None) -> SourceTensor:
        if place is None and len(op.outputs) != 1:
            raise ModelError(f"{len(op.outputs)} outputs, expected one", where=op.origin)
        index = op.outputs[place or 0]
        if index < 0:
            raise ModelError("an output has no tensor", where=op.origin)
        return self.source.tensors[index]


def _dims(tensor: SourceTensor) -> Dims:
    """The open shape, where the file has one beside the stated shape."""
    return tuple(None if dim < 0 else dim for dim in tensor.signature or tensor.shape)


def live_ops(source: TfliteModel, shapes_are_stated: bool = True) -> list[SourceOp]:
    """The operators that the outputs need, in file order.

    Where the file states all shapes, operators that only compute a shape are dropped.
    """
    needed = set(source.outputs)
    live: list[SourceOp] = []
    for op in reversed(source.ops):
        if needed.intersection(op.outputs):
            live.append(op)
            row = OPERATORS.get(op.kind) if shapes_are_stated else None
            read = row.shape_inputs if row else None
            needed.update(op.inputs[:read])
    return live[::-1]


def _pinned_reshape(reader: TfliteReader, op: SourceOp, x: Tensor) -> Shape:
    """The shape that the op asks for, for the pinned input."""
    if op.kind == "EXPAND_DIMS":
        axis = int(reader.integers(op, 1).ravel()[0])
        place = reader.axis(op, axis, replace(x, shape=(*x.shape, 1), data=None))
        return (*x.shape[:place], 1, *x.shape[place:])
    if op.kind == "SQUEEZE":
        stated = op.options.get("SqueezeDims", ())
        dropped = (
            {reader.axis(op, int(axis), x) for axis in stated}
            if isinstance(stated, tuple)
            else set()
        )
        if any(x.shape[axis] != 1 for axis in dropped):
            raise ModelError(
                f"axes {sorted(dropped)} of {x.shape} cannot be squeezed", where=op.origin
            )
        if not dropped:
            return tuple(size for size in x.shape if size != 1)
        return tuple(size for axis, size in enumerate(x.shape) if axis not in dropped)
    new_shape = op.options.get("NewShape", ())
    target = list(new_shape) if isinstance(new_shape, tuple) else []
    if op.kind == "RESHAPE" and len(op.inputs) > 1:
        empty = reader.source.tensors[op.inputs[1]].shape == (0,)  # asks for a single number
        target = [] if empty else reader.integers(op, 1).ravel().tolist()
    rest = int(np.prod([dim for dim in target if dim >= 0], dtype=object))
    if op.kind != "RESHAPE" or target.count(-1) > 1 or rest < 1 or x.elements % rest:
        raise ModelError(f"{op.kind} cannot follow the pinned input shape", where=op.origin)
    return tuple(x.elements // rest if dim == -1 else dim for dim in target)
