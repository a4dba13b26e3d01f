"""Element-wise ops of several operands: arithmetic, comparisons, logic, Where."""

from __future__ import annotations

from collections.abc import Set

from npuscope.errors import ModelError
from npuscope.graph.model import Activation, Attrs, DType, Graph, Op
from npuscope.ops.row import (
    Kernel,
    Onnx,
    Row,
    Shapes,
    Sign,
    Tflite,
    broadcast,
    input_shape,
    number_type,
    real_type,
    same_shape,
    wrong_type,
)
from npuscope.ops.traits import Trait


class BinaryAttrs(Attrs, frozen=True):
    """Element-wise ops of two operands with numpy broadcasting."""

    activation: Activation = Activation.NONE


class ModAttrs(Attrs, frozen=True):
    """Remainder of a division, with the sign of the divisor; of the dividend if `truncated`."""

    truncated: bool = False


def makes_truth(graph: Graph, op: Op) -> str:
    """Comparisons give bool."""
    return wrong_type(graph, op.outputs[0], (DType.BOOL,), "output")


def only_truth(graph: Graph, op: Op) -> str:
    """Logic takes and gives bool."""
    names = (*op.inputs, *op.outputs)
    problems = (wrong_type(graph, name, (DType.BOOL,), "operand") for name in names)
    return next((text for text in problems if text), "")


def chooses(graph: Graph, op: Op) -> str:
    """Where: a condition, then two values of the output's type."""
    types = {graph.tensors[name].dtype.value for name in (*op.inputs[1:], *op.outputs)}
    if len(types) > 1:
        return f"its two choices have different types: {' and '.join(sorted(types))}"
    return wrong_type(graph, op.inputs[0], (DType.BOOL,), "condition")


def broadcast_shape(graph: Graph, op: Op) -> Shapes:
    return (broadcast(input_shape(graph, op, 0), input_shape(graph, op, 1)),)


def select_shape(graph: Graph, op: Op) -> Shapes:
    """Condition and both choices broadcast together."""
    return (broadcast(*(input_shape(graph, op, index) for index in range(3))),)


def slope_shape(graph: Graph, op: Op) -> Shapes:
    """The second operand broadcasts to the first, which keeps its shape."""
    source, factors = input_shape(graph, op, 0), input_shape(graph, op, 1)
    if broadcast(source, factors) != source:
        raise ModelError(f"slopes of shape {factors} do not broadcast to {source}")
    return (source,)


_BY_PLACE = {Trait.ELEMENTWISE, Trait.KEEPS_CHANNELS}
_ARITHMETIC = {*_BY_PLACE, Trait.ARITHMETIC}
_INTEGER = {*_ARITHMETIC, Trait.INTEGER_FORM}
_QUOTIENT = {*_ARITHMETIC, Trait.SINGULAR}
_EXTREME = {*_INTEGER, Trait.PICKS}
_LOGIC = {*_BY_PLACE, Trait.LOGIC}


def _binary(
    kind: str,
    kernel: Kernel,
    operator: str,
    table: str = "",
    onnx: Onnx | None = None,
    sign: Sign = "kept",
    traits: Set[Trait] = _ARITHMETIC,
) -> Row:
    """Arithmetic of two operands; `table` is where TFLite keeps the fused activation."""
    options = (table, "FusedActivationFunction") if table else ()
    return Row(
        kind,
        BinaryAttrs,
        inputs=(2, 2),
        shape=broadcast_shape,
        types=number_type,
        kernel=kernel,
        traits=traits,
        sign=sign,
        tflite={operator: Tflite("convert_values:binary", (kind,), options)},
        onnx={kind: onnx or Onnx("convert_values:binary", (kind,), any_order=True)},
    )


def _comparison(kind: str, function: str, operator: str, name: str = "") -> Row:
    """`operator` and `name` are what TFLite and ONNX call it."""
    return Row(
        kind,
        Attrs,
        inputs=(2, 2),
        shape=broadcast_shape,
        types=makes_truth,
        kernel=Kernel("comparison", function),
        traits={*_BY_PLACE, Trait.COMPARISON, Trait.JUMPS},
        tflite={operator: Tflite("convert_values:operands", (kind, 2))},
        onnx={name: Onnx("convert_values:comparison", (kind,))} if name else {},
    )


def _logic(kind: str, kernel: str, operator: str = "") -> Row:
    return Row(
        kind,
        Attrs,
        inputs=(2, 2),
        shape=broadcast_shape,
        types=only_truth,
        kernel=Kernel("plain", kernel),
        traits=_LOGIC,
        tflite={operator: Tflite("convert_values:operands", (kind, 2))} if operator else {},
        onnx={kind: Onnx("convert_values:comparison", (kind,))},
    )


ROWS = (
    _binary(
        "Add",
        Kernel("values", "float_ops:add", "elementwise:litert_add"),
        "ADD",
        "AddOptions",
        traits=_INTEGER,
    ),
    _binary(
        "Sub",
        Kernel("values", "float_ops:sub", "elementwise:litert_sub"),
        "SUB",
        "SubOptions",
        sign="any",
        traits=_INTEGER,
    ),
    _binary(
        "Mul",
        Kernel("values", "float_ops:mul", "elementwise:litert_mul"),
        "MUL",
        "MulOptions",
        traits=_INTEGER,
    ),
    _binary(
        "Div",
        Kernel("values", "float_ops:div", "litert_functions:divide"),
        "DIV",
        "DivOptions",
        traits=_QUOTIENT,
    ),
    _binary(
        "Min",
        Kernel("values", "float_ops:smaller", "elementwise:litert_min"),
        "MINIMUM",
        traits=_EXTREME,
    ),
    _binary(
        "Max",
        Kernel("values", "float_ops:larger", "elementwise:litert_max"),
        "MAXIMUM",
        traits=_EXTREME,
    ),
    _binary(
        "Pow",
        Kernel("values", "float_ops:power"),
        "POW",
        onnx=Onnx("convert_values:power", parameters=(1,), any_order=True),
        traits=_QUOTIENT,
    ),
    Row(
        "SquaredDifference",
        BinaryAttrs,
        inputs=(2, 2),
        shape=broadcast_shape,
        types=number_type,
        kernel=Kernel(
            "values", "float_ops:squared_difference", "litert_functions:squared_difference"
        ),
        traits=_ARITHMETIC,
        tflite={"SQUARED_DIFFERENCE": Tflite("convert_values:binary", ("SquaredDifference",))},
    ),
    Row(
        "Mod",
        ModAttrs,
        inputs=(2, 2),
        shape=broadcast_shape,
        types=number_type,
        kernel=Kernel("values", "float_ops:remainder"),
        traits={*_QUOTIENT, Trait.JUMPS},
        tflite={"FLOOR_MOD": Tflite("convert_values:operands", ("Mod", 2, ModAttrs()))},
        onnx={"Mod": Onnx("convert_values:modulo", any_order=True)},
    ),
    Row(
        "FloorDiv",
        Attrs,
        inputs=(2, 2),
        shape=broadcast_shape,
        types=number_type,
        kernel=Kernel("values", "float_ops:floor_divide"),
        traits={*_QUOTIENT, Trait.JUMPS},
        tflite={"FLOOR_DIV": Tflite("convert_values:operands", ("FloorDiv", 2))},
    ),
    Row(
        "PRelu",
        Attrs,
        inputs=(2, 2),
        shape=slope_shape,
        types=real_type,
        kernel=Kernel("values", "float_ops:prelu", "litert_functions:prelu"),
        traits={*_BY_PLACE, Trait.INTEGER_FORM},
        tflite={"PRELU": Tflite("convert_values:operands", ("PRelu", 2))},
        onnx={"PRelu": Onnx("convert_values:prelu", any_order=True)},
    ),
    Row(
        "Where",
        Attrs,
        inputs=(3, 3),
        shape=select_shape,
        types=chooses,
        kernel=Kernel("raw", "elementwise:choose"),
        traits=_BY_PLACE,
        tflite={
            "SELECT": Tflite("convert_values:select"),
            "SELECT_V2": Tflite("convert_values:select"),
        },
        onnx={"Where": Onnx("convert_values:where", parameters=(0,), any_order=True)},
    ),
    _comparison("Equal", "numpy:equal", "EQUAL", "Equal"),
    _comparison("NotEqual", "numpy:not_equal", "NOT_EQUAL"),
    _comparison("Greater", "numpy:greater", "GREATER", "Greater"),
    _comparison("GreaterEqual", "numpy:greater_equal", "GREATER_EQUAL", "GreaterOrEqual"),
    _comparison("Less", "numpy:less", "LESS", "Less"),
    _comparison("LessEqual", "numpy:less_equal", "LESS_EQUAL", "LessOrEqual"),
    _logic("And", "elementwise:both", "LOGICAL_AND"),
    _logic("Or", "elementwise:either", "LOGICAL_OR"),
    _logic("Xor", "elementwise:one_of_both"),
    Row(
        "Not",
        Attrs,
        inputs=(1, 1),
        shape=same_shape,
        types=only_truth,
        kernel=Kernel("plain", "elementwise:negation"),
        traits=_LOGIC,
        tflite={"LOGICAL_NOT": Tflite("convert_values:unary", ("Not",))},
        onnx={"Not": Onnx("convert_values:unary", ("Not",))},
    ),
)
