"""What a file is, by its content, and what is in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from npuscope.bounded_file import REPORT
from npuscope.errors import FileError
from npuscope.families.interface import Format, Place, Rank, function_at
from npuscope.families.registry import families
from npuscope.identify import binary, build_files, documents, edge_tpu
from npuscope.identify.sample import Sample
from npuscope.text import safe_terminal


class Identity(Struct, frozen=True):
    """`summary` has the counts of the format and, under `values`, all numbers of the file.

    `ignored` names the parts of the file that are in neither.
    """

    kind: str
    version: str
    summary: dict[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    title: str = ""  # the kind, for people


# What belongs to no family; a family's own kinds are tried before these.
SHARED: tuple[Format, ...] = (
    Format(
        "edgetpu_tflite",
        "TFLite model compiled for the Edge TPU",
        edge_tpu.is_edge_tpu,
        edge_tpu.inspect_edge_tpu,
    ),
    Format("tflite", "TFLite model", binary.is_tflite, binary.inspect_model),
    Format("intel_hex", "Intel HEX file", build_files.is_hex_file, build_files.inspect_hex),
    Format(
        "elf", "object file or firmware (ELF)", build_files.is_elf_file, build_files.inspect_elf
    ),
    Format("onnx", "ONNX model", binary.is_onnx, binary.inspect_model),
    *(
        Format(kind, f"{kind} of npuscope", documents.is_schema(kind), documents.inspect_own)
        for kind in ("program", "profile", "estimate")
    ),
    Format(
        "raw_image",
        "raw image of a memory",
        binary.is_raw_image,
        binary.inspect_raw_image,
        Rank.REST,
    ),
)


@cache
def formats() -> tuple[Format, ...]:
    """Of all families. The first that fits wins: what may contain another kind stands before it."""
    own = [row for family in families() for row in family.formats()]
    return tuple(sorted((*own, *SHARED), key=lambda row: row.rank))


def format_of(sample: Sample) -> Format:
    """The row of the table that fits."""
    row = next((row for row in formats() if function_at(row.detect)(sample)), None)
    if row is None:
        raise unknown(sample)
    return row


def code_format(path: Path, ability: str) -> Place:
    """Who disassembles or assembles a file. The first that can says what is wrong with one that
    nobody recognises."""
    able = [row for row in formats() if getattr(row, ability)]
    sample = Sample(path)
    row = next((row for row in able if function_at(row.detect)(sample)), able[0])
    place: Place = getattr(row, ability)
    return place


def has_code(path: Path) -> bool:
    """Whether somebody can disassemble it."""
    sample = Sample(path)
    return any(row.disassemble and function_at(row.detect)(sample) for row in formats())


def unknown(sample: Sample) -> FileError:
    if sample.size > REPORT.most_bytes:
        return FileError(
            f"has {sample.size:,} bytes of text, at most {REPORT.most_bytes:,}",
            where=str(sample.path),
        )
    refusal = build_files.refusal(sample)
    if refusal is not None:
        return refusal
    kinds = ", ".join(dict.fromkeys(row.kind for row in formats()))
    start = safe_terminal(sample.head[:24].decode("utf-8", errors="replace"))
    return build_files.OtherFile(
        f"unrecognised file type; it starts with '{start}'",
        where=str(sample.path),
        hint=f"known kinds: {kinds}",
    )
