"""Lint rules about quantization: float, weights, sums, scales."""

from __future__ import annotations

from npuscope.rules import fixes
from npuscope.rules.catalogue import FixTemplate, Kind, RuleInfo
from npuscope.rules.finding import Confidence, Severity


def risk(
    rule_id: str,
    title: str,
    severity: Severity,
    confidence: Confidence,
    cause: str,
    *templates: FixTemplate,
    cases: tuple[str, ...] = (),
    since: str = "",
    until: str = "",
    twins: tuple[str, ...] = (),
) -> RuleInfo:
    """A lint rule."""
    return RuleInfo(
        rule_id,
        Kind.LINT,
        title,
        severity,
        confidence,
        cause,
        templates,
        cases,
        since,
        until,
        twins,
    )


RULES = (
    risk(
        "LINT-FLOAT-NETWORK",
        "The network is not quantized",
        Severity.ERROR,
        Confidence.DOCUMENTED,
        "All layers compute in float32. The NPU has no float unit, so nothing would run on it; a "
        "quantizer that found no calibration data leaves such a file too.",
        FixTemplate(
            "quantize",
            "quantize to int8: weights symmetric per channel, activations asymmetric",
        ),
        cases=("C27", "W12"),
    ),
    risk(
        "LINT-FLOAT-ISLAND",
        "Ops left in float",
        Severity.WARNING,
        Confidence.DOCUMENTED,
        "A few ops were not quantized. They run on the CPU, and so do the dequantize in front of "
        "them and the quantize behind: one epoch each, on four times the bytes.",
        fixes.QUANTIZE_OP,
        cases=("F22", "F23", "F24", "F36", "F38", "C13"),
        twins=("NA-FLOAT", "NA-DEQUANTIZE-FLOAT", "NA-QUANTIZE-FLOAT", "NA-OP-SOFTWARE"),
    ),
    risk(
        "LINT-FLOAT-INPUT",
        "Float input",
        Severity.WARNING,
        Confidence.DOCUMENTED,
        "The first epoch quantizes the input on the CPU, element by element.",
        fixes.INTEGER_INPUT,
        cases=("F05",),
        twins=("NA-QUANTIZE-FLOAT", "NA-OP-SOFTWARE"),
    ),
    risk(
        "LINT-FLOAT-OUTPUT",
        "Float output",
        Severity.WARNING,
        Confidence.DOCUMENTED,
        "One software epoch for every float output dequantizes it.",
        fixes.INTEGER_OUTPUT,
        cases=("F04",),
        twins=("NA-DEQUANTIZE-FLOAT", "NA-OP-SOFTWARE"),
    ),
    risk(
        "LINT-HYBRID-QUANT",
        "Only the weights are quantized",
        Severity.ERROR,
        Confidence.DOCUMENTED,
        "Dynamic-range quantization keeps activations in float; the NPU needs both as integers.",
        FixTemplate("static-quantization", "quantize statically, with calibration data"),
        twins=("NA-FLOAT",),
    ),
    risk(
        "LINT-UINT8",
        "uint8 activations",
        Severity.ERROR,
        Confidence.REPORTED,
        "onnxruntime quantizes activations to uint8 by default; the vendor's compiler stops with "
        "'quantized unsigned integer format is not supported'. npuscope converts them itself.",
        fixes.SIGNED_ACTIVATIONS,
        cases=("C23",),
        until="4.0",
    ),
    risk(
        "LINT-PER-TENSOR",
        "One weight scale for unlike channels",
        Severity.INFO,
        Confidence.REPORTED,
        "Weights have one scale for all output channels, and the largest channel sets it. The "
        "others use a few of their 256 steps, which costs accuracy.",
        FixTemplate("per-channel", "quantize weights per output channel"),
        cases=("W08",),
    ),
    risk(
        "LINT-ASYMMETRIC",
        "Weights with a zero point",
        Severity.WARNING,
        Confidence.DOCUMENTED,
        "The units multiply plain int8, so weights are shifted; where they leave the byte they are "
        "rounded to a coarser scale.",
        fixes.SYMMETRIC_WEIGHTS,
        twins=("NA-WEIGHTS",),
    ),
    risk(
        "LINT-DEAD-CHANNELS",
        "Output channels with no weights",
        Severity.INFO,
        Confidence.VERIFIED,
        "Their kernels are all zero: the channels are constant and cost as much as the others.",
        FixTemplate("prune-channels", "remove the channels and their readers' weights"),
    ),
    risk(
        "LINT-SATURATING-SUM",
        "Sums may saturate before they are rescaled",
        Severity.WARNING,
        Confidence.VERIFIED,
        "Sums leave the convolution with 16 bits after a shift. The vendor's rule takes the shift "
        "from the plain sum of a kernel's weights; where positive and negative weights cancel it "
        "is too small, and outputs clip before their range ends.",
        FixTemplate(
            "safe-shift", "compile with --generation open, whose shift knows the real sums"
        ),
        until="4.0",
    ),
    risk(
        "LINT-ADD-SCALES",
        "Operands of an addition have unlike scales",
        Severity.WARNING,
        Confidence.REPORTED,
        "The result's scale cannot hold the range of an operand, or one operand is so much finer "
        "that its steps vanish. Low-biased results were seen on a board with such a residual Add.",
        fixes.TIE_SCALES,
        cases=("W01",),
    ),
    risk(
        "LINT-CONCAT-SCALES",
        "Parts of a Concat have unlike ranges",
        Severity.INFO,
        Confidence.REPORTED,
        "All parts get the scale of the widest; the narrow ones keep a few steps only.",
        fixes.TIE_SCALES,
        cases=("X07",),
    ),
    risk(
        "LINT-DEGENERATE-SCALE",
        "A scale out of all proportion",
        Severity.WARNING,
        Confidence.VERIFIED,
        "A tensor that was always the same in calibration gets a scale near 0; one that overflowed "
        "gets a huge one. Either way its values carry nothing.",
        fixes.CALIBRATE,
    ),
    risk(
        "LINT-CALIBRATION",
        "Calibrated with random numbers",
        Severity.INFO,
        Confidence.REPORTED,
        "The input range is what a standard normal gives, or several inputs share one odd scale: "
        "quantizer examples feed random arrays. Ranges of the whole network then mean little.",
        fixes.CALIBRATE,
    ),
)
