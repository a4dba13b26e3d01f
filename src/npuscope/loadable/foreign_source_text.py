"""C text as a compiler's first steps see it: lines joined, comments gone, strings known."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npuscope.errors import FileError
from npuscope.text import safe_terminal

_TRIGRAPH = re.compile(rb"\?\?[=/'()!<>-]")
_RAW_STRING = re.compile(r'(?<![A-Za-z0-9_])(?:u8|[uUL])?R"')
_SPLICE = re.compile(r"\\[ \t\v\f]*\n")
# A comment, a string, a character: whatever starts first decides what the rest is.
_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
    |(?P<open>/\*)
    |(?P<text>"(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\Z)|'(?:[^'\\\n]|\\.)*(?:'|(?=\n)|\Z))""",
    re.DOTALL | re.VERBOSE,
)
_STRING = re.compile(r""""(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?""")
_HINT = "write it in plain C, one statement a line"


def code_lines(data: bytes, where: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line, without comments; a joined line has its first number.

    What compilers read differently from one another is refused, so that no compiler can see
    other code than the one that is checked.
    """
    _refuse_ambiguous(data, where)
    text = data.decode("utf-8", errors="replace").replace("\r\n", "\n")
    joined = _SPLICE.sub(lambda found: "\x00" * found[0].count("\n"), text)
    number = 1
    for line in _uncommented(joined, where).split("\n"):
        # NUL marks a line that was joined: it keeps the count, and joins words as it should.
        yield number, line.replace("\x00", "").replace("\x01", " ")
        number += 1 + line.count("\x00") + line.count("\x01")


def bare_lines(text: str) -> Iterator[str]:
    """Lines of preprocessed text, which has neither comments nor joined lines any more."""
    yield from text.replace("\r\n", "\n").split("\n")


def strings_blanked(line: str) -> str:
    """The line with nothing between its quotes."""
    return _STRING.sub('""', line)


def _uncommented(text: str, where: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        if found.lastgroup == "open":
            line = 1 + text.count("\n", 0, found.start())
            raise FileError("a comment does not end", where=f"{safe_terminal(where)}:{line}")
        if found.lastgroup == "text":
            return found[0]
        # Comments count as a space; \x01 stands for a line inside one.
        return " " + "\x01" * (found[0].count("\n") + found[0].count("\x00"))

    cleaned = _TOKEN.sub(replaced, text)
    raw = _RAW_STRING.search(cleaned)
    if raw is not None:
        line = 1 + cleaned.count("\n", 0, raw.start())
        raise FileError("raw strings are not allowed", where=f"{where}:{line}", hint=_HINT)
    return cleaned


def _refuse_ambiguous(data: bytes, where: str) -> None:
    for found, what in (
        (data.find(b"\x00"), "a zero byte"),
        (data.find(b"\x01"), "a control byte"),
        (_first_match(_TRIGRAPH, data), "a trigraph"),
        (_first_match(re.compile(rb"\r(?!\n)"), data), "a lone carriage return"),
    ):
        if found >= 0:
            line = 1 + data.count(b"\n", 0, found)
            raise FileError(
                f"{what} in C source", where=f"{safe_terminal(where)}:{line}", hint=_HINT
            )


def _first_match(pattern: re.Pattern[bytes], data: bytes) -> int:
    found = pattern.search(data)
    return -1 if found is None else found.start()
