"""Decoders of published sizes as ONNX models whose weights are absent.

    python benchmarks/language_nets.py qwen3-8b qwen.onnx

Batch, tokens and context have symbols, as exporters name them. Keys and values of earlier tokens
are states: the input `past_key.N` and the output `past_key.N_RetainedState` stay in the device's
memory from step to step.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import NamedTuple

from onnx import TensorProto
from published_nets import Net

BATCH, TOKENS, CONTEXT = "batch_size", "seq_len", "ctx_len"


class Decoder(NamedTuple):
    """Sizes as in the public configuration of a model."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    per_head: int
    inner: int
    vocabulary: int


LLAMA_7B = Decoder("llama-7b", 32, 4096, 32, 32, 128, 11008, 32000)
QWEN3_8B = Decoder("qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936)


def decoder(size: Decoder) -> bytes:
    net = DecoderNet(size)
    ids = net.input("input_ids", (BATCH, TOKENS), TensorProto.INT64)
    last = net.input("last", (1,), TensorProto.INT64)
    x = net.node("Gather", net.weights(size.vocabulary, size.hidden), ids, axis=0)
    for layer in range(size.layers):
        x = net.node("Add", x, net.attend(net.rms_norm(x), layer))
        y = net.rms_norm(x)
        gate, up = (net.product(y, size.hidden, size.inner) for _ in range(2))
        y = net.node("Mul", net.act(gate, "Silu"), up)
        x = net.node("Add", x, net.product(y, size.inner, size.hidden))
    # Only the last token's words are of interest.
    x = net.node("Gather", net.rms_norm(x), last, axis=1)
    words = net.product(x, size.hidden, size.vocabulary)
    return net.file(size.name, {words: (BATCH, 1, size.vocabulary), **net.states})


class DecoderNet(Net):
    def __init__(self, size: Decoder) -> None:
        super().__init__()
        self.size = size
        self.states: dict[str, tuple[int | str, ...]] = {}
        self.mask = self.input("attention_mask", (BATCH, 1, TOKENS, CONTEXT))
        self.turn = [self.input(name, (1, 1, TOKENS, size.per_head)) for name in ("cos", "sin")]
        self.places = self.input("places", (BATCH, size.kv_heads, TOKENS, 3), TensorProto.INT64)

    def product(self, x: str, inputs: int, outputs: int) -> str:
        return self.node("MatMul", x, self.weights(inputs, outputs))

    def rms_norm(self, x: str) -> str:
        mean = self.node("ReduceMean", self.node("Mul", x, x), axes=[-1])
        root = self.node("Sqrt", self.node("Add", mean, self.values(1e-6)))
        return self.node("Mul", self.node("Div", x, root), self.weights(self.size.hidden))

    def turned(self, x: str) -> str:
        """Rotary embedding: the halves change places."""
        half = self.size.per_head // 2
        low, high = (
            self.node("Slice", x, *(self.values([at], "int64") for at in (begin, begin + half, 3)))
            for begin in (0, half)
        )
        swapped = self.node("Concat", self.node("Neg", high), low, axis=3)
        cos, sin = self.turn
        return self.node("Add", self.node("Mul", x, cos), self.node("Mul", swapped, sin))

    def state(self, name: str, new: str) -> str:
        """What was there, with the new tokens at their places."""
        size = self.size
        shape = (BATCH, size.kv_heads, CONTEXT, size.per_head)
        self.node("ScatterND", self.input(name, shape), self.places, new)
        kept = f"{name}_RetainedState"
        self.nodes[-1].output[0] = kept
        self.states[kept] = shape
        return kept

    def attend(self, x: str, layer: int) -> str:
        """Attention over the whole context."""
        size = self.size
        apart = []
        for heads in (size.heads, size.kv_heads, size.kv_heads):
            y = self.product(x, size.hidden, heads * size.per_head)
            y = self.reshape(y, 0, 0, heads, size.per_head)
            apart.append(self.node("Transpose", y, perm=[0, 2, 1, 3]))
        keys = self.state(f"past_key.{layer}", self.turned(apart[1]))
        values = self.state(f"past_value.{layer}", apart[2])
        # Heads of a group share keys and values: their queries are rows of one product.
        query = self.reshape(self.turned(apart[0]), 0, size.kv_heads, -1, size.per_head)
        scores = self.node("MatMul", query, self.node("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = self.node("Mul", scores, self.values(1 / math.sqrt(size.per_head)))
        scores = self.node("Add", self.reshape(scores, 0, size.heads, -1, 0), self.mask)
        scores = self.reshape(self.node("Softmax", scores, axis=-1), 0, size.kv_heads, -1, 0)
        mixed = self.reshape(self.node("MatMul", scores, values), 0, size.heads, -1, size.per_head)
        mixed = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = self.reshape(mixed, 0, 0, size.heads * size.per_head)
        return self.product(mixed, size.heads * size.per_head, size.hidden)


if __name__ == "__main__":
    sizes = {size.name: size for size in (LLAMA_7B, QWEN3_8B)}
    Path(sys.argv[2]).write_bytes(decoder(sizes[sys.argv[1]]))
