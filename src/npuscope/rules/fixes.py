"""Fixes that several rules offer: their ids name graph edits or options of the tool chain."""

from __future__ import annotations

from npuscope.rules.catalogue import Effect, FixTemplate

# Edits that keep the network's function.
SPLIT_OUTPUTS = FixTemplate(
    "split-outputs",
    "split the layer into {parts} output channels and join the results",
    automatic=True,
    effect=Effect.RESHAPES,
)
PAD_CHANNELS = FixTemplate(
    "pad-channels",
    "pad the {channels} channels to {padded} with zeros",
    automatic=True,
    effect=Effect.RESHAPES,
)
SHUFFLE_CONV = FixTemplate(
    "shuffle-conv",
    "shuffle the {channels} channels with a 1x1 convolution",
    automatic=True,
)
REMOVE_TRANSPOSES = FixTemplate(
    "remove-transposes", "remove the pair of Transposes", automatic=True, effect=Effect.REMOVES
)
QUANTIZE_SLOPE = FixTemplate(
    "quantize-slope",
    "store the slopes as int8 behind a DequantizeLinear",
    automatic=True,
    effect=Effect.MAPS,
)
SYMMETRIC_WEIGHTS = FixTemplate(
    "symmetric-weights",
    "quantize weights symmetrically (zero point 0), per output channel",
    automatic=True,
)
SIGNED_ACTIVATIONS = FixTemplate(
    "signed-activations",
    "quantize activations as int8 (onnxruntime: activation_type=QuantType.QInt8)",
    automatic=True,
)
DENSE_GROUPS = FixTemplate(
    "dense-groups", "write the groups as one dense, block-diagonal kernel", automatic=True
)
MOVE_STRIDE = FixTemplate(
    "move-stride", "move the stride into the 1x1 convolution that follows", automatic=True
)
EXPLICIT_PAD = FixTemplate(
    "explicit-pad", "pad before the pool, or use a strided depthwise convolution", automatic=True
)
PAD_CONV = FixTemplate(
    "pad-conv",
    "copy the channels with a 1x1 convolution whose other kernels are zero",
    automatic=True,
    effect=Effect.MAPS,
)
REPEAT_BY_JOINING = FixTemplate(
    "repeat-by-joining",
    "repeat pixels by joining the tensor with itself along the channels, between reshapes",
    automatic=True,
    effect=Effect.MAPS,
)
STRIDE_INSTEAD = FixTemplate(
    "stride-instead", "put the step into the stride of a convolution", automatic=True
)
NEGATE_BY_PRODUCT = FixTemplate(
    "negate-by-product", "multiply by -1, then add the constant if there is one", automatic=True
)
EXPAND_OPERAND = FixTemplate(
    "expand-operand",
    "bring the smaller operand to the full shape",
    automatic=True,
    effect=Effect.MAPS,
)
BATCH_ONE = FixTemplate("batch-one", "declare batch 1 in the model", automatic=True)

# Edits at the border of the network.
INTEGER_INPUT = FixTemplate(
    "integer-input",
    "take int8 or uint8 at the input (--input-data-type) and quantize in the application",
    effect=Effect.REMOVES,
)
INTEGER_OUTPUT = FixTemplate(
    "integer-output",
    "give int8 or uint8 at the output (--output-data-type) and dequantize in the application",
    effect=Effect.REMOVES,
)
CUT_TAIL = FixTemplate(
    "cut-tail", "end the network before this op and do the rest in the application"
)
DROP_SOFTMAX = FixTemplate(
    "drop-softmax",
    "end the network before the Softmax: the order of the scores stays the same",
    effect=Effect.REMOVES,
)

# Changes of the network that need training or calibration again.
CHANGE_OUTPUTS = FixTemplate(
    "change-outputs", "use {channels} output channels", effect=Effect.RESHAPES
)
CHANGE_INPUTS = FixTemplate(
    "change-inputs", "use {channels} input channels", effect=Effect.RESHAPES
)
QUANTIZE_OP = FixTemplate(
    "quantize-op",
    "quantize this op too: QuantizeLinear and DequantizeLinear must touch its output",
    automatic=True,
    effect=Effect.MAPS,
)
QUANTIZE_NEIGHBOURS = FixTemplate(
    "quantize-neighbours",
    "quantize the float ops next to it, so that no conversion is needed",
    effect=Effect.REMOVES,
)
CHANNEL_AXIS = FixTemplate(
    "channel-axis", "lay the data out so that the op works along the channels", effect=Effect.MAPS
)
NEAREST_RESIZE = FixTemplate(
    "nearest-resize",
    "use nearest resizing (asymmetric, floor) and a convolution behind it",
    automatic=True,
)
REPLACE_BLOCK = FixTemplate(
    "replace-block", "use a block of convolutions instead (Conv, BatchNorm, ReLU)"
)
ZERO_POINT = FixTemplate(
    "zero-point", "quantize the input of this layer with zero point {zero_point}"
)
TIE_SCALES = FixTemplate(
    "tie-scales", "give the operands the same scale (tie their quantizers) and calibrate again"
)
CALIBRATE = FixTemplate("calibrate", "calibrate again with real data")
SMALLER_KERNEL = FixTemplate("smaller-kernel", "use two 3x3 convolutions instead of this kernel")
OPTION_EXPAND_SOFTMAX = FixTemplate("option-expand-softmax", "compile with --expand-softmax")
NEWER_COMPILER = FixTemplate("newer-compiler", "compile with generation {generation} or later")
SMALLER_INPUT = FixTemplate("smaller-input", "use a smaller input, or fewer channels early on")
