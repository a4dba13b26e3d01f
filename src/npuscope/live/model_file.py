"""A model file of a live view, read once: for any machine its network is the same."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from npuscope.building import Options, md5
from npuscope.edits import Document, open_document, whole_bytes
from npuscope.files.load import load_model
from npuscope.graph.model import Graph

Stamp = tuple[int, int]  # when it was written, and its size


class LiveFile(Struct, frozen=True):
    """The network to compile, and a document to edit copies of."""

    stamp: Stamp
    network: Graph
    document: Document
    data: bytes
    md5: str


def stamp_of(path: Path) -> Stamp:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def read_file(path: Path, options: Options) -> LiveFile:
    stamp = stamp_of(path)
    to_quantize = bool(options.get("as_int8"))
    network = load_model(path, options.get("shapes"), to_quantize=to_quantize)
    return LiveFile(stamp, network, open_document(path), whole_bytes(path), md5(path))
