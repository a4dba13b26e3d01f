"""A float ONNX network, ready to be quantized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from npuscope.edits import whole_bytes
from npuscope.errors import ModelError
from npuscope.files.onnx.file_graph import OnnxFileGraph
from npuscope.files.onnx.float_form import QUANTIZED
from npuscope.files.onnx.float_ready import float_ready
from npuscope.files.onnx.stored_file import node_kinds
from npuscope.graph.model import FRONT_END_NAME
from npuscope.profiling.runtimes import write_folded
from npuscope.quantizing.others import DYNAMIC_ONE, FLOAT_ONE, FRONT_END_ONE, first_line
from npuscope.quantizing.plan import FloatLayer


class FloatNetwork(Struct, frozen=True):
    """The network and what was repaired, one sentence each."""

    graph: OnnxFileGraph
    notes: tuple[str, ...]

    @property
    def data(self) -> bytes:
        return self.graph.written()

    def layers(self) -> tuple[FloatLayer, ...]:
        graph, constants, layers = self.graph, self.graph.constant_names, []
        for op in graph.nodes:
            inputs, outputs = graph.inputs(op), tuple(graph.outputs(op))
            computed = tuple(name for name in inputs if name and name not in constants)
            weights = next((name for name in inputs[1:2] if name in constants), "")
            layers.append(
                FloatLayer(graph.own_name(op), graph.word(op), computed, outputs, weights)
            )
        return tuple(layers)

    def constant(self, name: str) -> np.ndarray | None:
        return self.graph.values(name)


def prepare(path: Path, shapes: Mapping[str, Sequence[int]] | None, folder: Path) -> FloatNetwork:
    """`folder` is for files in between."""
    data = whole_bytes(path)
    if kinds := sorted(node_kinds(data).intersection(QUANTIZED)):
        hint = FRONT_END_ONE if FRONT_END_NAME in path.stem else FLOAT_ONE
        hint = DYNAMIC_ONE if any(kind.startswith("Dynamic") for kind in kinds) else hint
        raise ModelError(f"the model is quantized already: it has {kinds[0]}", hint=hint)

    def fold(model: bytes) -> bytes:
        target = folder / "folded.onnx"
        try:
            write_folded(model, target)
        except Exception as error:
            raise ModelError(
                f"onnxruntime cannot open the model: {first_line(error)}",
                hint="quantize runs the float network in onnxruntime; check that it runs there",
            ) from error
        return target.read_bytes()

    notes: list[str] = []
    return FloatNetwork(float_ready(data, path, shapes, fold, notes), tuple(notes))
