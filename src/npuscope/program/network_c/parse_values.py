"""Initialisers of generated C as plain values: numbers, words, addresses, lists and structs."""

from __future__ import annotations

import operator as op
from collections.abc import Callable

import msgspec

from npuscope.program.network_c.c_values import CHOICE, Macro, Struct, Sum, UnknownValue, Value
from npuscope.program.network_c.parse_tokens import BadValue, Token, number
from npuscope.text import from_c_string

# How far a value may be nested: the deepest seen is 4.
_DEEPEST = 32
_NARROW = {"short": 16, "int16_t": 16, "char": 8, "int8_t": 8}
_TYPE_WORDS = frozenset(
    {"unsigned", "signed", "char", "short", "int", "long", "void", "const", "float", "double"}
    | {"bool", "size_t", "uintptr_t", "intptr_t", "uint8_t", "int8_t", "uint16_t", "int16_t"}
    | {"uint32_t", "int32_t", "uint64_t", "int64_t"}
)


def read_value(tokens: list[Token], place: int, depth: int = 0) -> tuple[Value, int]:
    """The value that starts at `place`, and the place behind it."""
    if depth > _DEEPEST:
        raise BadValue("a value is nested too deeply", tokens[place].offset)
    # The brace of a compound literal, as in `&(const T[]) {1, 2}`; else `place` itself.
    start = place + (_kind(tokens, place) == "&")
    if _kind(tokens, start) != "(":
        literal = place
    else:
        end = _matching(tokens, start) + 1
        literal = end if end < len(tokens) and tokens[end].kind == "{" else place
    if _kind(tokens, literal) == "{":
        return _read_braces(tokens, literal + 1, depth)
    end = _end_of_expression(tokens, place)
    inside = [token for token in tokens[place:end] if token.kind != "comment"]
    if not inside:
        raise BadValue("a value is missing", tokens[place].offset)
    return evaluate(inside), end


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
        plain = _plain(tokens, place) if depth < _DEEPEST else None
        value, place = plain or read_value(tokens, place, depth + 1)
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


def _plain(tokens: list[Token], place: int) -> tuple[Value, int] | None:
    """A number or word alone, as nearly all values are; None for anything else."""
    if place + 1 < len(tokens) and tokens[place + 1].kind in (",", "}"):
        token = tokens[place]
        if token.kind == "number":
            return number(token), place + 1
        if token.kind == "word":
            return _TRUTHS.get(token.text, token.text), place + 1
    return None


def _designator(tokens: list[Token], place: int) -> tuple[str, int]:
    """`.a.b =` or `MACRO(0) =` in front of a value; empty when there is none."""
    first = tokens[place].kind
    if first == "number" and _kind(tokens, place + 1) in (",", "}"):
        return "", place
    if first == "." and tuple(t.kind for t in tokens[place + 1 : place + 3]) == ("word", "="):
        return tokens[place + 1].text, place + 3
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
        if kind in ("(", "[", "{"):
            depth += 1
        elif kind in (")", "]", "}"):
            if not depth:
                return place
            depth -= 1
        elif kind in (",", ";") and not depth:
            return place
        place += 1


def _kind(tokens: list[Token], place: int) -> str:
    if place >= len(tokens):
        raise BadValue("the file ends inside a value", tokens[-1].offset if tokens else 0)
    return tokens[place].kind


def evaluate(tokens: list[Token], depth: int = 0) -> Value:
    """An expression of numbers, words, casts, sums, choices and macros."""
    if not tokens:
        raise BadValue("a value is missing", 0)
    if len(tokens) == 1:
        return _single(tokens[0])
    return _Expression(tokens, depth).whole()


def _single(token: Token) -> Value:
    if token.kind == "number":
        return number(token)
    if token.kind == "string":
        return from_c_string(token.text)
    if token.kind == "word":
        return _TRUTHS.get(token.text, token.text)
    raise BadValue(f"'{token.text}' is not a value", token.offset)


_TRUTHS: dict[str, Value] = {"true": 1, "false": 0}
# Binary operators by how strongly they bind; the longer of two that begin alike comes first.
_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a or b))),
    "&&": (2, lambda a, b: int(bool(a and b))),
    "==": (6, op.eq),
    "!=": (6, op.ne),
    "<<": (8, op.lshift),
    ">>": (8, op.rshift),
    "<=": (7, op.le),
    ">=": (7, op.ge),
    "<": (7, op.lt),
    ">": (7, op.gt),
    "|": (3, op.or_),
    "^": (4, op.xor),
    "&": (5, op.and_),
    "+": (9, op.add),
    "-": (9, op.sub),
    "*": (10, op.mul),
    "/": (10, op.floordiv),
    "%": (10, op.mod),
}
_SHIFTS = ("<<", ">>")
_MOST_BITS = 64
_UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda a: -a,
    "+": lambda a: a,
    "~": lambda a: ~a,
    "!": lambda a: int(not a),
}


class _Expression(msgspec.Struct):
    """Precedence climbing over the tokens of one expression."""

    tokens: list[Token]
    depth: int
    place: int = 0

    def whole(self) -> Value:
        value = self._choice()
        if self.place < len(self.tokens):
            token = self.tokens[self.place]
            raise UnknownValue(f"'{token.text}' cannot follow a value", token.offset)
        return value

    def _choice(self) -> Value:
        condition = self._binary(0)
        if self._next() != "?":
            return condition
        yes = self._step(self._choice)
        if self._next() != ":":
            raise BadValue("'?' without ':'", self._offset())
        no = self._step(self._choice)
        if isinstance(condition, int | float):
            return yes if condition else no
        return Macro(CHOICE, (condition, yes, no))

    def _step(self, read: Callable[[], Value]) -> Value:
        """What follows the token here."""
        self.place += 1
        return read()

    def _binary(self, weakest: int) -> Value:
        value = self._unary()
        while (operator := self._operator()) and _BINARY[operator][0] > weakest:
            offset = self._offset()
            self.place += len(operator)
            value = _joined(operator, value, self._binary(_BINARY[operator][0]), offset)
        return value

    def _operator(self) -> str:
        """The operator here, of two characters or of one; empty where there is none."""
        pair = self.tokens[self.place : self.place + 2]
        double = (
            "".join(token.kind for token in pair)
            if len(pair) == 2 and pair[1].offset == pair[0].offset + 1
            else ""
        )
        if double in _BINARY:
            return double
        return pair[0].kind if pair and pair[0].kind in _BINARY else ""

    def _unary(self) -> Value:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise BadValue("a value is nested too deeply", self._offset())
        kind, offset = self._next(), self._offset()
        if kind == "&":
            value = self._step(self._unary)
        elif kind == "*":
            value = self._step(self._unary)
            if not isinstance(value, str):
                raise UnknownValue("'*' before something that is not a name", offset)
        elif kind in _UNARY:
            value = self._step(self._unary)
            if not isinstance(value, int | float):
                raise UnknownValue(f"'{kind}' before something that is not a number", offset)
            value = _UNARY[kind](value)  # type: ignore[arg-type]
        else:
            value = self._primary()
        self.depth -= 1
        return value

    def _primary(self) -> Value:
        if self.place >= len(self.tokens):
            raise BadValue("a term is missing", self.tokens[-1].offset)
        token = self.tokens[self.place]
        if token.kind == "(":
            return self._parenthesis()
        if token.kind not in ("word", "number", "string"):
            raise UnknownValue(f"'{token.text}' does not start a value", token.offset)
        self.place += 1
        if token.kind == "word" and self._next() == "(":
            close = _matching(self.tokens, self.place)
            inside = self.tokens[self.place + 1 : close]
            self.place = close + 1
            # A macro of one argument only wraps it (address translation).
            arguments = [evaluate(part, self.depth) for part in split_arguments(inside)]
            return arguments[0] if len(arguments) == 1 else Macro(token.text, tuple(arguments))
        if token.kind == "word" and self._next() == "[":
            self.place = _closing(self.tokens, self.place) + 1
            return token.text
        return _single(token)

    def _parenthesis(self) -> Value:
        """A cast, a compound literal or an expression in parentheses."""
        start = self.place
        close = _matching(self.tokens, start)
        inside = self.tokens[start + 1 : close]
        self.place = close + 1
        if self._next() == "{":
            value, self.place = read_value(self.tokens, self.place, self.depth)
            return value
        words = [token for token in inside if token.kind != "*"]
        is_plain = bool(words) and all(t.kind == "word" and t.text in _TYPE_WORDS for t in words)
        is_type = is_plain or (_words(words) and inside[-1].kind == "*")
        if is_type or (_words(inside) and self._next() in ("word", "number", "(")):
            return _cast(inside, self._unary())
        return evaluate(inside, self.depth)

    def _next(self) -> str:
        return self.tokens[self.place].kind if self.place < len(self.tokens) else ""

    def _offset(self) -> int:
        return self.tokens[min(self.place, len(self.tokens) - 1)].offset


def _joined(operator: str, left: Value, right: Value, offset: int) -> Value:
    """Numbers are reckoned with; symbols can only be summed up."""
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _reckoned(operator, left, right, offset)
    one, other = _as_sum(left), _as_sum(right)
    plain = other is not None and not other.symbols and not other.choices
    if one is None or other is None or operator not in ("+", "|", "-"):
        raise UnknownValue(f"'{operator}' between these values is not supported", offset)
    if operator == "-" and not plain:
        raise UnknownValue("'-' before a symbol is not supported", offset)
    number = one.number - other.number if operator == "-" else one.number + other.number
    return Sum((*one.symbols, *other.symbols), number, (*one.choices, *other.choices))


def _reckoned(operator: str, left: float, right: float, offset: int) -> int | float:
    whole = isinstance(left, int) and isinstance(right, int)
    if operator in ("/", "%") and (not whole or not right):
        raise UnknownValue(f"'{operator}' of these numbers is not supported", offset)
    if operator in _SHIFTS and not 0 <= right < _MOST_BITS:
        raise UnknownValue(f"a shift by {right} bits", offset)
    if not whole and operator not in ("+", "-", "*"):
        raise UnknownValue(f"'{operator}' of fractions is not supported", offset)
    return _BINARY[operator][1](left, right)  # type: ignore[arg-type]


def _as_sum(value: Value) -> Sum | None:
    if isinstance(value, Sum):
        return value
    if isinstance(value, Macro) and value.name == CHOICE:
        return Sum((), 0, (value,))
    if isinstance(value, str):
        return Sum((value,))
    return Sum((), value) if isinstance(value, int) else None


def _matching(tokens: list[Token], place: int) -> int:
    depth = 0
    for index in range(place, len(tokens)):
        depth += (tokens[index].kind == "(") - (tokens[index].kind == ")")
        if not depth:
            return index
    raise BadValue("a parenthesis is not closed", tokens[place].offset)


def _closing(tokens: list[Token], place: int) -> int:
    """The bracket that closes an index."""
    for index in range(place, len(tokens)):
        if tokens[index].kind == "]":
            return index
    raise BadValue("a bracket is not closed", tokens[place].offset)


def _words(tokens: list[Token]) -> bool:
    return bool(tokens) and all(token.kind == "word" for token in tokens)


def _cast(tokens: list[Token], value: Value) -> Value:
    """Only narrow signed casts change a number: the compiler prints 16-bit patterns unsigned."""
    if isinstance(value, int) and not any(t.kind == "*" or t.text == "unsigned" for t in tokens):
        bits = next((_NARROW[t.text] for t in tokens if t.text in _NARROW), 0)
        if bits:
            return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    return value


def split_arguments(tokens: list[Token]) -> list[list[Token]]:
    """Tokens between the commas of an argument list."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.kind in "([{") - (token.kind in ")]}")
        if token.kind == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]
