"""Rules on operators that Vela leaves on the CPU: one per kind of reason that it gives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from npuscope.families.ethos_u.build import FAMILY, EthosRun
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.program.model import EpochKind
from npuscope.rulebook import fixes
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.fix import FixTemplate, at_most
from npuscope.rulebook.registry import Rule, RuleKind, declare
from npuscope.structs import replace

OTHER_OPERATOR = FixTemplate(
    "ethos-other-operator",
    "use operators that Vela takes (its report of supported operators lists them), or another "
    "machine",
)
WITHIN_LIMITS = FixTemplate(
    "ethos-within-limits", "stay within the limit that Vela names, or do it in two steps"
)

# In the words of what this family has: Vela takes the types of the file.
INTEGER_INPUT = replace(
    fixes.INTEGER_INPUT,
    title="use an int8 or uint8 input (npuscope fix --integer-io) and quantize in the application",
)
INTEGER_OUTPUT = replace(
    fixes.INTEGER_OUTPUT,
    title="use an int8 or uint8 output (npuscope fix --integer-io) and dequantize in the "
    "application",
)
# Conversions at the border of the network, with what makes them unnecessary.
_BORDER = {"QUANTIZE": INTEGER_INPUT, "DEQUANTIZE": INTEGER_OUTPUT}
# Fixes that are about some operators only.
_ABOUT = {
    **{fix.id: (kind,) for kind, fix in _BORDER.items()},
    fixes.CONSTANT_SLICE.id: ("GATHER", "GATHER_ND"),
    fixes.MULTIPLY_INSTEAD.id: ("DIV",),
    fixes.SLOPE_INSTEAD.id: ("MAXIMUM",),
    fixes.NEGATE_BY_PRODUCT.id: ("NEG", "SUB"),
    fixes.MOVE_STRIDE.id: ("AVERAGE_POOL_2D", "MAX_POOL_2D", "DEPTHWISE_CONV_2D"),
    fixes.SMALL_POOLS.id: ("AVERAGE_POOL_2D", "MAX_POOL_2D"),
    fixes.SMALLER_STRIDE.id: ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"),
    fixes.STRIDE_INSTEAD.id: ("STRIDED_SLICE",),
    fixes.MEAN_BOTH_AXES.id: ("MEAN",),
    fixes.REMOVE_TRANSPOSES.id: ("TRANSPOSE",),
}


class RefusalRow(Struct, frozen=True):
    """`words` is looked for in Vela's reason; the first row that fits has the operator."""

    id: str
    title: str
    sentence: str
    words: str
    cause: str
    fixes: tuple[FixTemplate, ...]


ROWS = (
    RefusalRow(
        "ADV-ETHOS-OPERATOR",
        "The NPU has no such operator",
        "Vela says that it does not support the operator.",
        r"unsupported op",
        "Vela has no form of this operator for the machine. The U85 has some that U55 and U65 do "
        "not have: comparisons, Select, Gather, Cast, Div.",
        (
            fixes.CONSTANT_SLICE,
            fixes.MULTIPLY_INSTEAD,
            fixes.SLOPE_INSTEAD,
            fixes.NEGATE_BY_PRODUCT,
            fixes.QUANTIZE_OP,
            fixes.DROP_SOFTMAX,
            OTHER_OPERATOR,
        ),
    ),
    RefusalRow(
        "ADV-ETHOS-QUANTIZATION",
        "Scales or zero points do not suit the NPU",
        "Vela refuses the operator for its scales or zero points.",
        r"quantiz|zero.?point|scale of any",
        "The NPU takes positive scales, and some operators only where inputs and outputs have the "
        "same ones.",
        (fixes.TIE_SCALES, WITHIN_LIMITS),
    ),
    RefusalRow(
        "ADV-ETHOS-WEIGHTS",
        "Weights or parameters have a form that Vela does not take",
        "Vela refuses the operator for its weights, biases or parameters.",
        r"weight|bias|constant|gate|projection|peephole|params",
        "Weights have 8 bits and are constant, biases are constants of 32 or 40 bits, and axes, "
        "shapes and sizes must be constants too.",
        (fixes.SYMMETRIC_WEIGHTS, WITHIN_LIMITS),
    ),
    RefusalRow(
        "ADV-ETHOS-TYPE",
        "A tensor has a type that the NPU does not compute with",
        "Vela refuses the operator for the type of an input or output.",
        r"data ?type|precision|ifm type|-bit|must be u?int|bool",
        "The NPU computes on 8 and 16 bits, some operators on 32; floats stay on the CPU, with a "
        "conversion in front of them and one behind.",
        (fixes.QUANTIZE_OP, INTEGER_INPUT, fixes.DROP_SOFTMAX, WITHIN_LIMITS),
    ),
    RefusalRow(
        "ADV-ETHOS-WINDOW",
        "Window, stride or factor are beyond what the NPU has",
        "Vela refuses the operator for its window, stride, dilation or factor.",
        r"kernel|stride (comb|values|out)|scale.?factor|half.?pixel|align.?corners|dilat",
        "Windows have up to 64 rows and 4,096 taps (pools with padding 8x8), strides are 1 to 3, "
        "and images are enlarged by 2, 4 or 8.",
        (fixes.MOVE_STRIDE, fixes.SMALL_POOLS, fixes.SMALLER_STRIDE, WITHIN_LIMITS),
    ),
    RefusalRow(
        "ADV-ETHOS-SHAPE",
        "A shape or an axis does not suit the NPU",
        "Vela refuses the operator for a shape, a rank or an axis.",
        r"shape|rank|ax[ie]s|dim|batch|reduc|depth|slice|stride|volume|mask|split|too |[io]fm",
        "Axes have up to 65,536 elements and tensors up to 8 axes; reductions, slices, reversals "
        "and transpositions work along some axes only.",
        (
            fixes.STRIDE_INSTEAD,
            fixes.MEAN_BOTH_AXES,
            fixes.REMOVE_TRANSPOSES,
            WITHIN_LIMITS,
        ),
    ),
)
REST = RefusalRow(
    "ADV-ETHOS-CPU",
    "An operator stays on the CPU",
    "Vela left the operator in the file as it was.",
    "",
    "Vela takes operators whose types, shapes and options the NPU has; all others run on the "
    "Cortex-M, and what they read and write crosses the border of the NPU.",
    (fixes.DROP_SOFTMAX, INTEGER_INPUT, INTEGER_OUTPUT),
)


def row_of(operator: str, reason: str) -> RefusalRow:
    """By its words, without the names of tensors that are in them."""
    if operator in _BORDER:
        return REST
    words = re.sub(r"\(.*\)|'.*'", "", reason)
    return next((row for row in ROWS if re.search(row.words, words, re.I)), REST)


def _hits(row: RefusalRow, profile: Profile) -> Iterator[Hit]:
    run: EthosRun = profile.payload
    for part in profile.epochs:
        if part.kind is EpochKind.SW:
            reason = run.reasons.get(part.index, "")
            if row_of(part.operators[0], reason) is row:
                yield _hit(part, reason, profile.total_ms)


def _hit(part: EpochProfile, reason: str, total_ms: float) -> Hit:
    operator = part.operators[0]
    evidence: dict[str, Value] = {"ms": part.ms, "op": operator, "epochs": [part.index]}
    if total_ms:
        evidence["share"] = round(part.ms / total_ms, 4)
    unfit = tuple(fix for fix, kinds in _ABOUT.items() if operator not in kinds)
    gains = {fix.id: at_most(part.ms) for kind, fix in _BORDER.items() if kind == operator}
    return Hit(
        part.origin, reason or operator, None, evidence, gains=gains, epoch=part.index, unfit=unfit
    )


def _declare(row: RefusalRow) -> None:
    rule = Rule(
        row.id,
        RuleKind.ADVISE,
        row.title,
        Severity.WARNING,
        Confidence.VERIFIED,
        row.cause,
        row.fixes,
        sentence=row.sentence,
        family=FAMILY,
        look=lambda profile: _hits(row, profile),
    )
    declare(__name__, rule)


for _row in (REST, *ROWS):
    _declare(_row)
