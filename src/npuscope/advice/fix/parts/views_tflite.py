"""Views of images in a .tflite file: what is a row of channels can be joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.advice.fix.parts.copying_tflite import bytes_like
from npuscope.graph.edit.tflite_document import EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record


def like(
    document: TfliteDocument, source: EditTensor, stem: str, shape: Sequence[int]
) -> EditTensor:
    """A tensor of the same steps."""
    return document.add_tensor(stem, source.type, shape, bytes_like(source))


def reshaped(document: TfliteDocument, source: EditTensor, shape: Sequence[int]) -> EditTensor:
    result = like(document, source, f"{source.name}_view", shape)
    add_reshape(document, source, result)
    return result


def add_reshape(document: TfliteDocument, source: EditTensor, result: EditTensor) -> None:
    sizes = np.array(result.shape, np.int32)
    given = document.add_tensor(f"{result.name}_shape", "INT32", sizes.shape, None, sizes)
    options = Record("ReshapeOptions", {"NewShape": sizes})
    document.add_op("RESHAPE", (source, given), (result,), options)


def joined(document: TfliteDocument, parts: Sequence[EditTensor]) -> EditTensor:
    """Along the last axis."""
    first = parts[0]
    shape = (*first.shape[:-1], sum(part.shape[-1] for part in parts))
    result = like(document, first, f"{first.name}_joined", shape)
    options = Record("ConcatenationOptions", {"Axis": len(shape) - 1})
    document.add_op("CONCATENATION", parts, (result,), options, version=2)
    return result
