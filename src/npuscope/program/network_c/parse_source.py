"""Generated C as functions of declarations and calls, in order, with the comments between."""

from __future__ import annotations

from dataclasses import dataclass, field

from npuscope.program.network_c.parse_values import (
    BadValue,
    Token,
    Value,
    error_at,
    evaluate,
    read_value,
    split_arguments,
    tokens_of,
)


@dataclass(frozen=True, slots=True)
class Comment:
    text: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """`static const TYPE name[] = value;`"""

    type: str
    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class CallLine:
    """`name(arguments);`"""

    name: str
    arguments: tuple[Value, ...]


Statement = Comment | Declaration | CallLine


@dataclass(slots=True)
class Function:
    name: str
    statements: list[Statement] = field(default_factory=list)
    _declared: dict[str, Declaration] = field(default_factory=dict, compare=False, repr=False)

    def declared(self) -> dict[str, Declaration]:
        """Declarations by name, looked up once the function is read."""
        if not self._declared:
            found = (s for s in self.statements if isinstance(s, Declaration))
            self._declared = {statement.name: statement for statement in found}
        return self._declared


@dataclass(slots=True)
class CSource:
    """A file: what stands outside of functions, and the functions by name."""

    where: str
    outside: list[Statement] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)

    @property
    def comments(self) -> list[str]:
        return [s.text for s in self.outside if isinstance(s, Comment)]


def parse_source(text: str, where: str) -> CSource:
    tokens = tokens_of(text, where)
    source = CSource(where)
    try:
        _Reader(tokens, source).run()
    except BadValue as error:
        raise error_at(str(error), text, error.offset, where) from None
    return source


# They copy and relocate blobs: code of its own kind, and nothing of the program is in it.
_CONTROLLER_HOOKS = "LL_ATON_EC_"


@dataclass(slots=True)
class _Reader:
    """One pass over the tokens. Braces of plain blocks are followed but mean nothing."""

    tokens: list[Token]
    source: CSource
    place: int = 0
    depth: int = 0
    function: Function | None = None

    def run(self) -> None:
        while self.place < len(self.tokens):
            self._step()
        if self.depth:
            last = self.tokens[-1]
            raise BadValue("the file ends inside a function", last.offset)

    def _step(self) -> None:
        token = self.tokens[self.place]
        if token.kind == "comment":
            self._add(Comment(token.text))
            self.place += 1
        elif token.kind == "{":
            self.depth += 1
            self.place += 1
        elif token.kind == "}":
            self._close(token)
        elif token.kind == ";":
            self.place += 1
        else:
            self._statement()

    def _close(self, token: Token) -> None:
        if not self.depth:
            raise BadValue("a brace closes nothing", token.offset)
        self.depth -= 1
        self.place += 1
        if not self.depth:
            self.function = None

    def _add(self, statement: Statement) -> None:
        target = self.function.statements if self.function else self.source.outside
        target.append(statement)

    def _statement(self) -> None:
        """Up to its `;`, or up to the `{` of a function or block."""
        start = self.place
        depth = 0
        while True:
            if self.place >= len(self.tokens):
                raise BadValue("the file ends inside a statement", self.tokens[start].offset)
            kind = self.tokens[self.place].kind
            if kind == "=" and not depth:
                self._declaration(start)
                return
            if kind == ";" and not depth:
                self._call(start)
                self.place += 1
                return
            if kind == "{" and not depth:
                self._open(start)
                return
            depth += (kind in "([") - (kind in ")]")
            self.place += 1

    def _declaration(self, start: int) -> None:
        head = [t.text for t in self.tokens[start : self.place] if t.kind == "word"]
        value, self.place = read_value(self.tokens, self.place + 1)
        if len(head) >= 2:
            self._add(Declaration(" ".join(head[:-1]), head[-1], value))

    def _open(self, start: int) -> None:
        """A function where we are outside of one; else a block such as `if (...)`."""
        if not self.depth:
            name = self._name_before_parenthesis(start)
            self.function = Function(name)
            self.source.functions[name] = self.function
            if name.startswith(_CONTROLLER_HOOKS):
                self._skip_body()
        self.depth += 1
        self.place += 1

    def _skip_body(self) -> None:
        """Up to the last token before the closing brace."""
        depth = 0
        while self.place + 1 < len(self.tokens):
            kind = self.tokens[self.place].kind
            depth += (kind == "{") - (kind == "}")
            if depth == 1 and self.tokens[self.place + 1].kind == "}":
                return
            self.place += 1

    def _name_before_parenthesis(self, start: int) -> str:
        for index in range(start + 1, self.place):
            if self.tokens[index].kind == "(" and self.tokens[index - 1].kind == "word":
                return self.tokens[index - 1].text
        return ""

    def _call(self, start: int) -> None:
        tokens = [t for t in self.tokens[start : self.place] if t.kind != "comment"]
        if len(tokens) < 3 or tokens[0].kind != "word" or tokens[1].kind != "(":
            return
        arguments = tuple(evaluate(part) for part in split_arguments(tokens[2:-1]))
        self._add(CallLine(tokens[0].text, arguments))
