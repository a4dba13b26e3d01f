"""What an STM32N6 does with each op: the one table of what only this family of machines knows.

Functions are named, "module:function", and loaded when a network needs them. An op without a
`lowering` is computed by the CPU; without a `kernel` too it is only timed: no code is written.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait


class OnCpu(Enum):
    """How the vendor's library computes an op on integers."""

    IN_FLOAT = auto()  # between two conversions
    IN_INTEGERS = auto()
    BY_DMA = auto()  # it drives the stream engines; later compilers list such a call as hybrid


class CKernel(Struct, frozen=True):
    """A kernel of firmware/kernels. Builders are named in program/kernel_calls.

    `build` prepares the arguments whatever the numbers are, `litert` and `qdq` those of
    quantized tensors that are rounded in integers. Without builders the kernel has the name of
    the op and takes its attributes in order. `whole` kernels take whole numbers without a scale.
    """

    build: str = ""
    litert: str = ""
    qdq: str = ""
    whole: bool = False


class Support(Struct, frozen=True):
    """How one kind of op is executed.

    `unit` computes it and `lowering` (in compiler/lower) says how, unless a rule refuses; without
    a unit the stream engines move it. `listed` is the vendor's name of the op, where it is
    another. `documented`: the vendor's operator tables say that it is software.

    `library` (in program/network_c) fills in the call of the vendor's software library, `mover`
    writes one that only moves data. `word` is what that library calls the op, `integer_word` what
    it calls its integer form, and `numbers` are attributes that it takes under their own names.
    """

    unit: str = ""
    lowering: str = ""
    listed: str = ""
    documented: bool = False
    on_cpu: OnCpu = OnCpu.IN_FLOAT
    library: str = ""
    mover: str = ""
    word: str = ""
    integer_word: str = ""
    numbers: tuple[str, ...] = ()
    kernel: CKernel | None = None


_FLOAT, _INTEGERS, _DMA = OnCpu.IN_FLOAT, OnCpu.IN_INTEGERS, OnCpu.BY_DMA
_PLAIN, _WHOLE = CKernel(), CKernel(whole=True)
_ACTIVATION = "writer_kernels:activation"


def _function(word: str = "", numbers: tuple[str, ...] = (), kernel: CKernel = _PLAIN) -> Support:
    """A function of one byte: what the tables of the ACTIV unit hold."""
    library = _ACTIVATION if word else ""
    return Support(
        "ACTIV",
        "functions:lower_function",
        library=library,
        word=word,
        numbers=numbers,
        kernel=kernel,
    )


def _software(
    word: str = "",
    library: str = _ACTIVATION,
    documented: bool = False,
    kernel: CKernel = _PLAIN,
) -> Support:
    """An op that the CPU computes in float."""
    return Support(documented=documented, library=library if word else "", word=word, kernel=kernel)


def _compared(word: str = "", documented: bool = True) -> Support:
    return _software(word, "writer_kernels:arithmetic", documented, _WHOLE)


def _reduced(word: str = "", documented: bool = True, kernel: CKernel = _WHOLE) -> Support:
    return _software(word, "writer_kernels:reduction", documented, kernel)


def _moved(
    build: str,
    lowering: str = "",
    mover: str = "",
    on_cpu: OnCpu = _FLOAT,
    documented: bool = False,
) -> Support:
    """Values go from place to place."""
    return Support(
        lowering=lowering,
        documented=documented,
        on_cpu=on_cpu,
        mover=mover,
        kernel=CKernel(build),
    )


SUPPORT: dict[str, Support] = {
    # Layers and products.
    "Conv2D": Support(
        "CONVACC",
        "conv:lower_conv",
        listed="Conv",
        on_cpu=_INTEGERS,
        library="writer_kernels:conv",
        kernel=CKernel(litert="layers:litert_conv2d", qdq="layers:qdq_conv2d"),
    ),
    "FullyConnected": Support(
        "CONVACC",
        "conv:lower_fully_connected",
        listed="Gemm",
        on_cpu=_INTEGERS,
        library="writer_kernels:dense",
        kernel=CKernel(litert="layers:litert_fully_connected", qdq="layers:qdq_fully_connected"),
    ),
    "TransposeConv": Support(
        kernel=CKernel(litert="layers:litert_transpose_conv", qdq="layers:qdq_transpose_conv")
    ),
    "MatMul": Support(on_cpu=_INTEGERS, kernel=CKernel(litert="layers:litert_matmul")),
    # Two operands.
    "Add": Support(
        "ARITH",
        "elementwise:lower_add",
        library="writer_kernels:arithmetic",
        word="ARITHADD",
        integer_word="ARITHSUM",
        kernel=_WHOLE,
    ),
    "Sub": Support(
        "ARITH",
        "elementwise:lower_add",
        library="writer_kernels:arithmetic",
        word="ARITHSUB",
        integer_word="ARITHSUB",
        kernel=_WHOLE,
    ),
    "Mul": Support(
        "ARITH",
        "elementwise:lower_mul",
        library="writer_kernels:arithmetic",
        word="ARITHMUL",
        integer_word="ARITHMUL",
        kernel=_WHOLE,
    ),
    "Div": Support(
        on_cpu=_INTEGERS,
        library="writer_kernels:arithmetic",
        word="ARITHDIV",
        integer_word="ARITHDIV",
        kernel=CKernel(litert="build:divide", whole=True),
    ),
    "Min": _compared("MIN", documented=False),
    "Max": _compared("MAX", documented=False),
    "Pow": _software("POW", "writer_kernels:arithmetic", documented=True),
    "SquaredDifference": _software(kernel=_WHOLE),
    "Mod": Support(word="MOD"),
    "PRelu": Support(
        "ARITH",
        "prelu:lower_prelu",
        library="writer_kernels:prelu",
        kernel=_PLAIN,
    ),
    "Equal": _compared("EQUAL", documented=False),
    "NotEqual": _compared(),
    "Greater": _compared("GREATER"),
    "GreaterEqual": _compared("GREATEROREQUAL"),
    "Less": _compared("LESS"),
    "LessEqual": _compared("LESSOREQUAL"),
    "And": _software(kernel=_WHOLE),
    "Or": _software(kernel=_WHOLE),
    "Not": _software(kernel=_WHOLE),
    "Where": _software(documented=True, kernel=_WHOLE),
    # Functions of one value.
    "Sigmoid": _function("SIGMOID"),
    "Tanh": _function("TANH"),
    "HardSigmoid": _function("HARDSIGMOID", ("alpha", "beta")),
    "HardSwish": _function("HARDSWISH"),
    "LeakyRelu": Support(
        "ACTIV",
        "functions:lower_function",
        word="LEAKYRELU",  # read, never written
        numbers=("alpha",),
        kernel=_PLAIN,
    ),
    "Elu": _function("ELU", ("alpha",)),
    "Exp": _function("EXP"),
    "Sqrt": _function("SQRT"),
    "Erf": _function("ERF"),
    "Abs": _function("ABS", kernel=_WHOLE),
    "Neg": _function("NEG", kernel=_WHOLE),
    "Square": _function(kernel=_WHOLE),
    "Gelu": _function(),
    "Clip": Support(
        "ARITH",
        "elementwise:lower_clip",
        library="writer_kernels:clip",
        kernel=_WHOLE,
    ),
    "Softplus": _software("SOFTPLUS", documented=True),
    "Mish": _software(documented=True),
    "Log": _software("LOG", documented=True),
    "Floor": _software("FLOOR", documented=True),
    "Ceil": _software("CEIL", documented=True),
    "Round": _software("ROUND", documented=True),
    "Reciprocal": Support(documented=True, word="RECIPROCAL", kernel=_PLAIN),  # never written
    "Sin": _software("SIN"),
    "Cos": _software("COS"),
    "Sign": _software(kernel=_WHOLE),
    "Rsqrt": _software(),
    "Softsign": _software(),
    "Selu": _software(),
    "Celu": _software(),
    "ThresholdedRelu": _software(),
    "Shrink": _software(),
    "Tan": _software(),
    "Asin": _software(),
    "Acos": _software(),
    "Atan": _software(),
    "Sinh": _software(),
    "Cosh": _software(),
    "Asinh": _software(),
    "Acosh": _software(),
    "Atanh": _software(),
    # Conversions.
    "Quantize": Support(
        "ARITH",
        "elementwise:lower_quantize",
        listed="QuantizeLinear",
        on_cpu=_INTEGERS,
        library="writer_kernels:quantize",
        kernel=CKernel(litert="build:quantize"),
    ),
    "Dequantize": Support(
        listed="DequantizeLinear",
        on_cpu=_INTEGERS,
        library="writer_kernels:dequantize",
        kernel=_PLAIN,
    ),
    "Cast": _software(kernel=_WHOLE),
    # Pools and reductions.
    "MaxPool": Support("POOL", "pool:lower_max_pool", library="writer_kernels:pool", kernel=_PLAIN),
    "AveragePool": Support(
        "POOL", "pool:lower_average_pool", library="writer_kernels:pool", kernel=_PLAIN
    ),
    "Mean": Support(
        "POOL",
        "pool:lower_mean",
        listed="GlobalAveragePool",
        library="writer_kernels:mean",
        kernel=_PLAIN,
    ),
    "ReduceSum": _reduced("REDUCESUM"),
    "ReduceProd": _reduced("REDUCEPROD"),
    "ReduceMax": _reduced("REDUCEMAX", documented=False),
    "ReduceMin": _reduced("REDUCEMIN"),
    "ReduceL2": _reduced(kernel=_PLAIN),
    "ArgMax": _reduced(),
    "ArgMin": _reduced(),
    # Normalizations.
    "Softmax": Support(
        on_cpu=_INTEGERS,
        library="writer_kernels:softmax",
        kernel=CKernel(litert="build:softmax"),
    ),
    "LogSoftmax": _software(documented=True),
    "BatchNorm": Support("ARITH", "elementwise:lower_batch_norm", kernel=_PLAIN),
    "LayerNorm": _software(),
    "InstanceNorm": _software(documented=True),
    "GroupNorm": _software(documented=True),
    "L2Normalization": _software(documented=True),
    # Moves.
    "Reshape": _moved("moves:straight", "moves:lower_view"),
    "Identity": _moved("moves:straight", "moves:lower_view"),
    "Transpose": _moved(
        "moves:transpose", "moves:lower_transpose", "writer_library:transpose", _DMA
    ),
    "Concat": _moved("moves:concat", "moves:lower_concat", "writer_library:concat", _DMA),
    "Slice": _moved("moves:cut", "moves:lower_slice", "writer_library:cut", _DMA),
    "Split": _moved("moves:split"),
    "Pad": _moved("moves:pad", "pad:lower_pad", on_cpu=_DMA),
    "MirrorPad": _moved("moves:mirror_pad", on_cpu=_DMA),
    "DepthToSpace": _moved("moves:depth_to_space", mover="writer_library:blocks", on_cpu=_DMA),
    "SpaceToDepth": _moved("moves:space_to_depth", mover="writer_library:blocks", on_cpu=_DMA),
    "Gather": _moved("moves:gather"),
    "ReverseSequence": _moved("moves:by_attributes"),
    "Tile": _moved("moves:tile", documented=True),
    "BroadcastTo": _moved("moves:broadcast_to"),
    "Resize": Support(
        lowering="moves:lower_resize",
        on_cpu=_INTEGERS,
        library="writer_kernels:resize",
        kernel=CKernel("moves_paths:resize_call"),
    ),
    # Timed only. The integers of TFLite's recurrent layers may wrap; what the unknown ones compute
    # on is not known.
    "Xor": Support(),
    "FloorDiv": Support(),
    "GatherElements": Support(),
    "GatherND": Support(),
    "ScatterElements": Support(),
    "ScatterND": Support(),
    "CumSum": Support(),
    "Trilu": Support(),
    "OneHot": Support(),
    "TopK": Support(),
    "LRN": Support(),
    "IsNaN": Support(),
    "IsInf": Support(),
    "LSTM": Support(),
    "GRU": Support(),
    "RNN": Support(),
    "SequenceLSTM": Support(on_cpu=_INTEGERS),
    "SvdfState": Support(on_cpu=_INTEGERS),
    "SvdfOutput": Support(on_cpu=_INTEGERS),
    "Unknown": Support(on_cpu=_INTEGERS),
}
_NO_ROW = Support()


def support(kind: str) -> Support:
    """How an op is executed; also a kernel of a vendor's file that is no op here."""
    return SUPPORT.get(kind, _NO_ROW)


# What units compute, as far as their operands allow it: products with weights, functions of one
# byte, two tensors of one shape.
LAYERS = tuple(kind for kind, row in SUPPORT.items() if row.unit == "CONVACC")
FUNCTIONS = tuple(kind for kind, row in SUPPORT.items() if row.unit == "ACTIV")
BINARY = tuple(
    kind for kind, row in SUPPORT.items() if row.unit == "ARITH" and OPS[kind].has(Trait.ARITHMETIC)
)
