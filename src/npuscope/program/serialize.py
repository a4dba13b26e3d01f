"""A Program from files: program.json, and one image of constants per pool.

Schema "npuscope/program/1": the records of program.model and program.units under their own field
names, `constants`, the bytes that each constant takes at its buffer's place in the image, and with
every refusal its `reason` in words, which is all that files of 0.1 have of it. Beside a loadable
image: `image_sha256`, the digest of the image that the program describes, and no constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from npuscope.bounded_file import POOL_IMAGE, PROGRAM, read_bytes
from npuscope.errors import FileError
from npuscope.program.model import JSON_NAME, SCHEMA, Buffer, Program, image_name
from npuscope.program.verify import check_foreign, verify
from npuscope.records import decode
from npuscope.structs import replace
from npuscope.text import safe_terminal

OWN_SOURCE = "npuscope"


def from_json(data: bytes, images: Mapping[str, bytes]) -> Program:
    """Read a program; `images` holds the bytes of each pool that has constants."""
    try:
        record = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FileError(f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise FileError("expected an object", where="$")
    schema = record.pop("schema", None)
    if schema != SCHEMA:
        stated = f"'{safe_terminal(schema)}'" if isinstance(schema, str) else "none"
        raise FileError(f"expected schema '{SCHEMA}', found {stated}", where="$.schema")
    record.pop("image_sha256", None)
    value = record.pop("constants", {})
    if not isinstance(value, dict):
        raise FileError("expected an object", where="$.constants")
    sizes = {name: decode(size, int, f"$.constants.{name}") for name, size in value.items()}
    for entry in _refusals(record):
        reason = entry.pop("reason", None)
        if isinstance(reason, str) and not {"sentence", "found"} & entry.keys():
            entry.update(_of_reason(reason))
    program: Program = decode(record, Program)
    buffers = program.buffer_map()
    constants = {name: _constant(buffers, name, size, images) for name, size in sizes.items()}
    return replace(program, constants=constants)


def load(path: Path | str) -> Program:
    """Read what `save` wrote; `path` is the folder or its program.json."""
    file = Path(path)
    file = file / JSON_NAME if file.is_dir() else file
    data = read_bytes(file, PROGRAM)
    try:
        program = from_json(data, _Images(file.parent))
        # A file that contradicts itself would otherwise fail deep inside a later step.
        if program.source == OWN_SOURCE:
            verify(program, error=FileError)
        else:
            check_foreign(program, str(file))
        return program
    except FileError as error:
        where = f"{file}: {error.where}" if error.where else str(file)
        raise FileError(error.message, where=where, hint=error.hint) from error


class _Images(dict[str, bytes]):
    """Images of a folder, read when a constant first needs them."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, pool: str) -> bytes:
        self[pool] = read_bytes(self.folder / image_name(pool, "$.pools"), POOL_IMAGE)
        return self[pool]


def _refusals(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """As far as the file has the right form; decoding names what has not."""
    epochs = record.get("epochs")
    for epoch in epochs if isinstance(epochs, list) else ():
        trail = epoch.get("trail") if isinstance(epoch, dict) else None
        for entry in trail if isinstance(trail, list) else ():
            if isinstance(entry, dict):
                yield entry


def _of_reason(reason: str) -> dict[str, Any]:
    """What 0.1 wrote: "The rule's sentence. (what was found, limit 7)", or "Op has no ..."."""
    sentence, mark, rest = reason.partition(". (")
    if not (mark and rest.endswith(")")):
        op, mark, rest = reason.partition(" has no ")
        words, values = (f"$op{mark}{_plain(rest)}", [["op", op]]) if mark else (_plain(op), [])
        return {"found": {"words": words, "values": values}}
    words, mark, limit = rest[:-1].rpartition(", limit ")
    evidence = {"words": _plain(words if mark else limit)}
    return {"sentence": f"{sentence}.", "found": evidence, "limit": limit if mark else None}


def _plain(text: str) -> str:
    """Words of Evidence that name no value."""
    return text.replace("$", "$$")


def _constant(
    buffers: Mapping[str, Buffer], name: str, size: int, images: Mapping[str, bytes]
) -> np.ndarray:
    where = f"$.constants.{safe_terminal(name)}"
    buffer = buffers.get(name)
    if buffer is None:
        raise FileError("no buffer has this name", where=where)
    if not 0 <= size <= buffer.size_bytes or buffer.offset < 0:
        raise FileError(f"{size} bytes, the buffer has {buffer.size_bytes}", where=where)
    pool = safe_terminal(buffer.pool)
    try:
        image = images[buffer.pool]
    except KeyError:
        raise FileError(f"no image of pool '{pool}' was given", where=where) from None
    end = buffer.offset + size
    if end > len(image):
        raise FileError(
            f"the image of pool '{pool}' ends at byte {len(image)}, but the constant at {end}",
            where=where,
        )
    return np.frombuffer(image[buffer.offset : end], np.uint8)
