"""Rules that keep layers, element-wise ops and pools off the NPU."""

from __future__ import annotations

from npuscope.rules import fixes
from npuscope.rules.catalogue import Effect, FixTemplate, Kind, RuleInfo
from npuscope.rules.finding import Confidence, Severity


def refusal(
    rule_id: str,
    title: str,
    cause: str,
    *templates: FixTemplate,
    confidence: Confidence = Confidence.DOCUMENTED,
    cases: tuple[str, ...] = (),
    since: str = "",
    until: str = "",
) -> RuleInfo:
    """Work that leaves the NPU is a warning."""
    return RuleInfo(
        rule_id,
        Kind.REFUSE,
        title,
        Severity.WARNING,
        confidence,
        cause,
        templates,
        cases,
        since,
        until,
    )


RULES = (
    refusal(
        "NA-FLOAT",
        "The op computes in float",
        "The NPU has integer units only. An op with a float operand runs on the CPU, between a "
        "dequantize and a quantize that run there too.",
        fixes.QUANTIZE_OP,
        cases=("F22", "F23", "F24", "F36", "F38"),
    ),
    refusal(
        "NA-OP-SOFTWARE",
        "No unit of the NPU computes this op",
        "The compiler has only a software kernel for this op, so the CPU runs it while the NPU "
        "waits.",
        fixes.CUT_TAIL,
        fixes.REPLACE_BLOCK,
        cases=("F25",),
    ),
    refusal(
        "NA-CONV-PRIME",
        "A prime count of output channels cannot be split",
        "The compiler cuts output channels into equal parts that fit the kernel buffer. A prime "
        "count has no such parts; with one output position the whole layer goes to the CPU. The "
        "vendor's log calls it 'scale-offset format'.",
        fixes.CHANGE_OUTPUTS,
        fixes.SPLIT_OUTPUTS,
        fixes.PAD_CHANNELS,
        confidence=Confidence.VERIFIED,
        cases=("F01", "F02"),
        since="2.2",
        until="2.2",
    ),
    refusal(
        "NA-CONV-COLUMNS",
        "Depthwise kernel too wide for the unit",
        "A unit takes six columns of a kernel at stride 1. The compilers of 2.x run the columns "
        "beyond them in float on the CPU: three pieces of a 7x7 kernel, each with a conversion "
        "before and after. Seen in one public build.",
        FixTemplate(
            "narrower-kernel",
            "use two kernels of at most six columns and an Add, or stride 2 for a single column",
            automatic=True,
            effect=Effect.MAPS,
        ),
        confidence=Confidence.VERIFIED,
        since="2.2",
        until="2.2",
    ),
    refusal(
        "NA-CONV-GROUPS",
        "Grouped convolution that is not depthwise",
        "The units know dense kernels and one kernel per channel; groups of several channels "
        "run on the CPU.",
        fixes.DENSE_GROUPS,
        confidence=Confidence.REPORTED,
        cases=("F29",),
    ),
    refusal(
        "NA-CONV-STRIDE",
        "Stride larger than the unit's",
        "The stride registers of the convolution unit have three bits.",
        FixTemplate("smaller-stride", "use strides 1, 2 or 4, and a pool where more is needed"),
    ),
    refusal(
        "NA-CONV-LINES",
        "Feature lines wider than the line buffer",
        "A kernel higher than one row keeps whole lines in the unit; one channel of this line "
        "does not fit.",
        FixTemplate("fold-width", "fold the width into rows or channels, or use a one-row kernel"),
    ),
    refusal(
        "NA-WEIGHTS",
        "Weights that are not constant int8",
        "The units multiply with constant, symmetric int8 weights and one scale per output "
        "channel; any other weights are computed on the CPU.",
        fixes.SYMMETRIC_WEIGHTS,
        cases=("F11",),
    ),
    refusal(
        "NA-BIAS",
        "The bias is computed at run time",
        "Biases become coefficients of the arithmetic unit when the network is compiled; an "
        "activation cannot take their place.",
        FixTemplate("add-behind", "add the activation in an Add behind the layer", automatic=True),
        confidence=Confidence.REPORTED,
        cases=("C10",),
    ),
    refusal(
        "NA-BROADCAST",
        "Operands that broadcast both ways",
        "The arithmetic unit repeats one operand (a scalar or one value per channel) against a "
        "full one; both at once, or other axes, are beyond it.",
        fixes.EXPAND_OPERAND,
    ),
    refusal(
        "NA-BROADCAST-VECTOR",
        "A computed vector is added",
        "One value per channel can be multiplied when it is computed at run time, but it can be "
        "added only when it is constant.",
        FixTemplate("resize-vector", "resize the vector to the full shape before the Add"),
        cases=("F32",),
    ),
    refusal(
        "NA-DIV",
        "Division by a computed value",
        "The arithmetic unit has no division; only a constant divisor becomes a multiplication.",
        FixTemplate(
            "multiply-instead",
            "multiply by the reciprocal",
            automatic=True,
            effect=Effect.MAPS,
        ),
        cases=("F25",),
    ),
    refusal(
        "NA-MATMUL-DYNAMIC",
        "A product of two computed matrices",
        "MatMul, Gemm and Conv map only with one constant operand: kernels are loaded from "
        "memory that the compiler filled.",
        fixes.REPLACE_BLOCK,
        confidence=Confidence.REPORTED,
        cases=("F11", "F12"),
    ),
    refusal(
        "NA-PRELU-SLOPE",
        "PReLU with float slopes",
        "Quantizers often leave the slopes float; then the PReLU runs on the CPU between a "
        "dequantize and a quantize.",
        fixes.QUANTIZE_SLOPE,
        FixTemplate("relu", "use ReLU and train again", effect=Effect.MAPS),
        cases=("F09",),
    ),
    refusal(
        "NA-SOFTMAX",
        "Softmax runs on the CPU",
        "No unit computes a Softmax; the vendor's compiler maps it only with an option that no "
        "stock profile passes.",
        fixes.DROP_SOFTMAX,
        fixes.OPTION_EXPAND_SOFTMAX,
        cases=("F03",),
    ),
    refusal(
        "NA-QUANTIZE-FLOAT",
        "Float values are quantized on the CPU",
        "Turning float32 into int8 is a pass over all elements on the CPU.",
        fixes.INTEGER_INPUT,
        fixes.QUANTIZE_NEIGHBOURS,
        cases=("F05",),
    ),
    refusal(
        "NA-DEQUANTIZE-FLOAT",
        "Results are dequantized on the CPU",
        "Float32 was asked for; each such tensor is one more pass over all elements on the CPU.",
        fixes.INTEGER_OUTPUT,
        fixes.QUANTIZE_NEIGHBOURS,
        cases=("F04",),
    ),
    refusal(
        "NA-POOL-WINDOW",
        "Pooling window larger than the unit's",
        "The pooling unit has windows up to 3x3; a larger one maps only when it covers the whole "
        "map.",
        FixTemplate("small-pools", "use several pools of up to 3x3, or a strided convolution"),
    ),
    refusal(
        "NA-POOL-STRIDE",
        "Pooling stride larger than the unit's",
        "The stride registers of the pooling unit end at 15.",
        FixTemplate("small-pools", "use several pools with smaller strides"),
    ),
    refusal(
        "NA-POOL-PAD",
        "Padding that the pooling unit cannot do",
        "The pad registers end at 7, and an average must not count padded values.",
        fixes.EXPLICIT_PAD,
        confidence=Confidence.REPORTED,
        cases=("F33",),
    ),
    refusal(
        "NA-MEAN-AXES",
        "A mean that is no global pool",
        "The pooling unit averages whole maps: both spatial axes of a 4-D tensor together.",
        FixTemplate("mean-both-axes", "take the mean over height and width", effect=Effect.MAPS),
        confidence=Confidence.REPORTED,
        cases=("F31",),
    ),
    refusal(
        "NA-REDUCE-KIND",
        "A reduction other than mean",
        "Only a mean (or a maximum) over whole maps becomes a pool; sums, products and minima "
        "run on the CPU.",
        FixTemplate(
            "mean-times-n",
            "use a mean and multiply by the count",
            automatic=True,
            effect=Effect.MAPS,
        ),
        confidence=Confidence.REPORTED,
        cases=("F25",),
    ),
    refusal(
        "NA-TRANSPOSED-CONV",
        "Transposed convolution",
        "It is expanded into a convolution and a depth-to-space, which the CPU drives.",
        FixTemplate("resize-conv", "use nearest resizing and a convolution"),
        cases=("F08",),
    ),
)
