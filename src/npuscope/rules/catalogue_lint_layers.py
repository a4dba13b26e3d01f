"""Lint rules about layers, shapes, kernels and pools."""

from __future__ import annotations

from npuscope.rules import fixes
from npuscope.rules.catalogue import FixTemplate
from npuscope.rules.catalogue_lint_numbers import risk
from npuscope.rules.finding import Confidence, Severity

RULES = (
    risk(
        "LINT-RANK",
        "More than four axes",
        Severity.WARNING,
        Confidence.REPORTED,
        "Buffers of the NPU have at most four axes. Such ops run on the CPU at best; the vendor's "
        "compiler was also seen to crash (signo 11) or to report an unexpected input shape.",
        FixTemplate("merge-axes", "merge axes, or replace view-permute-view blocks"),
        cases=("C02", "C03"),
        until="4.0",
    ),
    risk(
        "LINT-DIMENSION",
        "An axis of 65536 elements or more",
        Severity.ERROR,
        Confidence.REPORTED,
        "Sizes are 16-bit numbers in the NPU's registers.",
        FixTemplate("fold-rows", "fold the long axis into rows"),
        cases=("C21",),
    ),
    risk(
        "LINT-BATCH",
        "Batch other than 1",
        Severity.ERROR,
        Confidence.DOCUMENTED,
        "The NPU runs one image at a time.",
        fixes.BATCH_ONE,
        cases=("C22",),
    ),
    risk(
        "LINT-OPEN-BATCH",
        "The batch size is left open",
        Severity.INFO,
        Confidence.REPORTED,
        "npuscope takes 1. The vendor's 2.x tools stop with 'NoneType object has no attribute "
        "get_value'.",
        fixes.BATCH_ONE,
        cases=("C01",),
        until="4.0",
    ),
    risk(
        "LINT-UNUSED-INPUT",
        "An input that nobody reads",
        Severity.WARNING,
        Confidence.VERIFIED,
        "The application fills a buffer in vain, or the wrong part of a network was exported.",
        FixTemplate("drop-input", "remove the input from the model", automatic=True),
    ),
    risk(
        "LINT-STATE",
        "The network carries a state",
        Severity.INFO,
        Confidence.REPORTED,
        "Outputs are meant to be fed back as inputs. Random states make comparisons with the "
        "reference look bad: feed the states of a real sequence.",
        FixTemplate("thread-states", "validate with states threaded from call to call"),
        cases=("W06",),
    ),
    risk(
        "LINT-OE-FILE",
        "A file that the vendor's front end wrote",
        Severity.ERROR,
        Confidence.REPORTED,
        "Files named *_OE_*.onnx were preprocessed once; compiled again they give another mix of "
        "epochs, most of them in software.",
        FixTemplate("original-file", "use the model that you quantized"),
        cases=("C38",),
    ),
    risk(
        "LINT-CHANNELS",
        "Channel counts with small divisors only",
        Severity.INFO,
        Confidence.VERIFIED,
        "Channels are cut into equal parts. A count such as 257, 58 or 34 has no divisor near the "
        "size of the units, so the layer runs in many small parts, up to ten times slower.",
        fixes.CHANGE_OUTPUTS,
        fixes.CHANGE_INPUTS,
        fixes.SPLIT_OUTPUTS,
        fixes.PAD_CHANNELS,
        cases=("F01", "F02"),
        twins=("NA-CONV-PRIME", "ADV-CHANNELS"),
    ),
    risk(
        "LINT-WIDE-OUTPUT",
        "More output channels than coefficients fit",
        Severity.INFO,
        Confidence.VERIFIED,
        "The arithmetic unit holds 512 coefficients. For more channels they are streamed from "
        "memory again for every pixel.",
        FixTemplate("narrow-outputs", "keep layers on large maps at 512 channels or fewer"),
        twins=("ADV-VECTORS",),
    ),
    risk(
        "LINT-NARROW-POINTWISE",
        "1x1 convolution on few channels",
        Severity.INFO,
        Confidence.REPORTED,
        "Each word brings one channel of one pixel; with few of them the unit mostly waits. A 3x3 "
        "kernel on the same map is faster.",
        FixTemplate("use-3x3", "use a 3x3 kernel here, or join it with the layer behind"),
        cases=("S04",),
    ),
    risk(
        "LINT-ZERO-POINT",
        "The first layer runs in 16x8 mode",
        Severity.INFO,
        Confidence.VERIFIED,
        "A zero point of 0 or -128 costs nothing; any other is subtracted inside the unit, which "
        "then has half the kernels and no Deep1x1 mode.",
        fixes.ZERO_POINT,
        cases=("S01",),
        twins=("ADV-MODE-16X8",),
    ),
    risk(
        "LINT-GROUPS",
        "Grouped convolution that is not depthwise",
        Severity.WARNING,
        Confidence.REPORTED,
        "Groups of several channels have no mapping and run on the CPU.",
        fixes.DENSE_GROUPS,
        cases=("F29", "C29"),
        twins=("NA-CONV-GROUPS",),
    ),
    risk(
        "LINT-STRIDE",
        "Unusual stride",
        Severity.WARNING,
        Confidence.REPORTED,
        "Strides 1, 2 and 4 are preferred. Encoders with a stride of 3 were seen in software, 23 "
        "ms for three layers.",
        FixTemplate("stride-two", "use strides 1, 2 or 4"),
        cases=("F27",),
        until="4.0",
        twins=("NA-CONV-STRIDE",),
    ),
    risk(
        "LINT-DEPTHWISE-STRIDE",
        "Strided depthwise convolution that may hang",
        Severity.WARNING,
        Confidence.REPORTED,
        "A depthwise convolution over one line with stride 2 and 256 groups never finished on a "
        "board with 4.0.1. Depthwise convolutions of images with as many groups do run.",
        fixes.MOVE_STRIDE,
        cases=("H01",),
        since="4.0",
        until="4.0",
    ),
    risk(
        "LINT-TRANSPOSED-CONV",
        "Transposed convolution",
        Severity.WARNING,
        Confidence.DOCUMENTED,
        "It becomes a convolution and a depth-to-space; the CPU drives the latter. Grouped ones "
        "were reported to crash the compiler.",
        FixTemplate("resize-conv", "use nearest resizing and a convolution"),
        cases=("F08", "F30", "C30"),
        twins=("NA-TRANSPOSED-CONV", "NA-OP-SOFTWARE"),
    ),
    risk(
        "LINT-BIAS-COMPUTED",
        "A computed bias",
        Severity.ERROR,
        Confidence.REPORTED,
        "Graph optimizers fuse MatMul and Add into a Gemm whose C is an activation; the vendor's "
        "compiler stops with 'list index out of range'.",
        FixTemplate("add-behind", "add the activation in an Add behind the layer", automatic=True),
        cases=("C10",),
        twins=("NA-BIAS",),
    ),
    risk(
        "LINT-LARGE-KERNEL",
        "A large kernel on a wide output",
        Severity.INFO,
        Confidence.VERIFIED,
        "Kernels are cut into pieces of 3 rows and 6 (strided 12) columns; three and more leave a "
        "16-bit buffer of partial sums each. A 7x7 stem with wide outputs sends them to external "
        "RAM, some 75 ms at 64 outputs of 112x112.",
        fixes.SMALLER_KERNEL,
        cases=("C24", "C25"),
        twins=("ADV-PARTIALS",),
    ),
    risk(
        "LINT-DILATED",
        "Dilated kernel",
        Severity.INFO,
        Confidence.VERIFIED,
        "The gaps are filled with zeros and the kernel is cut like a large one: 3x3 with dilation "
        "9 takes 28 pieces, an epoch and an addition each.",
        FixTemplate("pool-instead", "use pooling or strides to widen the view"),
        cases=("F28",),
    ),
    risk(
        "LINT-FULL-HEIGHT",
        "A column kernel over the whole height",
        Severity.WARNING,
        Confidence.REPORTED,
        "An 8x1 kernel on 8 rows was rewritten into eight convolutions that hung on a board.",
        FixTemplate("two-kernels", "use two shorter kernels, such as 4x1 with stride 4 and 2x1"),
        cases=("H03",),
        since="4.0",
        until="4.0",
    ),
    risk(
        "LINT-POOL-WINDOW",
        "Pooling window that cannot be tiled",
        Severity.WARNING,
        Confidence.REPORTED,
        "The unit's window has up to 3x3 elements; larger ones are built from it where they can "
        "be. A global pool of 50x11 was seen in software.",
        FixTemplate("small-pools", "use several pools of up to 3x3, or a strided convolution"),
        twins=("NA-POOL-WINDOW",),
    ),
    risk(
        "LINT-POOL-PAD",
        "Padded average pool",
        Severity.WARNING,
        Confidence.REPORTED,
        "Padded values must not count in an average; a Pad is carried out by a library call.",
        fixes.EXPLICIT_PAD,
        cases=("F33",),
        twins=("NA-POOL-PAD",),
    ),
    risk(
        "LINT-MEAN-AXIS",
        "A mean that is no global pool",
        Severity.WARNING,
        Confidence.REPORTED,
        "Only a mean over height and width together becomes a pool; over one axis the data is "
        "transposed first.",
        FixTemplate("mean-both-axes", "take the mean over height and width"),
        cases=("F31",),
        twins=("NA-MEAN-AXES",),
    ),
)
