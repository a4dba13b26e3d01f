"""Advice on a run: epochs off the NPU, choked ports, memory, control."""

from __future__ import annotations

from npuscope.rules import fixes
from npuscope.rules.catalogue import FixTemplate, Kind, RuleInfo
from npuscope.rules.finding import Confidence, Severity


def advice(
    rule_id: str,
    title: str,
    severity: Severity,
    confidence: Confidence,
    cause: str,
    *templates: FixTemplate,
    cases: tuple[str, ...] = (),
) -> RuleInfo:
    """A rule on a run."""
    return RuleInfo(rule_id, Kind.ADVISE, title, severity, confidence, cause, templates, cases)


RULES = (
    advice(
        "ADV-SOFTWARE",
        "An epoch off the NPU, for an unknown reason",
        Severity.WARNING,
        Confidence.VERIFIED,
        "The program says that the CPU runs this epoch but not why: vendor files leave the reason "
        "out. `npuscope explain` on the model file finds it.",
        fixes.CUT_TAIL,
        cases=("F30",),
    ),
    advice(
        "ADV-WEIGHTS",
        "Weights are used once only",
        Severity.INFO,
        Confidence.VERIFIED,
        "With one output position every weight is read for one multiplication, so the kernel port "
        "is choked: 2 operations a cycle, 6 in Deep1x1 mode. A zero point other than 0 and -128 "
        "rules that mode out.",
        fixes.ZERO_POINT,
        FixTemplate("batch-frames", "process several frames at once, so that weights are reused"),
        FixTemplate("fewer-weights", "make the layer smaller: sparse or low-rank"),
        cases=("S01",),
    ),
    advice(
        "ADV-FLASH",
        "The NPU waits for weights from flash",
        Severity.INFO,
        Confidence.VERIFIED,
        "Weights are read from external flash in every inference, at a fraction of what the NPU "
        "could take.",
        FixTemplate("weights-on-chip", "keep the weights on chip (a pool file without flash)"),
        FixTemplate("fewer-weights", "prune, share or compress weights (4 bits)"),
        cases=("S05", "S06"),
    ),
    advice(
        "ADV-LAUNCH",
        "Epochs are too small to be worth their start",
        Severity.INFO,
        Confidence.VERIFIED,
        "Programming and starting an epoch takes longer than running it. Below about 1 MB of "
        "weights latency follows the number of epochs, not the operations.",
        FixTemplate("fewer-ops", "use fewer and wider layers; fold element-wise ops"),
        cases=("S09",),
    ),
    advice(
        "ADV-CONTROLLER-OFF",
        "The CPU starts every epoch",
        Severity.WARNING,
        Confidence.VERIFIED,
        "Without the epoch controller the CPU writes all registers and coefficients before each "
        "epoch; some shipped profiles leave it off.",
        FixTemplate("epoch-controller", "compile with --enable-epoch-controller"),
        cases=("S10",),
    ),
    advice(
        "ADV-EXTERNAL-RAM",
        "Activations are in external RAM",
        Severity.WARNING,
        Confidence.VERIFIED,
        "They did not fit on chip. External RAM is bound by accesses: some 60 cycles an element "
        "read, once per pass, which the vendor's cycle estimate does not price. The application "
        "must also map it before the first inference.",
        fixes.SMALLER_INPUT,
        cases=("S07", "S08", "I06"),
    ),
    advice(
        "ADV-PLACEMENT",
        "Placement uses more RAM than it must",
        Severity.INFO,
        Confidence.VERIFIED,
        "Activations that live at the same time would fit on chip, but holes between buffers sent "
        "some outside.",
        FixTemplate("option-auto-sched", "compile with --Oauto-sched, or try another order"),
        cases=("S08", "C24"),
    ),
    advice(
        "ADV-VECTORS",
        "Coefficients are streamed for every pixel",
        Severity.INFO,
        Confidence.VERIFIED,
        "The layer has more output channels than the arithmetic unit holds coefficients for; they "
        "come from memory again and again.",
        fixes.SPLIT_OUTPUTS,
    ),
    advice(
        "ADV-BROADCAST",
        "A small operand is read again and again",
        Severity.INFO,
        Confidence.VERIFIED,
        "A short operand is repeated for an element-wise op: some 3 cycles an element where a unit "
        "holds it, 33 where an engine reads it again; a full operand takes one.",
        FixTemplate("full-operand", "store the operand in the full shape, or fold it in a layer"),
    ),
    advice(
        "ADV-COPIES",
        "Time goes into copies",
        Severity.INFO,
        Confidence.VERIFIED,
        "The epoch computes nothing: it joins, cuts or reorders channels.",
        FixTemplate(
            "channel-last-border", "have the {side} channel-last (--{side}s-ch-position chlast)"
        ),
        FixTemplate("avoid-copy", "let producers write into one tensor, or keep one layout"),
        cases=("F17", "F35"),
    ),
    advice(
        "ADV-ACCUMULATION",
        "Partial sums go through memory",
        Severity.INFO,
        Confidence.VERIFIED,
        "The units cannot hold all input channels at once, so 16-bit sums are written and read "
        "back, once a pass.",
        FixTemplate("fewer-inputs", "narrow the channels with a 1x1 layer in front"),
    ),
    advice(
        "ADV-CHANNELS",
        "Channel counts with small divisors only",
        Severity.INFO,
        Confidence.VERIFIED,
        "Channels are cut into equal parts; these counts have no divisor near the size of the "
        "units, so the layer runs in many small parts.",
        fixes.CHANGE_OUTPUTS,
        fixes.CHANGE_INPUTS,
        fixes.SPLIT_OUTPUTS,
        fixes.PAD_CHANNELS,
        cases=("F01", "F02"),
    ),
    advice(
        "ADV-MODE-16X8",
        "A zero point halves the speed",
        Severity.INFO,
        Confidence.VERIFIED,
        "The input's zero point is neither 0 nor -128 and is subtracted inside the unit, in 16x8 "
        "mode: half the kernels, no Deep1x1. SiLU, leaky and linear layers leave such zero points.",
        fixes.ZERO_POINT,
        FixTemplate("relu", "end the layer in front with ReLU, whose zero point is -128"),
        cases=("S01",),
    ),
    advice(
        "ADV-BANK",
        "Streams share one memory bank",
        Severity.INFO,
        Confidence.VERIFIED,
        "All engines of the epoch read or write the same bank (or bus interface), which cannot "
        "serve them at full speed.",
        FixTemplate("option-shuffle-dma", "compile with --Oshuffle-dma, or spread the buffers"),
    ),
    advice(
        "ADV-ELEMENTWISE",
        "Much time in element-wise passes",
        Severity.INFO,
        Confidence.VERIFIED,
        "Activations and affine ops that did not join a layer pass over whole tensors.",
        FixTemplate("fold-elementwise", "use ReLU, and fold scales into the layers around"),
        cases=("S11",),
    ),
    advice(
        "ADV-PARTIALS",
        "A large kernel leaves partial sums in external RAM",
        Severity.WARNING,
        Confidence.VERIFIED,
        "The kernel is cut into pieces, each with a 16-bit buffer as large as the output; together "
        "they left the chip.",
        fixes.SMALLER_KERNEL,
        cases=("C25",),
    ),
    advice(
        "ADV-INFLATED",
        "Depthwise weights are stored eight times",
        Severity.INFO,
        Confidence.VERIFIED,
        "The 2.x compilers write depthwise kernels as dense groups of 8 x 8 channels, which grows "
        "flash and the time to read it.",
        fixes.NEWER_COMPILER,
        cases=("S16", "S17"),
    ),
    advice(
        "ADV-SW-OUTPUT",
        "A large result of a software epoch",
        Severity.WARNING,
        Confidence.REPORTED,
        "Software kernels were seen to corrupt results of 64 kB and more, and to hang on 256 kB of "
        "float in external RAM.",
        FixTemplate("small-float", "keep tensors of software ops small, or map the op"),
        cases=("W03", "H04"),
    ),
)
