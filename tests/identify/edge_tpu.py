"""A file for the Edge TPU, built in code."""

from __future__ import annotations

import flatbuffers
import numpy as np

from models_tflite import TfliteWriter


def executable(kind: int, parameters: int, scratch: int, chip: str = "beagle") -> bytes:
    builder = flatbuffers.Builder(64)
    bits = builder.CreateByteVector(bytes(48))
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, bits, 0)
    chunk = builder.EndObject()
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(chunk)
    code = builder.EndVector()
    data, name = builder.CreateByteVector(bytes(parameters)), builder.CreateString(chip)
    builder.StartObject(17)
    builder.PrependInt32Slot(4, scratch, 0)
    builder.PrependUOffsetTRelativeSlot(5, code, 0)
    builder.PrependUOffsetTRelativeSlot(6, data, 0)
    builder.PrependUOffsetTRelativeSlot(10, name, 0)
    builder.PrependInt16Slot(13, kind, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def package(*executables: bytes) -> bytes:
    inner = flatbuffers.Builder(64)
    places = [inner.CreateString(one) for one in executables]
    inner.StartVector(4, len(places), 4)
    for place in reversed(places):
        inner.PrependUOffsetTRelative(place)
    rows = inner.EndVector()
    inner.StartObject(1)
    inner.PrependUOffsetTRelativeSlot(0, rows, 0)
    inner.Finish(inner.EndObject())
    builder = flatbuffers.Builder(64)
    data, words = builder.CreateByteVector(bytes(inner.Output())), builder.CreateString("cl/343")
    builder.StartObject(8)
    builder.PrependInt32Slot(0, 13, 0)
    builder.PrependUOffsetTRelativeSlot(1, data, 0)
    builder.PrependUOffsetTRelativeSlot(4, words, 0)
    builder.Finish(builder.EndObject(), b"DWN1")
    return bytes(builder.Output())


def edge_tpu_file(content: bytes | None = None) -> bytes:
    """Parameters of 300 bytes in the chip and 40 streamed, and a Dequantize behind."""
    content = content or package(executable(2, 40, 512), executable(1, 300, 0))
    writer = TfliteWriter()
    data = writer.constant("package", np.frombuffer(content, np.uint8))
    image = writer.tensor("image", (1, 4), "uint8", 0.1, 0)
    result = writer.tensor("result", (1, 4), "uint8", 0.1, 0)
    real = writer.tensor("real", (1, 4), "float32")
    writer.op("CUSTOM:edgetpu-custom-op", [image, data], [result])
    writer.op("DEQUANTIZE", [result], [real])
    return writer.finish([image], [real])
