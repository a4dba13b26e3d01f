"""`npuscope mcp DIR...`: the verbs as tools of an assistant, by the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path

from npuscope.errors import FileError
from npuscope.options.kinds import Argument, OptionGroup, Verb, flag
from npuscope.options.rows import OUTPUT
from npuscope.verbs.check import checked

VERB = Verb(
    "the verbs as tools of an assistant (Model Context Protocol, on stdin and stdout)",
    (Argument("folders", "DIR", "folders whose files the assistant may name", "+"),),
    (
        OptionGroup(
            "",
            (
                flag(
                    "write",
                    "offer fix, quantize and compile too, which write files into those folders",
                ),
            ),
        ),
        OUTPUT,
    ),
    reads=("folders",),
)


@checked(VERB)
def mcp(*folders: str | Path, write: bool = False) -> None:
    """The verbs as tools of an assistant, over stdin and stdout, until stdin is closed.

    In: folders whose files may be named; with `write` results are written there too. Out: nothing.

    >>> npuscope.mcp("models")
    """
    from npuscope.installed import needs

    needs("mcp", "mcp", "mcp")
    for folder in folders:
        if not Path(folder).is_dir():
            raise FileError("is not a folder", where=str(folder))

    import anyio

    from npuscope.verbs.assistant_server import serve_tools
    from npuscope.verbs.assistant_tools import Tools

    anyio.run(serve_tools, Tools([Path(folder) for folder in folders], write))
