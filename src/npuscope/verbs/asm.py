"""`npuscope asm FILE -o OUT`: assemble text into code of a device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.options.kinds import Argument, OptionGroup, Verb, file, text
from npuscope.options.rows import OUTPUT
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.families.interface import Assembled

# fmt: off
VERB = Verb(
    "assemble text into code of a device",
    (Argument("source", "FILE", "text, as `disasm` writes it"),),
    (
        OptionGroup("", (
            file("output", "a C header if it ends in .h, else the bytes", "OUT",
                flags=("-o", "--output"), required=True),
            text("name", "suffix of the array's name in a header (default 1)", default="1"),
        )),
        OUTPUT,
    ),
    text="npuscope.report.code:assembled_text",
    json="npuscope.report.code:assembled_json",
)
# fmt: on


@checked(VERB)
def asm(source: str | Path, output: str | Path | None = None, *, name: str = "1") -> Assembled:
    """Assemble text into code of a device.

    In: text as `disasm` writes it. Out: the code with its bytes; with `output` they are written,
    as a C header if it ends in .h, whose array's name ends in `name`.

    >>> npuscope.asm("blob.txt", "blob.bin").instructions
    """
    from npuscope.bounded_file import ASSEMBLY, read_text
    from npuscope.families.interface import function_at
    from npuscope.identify.table import code_format
    from npuscope.verbs.disasm import in_file
    from npuscope.whole_file import refuse_same, write_whole

    path = Path(source)
    if output is not None:
        refuse_same(source, output)
    with in_file(path):
        text = read_text(path, ASSEMBLY, errors="replace")
        assemble = function_at(code_format(path, "assemble"))
        code: Assembled = assemble(text, str(output or ""), name)
    if output is not None:
        write_whole(output, code.file)
    return code
