"""Rules that keep data movement off the NPU: joins, cuts, layouts, resizing."""

from __future__ import annotations

from npuscope.rules import fixes
from npuscope.rules.catalogue import Effect, FixTemplate
from npuscope.rules.catalogue_refuse import refusal
from npuscope.rules.finding import Confidence

RULES = (
    refusal(
        "NA-CONCAT-AXIS",
        "Concat along another axis than the channels",
        "Stream engines write channels side by side; parts that follow each other along height, "
        "width or anchors are copied by the CPU.",
        FixTemplate(
            "separate-outputs", "give the parts as outputs of their own", effect=Effect.REMOVES
        ),
        fixes.CHANNEL_AXIS,
        cases=("F16", "F17"),
    ),
    refusal(
        "NA-CONCAT-FORMAT",
        "Concat of tensors that are not int8",
        "The copy is made by stream engines and arithmetic units: every part must be a computed "
        "8-bit tensor with one scale.",
        fixes.QUANTIZE_OP,
        confidence=Confidence.REPORTED,
        cases=("C06",),
    ),
    refusal(
        "NA-SLICE-FORMAT",
        "Slice of a tensor that is not int8",
        "Stream engines copy bytes: the tensor must have 8 bits and one scale.",
        fixes.QUANTIZE_OP,
    ),
    refusal(
        "NA-SLICE-AXIS",
        "Slice along another axis than the channels",
        "A slice of channels is a stream engine's window; along other axes a library call drives "
        "the copies.",
        fixes.CHANNEL_AXIS,
        confidence=Confidence.REPORTED,
        cases=("F18",),
    ),
    refusal(
        "NA-SLICE-STEP",
        "Slice with a step",
        "Stream engines read neighbours; every second element is picked by the CPU.",
        fixes.STRIDE_INSTEAD,
        confidence=Confidence.REPORTED,
        cases=("F34",),
    ),
    refusal(
        "NA-SPLIT-AXIS",
        "Split along another axis than the channels",
        "Parts along the channels are windows of one buffer; along other axes they are copied "
        "outside the NPU.",
        FixTemplate("separate-convs", "compute the parts with convolutions of their own"),
        fixes.CHANNEL_AXIS,
        cases=("F13",),
    ),
    refusal(
        "NA-TRANSPOSE",
        "Transpose that the stream engines cannot do",
        "Engines turn channel-first into channel-last data and back; other permutations run on "
        "the CPU.",
        FixTemplate(
            "keep-layout", "keep the channels last all the way through", effect=Effect.REMOVES
        ),
        fixes.SHUFFLE_CONV,
        confidence=Confidence.REPORTED,
        cases=("F14", "F35"),
    ),
    refusal(
        "NA-PAD-CHANNEL",
        "Pad along the channels",
        "It is carried out as transpose, pad, transpose; the vendor's compiler leaves the "
        "transposes to the CPU.",
        FixTemplate("conv-shortcut", "use a 1x1 convolution instead of the padded shortcut"),
        fixes.PAD_CONV,
        confidence=Confidence.REPORTED,
        cases=("F15",),
    ),
    refusal(
        "NA-PAD-VALUE",
        "Pad with another value than zero",
        "The units pad with the zero point only.",
        FixTemplate("zero-pad", "pad with zeros"),
    ),
    refusal(
        "NA-RESIZE-MODE",
        "Resize that is not nearest",
        "Interpolation needs products of positions; the NPU has no unit for it.",
        fixes.NEAREST_RESIZE,
        cases=("F06",),
    ),
    refusal(
        "NA-RESIZE-HYBRID",
        "Nearest resize ends in a depth-to-space",
        "The upsampling is a convolution that repeats channels and a depth-to-space, which a "
        "library call on the CPU drives.",
        fixes.REPEAT_BY_JOINING,
        FixTemplate("fold-resize", "resize a tensor with fewer channels, or later in the network"),
        confidence=Confidence.REPORTED,
        cases=("F07",),
    ),
    refusal(
        "NA-DEPTH-SPACE",
        "Depth-to-space is driven by the CPU",
        "Pixels and channels change places: a library call programs the copies one by one.",
        FixTemplate("fold-resize", "move it to a tensor with fewer channels"),
        confidence=Confidence.REPORTED,
        cases=("F07", "F08"),
    ),
    refusal(
        "NA-GATHER",
        "Gather runs on the CPU",
        "Addresses that depend on data cannot be programmed into stream engines.",
        FixTemplate(
            "host-layout", "bring the data into this order on the host", effect=Effect.REMOVES
        ),
        FixTemplate(
            "constant-slice",
            "use a Slice where the indices are constant neighbours",
            automatic=True,
            effect=Effect.MAPS,
        ),
        confidence=Confidence.REPORTED,
        cases=("F25", "F26"),
    ),
)
