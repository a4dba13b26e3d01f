"""`npuscope disasm FILE`: epoch-controller blobs as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import FileError, NpuscopeError, UsageError
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, text
from npuscope.options.rows import OUTPUT
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.program.ec_blob.binary import EcBinary
    from npuscope.report.blobs import Disassembly

VERB = Verb(
    "disassemble epoch-controller blobs into text",
    (Argument("source", "FILE", "a *_ecblobs.h, or the bytes of one blob"),),
    (
        OptionGroup(
            "",
            (
                text("blob", "one blob of a header (default: all)"),
                file("output", "write the text to FILE", flags=("-o", "--output")),
            ),
        ),
        OUTPUT,
    ),
    text="npuscope.report.blobs:disassembly_text",
    json="npuscope.report.blobs:disassembly_json",
)


@checked(VERB)
def disasm(
    source: str | Path, *, blob: str | None = None, output: str | Path | None = None
) -> Disassembly:
    """Epoch-controller blobs as text.

    In: a `*_ecblobs.h` or the bytes of one blob; `blob` chooses one of a header, `output` is a
    file for the text. Out: the blobs with their text, which `asm` turns into the same bytes.

    >>> print(npuscope.disasm("network_ecblobs.h", blob="_ec_blob_1").text)
    """
    from npuscope.program.ec_blob.assembly import disassemble
    from npuscope.report.blobs import Disassembly
    from npuscope.whole_file import refuse_same, write_whole

    blobs = _blobs(str(source))
    names = safe_terminal(", ".join(blobs))
    if blob is not None:
        if blob not in blobs:
            raise UsageError(f"no blob '{safe_terminal(blob)}'", hint=f"blobs: {names}")
        blobs = {blob: blobs[blob]}
    texts = [f"; {safe_terminal(name)}\n{disassemble(one)}" for name, one in blobs.items()]
    disassembly = Disassembly(blobs, "\n".join(texts))
    if output is None:
        return disassembly
    if len(blobs) > 1:
        raise UsageError(
            f"{len(blobs)} blobs do not go into one file that `asm` can read",
            where=f"-o {output}",
            hint=f"choose one with --blob: {names}",
        )
    refuse_same(source, output)
    write_whole(output, disassembly.text.encode("utf-8", "backslashreplace"))
    return disassembly


def _blobs(path: str) -> dict[str, EcBinary]:
    """Blobs by name; a file that does not start with a blob's magic is a header."""
    from npuscope.bounded_file import BLOBS, read_bytes
    from npuscope.program.ec_blob.binary import read_binary, read_header

    data = read_bytes(path, BLOBS)
    try:
        if not path.lower().endswith(".h"):
            return {Path(path).name: read_binary(data)}
        arrays = read_header(data.decode("utf-8", "replace"))
    except FileError as error:
        raise in_file(error, path) from None
    blobs: dict[str, EcBinary] = {}
    for name, array in arrays.items():
        try:
            blobs[name] = read_binary(array)
        except FileError as error:
            raise in_file(error, f"{path}, {name}") from None
    return blobs


def in_file(error: NpuscopeError, path: str) -> FileError:
    where = ", ".join(filter(None, (safe_terminal(path), error.where)))
    return FileError(error.message, where=where, hint=error.hint)
