"""Binary files: models, blobs, images. Their payload is named under `ignored`, not printed."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np

from npuscope.bounded_file import CORE_BUFFER, check_size, opened
from npuscope.errors import FileError, NpuscopeError
from npuscope.files.other_files import IDENTIFIERS
from npuscope.identify.sample import FileFacts, Sample, plain
from npuscope.ops.table import total_macs
from npuscope.protobuf import BYTES, VARINT, BrokenMessage, read_varint

_BLOB_MAGIC = 0xCA057A7A
_CONTAINER_MAGIC = 0xECBF0000  # the low half is the container's version
_LOADABLE_MAGIC = b"NBIN"
# Object files, archives, pictures, pages: known to all, and no image of a memory.
_OTHERS = (
    b"\x7fELF",
    b"!<arch>\n",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"VPMN",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"%PDF",
    b"\x89HDF",
)
_CHUNK = 1 << 20
# Fields of an ONNX model that stand before its graph: numbers 1 to 6, then 7 is the graph.
_ONNX_GRAPH = 7


def is_tflite(sample: Sample) -> bool:
    return sample.head[4:8] == b"TFL3"


def is_onnx(sample: Sample) -> bool:
    """A protobuf message that begins with a version and comes to a graph."""
    try:
        at, numbers = 0, set()
        while at < len(sample.head):
            key, at = read_varint(sample.head, at)
            number, wire = key >> 3, key & 7
            if number == _ONNX_GRAPH and wire == BYTES:
                return 1 in numbers
            if not 1 <= number <= 8 or wire not in (VARINT, BYTES):
                return False
            numbers.add(number)
            length, at = read_varint(sample.head, at)
            at += length if wire == BYTES else 0
        return False
    except BrokenMessage:
        return False


def inspect_model(sample: Sample) -> FileFacts:
    """A model that cannot be used is still a model: the reason is told, the file is not refused."""
    from npuscope.files.load import load_model

    summary: dict[str, Any] = {"model_md5": sample.digest()}
    try:
        graph = load_model(sample.path)
    except FileError:
        raise
    except NpuscopeError as error:
        return FileFacts("", summary, {}, (f"the graph: {error.message}",))
    summary |= {"ops": len(graph.ops), "tensors": len(graph.tensors)}
    summary |= {"macs": total_macs(graph), "params": graph.parameters()}
    tensors = [
        {
            "name": tensor.name,
            "shape": list(tensor.shape),
            "type": tensor.dtype.value,
            "scales": [float(scale) for scale in tensor.quant.scales] if tensor.quant else [],
            "zero_points": [int(zero) for zero in tensor.quant.zero_points] if tensor.quant else [],
        }
        for tensor in graph.tensors.values()
    ]
    ops = [
        {"kind": op.kind, "name": op.name, "inputs": list(op.inputs), "outputs": list(op.outputs)}
        for op in graph.ops
    ]
    return FileFacts(
        "",
        summary,
        {
            "inputs": list(graph.inputs),
            "outputs": list(graph.outputs),
            "tensors": tensors,
            "ops": ops,
        },
        ("the bytes of constants",),
    )


def _word(sample: Sample) -> int:
    return int.from_bytes(sample.head[:4], "little") if len(sample.head) >= 4 else 0


def is_blob(sample: Sample) -> bool:
    word = _word(sample)
    return word == _BLOB_MAGIC or word & 0xFFFF0000 == _CONTAINER_MAGIC


def inspect_blob(sample: Sample) -> FileFacts:
    """The words of the header: a plain blob's length, a container's table offsets."""
    word = _word(sample)
    plain_blob = word == _BLOB_MAGIC
    names = (
        ("magic", "words") if plain_blob else ("magic", "relocations", "patches", "debug", "code")
    )
    if sample.size < 4 * len(names):
        raise FileError(f"a blob of {sample.size} bytes has no header", where=str(sample.path))
    header = dict(zip(names, struct.unpack_from(f"<{len(names)}I", sample.head), strict=True))
    summary = {"blobs": 1, "container": not plain_blob, "magic": f"{word:#x}"}
    version = "" if plain_blob else f"{word & 0xFFFF:#x}"
    return FileFacts(version, summary, header, ("the instructions: see `npuscope disasm`",))


def is_loadable(sample: Sample) -> bool:
    return sample.head.startswith(_LOADABLE_MAGIC)


_IMAGE_NAME = re.compile(r"(?:\A|_)atonbuf\.\w+\.(?:raw|bin)\Z")


def is_raw_image(sample: Sample) -> bool:
    """Bytes that are not text: an image of a pool, if it lies beside a network. One that bears the
    compiler's name is an image whatever its bytes look like."""
    if sample.size and _IMAGE_NAME.search(sample.path.name):
        return True
    is_other = sample.head.startswith(_OTHERS) or sample.head[4:8] in IDENTIFIERS
    return not (sample.is_text or is_other)


def inspect_raw_image(sample: Sample) -> FileFacts:
    used, end, at = 0, 0, 0
    check_size(sample.path, sample.size, CORE_BUFFER)
    with opened(sample.path) as file:
        while chunk := file.read(_CHUNK):
            places = np.flatnonzero(np.frombuffer(chunk, np.uint8))
            used += len(places)
            end = at + int(places[-1]) + 1 if len(places) else end
            at += len(chunk)
    summary = {"nonzero_bytes": used, "last_nonzero": end, "md5": sample.digest()}
    ignored = (f"bytes 0-{sample.size}",) if sample.size else ()
    return FileFacts("", summary, plain({"bytes": sample.size}), ignored)
