"""`npuscope asm FILE -o OUT`: assemble text into an epoch-controller blob."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import NpuscopeError
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, text
from npuscope.options.rows import OUTPUT
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.report.blobs import Assembled

# fmt: off
VERB = Verb(
    "assemble text into an epoch-controller blob",
    (Argument("source", "FILE", "text, as `disasm` writes it"),),
    (
        OptionGroup("", (
            file("output", "a C header if it ends in .h, else the blob's bytes", "OUT",
                flags=("-o", "--output"), required=True),
            text("name", "suffix of the array's name in a header (default 1)", default="1"),
        )),
        OUTPUT,
    ),
    text="npuscope.report.blobs:assembled_text",
    json="npuscope.report.blobs:assembled_json",
)
# fmt: on


@checked(VERB)
def asm(source: str | Path, output: str | Path | None = None, *, name: str = "1") -> Assembled:
    """Assemble text into an epoch-controller blob.

    In: text as `disasm` writes it. Out: the blob with its bytes; with `output` they are written,
    as a C header if it ends in .h, whose array's name ends in `name`.

    >>> npuscope.asm("blob.txt", "blob.bin").instructions
    """
    from npuscope.bounded_file import ASSEMBLY, read_text
    from npuscope.program.ec_blob.assembly import assemble
    from npuscope.program.ec_blob.binary import array_name, write_binary, write_header
    from npuscope.report.blobs import Assembled
    from npuscope.verbs.disasm import in_file
    from npuscope.whole_file import refuse_same, write_whole

    if output is not None:
        refuse_same(source, output)
    try:
        binary = assemble(read_text(source, ASSEMBLY, errors="replace"))
        data = write_binary(binary)
    except NpuscopeError as error:
        raise in_file(error, str(source)) from None
    if output is not None and str(output).lower().endswith(".h"):
        header = write_header({array_name(name): data})
        write_whole(output, header.encode("utf-8", "backslashreplace"))
    elif output is not None:
        write_whole(output, data)
    return Assembled(binary, data)
