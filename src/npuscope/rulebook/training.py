"""What a fix means where the network is made: its spelling in Keras and in PyTorch.

By the id of the fix. Numbers of a finding stand in braces, as in the title of the fix.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

from msgspec import Struct

from npuscope.rulebook.fix import Value


class Spelling(Struct, frozen=True):
    keras: str
    torch: str

    def told(self, parameters: Mapping[str, Value]) -> dict[str, str]:
        """With the finding's numbers; a number that is not known stays a name."""
        return {"keras": _filled(self.keras, parameters), "torch": _filled(self.torch, parameters)}


def _filled(text: str, parameters: Mapping[str, Value]) -> str:
    names = {name for _, name, _, _ in Formatter().parse(text) if name}
    return text.format(**{name: parameters.get(name, f"<{name}>") for name in names})


def training(fix: str, parameters: Mapping[str, Value]) -> dict[str, str] | None:
    """None for fixes of the file, of the tool chain or of the application."""
    return SPELLINGS[fix].told(parameters) if fix in SPELLINGS else None


_QAT = "calibrate with real samples: representative_dataset of tf.lite.TFLiteConverter"
_PTQ = "calibrate with real samples: `npuscope quantize`, or quantize_static of onnxruntime"

# One spelling per row is easier to read than the formatter's layout.
# fmt: off
SPELLINGS = {
    # channels
    "change-outputs": Spelling("Conv2D(filters={channels}, ...)",
        "nn.Conv2d(c, {channels}, ...)"),
    "change-inputs": Spelling("Conv2D(filters={channels}, ...) in the layer before",
        "nn.Conv2d(c, {channels}, ...) in the layer before"),
    "pad-channels": Spelling("filters={padded} instead of {channels}",
        "out_channels={padded} instead of {channels}"),
    "split-outputs": Spelling("a filters count with divisors near 16, such as a multiple of 8",
        "an out_channels count with divisors near 16, such as a multiple of 8"),
    "split-inputs": Spelling("an input count with divisors near 16, such as a multiple of 8",
        "an in_channels count with divisors near 16, such as a multiple of 8"),
    "dense-groups": Spelling("Conv2D(..., groups=1), or DepthwiseConv2D with a 1x1 Conv2D",
        "nn.Conv2d(..., groups=1), or groups=channels with a 1x1 nn.Conv2d"),
    "narrow-outputs": Spelling("filters of at most 512 while the map is large",
        "out_channels of at most 512 while the map is large"),
    "prune-channels": Spelling("tfmot.sparsity, then remove the filters that are zero",
        "torch.nn.utils.prune.ln_structured, then remove the channels that are zero"),
    "equal-parts": Spelling("tf.split into equal parts, or Conv2D layers of equal filters",
        "torch.chunk into equal parts, or nn.Conv2d of equal out_channels"),
    "more-inputs": Spelling("an input of two or more channels (filters >= 2 in the layer before)",
        "an input of two or more channels (out_channels >= 2 in the layer before)"),
    "fewer-inputs": Spelling("Conv2D(filters=c // 4, kernel_size=1) in front",
        "nn.Conv2d(c, c // 4, 1) in front"),
    "fewer-weights": Spelling("fewer filters (Conv2D) or units (Dense), or two layers of low rank",
        "fewer out_channels (nn.Conv2d) or out_features (nn.Linear), or two layers of low rank"),
    "conv-shortcut": Spelling("Conv2D(filters, 1, strides) on the shortcut instead of "
        "tf.pad along the channels",
        "nn.Conv2d(c_in, c_out, 1, stride) on the shortcut instead of F.pad of the channels"),
    "pad-conv": Spelling("Conv2D(filters, 1) on the shortcut instead of tf.pad along the channels",
        "nn.Conv2d(c_in, c_out, 1) on the shortcut instead of F.pad of the channels"),
    "separate-convs": Spelling("two Conv2D on the same input instead of tf.split",
        "two nn.Conv2d on the same input instead of torch.split or chunk"),
    "shuffle-conv": Spelling("a 1x1 Conv2D between blocks instead of reshape, transpose, reshape",
        "nn.Conv2d(c, c, 1) between blocks instead of nn.ChannelShuffle"),
    # kernels
    "smaller-kernel": Spelling("Conv2D(n, 3), Conv2D(n, 3) instead of kernel_size 5 or 7",
        "nn.Conv2d(c, n, 3), nn.Conv2d(n, n, 3) instead of kernel_size 5 or 7"),
    "narrower-kernel": Spelling("kernel_size=(h, 6) at most in the second axis",
        "kernel_size=(h, 6) at most in the second axis"),
    "two-kernels": Spelling("Conv2D(n, (4, 1), strides=(4, 1)), then Conv2D(n, (2, 1))",
        "nn.Conv2d(c, n, (4, 1), (4, 1)), then nn.Conv2d(n, n, (2, 1))"),
    "use-3x3": Spelling("kernel_size=3 here, or no 1x1 layer of few channels",
        "kernel_size=3 here, or no 1x1 layer of few channels"),
    "stride-two": Spelling("strides=1, 2 or 4", "stride=1, 2 or 4"),
    "smaller-stride": Spelling("strides=1, 2 or 4, then AveragePooling2D",
        "stride=1, 2 or 4, then nn.AvgPool2d"),
    "move-stride": Spelling("strides=2 in the 1x1 Conv2D after the depthwise layer",
        "stride=2 in the 1x1 nn.Conv2d after the depthwise layer"),
    "stride-instead": Spelling("strides=2 in the Conv2D before instead of x[:, ::2, ::2]",
        "stride=2 in the nn.Conv2d before instead of x[..., ::2, ::2]"),
    "pool-instead": Spelling("MaxPooling2D or strides=2 instead of dilation_rate",
        "nn.MaxPool2d or stride=2 instead of dilation"),
    "fold-width": Spelling("Reshape to more rows or channels before Conv1D or Conv2D",
        "x.reshape to more rows or channels before nn.Conv1d or nn.Conv2d"),
    "fold-pool-width": Spelling("Reshape to more rows or channels before MaxPooling1D or 2D",
        "x.reshape to more rows or channels before nn.MaxPool1d or 2d"),
    "fold-rows": Spelling("Reshape((n, -1, c)) so that no axis is that long",
        "x.reshape(b, c, n, -1) so that no axis is that long"),
    "resize-conv": Spelling("UpSampling2D(2), Conv2D(n, 3) instead of Conv2DTranspose",
        "nn.Upsample(scale_factor=2), nn.Conv2d(c, n, 3) instead of nn.ConvTranspose2d"),
    "small-pools": Spelling("MaxPooling2D(3, 1, 'same') twice instead of pool_size=5",
        "nn.MaxPool2d(3, 1, 1) twice instead of kernel_size=5"),
    "unpadded-pool": Spelling("AveragePooling2D(..., padding='valid')",
        "nn.AvgPool2d(..., padding=0)"),
    "explicit-pad": Spelling("padding='valid' in the pool, ZeroPadding2D in front",
        "nn.ZeroPad2d in front of a pool with padding=0"),
    "zero-pad": Spelling("padding='same' or ZeroPadding2D instead of tf.pad(mode='REFLECT')",
        "padding_mode='zeros' instead of 'reflect' or 'replicate'"),
    "nearest-resize": Spelling("UpSampling2D(2, interpolation='nearest'), Conv2D(n, 3)",
        "nn.Upsample(scale_factor=2, mode='nearest'), nn.Conv2d(c, n, 3)"),
    "repeat-by-joining": Spelling("a Conv2D to fewer channels in front of UpSampling2D",
        "nn.Conv2d to fewer channels in front of nn.Upsample"),
    "fold-resize": Spelling("UpSampling2D after the 1x1 Conv2D that reduces the channels",
        "nn.Upsample after the 1x1 nn.Conv2d that reduces the channels"),
    # functions
    "relu": Spelling("ReLU(6.0) instead of swish, LeakyReLU or PReLU",
        "nn.ReLU6() instead of nn.SiLU, nn.LeakyReLU or nn.PReLU"),
    "slope-instead": Spelling("LeakyReLU(0.1) instead of tf.maximum(x, 0.1 * x)",
        "nn.LeakyReLU(0.1) instead of torch.max(x, 0.1 * x)"),
    "quantize-slope": Spelling("LeakyReLU or ReLU instead of PReLU",
        "nn.PReLU() with one slope, nn.LeakyReLU or nn.ReLU6 instead of nn.PReLU(n)"),
    "fold-elementwise": Spelling("ReLU; scales inside BatchNormalization",
        "nn.ReLU; scales inside nn.BatchNorm2d"),
    "batch-norm": Spelling("BatchNormalization instead of LayerNormalization",
        "nn.BatchNorm2d instead of nn.LayerNorm or nn.GroupNorm"),
    "mapped-form": Spelling("tf.reduce_mean(x) * n for a sum, x * (1 / c) for a quotient",
        "x.mean() * n for a sum, x * (1 / c) for a quotient"),
    "mean-times-n": Spelling("tf.reduce_mean(x, [1, 2]) * n instead of tf.reduce_sum",
        "x.mean((2, 3)) * n instead of x.sum((2, 3))"),
    "mean-both-axes": Spelling("GlobalAveragePooling2D()", "nn.AdaptiveAvgPool2d(1)"),
    "multiply-instead": Spelling("x * (1 / c) instead of x / c", "x * (1 / c) instead of x / c"),
    "gate-form": Spelling("n + z * (h - n) instead of (1 - z) * n + z * h",
        "n + z * (h - n) instead of (1 - z) * n + z * h"),
    "negate-by-product": Spelling("x * -1.0 + c instead of c - x", "x * -1.0 + c instead of c - x"),
    "fold-sign": Spelling("the sign in the weights: no tf.negative after a layer",
        "the sign in the weights: no torch.neg after a layer"),
    "expand-operand": Spelling("operands of equal shape, or (1, 1, 1, c) and (1, h, w, c)",
        "operands of equal shape, or (1, c, 1, 1) and (1, c, h, w)"),
    "full-operand": Spelling("a constant of (1, 1, 1, c), or the full shape",
        "a constant of (1, c, 1, 1), or the full shape"),
    "resize-vector": Spelling("UpSampling2D of the pooled vector before Add",
        "F.interpolate(vector, (h, w)) before the sum"),
    "add-behind": Spelling("Dense(use_bias=False), then Add with the computed bias",
        "nn.Linear(bias=False), then + the computed bias"),
    # blocks
    "replace-block": Spelling("Conv2D, BatchNormalization, ReLU instead of attention or this op",
        "nn.Conv2d, nn.BatchNorm2d, nn.ReLU instead of attention or this op"),
    "cast-outside": Spelling("Input(dtype) of the type that the first layer reads, no tf.cast",
        "export with an example of the type that the first layer reads, no .float()"),
    "fewer-ops": Spelling("fewer and wider layers; no Lambda between them",
        "fewer and wider layers; no arithmetic between them in forward()"),
    "matmul-form": Spelling("tf.matmul on (1, n, c) and constants instead of tf.einsum",
        "nn.Linear on (1, n, c) instead of torch.einsum"),
    "merge-axes": Spelling("shapes of at most four axes: no Reshape to five",
        "shapes of at most four axes: no view-permute-view blocks"),
    "channel-axis": Spelling("Concatenate(axis=-1), and slices of the last axis",
        "torch.cat(dim=1), and slices of dim 1"),
    "keep-layout": Spelling("channels_last all the way; no Permute",
        "no permute or transpose inside forward()"),
    "remove-transposes": Spelling("no pairs of Permute", "no pairs of permute"),
    "constant-slice": Spelling("x[..., a:b] instead of tf.gather",
        "x[:, a:b] instead of index_select"),
    "avoid-copy": Spelling("Concatenate of what layers make, not of slices",
        "torch.cat of what layers make, not of slices"),
    "smaller-input": Spelling("Input((h // 2, w // 2, 3)), or fewer filters in the first layers",
        "a smaller input, or fewer out_channels in the first layers"),
    "small-float": Spelling("large outputs int8; Softmax and decoding outside the model",
        "large outputs int8; softmax and decoding outside forward()"),
    "cut-tail": Spelling("Model(inputs, [the last Conv2D outputs]), decoding outside",
        "return the last nn.Conv2d outputs from forward(), decoding outside"),
    "drop-softmax": Spelling("Dense(n) without softmax, loss with from_logits=True",
        "no nn.Softmax: nn.CrossEntropyLoss takes logits"),
    "separate-outputs": Spelling("Model(inputs, [a, b]) instead of Concatenate at the end",
        "return a, b instead of torch.cat at the end"),
    # numbers
    "zero-point": Spelling("end the layer before with ReLU, or clip symmetrically",
        "end the layer before with nn.ReLU, or a symmetric qconfig for this tensor"),
    "tie-scales": Spelling("one quantizer for all operands in quantization-aware training",
        "one observer for all operands (nn.quantized.FloatFunctional)"),
    "calibrate": Spelling(_QAT, _PTQ),
    "quantize": Spelling("TFLiteConverter with optimizations=[Optimize.DEFAULT], "
        "TFLITE_BUILTINS_INT8 and a representative_dataset",
        "torch.onnx.export, then `npuscope quantize`"),
    "static-quantization": Spelling(_QAT, _PTQ),
    "quantize-op": Spelling("TFLITE_BUILTINS_INT8 as the only supported_ops",
        "this op among the op_types_to_quantize of onnxruntime"),
    "quantize-neighbours": Spelling("TFLITE_BUILTINS_INT8 as the only supported_ops",
        "all op types among the op_types_to_quantize of onnxruntime"),
    "per-channel": Spelling("no _experimental_disable_per_channel on the converter",
        "quantize_static(..., per_channel=True)"),
    "symmetric-weights": Spelling("the converter's int8 scheme, which is symmetric",
        "extra_options={{'WeightSymmetric': True}}, per_channel=True"),
    "signed-activations": Spelling("inference_input_type=tf.int8",
        "activation_type=QuantType.QInt8"),
    "integer-input": Spelling("converter.inference_input_type = tf.int8",
        "no QuantizeLinear at the input: give int8"),
    "integer-output": Spelling("converter.inference_output_type = tf.int8",
        "no DequantizeLinear at the output: take int8"),
    # export
    "batch-one": Spelling("Input(shape, batch_size=1)", "export with a sample of batch 1 and no "
        "dynamic_axes"),
    "older-opset": Spelling("tf2onnx --opset 17", "torch.onnx.export(..., opset_version=17)"),
    "fold-constants": Spelling("tf2onnx folds them", "do_constant_folding=True, before quantizing"),
    "static-export": Spelling("Input(shape, batch_size=1)", "no x.shape arithmetic in forward(): "
        "write the sizes"),
    "input-form": Spelling("Input((n,), batch_size=1), tf.clip_by_value on indices",
        "a (1, n) input, torch.clamp on indices"),
}
# fmt: on

# Fixes that say nothing to who trains: repairs of a file, options of the tool chain, and what the
# application does.
ELSEWHERE = frozenset(
    (
        *("older-ir", "strip-empty-input", "plain-bounds", "fold-bounds", "own-weights"),
        *("share-result", "plain-nearest", "remove-reshapes", "drop-input", "original-file"),
        *("epoch-controller", "newer-compiler", "option-auto-sched", "option-expand-softmax"),
        *("option-shuffle-dma", "safe-shift", "weights-on-chip", "channel-last-border"),
        *("host-layout", "batch-frames", "thread-states"),
        *("core-batch", "core-copies", "core-divisor", "core-keep", "core-more", "core-queue"),
        *("core-cheaper", "core-fewer-moves", "core-integers", "core-small-constants"),
        "core-smaller",
        "four-bit-weights",
        *("ethos-more-sram", "ethos-one-stream", "ethos-full-blocks", "ethos-pad-the-image"),
        *("ethos-other-operator", "ethos-other-form", "ethos-within-limits"),
        *("ethos-channels-last", "ethos-memory-mode"),
    )
)
