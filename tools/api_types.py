"""What docs/api.md says of types: signatures of functions, attributes of nouns and results."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import npuscope

SOURCE = Path(npuscope.__file__).parent
_CLASS = re.compile(r"(?!None\b)[A-Z]\w+")
_STARS: dict[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_INHERITED = ("to_dataframe",)  # of all that is shown: told once


def signature(name: str) -> str:
    """As it is called, with types; one parameter a line where it is long."""
    found = inspect.signature(getattr(npuscope, name))
    parts: list[str] = []
    keyword_only = False
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(one.startswith("*") for one in parts):
                parts.append("*")
        star = _STARS.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(f"{star}{parameter.name}: {parameter.annotation}{default}")
    line = f"npuscope.{name}({', '.join(parts)}) -> {found.return_annotation}"
    if len(line) > 100:
        inside = "".join(f"    {part},\n" for part in parts)
        line = f"npuscope.{name}(\n{inside}) -> {found.return_annotation}"
    return f"\n```python\n{line}\n```\n"


def results(functions: Iterable[str]) -> list[type]:
    """Classes that the functions give, in the order of their names."""
    told = " ".join(
        str(inspect.signature(getattr(npuscope, name)).return_annotation) for name in functions
    )
    return [_class(name) for name in sorted(set(_CLASS.findall(told)))]


@cache
def _homes() -> dict[str, str]:
    """The module of every class."""
    homes: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, module)
    return homes


def _class(name: str) -> type:
    kind: type = getattr(importlib.import_module(_homes()[name]), name)
    return kind


def attributes(kind: type) -> str:
    """A table of fields, properties and methods with their types."""
    rows = [f"| `{name}` | `{text}` | {means} |\n" for name, text, means in _members(kind)]
    return "\n| attribute | type | |\n|---|---|---|\n" + "".join(rows) if rows else ""


def _members(kind: type) -> Iterator[tuple[str, str, str]]:
    if not hasattr(kind, "__struct_fields__") and not issubclass(kind, tuple):
        for parameter in list(inspect.signature(kind).parameters.values()):
            yield parameter.name, _cell(parameter.annotation), ""
    for name in getattr(kind, "__struct_fields__", ()):
        if not name.startswith("_"):
            yield name, _cell(_annotation(kind, name)), ""
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or name in _INHERITED or not _is_ours(kind, name):
            continue
        if isinstance(member, property):
            given = member.fget and inspect.signature(member.fget).return_annotation
            yield name, _cell(given), _cell(_first_line(member))
        elif inspect.isfunction(member):
            found = inspect.signature(member)
            words = ", ".join(f"{p}" for p in list(found.parameters.values())[1:])
            text = f"({words.replace(chr(39), '')}) -> {found.return_annotation}"
            yield f"{name}()", _cell(text), _cell(_first_line(member))


def _annotation(kind: type, name: str) -> Any:
    own = (inspect.get_annotations(one) for one in kind.__mro__)
    return next(names[name] for names in own if name in names)


def _is_ours(kind: type, name: str) -> bool:
    home = next((one for one in kind.__mro__ if name in one.__dict__), object)
    return home.__module__.startswith("npuscope.")


def _first_line(member: object) -> str:
    return (inspect.getdoc(member) or "").partition("\n")[0]


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("<", "&lt;")
