"""C sources as far as a memory check needs them: which lines are compiled, what constants are,
arrays with their sections, bodies of functions."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

# A comment without an end takes the rest; so nothing is looked at twice.
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)|//[^\n]*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_DIRECTIVE = re.compile(r"^\s*#\s*(\w+)\b[ \t]*(.*)$")
_DEFINE = re.compile(r"(\w+)(\([^)]*\))?\s*(.*)")
_DEFINED = re.compile(r"defined\s*\(\s*(\w+)\s*\)|defined\s+(\w+)")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b")
_CAST = re.compile(r"\(\s*(?:u?int(?:8|16|32)_t|unsigned|int|size_t)\s*\)")
_SECTION = re.compile(r'section\s*\(\s*"([^"]+)"\s*\)')
_ALIGNED = re.compile(r"aligned\s*\(\s*(\d+)\s*\)")
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_ARRAY = re.compile(
    r"(?:^|[\s;}])(?:static\s+|volatile\s+|const\s+|extern\s+)*(?:unsigned\s+|signed\s+|struct\s+)?"
    r"(\w+)\s+(\w+)\s*((?:\[[^\]]*\]\s*)+)"
)
_FUNCTION = re.compile(
    r"\b(\w{1,120})\s{0,20}\(([^;{}()]{0,1000}(?:\([^()]{0,200}\)[^;{}()]{0,200}){0,8})\)\s{0,200}\{"
)
_WIDTHS = {
    "uint8_t": 1, "int8_t": 1, "char": 1, "bool": 1, "uint16_t": 2, "int16_t": 2, "short": 2,
    "uint32_t": 4, "int32_t": 4, "int": 4, "float": 4, "float32_t": 4, "uint64_t": 8, "double": 8,
    "UCHAR": 1, "UINT": 4, "ULONG": 4, "StackType_t": 4, "u8": 1, "u16": 2, "u32": 4,
}  # fmt: skip
_DEEP = 24
_NESTED = 64  # conditions inside conditions; deeper files are no sources
_MOST_FUNCTIONS = 2_000  # of a file
_LARGEST = 1 << 40
_OPERATIONS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.floordiv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
_COMPARISONS: dict[type, Any] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
Macros = dict[str, str]


class Array(Struct, frozen=True):
    """A declared array; `size_bytes` is None where its type or its size is not known."""

    name: str
    file: str
    section: str
    align: int
    size_bytes: int | None


class Body(Struct, frozen=True):
    name: str
    parameters: tuple[str, ...]
    text: str
    file: str
    line: int


def plain(text: str) -> str:
    """Without comments; lines stay where they were, with their continuations."""
    lines: list[str] = []
    parts: list[str] = []
    for line in text.replace("\r", "").split("\n"):
        parts.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            lines += [" ".join(parts), *[""] * (len(parts) - 1)]
            parts = []
    joined = "\n".join([*lines, *parts])
    return _COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", joined)


def compiled(text: str, macros: Macros) -> str:
    """The lines that these macros leave; what a file defines is added to them."""
    lines: list[str] = []
    open_: list[tuple[bool, bool]] = []  # is this branch live, was one before
    for line in text.split("\n"):
        directive = _DIRECTIVE.match(line)
        live = all(is_live for is_live, _ in open_[-_NESTED:])
        if directive is None:
            lines.append(line if live else "")
            continue
        lines.append("")
        word, rest = directive[1], directive[2].strip()
        if word in ("if", "ifdef", "ifndef"):
            value = _condition(word, rest, macros)
            open_.append((value, value))
        elif word == "elif" and open_:
            before = open_.pop()[1]
            value = not before and _condition("if", rest, macros)
            open_.append((value, before or value))
        elif word == "else" and open_:
            before = open_.pop()[1]
            open_.append((not before, True))
        elif word == "endif" and open_:
            open_.pop()
        elif word == "define" and live and (define := _DEFINE.match(rest)) and not define[2]:
            macros[define[1]] = define[3].strip()
        elif word == "undef" and live:
            macros.pop(rest, None)
    return "\n".join(lines)


def every_branch(text: str) -> str:
    """All lines but the directives, whatever the conditions."""
    return "\n".join("" if _DIRECTIVE.match(line) else line for line in text.split("\n"))


def _condition(word: str, rest: str, macros: Mapping[str, str]) -> bool:
    if word != "if":
        return (rest.split(" ")[0] in macros) == (word == "ifdef")
    text = _DEFINED.sub(lambda match: str(int((match[1] or match[2]) in macros)), rest)
    text = _WORD.sub(lambda match: macros.get(match[0], "0") or "1", text)
    text = text.replace("&&", " and ").replace("||", " or ")
    return bool(value_of(re.sub(r"!(?!=)", " not ", text), macros))


def value_of(expression: str, macros: Mapping[str, str]) -> int | None:
    """An expression of constants; None for anything else."""
    text = expression
    for _ in range(_DEEP):
        new = _WORD.sub(lambda match: _inserted(match[0], macros), text)
        if new == text or len(new) > 4000:
            break
        text = new
    text = _CAST.sub(" ", _SUFFIX.sub(r"\1", text)).strip()
    try:
        return _evaluated(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
        return None


def _inserted(word: str, macros: Mapping[str, str]) -> str:
    value = macros.get(word)
    if value is None or word in ("and", "or", "not"):
        return word
    return f"({value})" if value else "1"


def _evaluated(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.BoolOp):
        values = [_evaluated(one) or 0 for one in node.values]
        return int(all(values) if isinstance(node.op, ast.And) else any(values))
    if isinstance(node, ast.UnaryOp):
        inner = _evaluated(node.operand)
        if inner is None:
            return None
        return int(not inner) if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        pair = _evaluated(node.left), _evaluated(node.comparators[0])
        compare = _COMPARISONS.get(type(node.ops[0]))
        return None if None in pair or compare is None else int(compare(*pair))
    if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATIONS:
        return None
    left, right = _evaluated(node.left), _evaluated(node.right)
    if left is None or right is None or max(abs(left), abs(right)) > _LARGEST:
        return None
    result: int = _OPERATIONS[type(node.op)](left, right)
    return result


def arrays(text: str, file: str, macros: Mapping[str, str]) -> Iterator[Array]:
    """Arrays that a compiled text declares, with the attributes around them."""
    for statement in re.split(r"[;{}]", text):
        if "[" not in statement or "extern" in statement or len(statement) > 4000:
            continue
        whole = _expanded(statement, macros)
        bare = _ATTRIBUTE.sub(" ", whole).partition("=")[0]
        match = _ARRAY.search(bare)
        if match is None or match[1] in ("return", "else", "case", "typedef", "goto"):
            continue
        section, aligned = _SECTION.search(whole), _ALIGNED.search(whole)
        if match[1] not in _WIDTHS and section is None:  # it may hold pointers
            continue
        sizes = [value_of(part, macros) for part in re.findall(r"\[([^\]]*)\]", match[3])]
        total = _WIDTHS.get(match[1])
        for size in sizes:
            total = None if total is None or size is None else total * size
        yield Array(
            match[2], file, section[1] if section else "", int(aligned[1]) if aligned else 1, total
        )


def _expanded(statement: str, macros: Mapping[str, str]) -> str:
    """Macros that stand for attributes, such as IN_PSRAM."""
    for _ in range(4):
        statement = _WORD.sub(
            lambda match: (
                macros[match[0]]
                if "__attribute__" in macros.get(match[0], "")
                or ("ALIGN" in match[0] and match[0] in macros)
                else match[0]
            ),
            statement,
        )
    return statement


def bodies(text: str, file: str) -> Iterator[Body]:
    """Functions of a compiled text."""
    bare = _STRING.sub(lambda match: '"' + " " * (len(match[0]) - 2) + '"', text)
    for match in islice(_FUNCTION.finditer(bare), _MOST_FUNCTIONS):
        if match[1] in ("if", "for", "while", "switch", "do", "return", "sizeof"):
            continue
        start, end, depth = match.end(), len(bare), 1
        for brace in re.finditer(r"[{}]", bare[start : start + 50_000]):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                end = start + brace.start()
                break
        names = (part.split("[")[0].split() for part in match[2].split(","))
        parameters = tuple(words[-1].lstrip("*") for words in names if words)
        line = bare.count("\n", 0, start) + 1
        yield Body(match[1], parameters, bare[start:end], file, line)


def macros_of(options: Iterable[tuple[str, str]]) -> Macros:
    return {name: value or "1" for name, value in options}
