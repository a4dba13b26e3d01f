"""Foreign names made safe for the places they are written to."""

from __future__ import annotations


def safe_terminal(name: str) -> str:
    """One line of printable text: control characters become visible escapes.

    Format characters (text direction, zero width) and lone surrogates are escaped too, because
    they can make a terminal show something else than what is in the file.
    """
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else _escape(c) for c in name)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
