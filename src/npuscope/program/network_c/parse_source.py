"""Generated C as functions of declarations and calls, in order, with the comments between."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct, field

from npuscope.errors import FileError
from npuscope.program.network_c.c_values import UnknownValue, Value
from npuscope.program.network_c.parse_tokens import BadValue, Token, error_at, tokens_of
from npuscope.program.network_c.parse_values import evaluate, read_value, split_arguments
from npuscope.text import safe_terminal


class Comment(Struct, frozen=True):
    text: str


class Declaration(Struct, frozen=True):
    """`static const TYPE name[] = value;` A value that is not known is an error to who uses it."""

    type: str
    name: str
    content: Value | FileError

    @property
    def value(self) -> Value:
        if isinstance(self.content, FileError):
            raise self.content
        return self.content


class CallLine(Struct, frozen=True):
    """`name(arguments);` Arguments that are not known are an error to who uses them."""

    name: str
    content: tuple[Value, ...] | FileError

    @property
    def arguments(self) -> tuple[Value, ...]:
        if isinstance(self.content, FileError):
            raise self.content
        return self.content


class Skipped(Struct, frozen=True):
    """A statement that is neither; `changes` is the name that it writes to, if any."""

    changes: str
    content: FileError


Statement = Comment | Declaration | CallLine | Skipped


class Function(Struct, dict=True):
    name: str
    statements: list[Statement] = field(default_factory=list)

    @cached_property
    def declared(self) -> dict[str, Declaration]:
        """Declarations by name, looked up once the function is read. One that a statement changes
        later has no value that is known."""
        declared: dict[str, Declaration] = {}
        for statement in self.statements:
            if isinstance(statement, Declaration):
                declared[statement.name] = statement
            elif isinstance(statement, Skipped) and statement.changes in declared:
                old = declared[statement.changes]
                declared[old.name] = Declaration(old.type, old.name, statement.content)
        return declared

    def skipped(self) -> list[FileError]:
        """What cannot be read in it: to be told of where nothing else needs it."""
        contents = (s.content for s in self.statements if not isinstance(s, Comment))
        return [content for content in contents if isinstance(content, FileError)]


class CSource(Struct):
    """A file: what stands outside of functions, and the functions by name."""

    where: str
    outside: list[Statement] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)

    @property
    def comments(self) -> list[str]:
        return [s.text for s in self.outside if isinstance(s, Comment)]


def parse_source(text: str, where: str, numbers: Mapping[str, int] | None = None) -> CSource:
    """`numbers` are words with a value, such as the bases of relative pools."""
    tokens = tokens_of(text, where, numbers)
    source = CSource(where)
    try:
        _Reader(text, tokens, source).run()
    except BadValue as error:
        raise error_at(str(error), text, error.offset, where, error.hint) from None
    return source


# Code of its own kind that nothing of the program is in: it copies and relocates blobs, or takes
# and gives the addresses of buffers that belong to the application.
_HOOKS = ("LL_ATON_EC_", "LL_ATON_Set_User_", "LL_ATON_Get_User_")
_CONDITIONS = ("if", "while", "for", "switch")
_WITHOUT_VALUES = ("return", "break", "continue", "goto", "case", "default")
# Signs that a declaration has none of in front of its "=": it is an assignment then.
_ASSIGNING = frozenset("-+.>|&^%/~!<")
_SHOWN = 60


class _Reader(Struct):
    """One pass over the tokens. Braces of plain blocks are followed but mean nothing."""

    text: str
    tokens: list[Token]
    source: CSource
    place: int = 0
    depth: int = 0
    function: Function | None = None

    def run(self) -> None:
        while self.place < len(self.tokens):
            token = self.tokens[self.place]
            if token.kind == "comment":
                self._add(Comment(token.text))
                self.place += 1
            elif token.kind == "{":
                self.depth += 1
                self.place += 1
            elif token.kind == "}":
                if not self.depth:
                    raise BadValue("a closing brace without an opening one", token.offset)
                self.depth -= 1
                self.place += 1
                if not self.depth:
                    self.function = None
            elif token.kind == ";":
                self.place += 1
            elif self.depth and token.text in _CONDITIONS:
                self._skip_condition()
            elif self.depth and token.text in ("else", "do"):
                self.place += 1
            else:
                self._statement()
        if self.depth:
            last = self.tokens[-1]
            raise BadValue("the file ends inside a function", last.offset)

    def _add(self, statement: Statement) -> None:
        target = self.function.statements if self.function else self.source.outside
        target.append(statement)

    def _skip_condition(self) -> None:
        """`if (...)`: what stands behind is read as if it were always done."""
        self.place += 1
        depth = 0
        while self.place < len(self.tokens):
            kind = self.tokens[self.place].kind
            depth += (kind == "(") - (kind == ")")
            self.place += 1
            if not depth:
                return
        raise BadValue("the file ends inside a condition", self.tokens[-1].offset)

    def _statement(self) -> None:
        """Up to its `;`, or up to the `{` of a function or block."""
        start = self.place
        depth = 0
        while True:
            if self.place >= len(self.tokens):
                raise BadValue("the file ends inside a statement", self.tokens[start].offset)
            kind = self.tokens[self.place].kind
            if kind == "=" and not depth:
                # A declaration with a value, or a statement that changes what was declared.
                head = self.tokens[start : self.place]
                words = [token.text for token in head if token.kind == "word"]
                first = self.place + 1
                content: Value | FileError
                try:
                    content, self.place = read_value(self.tokens, first)
                except UnknownValue as error:
                    content = self._error(error)
                    self._skip_value(first)
                if len(words) >= 2 and not any(token.kind in _ASSIGNING for token in head):
                    self._add(Declaration(" ".join(words[:-1]), words[-1], content))
                else:
                    self._skipped(start, words[0] if words else "")
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

    def _skip_value(self, first: int) -> None:
        """Up to the `;` behind a value that is not known."""
        self.place = first
        depth = 0
        while self.place < len(self.tokens):
            kind = self.tokens[self.place].kind
            if kind == ";" and not depth:
                return
            depth += (kind in "([{") - (kind in ")]}")
            self.place += 1
        raise BadValue("the file ends inside a value", self.tokens[-1].offset)

    def _error(self, error: BadValue) -> FileError:
        return error_at(str(error), self.text, error.offset, self.source.where, error.hint)

    def _skipped(self, start: int, changes: str) -> None:
        if self.function is None:
            return
        offset = self.tokens[start].offset
        text = self.text[offset : self.tokens[self.place].offset].split("\n")[0][:_SHOWN]
        error = UnknownValue(f"unknown statement '{safe_terminal(text)}'", offset)
        self._add(Skipped(changes, self._error(error)))

    def _open(self, start: int) -> None:
        """A function where we are outside of one; else a block such as `if (...)`."""
        if not self.depth:
            name = self._name_before_parenthesis(start)
            self.function = Function(name)
            self.source.functions[name] = self.function
            if name.startswith(_HOOKS):
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
        if tokens[0].text in _WITHOUT_VALUES:
            return
        if len(tokens) < 3 or tokens[0].kind != "word" or tokens[1].kind != "(":
            if self.depth and not _declares(tokens):
                self._skipped(start, "")
            return
        content: tuple[Value, ...] | FileError
        try:
            content = tuple(evaluate(part) for part in split_arguments(tokens[2:-1]))
        except UnknownValue as error:
            content = self._error(error)
        self._add(CallLine(tokens[0].text, content))


def _declares(tokens: list[Token]) -> bool:
    """`T name;`, `T name[4];` or `extern void name(void);`: nothing is said of a value."""
    return len(tokens) >= 2 and tokens[0].kind == "word" and tokens[1].kind in ("word", "*")
