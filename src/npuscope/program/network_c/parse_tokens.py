"""Generated C as a list of tokens. Comments stay: they name nodes, buffers and pools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from npuscope.errors import FileError

# Space behind a token belongs to it: half as many matches.
_TOKEN = re.compile(
    r"""
    (?: /\*(?P<comment>.*?)\*/
    | //(?P<line_comment>[^\n]*)
    | (?P<directive>\#(?:\\\r?\n|[^\n])*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<char>'(?:[^'\\\n]|\\.)+')
    | (?P<word>[A-Za-z_]\w*)
    | (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[uUlLfF]*)
    | (?P<punct>[-+{}()\[\];,=.&|*<>/!?:~^%])
    | (?P<space>\s)
    )\s*
    """,
    re.S | re.X,
)
_COMMENTS = {"comment", "line_comment"}
_APART = {*_COMMENTS, "space", "directive"}  # the last two leave no token


class Token(NamedTuple):
    """A tuple, because a large file has two million of them."""

    kind: str  # comment, string, word, number or the character itself
    text: str
    offset: int


# Where a build may choose our kernels, the runtime's own ones are read.
_OUR_KERNELS = re.compile(r"^#if defined\(NPUSCOPE_KERNELS\)\n.*?^#(?:else|endif)$", re.M | re.S)


def tokens_of(text: str, where: str, numbers: Mapping[str, int] | None = None) -> list[Token]:
    """All tokens; a character that C does not know, or an open comment, is an error.

    Words that stand for `numbers` become these numbers; offsets stay those of the text.
    """
    values = numbers or {}
    text = _OUR_KERNELS.sub(lambda tokens: " " * len(tokens.group()), text)
    tokens: list[Token] = []
    add, make = tokens.append, tuple.__new__  # a third of the time of Token(...)
    position = 0
    for match in _TOKEN.finditer(text):
        start = match.start()
        if start != position:
            break
        position = match.end()
        kind = match.lastgroup or ""
        token = match[kind]
        if kind == "punct":
            add(make(Token, (token, token, start)))
        elif token in values and kind not in _APART:
            add(make(Token, ("number", str(values[token]), start)))
        elif kind not in _APART:
            add(make(Token, (kind, token, start)))
        elif kind in _COMMENTS:
            add(make(Token, ("comment", token.strip(), start)))
        elif kind == "directive" and text[text.rfind("\n", 0, start) + 1 : start].strip():
            raise error_at("'#' in the middle of a line", text, start, where)
    if position != len(text):
        raise error_at("is not readable C", text, position, where)
    return tokens


DAMAGE = "the file seems truncated or edited; use the compiler's own copy"


def error_at(message: str, text: str, offset: int, where: str, hint: str = DAMAGE) -> FileError:
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    place = f"{where}:{line}:{column}"
    return FileError(f"{message} at offset {offset}", where=place, hint=hint)


class BadValue(Exception):
    """The tokens from `offset` on are not a value."""

    hint = DAMAGE

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def number(token: Token) -> int | float:
    text = token.text
    if text[:2] in ("0x", "0X"):
        return int(text.rstrip("uUlL"), 16)
    text = text.rstrip("uUlLfF")
    if text.isdecimal():
        if len(text) > 24:
            raise BadValue("a number has too many digits", token.offset)
        return int(text)
    return float(text)
