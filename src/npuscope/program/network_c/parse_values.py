"""Generated C as tokens, and its initialisers as plain values: numbers, words, addresses, lists and
structs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from npuscope.errors import FileError

# Generated C as a list of tokens. Comments stay: they name nodes, buffers and pools.

_TOKEN = re.compile(
    r"""
      /\*(?P<comment>.*?)\*/
    | //(?P<line_comment>[^\n]*)
    | (?P<directive>\#[^\n]*(?:\\\n[^\n]*)*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<char>'(?:[^'\\\n]|\\.)+')
    | (?P<word>[A-Za-z_]\w*)
    | (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[uUlLfF]*)
    | (?P<punct>[-+{}()\[\];,=.&|*<>/!?:~^%])
    | (?P<space>\s+)
    """,
    re.S | re.X,
)
_DROPPED = {"space", "directive"}
_COMMENTS = {"comment", "line_comment"}


class Token(NamedTuple):
    """A tuple, because a large file has two million of them."""

    kind: str  # comment, string, word, number or the character itself
    text: str
    offset: int


# Where a build may choose our kernels, the runtime's own ones are read.
_OUR_KERNELS = re.compile(r"^#if defined\(NPUSCOPE_KERNELS\)\n.*?^#(?:else|endif)$", re.M | re.S)


def tokens_of(text: str, where: str) -> list[Token]:
    """All tokens; a character that C does not know, or an open comment, is an error."""
    text = _OUR_KERNELS.sub(lambda found: " " * len(found.group()), text)
    found: list[Token] = []
    position = 0
    for match in _TOKEN.finditer(text):
        if match.start() != position:
            break
        position = match.end()
        kind = match.lastgroup or ""
        if kind in _DROPPED:
            continue
        if kind in _COMMENTS:
            found.append(Token("comment", match[kind].strip(), match.start()))
        elif kind == "punct":
            found.append(Token(match[0], match[0], match.start()))
        else:
            found.append(Token(kind, match[0], match.start()))
    if position != len(text):
        raise error_at("is not C that can be read", text, position, where)
    return found


def error_at(message: str, text: str, offset: int, where: str) -> FileError:
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return FileError(
        f"{message} at offset {offset}",
        where=f"{where}:{line}:{column}",
        hint="the file seems cut or edited; take the compiler's own copy",
    )


# Initialisers of generated C as plain values: numbers, words, addresses, lists and structs.

# How far a value may be nested: the deepest seen is 4.
_DEEPEST = 32
_NARROW = {"short": 16, "int16_t": 16, "char": 8, "int8_t": 8}
_TYPE_WORDS = frozenset(
    {"unsigned", "signed", "char", "short", "int", "long", "void", "const", "float", "double"}
    | {"bool", "size_t", "uintptr_t", "intptr_t", "uint8_t", "int8_t", "uint16_t", "int16_t"}
    | {"uint32_t", "int32_t", "uint64_t", "int64_t"}
)


@dataclass(frozen=True, slots=True)
class Sum:
    """Symbols plus a number: an address behind a base that is set at run time, or flags."""

    symbols: tuple[str, ...]
    number: int = 0


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro with several arguments, such as a switch port."""

    name: str
    arguments: tuple[Value, ...]


@dataclass(slots=True)
class Struct:
    """Designated fields; `notes` holds the comment right behind a field."""

    fields: dict[str, Value] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


Value = int | float | str | Sum | Macro | Struct | list["Value"]


class BadValue(Exception):
    """The tokens from `offset` on are no value."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def read_value(tokens: list[Token], place: int, depth: int = 0) -> tuple[Value, int]:
    """The value that starts at `place`, and the place behind it."""
    if depth > _DEEPEST:
        raise BadValue("a value is nested too deeply", tokens[place].offset)
    if _kind(tokens, place) == "{":
        return _read_braces(tokens, place + 1, depth)
    end = _end_of_expression(tokens, place)
    return evaluate([t for t in tokens[place:end] if t.kind != "comment"]), end


def _read_braces(tokens: list[Token], place: int, depth: int) -> tuple[Value, int]:
    """A list, or a struct where entries are designated."""
    items: list[Value] = []
    struct = Struct()
    while True:
        while _kind(tokens, place) in ("comment", ","):
            place += 1
        if _kind(tokens, place) == "}":
            return (struct if struct.fields else items), place + 1
        name, place = _designator(tokens, place)
        value, place = read_value(tokens, place, depth + 1)
        if name:
            struct.fields[name] = value
        else:
            items.append(value)
        while _kind(tokens, place) == "comment":
            place += 1
        if _kind(tokens, place) == ",":
            place += 1
            if name and _kind(tokens, place) == "comment":
                struct.notes[name] = tokens[place].text


def _designator(tokens: list[Token], place: int) -> tuple[str, int]:
    """`.a.b =` or `MACRO(0) =` in front of a value; empty when there is none."""
    start = place
    depth = 0
    while True:
        kind = _kind(tokens, place)
        if kind == "=" and not depth:
            return "".join(t.text for t in tokens[start:place]).lstrip("."), place + 1
        if kind in ("{", "}", ",", ";", "string") and not depth:
            return "", start
        depth += (kind == "(") - (kind == ")")
        place += 1


def _end_of_expression(tokens: list[Token], place: int) -> int:
    depth = 0
    while True:
        kind = _kind(tokens, place)
        if kind in ("(", "["):
            depth += 1
        elif kind in (")", "]"):
            if not depth:
                return place
            depth -= 1
        elif kind in (",", "}", ";") and not depth:
            return place
        place += 1


def _kind(tokens: list[Token], place: int) -> str:
    if place >= len(tokens):
        raise BadValue("the file ends inside a value", tokens[-1].offset if tokens else 0)
    return tokens[place].kind


def evaluate(tokens: list[Token]) -> Value:
    """An expression of numbers, words, casts, sums and macros."""
    if not tokens:
        raise BadValue("a value is missing", 0)
    if len(tokens) == 1:
        return _single(tokens[0])
    inside = _stripped(tokens)
    if inside is not None:
        return inside
    return _sum(tokens)


def _single(token: Token) -> Value:
    if token.kind == "number":
        return number(token)
    if token.kind == "string":
        return token.text[1:-1]
    if token.kind == "word":
        return token.text
    raise BadValue(f"'{token.text}' is not a value", token.offset)


def number(token: Token) -> int | float:
    text = token.text
    if text[:2] in ("0x", "0X"):
        return int(text.rstrip("uUlL"), 16)
    text = text.rstrip("uUlLfF")
    if text.isdecimal():
        if len(text) > 24:
            raise BadValue("a number is too long", token.offset)
        return int(text)
    return float(text)


def _stripped(tokens: list[Token]) -> Value | None:
    """Without one layer of cast, parentheses, address-of, index or one-argument macro."""
    first = tokens[0]
    if first.kind == "&":
        return evaluate(tokens[1:])
    if tokens[-1].kind == "]" and first.kind == "word" and tokens[1].kind == "[":
        return first.text
    if first.kind == "(":
        close = _matching(tokens, 0)
        if _is_type(tokens[1:close]):
            return _cast(tokens[1:close], evaluate(tokens[close + 1 :]))
        if close == len(tokens) - 1:
            return evaluate(tokens[1:close])
    if first.kind == "word" and tokens[1].kind == "(" and _matching(tokens, 1) == len(tokens) - 1:
        return _macro(first.text, tokens[2:-1])
    return None


def _matching(tokens: list[Token], place: int) -> int:
    depth = 0
    for index in range(place, len(tokens)):
        depth += (tokens[index].kind == "(") - (tokens[index].kind == ")")
        if not depth:
            return index
    raise BadValue("a parenthesis is open", tokens[place].offset)


def _is_type(tokens: list[Token]) -> bool:
    words = [token for token in tokens if token.kind != "*"]
    return bool(words) and all(t.kind == "word" and t.text in _TYPE_WORDS for t in words)


def _cast(tokens: list[Token], value: Value) -> Value:
    """Only narrow signed casts change a number: the compiler prints 16-bit patterns unsigned."""
    if isinstance(value, int) and not any(t.kind == "*" or t.text == "unsigned" for t in tokens):
        bits = next((_NARROW[t.text] for t in tokens if t.text in _NARROW), 0)
        if bits:
            return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    return value


def _macro(name: str, tokens: list[Token]) -> Value:
    """A macro of one argument only wraps it (address translation)."""
    arguments = [evaluate(part) for part in split_arguments(tokens)]
    return arguments[0] if len(arguments) == 1 else Macro(name, tuple(arguments))


def split_arguments(tokens: list[Token]) -> list[list[Token]]:
    """Tokens between the commas of an argument list."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.kind in "([") - (token.kind in ")]")
        if token.kind == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _sum(tokens: list[Token]) -> Value:
    """Terms joined by + - |; words are symbols."""
    total: int | float = 0
    symbols: list[str] = []
    for sign, part in _terms(tokens):
        value = evaluate(part)
        if isinstance(value, int | float):
            total += sign * value
        elif isinstance(value, str):
            symbols.append(value)
        elif isinstance(value, Sum):
            symbols += value.symbols
            total += value.number
        else:
            raise BadValue("an expression cannot be read", part[0].offset)
    return Sum(tuple(symbols), int(total)) if symbols else total


def _terms(tokens: list[Token]) -> list[tuple[int, list[Token]]]:
    terms: list[tuple[int, list[Token]]] = [(1, [])]
    depth = 0
    for token in tokens:
        if token.kind in ("+", "-", "|") and not depth:
            if not terms[-1][1]:
                terms.pop()  # a sign in front of the first term
            terms.append((-1 if token.kind == "-" else 1, []))
            continue
        depth += (token.kind in "([") - (token.kind in ")]")
        terms[-1][1].append(token)
    if len(terms) == 1 and terms[0] == (1, tokens):
        raise BadValue(f"'{tokens[0].text}' starts no value that is known", tokens[0].offset)
    if any(not part for _, part in terms):
        raise BadValue("a term is missing", tokens[0].offset)
    return terms
