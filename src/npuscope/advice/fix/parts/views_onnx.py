"""Channel-last views of images in an .onnx file: what is a row of channels can be joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.edit.onnx_document import OnnxDocument


def made(
    document: OnnxDocument, source: str, kind: str, *numbers: Sequence[int], **attributes: object
) -> str:
    """The result of an op with whole numbers as its other inputs."""
    result = document.fresh(f"{source}_{kind.lower()}")
    constants = [
        document.add_constant(f"{result}_numbers", np.array(values, np.int64)) for values in numbers
    ]
    document.add_node(kind, (source, *constants), result, "", "", **attributes)
    return result


def reshaped(document: OnnxDocument, source: str, sizes: Sequence[int]) -> str:
    """All axes but the images'."""
    return made(document, source, "Reshape", [-1, *sizes])


def joined(document: OnnxDocument, parts: Sequence[str]) -> str:
    """Along the last of four axes."""
    result = document.fresh(f"{parts[0]}_joined")
    document.add_node("Concat", parts, result, axis=3)
    return result
