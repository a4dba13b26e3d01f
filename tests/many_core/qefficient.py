"""A decoder of two layers as QEfficient exports one: its own ops are functions of the file, with
the bodies that its sources give them; weights are random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLOUD, AISW = "com.qualcomm.cloud", "com.qti.aisw.onnx"
HIDDEN, HEADS, KV_HEADS, PER_HEAD, INNER, VOCABULARY, LAYERS = 64, 4, 2, 16, 128, 96, 2
BATCH, TOKENS, CONTEXT = "batch_size", "seq_len", "ctx_len"
_OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid(CLOUD, 1), helper.make_opsetid(AISW, 1)]


def _ints(name: str, *values: int) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value_ints=list(values))


def _size(tensor: str, axis: int, name: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Shape", [tensor], [f"{name}_all"]),
        _ints(f"{name}_axis", axis),
        helper.make_node("Gather", [f"{name}_all", f"{name}_axis"], [name]),
    ]


def _along(source: str, axes: Sequence[int], name: str) -> list[onnx.NodeProto]:
    """Indices of one axis, for all places of the others."""
    return [
        _ints(f"{name}_axes", *axes),
        helper.make_node("Unsqueeze", [source, f"{name}_axes"], [f"{name}_thin"]),
        helper.make_node("Expand", [f"{name}_thin", "shape"], [name]),
    ]


def _scalar(name: str) -> onnx.NodeProto:
    return helper.make_node("Squeeze", [name], [f"{name}_0"])


CTX_SCATTER = helper.make_function(
    CLOUD,
    "CtxScatter",
    ["data", "position_ids", "updates"],
    ["result"],
    [
        *_size("data", 0, "batch"),
        *_size("data", 1, "heads"),
        *_size("position_ids", 1, "tokens"),
        _ints("zero", 0),
        _ints("one", 1),
        *(_scalar(name) for name in ("zero", "one", "batch", "heads")),
        helper.make_node("Concat", ["batch", "heads", "tokens", "one"], ["shape"], axis=0),
        helper.make_node("Range", ["zero_0", "batch_0", "one_0"], ["batches"]),
        helper.make_node("Range", ["zero_0", "heads_0", "one_0"], ["all_heads"]),
        *_along("batches", (1, 2, 3), "batch_places"),
        *_along("all_heads", (0, 2, 3), "head_places"),
        *_along("position_ids", (1, 3), "ctx_places"),
        helper.make_node(
            "Concat", ["batch_places", "head_places", "ctx_places"], ["places"], axis=3
        ),
        helper.make_node("ScatterND", ["data", "places", "updates"], ["result"]),
    ],
    _OPSETS[:1],
)
CTX_GATHER = helper.make_function(
    CLOUD,
    "CtxGather",
    ["data", "ctx_indices", "comp_ctx_len"],
    ["result"],
    [
        helper.make_node("Shape", ["data"], ["all"]),
        _ints("start", 0),
        _ints("stop", 2),
        helper.make_node("Slice", ["all", "start", "stop"], ["front"]),
        _ints("single", 1),
        helper.make_node("Reshape", ["comp_ctx_len", "single"], ["length"]),
        helper.make_node("Concat", ["front", "length"], ["shape"], axis=0),
        helper.make_node("Expand", ["ctx_indices", "shape"], ["wide"]),
        _ints("last", -1),
        helper.make_node("Unsqueeze", ["wide", "last"], ["places"]),
        helper.make_node("GatherND", ["data", "places"], ["result"], batch_dims=2),
    ],
    _OPSETS[:1],
)
RMS_NORM = helper.make_function(
    AISW,
    "CustomRMSNorm",
    ["x", "weight"],
    ["result"],
    [
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("Pow", ["x", "two"], ["squares"]),
        helper.make_node("ReduceMean", ["squares"], ["mean"], axes=[-1], keepdims=1),
        helper.make_node("Constant", [], ["epsilon"], value_float=1e-5),
        helper.make_node("Add", ["mean", "epsilon"], ["above"]),
        helper.make_node("Sqrt", ["above"], ["root"]),
        helper.make_node("Reciprocal", ["root"], ["factor"]),
        helper.make_node("Mul", ["x", "factor"], ["scaled"]),
        helper.make_node("Mul", ["weight", "scaled"], ["result"]),
    ],
    _OPSETS[:1],
)


class _Export:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, values: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weights(self, *shape: int) -> str:
        values = self.random.standard_normal(shape) / np.sqrt(shape[0])
        return self.constant(values.astype(np.float32))

    def norm(self, x: str) -> str:
        weight = self.constant(self.random.uniform(0.5, 1.5, HIDDEN).astype(np.float32))
        return self.node("CustomRMSNorm", x, weight, domain=AISW)

    def heads(self, x: str, count: int) -> str:
        y = self.node("MatMul", x, self.weights(HIDDEN, count * PER_HEAD))
        y = self.node("Reshape", y, self.constant(np.array([0, 0, count, PER_HEAD])))
        return self.node("Transpose", y, perm=[0, 2, 1, 3])

    def cache(self, name: str, new: str) -> str:
        """The new tokens at their positions, then what the query may see."""
        kept = f"{name}_RetainedState"
        self.node("CtxScatter", name, "position_ids", new, output=kept, domain=CLOUD)
        return self.node("CtxGather", kept, "ctx_indices", "ctx_size", domain=CLOUD)

    def attention(self, x: str, layer: int) -> str:
        query = self.heads(x, HEADS)
        key = self.cache(f"past_key.{layer}", self.heads(x, KV_HEADS))
        value = self.cache(f"past_value.{layer}", self.heads(x, KV_HEADS))
        group = self.constant(np.array([0, KV_HEADS, -1, PER_HEAD]))
        query = self.node("Reshape", query, group)
        scores = self.node("MatMul", query, self.node("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.node("Mul", scores, self.constant(np.float32(PER_HEAD**-0.5)))
        scores = self.node("Softmax", scores, axis=-1)
        mixed = self.node("MatMul", scores, value)
        mixed = self.node("Reshape", mixed, self.constant(np.array([0, HEADS, -1, PER_HEAD])))
        mixed = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = self.node("Reshape", mixed, self.constant(np.array([0, 0, HEADS * PER_HEAD])))
        return self.node("MatMul", mixed, self.weights(HEADS * PER_HEAD, HIDDEN))


def export(seed: int = 0) -> bytes:
    net = _Export(seed)
    # The context's places: what lies behind the last token reads place 0.
    state = "past_key.0"
    net.node("Shape", state, output="state_shape")
    net.node("Gather", "state_shape", net.constant(np.array(2)), output="ctx_size")
    zero, one = net.constant(np.array(0)), net.constant(np.array(1))
    places = net.node("Range", zero, "ctx_size", one)
    places = net.node("Reshape", places, net.constant(np.array([1, 1, -1])))
    latest = net.node("ReduceMax", "position_ids", axes=[1], keepdims=1)
    latest = net.node("Unsqueeze", latest, net.constant(np.array([1])))
    behind = net.node("Greater", places, latest)
    net.node("Where", behind, net.constant(np.array(0)), places, output="ctx_indices")
    x = net.node("Gather", net.weights(VOCABULARY, HIDDEN), "input_ids", axis=0)
    for layer in range(LAYERS):
        x = net.node("Add", x, net.attention(net.norm(x), layer))
        y = net.norm(x)
        gate = net.node("MatMul", y, net.weights(HIDDEN, INNER))
        gate = net.node("Mul", gate, net.node("Sigmoid", gate))
        up = net.node("MatMul", y, net.weights(HIDDEN, INNER))
        x = net.node(
            "Add", x, net.node("MatMul", net.node("Mul", gate, up), net.weights(INNER, HIDDEN))
        )
    net.node("MatMul", net.norm(x), net.weights(HIDDEN, VOCABULARY), output="logits")
    shape = [BATCH, KV_HEADS, CONTEXT, PER_HEAD]
    states = [f"past_{kind}.{layer}" for layer in range(LAYERS) for kind in ("key", "value")]
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, [BATCH, TOKENS])
        for name in ("input_ids", "position_ids")
    ]
    pasts = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in states]
    kept = [
        helper.make_tensor_value_info(f"{n}_RetainedState", TensorProto.FLOAT, shape)
        for n in states
    ]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, TOKENS, VOCABULARY])
    graph = helper.make_graph(net.nodes, "decoder", [*ids, *pasts], [logits, *kept], net.constants)
    functions = [CTX_SCATTER, CTX_GATHER, RMS_NORM]
    model = helper.make_model(graph, opset_imports=_OPSETS, functions=functions, ir_version=9)
    return bytes(model.SerializeToString())
