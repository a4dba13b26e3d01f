"""What to say about ops we cannot read: the nearest form that we can."""

from __future__ import annotations

from collections.abc import Sequence

from npuscope.errors import ModelError
from npuscope.text import safe_terminal

_CUT = "cut the model before it and do the rest on the host"
_RECURRENT = "unroll into Gemm, Sigmoid, Tanh, Mul, Add (one step a call, the state as an input)"
_CONTROL = "export the model without control flow: one static graph, loops on the host"
_STATIC = "quantize the model statically: onnxruntime.quantization.quantize_static, format QDQ"
_CONV2D = "one or two spatial axes are supported: fold the third into the batch or the channels"

# Parts of op names, in lower case without underscores -> the nearest supported form.
_NEAREST = (
    (("lstm", "gru", "rnn", "svdf"), _RECURRENT),
    (("nonmaxsuppression", "topk", "postprocess", "nms", "unique", "nonzero"), _CUT),
    (("if", "loop", "scan", "while", "call", "callonce"), _CONTROL),
    (("gathernd", "gatherelements", "scatter"), "use Gather along one axis, or " + _CUT),
    (("spacetobatch", "batchtospace"), "write it as a convolution with dilations"),
    (("conv3d", "conv3dtranspose"), _CONV2D),
    (("dynamicquantizelinear", "dynamicquantize"), _STATIC),
    (("lppool", "l2pool2d"), "use AveragePool"),
    (("localresponsenormalization", "lrn"), "use BatchNormalization"),
    (("rmsnorm", "simplifiedlayernorm"), "write it as Mul, ReduceMean, Add, Sqrt, Div"),
    (("skiplayernorm",), "write it as Add and LayerNormalization"),
    (("attention",), "write it as MatMul, Softmax, MatMul"),
    (("fusedconv",), "save the model with onnxruntime's basic optimizations only"),
    (("fusedmatmul", "fusedgemm"), "save the model with onnxruntime's basic optimizations only"),
    (("cumsum", "onehot", "reverse", "einsum"), "write it as a MatMul with a constant"),
    (("selu", "celu", "thresholdedrelu", "shrink", "softsign"), "use Relu, LeakyRelu or Elu"),
    (("embeddinglookup",), "use Gather"),
    (("varhandle", "readvariable", "assignvariable"), "make the state an input and an output"),
    (("stablehlo",), "convert the model with TensorFlow Lite's own operators"),
)
_EXACT = {"if", "call"}  # also parts of other words


def nearest_form(kind: str) -> str:
    """The hint for an op that is not supported."""
    plain = kind.lower().replace("_", "")
    for words, hint in _NEAREST:
        if any(plain == word if word in _EXACT else word in plain for word in words):
            return hint
    return _CUT


def refuse_ops(unknown: Sequence[tuple[str, str]], what: str) -> None:
    """Raise for the first of the (kind, origin) pairs, and name all kinds."""
    if not unknown:
        return
    kind, origin = unknown[0]
    kinds = ", ".join(sorted({safe_terminal(name) for name, _ in unknown}))
    raise ModelError(
        f"{what} {safe_terminal(kind)} is not supported; "
        f"{len(unknown)} such {what}s in all: {kinds}",
        where=origin,
        hint=nearest_form(kind),
    )
