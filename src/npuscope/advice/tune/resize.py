"""The file of a network for pictures of another size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from npuscope.edits import open_document
from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.tflite.document import TfliteDocument
from npuscope.errors import ModelError
from npuscope.files.load import read_model


def resized(path: Path, data: bytes, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """With the sizes that follow from these; read back as it is, it is the same network."""
    network = read_model(path, data, shapes)
    ends = (*network.inputs, *network.outputs)
    document = open_document(path, data)
    if isinstance(document, TfliteDocument):  # every tensor of it states its size
        for tensor in document.tensors:
            in_graph = network.tensors.get(tensor.name)
            if tensor.data is None and in_graph is not None and in_graph.shape != tensor.shape:
                document.state(tensor, shape=in_graph.shape)
    else:
        assert isinstance(document, OnnxDocument)
        document.state_sizes({name: network.tensor(name).shape for name in ends})
    data = document.to_bytes()
    again = read_model(path, data)
    if any(again.tensor(name).shape != network.tensor(name).shape for name in ends):
        raise ModelError("the sizes cannot be written into the file", where=str(path))
    return data
