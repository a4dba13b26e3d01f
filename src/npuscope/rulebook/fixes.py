"""The table of all fixes: ids of graph edits or of toolchain options, and what they do.

This module imports no other rule module: rules name the fixes they offer, and many share one.
"""

from __future__ import annotations

from npuscope.rulebook.fix import FixEffect, FixTemplate, FunctionEffect

_EXACT, _ROUNDING = FunctionEffect.EXACT, FunctionEffect.ROUNDING
_MOVED, _UNTOUCHED = FunctionEffect.MOVED, FunctionEffect.UNTOUCHED

# --- Edits that keep the network's function ---
SPLIT_OUTPUTS = FixTemplate(
    "split-outputs",
    "split the layer into {parts} output channels and join the results",
    sizes="split the layer into {sizes} output channels and join the results",
    function=_EXACT,
    effect=FixEffect.RESHAPES,
)
SPLIT_INPUTS = FixTemplate(
    "split-inputs",
    "split the inputs into {parts} (or {halves}) and add the results",
    sizes="split the inputs into {sizes} and add the results",
    function=_ROUNDING,  # each part's sums are rounded before they are added
    effect=FixEffect.RESHAPES,
)
PAD_CHANNELS = FixTemplate(
    "pad-channels",
    "pad the {channels} channels to {padded} with zeros",
    function=_EXACT,
    effect=FixEffect.RESHAPES,
)
SHUFFLE_CONV = FixTemplate(
    "shuffle-conv", "shuffle the {channels} channels with a 1x1 convolution", function=_EXACT
)
REMOVE_TRANSPOSES = FixTemplate(
    "remove-transposes", "remove the pair of Transposes", function=_EXACT, effect=FixEffect.REMOVES
)
QUANTIZE_SLOPE = FixTemplate(
    "quantize-slope",
    "store the slopes as int8, followed by a DequantizeLinear",
    tflite="store the slopes as int8, with a scale of their own",
    function=_ROUNDING,
    effect=FixEffect.MAPS,
)
SYMMETRIC_WEIGHTS = FixTemplate(
    "symmetric-weights",
    "quantize weights symmetrically (zero point 0), per output channel",
    function=_EXACT,
)
SIGNED_ACTIVATIONS = FixTemplate(
    "signed-activations",
    "quantize activations as int8 (onnxruntime: activation_type=QuantType.QInt8)",
    tflite="quantize activations as int8 (TensorFlow: OpsSet.TFLITE_BUILTINS_INT8 with a "
    "representative_dataset)",
    function=_ROUNDING,  # LiteRT's kernels of uint8 round otherwise than those of int8
)
DENSE_GROUPS = FixTemplate(
    "dense-groups", "write the groups as one dense, block-diagonal kernel", function=_EXACT
)
MOVE_STRIDE = FixTemplate(
    "move-stride", "move the stride into the 1x1 convolution that follows", function=_EXACT
)
EXPLICIT_PAD = FixTemplate(
    "explicit-pad", "pad before the pool: its averages count the padding", function=_EXACT
)
UNPADDED_POOL = FixTemplate(
    "unpadded-pool", "use a pool without padding, or a strided depthwise convolution"
)
PAD_CONV = FixTemplate(
    "pad-conv",
    "copy the channels with a 1x1 convolution whose other kernels are zero",
    function=_EXACT,
    effect=FixEffect.MAPS,
)
REPEAT_BY_JOINING = FixTemplate(
    "repeat-by-joining",
    "repeat pixels by joining the tensor with itself along the channels, between reshapes",
    function=_EXACT,
    effect=FixEffect.MAPS,
)
STRIDE_INSTEAD = FixTemplate(
    "stride-instead", "put the step into the stride of a convolution", function=_EXACT
)
NEGATE_BY_PRODUCT = FixTemplate(
    "negate-by-product", "multiply by -1, then add the constant if there is one", function=_ROUNDING
)
EXPAND_OPERAND = FixTemplate(
    "expand-operand",
    "expand the smaller operand to the full shape",
    function=_EXACT,
    effect=FixEffect.MAPS,
)
BATCH_ONE = FixTemplate("batch-one", "declare batch 1 in the model", function=_EXACT)
QUANTIZE_OP = FixTemplate(
    "quantize-op",
    "quantize this op too: its output needs a QuantizeLinear and DequantizeLinear directly after "
    "it",
    tflite="quantize this op too: convert the model with OpsSet.TFLITE_BUILTINS_INT8 alone",
    function=_ROUNDING,
    effect=FixEffect.MAPS,
)
ADD_BEHIND = FixTemplate(
    "add-behind", "add the computed bias in an Add after the layer", function=_ROUNDING
)
MEAN_TIMES_N = FixTemplate(
    "mean-times-n",
    "use a mean and multiply by the count",
    function=_ROUNDING,
    effect=FixEffect.MAPS,
)
MEAN_BOTH_AXES = FixTemplate(
    "mean-both-axes",
    "take the mean over height and width in one op",
    function=_ROUNDING,
    effect=FixEffect.MAPS,
)
MULTIPLY_INSTEAD = FixTemplate(
    "multiply-instead",
    "multiply by the reciprocal of the constant",
    function=_ROUNDING,
    effect=FixEffect.MAPS,
)
SLOPE_INSTEAD = FixTemplate(
    "slope-instead",
    "write Max(x, a*x) as a PReLU",
    function=_ROUNDING,
    effect=FixEffect.MAPS,
)
CONSTANT_SLICE = FixTemplate(
    "constant-slice",
    "use a Slice: the indices are constant and consecutive",
    function=_EXACT,
    effect=FixEffect.MAPS,
)
DROP_INPUT = FixTemplate("drop-input", "remove the input from the model", function=_EXACT)
SHARE_RESULT = FixTemplate("share-result", "compute it once for both readers", function=_EXACT)
PLAIN_NEAREST = FixTemplate("plain-nearest", "set it to asymmetric and floor", function=_EXACT)
REMOVE_RESHAPES = FixTemplate("remove-reshapes", "remove the Reshape", function=_EXACT)
OLDER_IR = FixTemplate("older-ir", "set model.ir_version to 9", function=_EXACT)
STRIP_EMPTY_INPUT = FixTemplate("strip-empty-input", "remove the empty input", function=_EXACT)
PLAIN_BOUNDS = FixTemplate("plain-bounds", "write the real bounds", function=_EXACT)
FOLD_BOUNDS = FixTemplate("fold-bounds", "fold the bounds into float initializers", function=_EXACT)
STATIC_EXPORT = FixTemplate("static-export", "write the shapes as constants", function=_EXACT)
FOLD_CONSTANTS = FixTemplate(
    "fold-constants", "fold constants before quantizing", function=_ROUNDING
)
OWN_WEIGHTS = FixTemplate("own-weights", "give each layer its own copy", function=_EXACT)

# --- Edits that change outputs: `npuscope fix --lossy` allows them ---
NEAREST_RESIZE = FixTemplate(
    "nearest-resize",
    "use nearest resizing (asymmetric, floor) followed by a convolution",
    effect=FixEffect.MAPS,
)
ZERO_POINT = FixTemplate(
    "zero-point", "quantize the input of this layer with zero point {zero_point}"
)
GATE_FORM = FixTemplate("gate-form", "write a gate (1 - z) * n + z * h as n + z * (h - n)")
NARROWER_KERNEL = FixTemplate(
    "narrower-kernel",
    "use two kernels of at most six columns and an Add, or stride 2 for a single column",
    effect=FixEffect.MAPS,
)

# --- Edits of inputs and outputs: the application has to change too ---
INTEGER_INPUT = FixTemplate(
    "integer-input",
    "use an int8 or uint8 input (--input-data-type) and quantize in the application",
    function=_MOVED,
    effect=FixEffect.REMOVES,
)
INTEGER_OUTPUT = FixTemplate(
    "integer-output",
    "use an int8 or uint8 output (--output-data-type) and dequantize in the application",
    function=_MOVED,
    effect=FixEffect.REMOVES,
)
CUT_TAIL = FixTemplate(
    "cut-tail", "end the network before this op and do the rest in the application", function=_MOVED
)
DROP_SOFTMAX = FixTemplate(
    "drop-softmax",
    "end the network before the Softmax: {order}",
    function=_MOVED,
    effect=FixEffect.REMOVES,
)
SEPARATE_OUTPUTS = FixTemplate(
    "separate-outputs",
    "make each part an output of its own",
    function=_MOVED,
    effect=FixEffect.REMOVES,
)
HOST_LAYOUT = FixTemplate(
    "host-layout",
    "arrange the data in this order on the host",
    function=_MOVED,
    effect=FixEffect.REMOVES,
)
THREAD_STATES = FixTemplate(
    "thread-states", "validate with the state passed from call to call", function=_UNTOUCHED
)
ORIGINAL_FILE = FixTemplate(
    "original-file", "use the model that you quantized", function=_UNTOUCHED
)
DECODE_OUTSIDE = FixTemplate(
    "cut-tail",
    "end the network at its last layers and decode in the application",
    function=_MOVED,
    effect=FixEffect.REMOVES,
)
INPUT_FORM = FixTemplate(
    "input-form", "declare [1, N], and guard indices with Max and Min", function=_MOVED
)
BATCH_FRAMES = FixTemplate(
    "batch-frames", "process several frames at once, so that weights are reused", function=_MOVED
)
CHANNEL_LAST_BORDER = FixTemplate(
    "channel-last-border",
    "make the {side} channel-last (the vendor's --{side}s-ch-position chlast)",
    function=_MOVED,
)

# --- Options of the tool chain ---
OPTION_EXPAND_SOFTMAX = FixTemplate(
    "option-expand-softmax",
    "pass --expand-softmax to the vendor's compiler; its effect is not modelled here",
    function=_UNTOUCHED,
)
NEWER_COMPILER = FixTemplate(
    "newer-compiler", "compile with generation {generation} or later", function=_UNTOUCHED
)
SAFE_SHIFT = FixTemplate(
    "safe-shift",
    "compile with --generation open, whose shift uses the real sums",
    function=_UNTOUCHED,
)
OLDER_OPSET = FixTemplate("older-opset", "export with opset 13 to 17", function=_UNTOUCHED)
OPTION_SHUFFLE_DMA = FixTemplate(
    "option-shuffle-dma",
    "pass --Oshuffle-dma to the vendor's compiler; its effect is not modelled here",
    function=_UNTOUCHED,
)
WEIGHTS_ON_CHIP = FixTemplate(
    "weights-on-chip",
    "keep the weights on chip ({settings}, or a pool file without external memory)",
    function=_UNTOUCHED,
)
OPTION_AUTO_SCHED = FixTemplate(
    "option-auto-sched",
    "pass --Oauto-sched to the vendor's compiler; its effect is not modelled here",
    function=_UNTOUCHED,
)
EPOCH_CONTROLLER = FixTemplate(
    "epoch-controller", "compile with --enable-epoch-controller", function=_UNTOUCHED
)

# --- Changes of the network that need new training or calibration ---
CHANGE_OUTPUTS = FixTemplate(
    "change-outputs", "use {channels} output channels", effect=FixEffect.RESHAPES
)
CHANGE_INPUTS = FixTemplate(
    "change-inputs", "use {channels} input channels", effect=FixEffect.RESHAPES
)
QUANTIZE_NEIGHBOURS = FixTemplate(
    "quantize-neighbours",
    "quantize the float ops next to it, so that no conversion is needed",
    effect=FixEffect.REMOVES,
)
CHANNEL_AXIS = FixTemplate(
    "channel-axis",
    "arrange the data so that the op works along the channels",
    effect=FixEffect.MAPS,
)
EQUAL_PARTS = FixTemplate("equal-parts", "give all parts the same number of channels")
MORE_INPUTS = FixTemplate("more-inputs", "use two or more input channels")
REPLACE_BLOCK = FixTemplate(
    "replace-block", "use a block of convolutions instead (Conv, BatchNorm, ReLU)"
)
CAST_OUTSIDE = FixTemplate(
    "cast-outside",
    "give the input the type that this Cast makes: the application converts it",
    function=_MOVED,
)
TIE_SCALES = FixTemplate(
    "tie-scales", "give the operands the same scale (tie their quantizers) and calibrate again"
)
CALIBRATE = FixTemplate("calibrate", "calibrate again with real data")
SMALLER_KERNEL = FixTemplate("smaller-kernel", "use two 3x3 convolutions instead of this kernel")
SMALLER_INPUT = FixTemplate("smaller-input", "use a smaller input, or fewer channels early on")
RESIZE_VECTOR = FixTemplate("resize-vector", "resize the vector to the full shape before the Add")
QUANTIZE = FixTemplate(
    "quantize", "quantize to int8: weights symmetric per channel, activations asymmetric"
)
STATIC_QUANTIZATION = FixTemplate(
    "static-quantization", "quantize statically, with calibration data"
)
RELU = FixTemplate("relu", "use ReLU and train again", effect=FixEffect.MAPS)
FOLD_DEPTH_TO_SPACE = FixTemplate("fold-resize", "move it to a tensor with fewer channels")
RESIZE_CONV = FixTemplate("resize-conv", "use nearest resizing and a convolution")
PER_CHANNEL = FixTemplate("per-channel", "quantize weights per output channel")
PRUNE_CHANNELS = FixTemplate("prune-channels", "remove the channels and the weights that read them")
MERGE_AXES = FixTemplate("merge-axes", "merge axes, or replace view-permute-view blocks")
FOLD_ROWS = FixTemplate("fold-rows", "fold the long axis into rows")
NARROW_OUTPUTS = FixTemplate("narrow-outputs", "keep layers on large maps at 512 channels or fewer")
USE_3X3 = FixTemplate("use-3x3", "use a 3x3 kernel here, or merge it with the next layer")
STRIDE_TWO = FixTemplate("stride-two", "use strides 1, 2 or 4")
SMALLER_STRIDE = FixTemplate(
    "smaller-stride", "use strides 1, 2 or 4, and a pool where more is needed"
)
FOLD_WIDTH = FixTemplate(
    "fold-width", "fold the width into rows or channels, or use a one-row kernel"
)
FOLD_POOL_WIDTH = FixTemplate("fold-pool-width", "fold the width into rows or channels")
POOL_INSTEAD = FixTemplate("pool-instead", "use pooling or strides to enlarge the receptive field")
TWO_KERNELS = FixTemplate(
    "two-kernels", "use two shorter kernels, such as 4x1 with stride 4 and 2x1"
)
SMALL_POOLS = FixTemplate("small-pools", "use several pools of up to 3x3, or a strided convolution")
SMALL_POOL_STRIDES = FixTemplate("small-pools", "use several pools with smaller strides")
SEPARATE_CONVS = FixTemplate("separate-convs", "compute the parts with convolutions of their own")
CONV_SHORTCUT = FixTemplate("conv-shortcut", "use a 1x1 convolution instead of the padded shortcut")
KEEP_LAYOUT = FixTemplate(
    "keep-layout", "keep the channels last all the way through", effect=FixEffect.REMOVES
)
ZERO_PAD = FixTemplate("zero-pad", "pad with zeros")
FOLD_RESIZE = FixTemplate(
    "fold-resize", "resize a tensor with fewer channels, or later in the network"
)
MAPPED_FORM = FixTemplate("mapped-form", "use a form that maps: {form}")
FOLD_SIGN = FixTemplate("fold-sign", "fold the sign into the layer before it")
BATCH_NORM = FixTemplate("batch-norm", "use BatchNorm, which folds into the convolution")
MATMUL_FORM = FixTemplate("matmul-form", "write it as Slice, MatMul and Concat of rank 2")
SMALL_FLOAT = FixTemplate(
    "small-float", "keep the tensors of CPU ops small, or use an op that maps"
)
FEWER_WEIGHTS = FixTemplate("fewer-weights", "make the layer smaller: sparse or low-rank")
RELU_IN_FRONT = FixTemplate("relu", "end the layer before it with ReLU, whose zero point is -128")
FEWER_INPUTS = FixTemplate("fewer-inputs", "reduce the channels with a 1x1 layer before it")
AVOID_COPY = FixTemplate(
    "avoid-copy", "let the producers write into one tensor, or keep one layout"
)
FULL_OPERAND = FixTemplate(
    "full-operand", "store the operand in the full shape, or fold it into a layer"
)
FOLD_ELEMENTWISE = FixTemplate(
    "fold-elementwise", "use ReLU, and fold scales into the neighbouring layers"
)
COMPRESS_WEIGHTS = FixTemplate("fewer-weights", "prune or share weights")
FOUR_BIT_WEIGHTS = FixTemplate(
    "four-bit-weights",
    "store weights in 4 bits, in layers that bear it",
)
FEWER_OPS = FixTemplate("fewer-ops", "use fewer and wider layers; fold element-wise ops")

# --- Many cores: options of `manycore compile` and `manycore run`, and changes of the network ---
CORE_BATCH = FixTemplate(
    "core-batch",
    "use a larger batch (-batchsize): its inferences share one load of the constants",
    function=_UNTOUCHED,
)
CORE_INTEGERS = FixTemplate(
    "core-integers", "quantize to 8-bit integers: half the bytes, twice the products per cycle"
)
CORE_KEEP = FixTemplate(
    "core-keep", "use more cores or fewer weights, until the constants stay in VTCM"
)
CORE_MORE = FixTemplate(
    "core-more", "use {cores} cores (-aic-num-cores={cores})", function=_UNTOUCHED
)
CORE_COPIES = FixTemplate(
    "core-copies", "run {copies} copies at once (-a {copies})", function=_UNTOUCHED
)
CORE_DIVISOR = FixTemplate(
    "core-divisor",
    "use a number of cores (-aic-num-cores) that divides rows and blocks of channels",
    function=_UNTOUCHED,
)
CORE_QUEUE = FixTemplate(
    "core-queue",
    "queue more inferences on the device (-S), or run more copies (-a)",
    function=_UNTOUCHED,
)
CORE_SMALLER = FixTemplate("core-smaller", "use a smaller batch or a smaller input")
CORE_CHEAPER = FixTemplate(
    "core-cheaper", "use less of {kind}, which takes {share} of the vector threads' cycles"
)
CORE_FEWER_MOVES = FixTemplate(
    "core-fewer-moves", "remove or join transposes and reshapes around products"
)
CORE_SMALL_CONSTANTS = FixTemplate(
    "core-small-constants", "use smaller values, such as -10,000 in a mask, or scale them"
)

# Options of `npuscope fix` that ask for fixes which change what the application sees.
FLAGS = {
    "cut-tail": "--cut",
    "drop-softmax": "--drop-softmax",
    "integer-input": "--integer-io",
    "integer-output": "--integer-io",
}
