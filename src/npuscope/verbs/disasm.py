"""`npuscope disasm FILE`: code of a device as text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import FileError, NpuscopeError, UsageError
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, text
from npuscope.options.rows import OUTPUT
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.families.interface import CodePart
    from npuscope.report.code import Disassembly

VERB = Verb(
    "disassemble code of a device into text",
    (Argument("source", "FILE", "a file with code: *_ecblobs.h, or the bytes of one blob"),),
    (
        OptionGroup(
            "",
            (
                text("blob", "one blob of several (default: all)"),
                file("output", "write the text to FILE", flags=("-o", "--output")),
            ),
        ),
        OUTPUT,
    ),
    text="npuscope.report.code:disassembly_text",
    json="npuscope.report.code:disassembly_json",
)


@checked(VERB)
def disasm(
    source: str | Path, *, blob: str | None = None, output: str | Path | None = None
) -> Disassembly:
    """Code of a device as text.

    In: a file with code, such as a `*_ecblobs.h` or the bytes of one blob; `blob` chooses one of
    several, `output` is a file for the text. Out: the blobs with their text, which `asm` turns
    into the same bytes.

    >>> print(npuscope.disasm("network_ecblobs.h", blob="_ec_blob_1").text)
    """
    from npuscope.families.interface import function_at
    from npuscope.identify.table import code_format
    from npuscope.report.code import Disassembly
    from npuscope.whole_file import refuse_same, write_whole

    path = Path(source)
    if path.is_dir():
        path = _code_in(path)
    with in_file(path):
        blobs: dict[str, CodePart] = function_at(code_format(path, "disassemble"))(path)
    names = safe_terminal(", ".join(blobs))
    if blob is not None:
        if blob not in blobs:
            raise UsageError(f"no blob '{safe_terminal(blob)}'", hint=f"blobs: {names}")
        blobs = {blob: blobs[blob]}
    texts = [f"; {safe_terminal(name)}\n{part.text()}" for name, part in blobs.items()]
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


def _code_in(folder: Path) -> Path:
    """The one file with code in the folder of a build."""
    from npuscope.identify.table import has_code

    files = [path for path in sorted(folder.iterdir()) if path.is_file() and has_code(path)]
    if len(files) == 1:
        return files[0]
    if not files:
        raise FileError("the folder has no file with code of a device", where=str(folder))
    names = safe_terminal(", ".join(path.name for path in files))
    raise UsageError(
        f"the folder has {len(files)} files with code", where=str(folder), hint=f"give one: {names}"
    )


@contextmanager
def in_file(path: Path) -> Iterator[None]:
    """Places inside of a file, with its name before them."""
    try:
        yield
    except NpuscopeError as error:
        place = safe_terminal(str(path))
        where = (
            error.where if place in error.where else ", ".join(filter(None, (place, error.where)))
        )
        raise FileError(error.message, where=where, hint=error.hint) from None
