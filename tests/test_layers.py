"""A package imports only those above it: the order in which the house is built."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "npuscope"
LAYERS = (
    "graph",
    "ops",
    "files",
    "machine",
    "program",
    "geometry",
    "rulebook",
    "edits",
    "compiler",
    "sim",
    "loadable",
    "boards",
    "profiling",
    "building",
    "application",
    "accuracy",
    "advice",
    "quantizing",
    "identify",
    "diagnosis",
    "report",
    "families",
    "live",
    "verbs",
    "cli",
)
# Root modules: these serve all; the others stand beside the verbs, on top of the rest.
SERVING_ALL = (
    "blas_threads",
    "collector",
    "bounded_file",
    "cache",
    "child",
    "file_lock",
    "clock",
    "errors",
    "families.interface",
    "families.registry",
    "families.verbs",
    "installed",
    "options",
    "plain_data",
    "progress",
    "protobuf",
    "protobuf_columns",
    "records",
    "shown",
    "structs",
    "text",
    "trace_builder",
    "trace_model",
    "version",
    "whole_file",
    "work_folder",
    "written",
)
BESIDE_VERBS = ("demo_network", "loading")


def part_of(names: Sequence[str]) -> str:
    """The package or root module; what families are stands apart from the families."""
    whole = ".".join(names[:2])
    return whole if whole in SERVING_ALL else names[0]


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported(path: Path) -> Iterator[str]:
    """Parts of npuscope that a file names in any import, also a late one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path.parent.name == "families":  # nouns of layers above, by name alone
        tree.body = [node for node in tree.body if not is_for_type_checkers(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
            if node.module == "npuscope":
                names = [f"npuscope.{alias.name}" for alias in node.names]
        else:
            assert not isinstance(node, ast.ImportFrom), f"{path}: relative import"
            continue
        yield from (part_of(name.split(".")[1:]) for name in names if name.startswith("npuscope."))


def allowed(part: str) -> set[str]:
    if part == "__main__":  # the command line's other door
        return {"cli"}
    if part in SERVING_ALL:
        return set(SERVING_ALL)
    if part in BESIDE_VERBS:
        return {*SERVING_ALL, *LAYERS[: LAYERS.index("verbs")]}
    above = LAYERS[: LAYERS.index(part) + 1]
    return {*SERVING_ALL, *above, *(BESIDE_VERBS if part in ("verbs", "cli") else ())}


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_what_lies_above(path: Path) -> None:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    part = "verbs" if parts[0] == "families" and "verbs" in parts else part_of(parts)
    wrong = sorted(set(imported(path)) - allowed(part))
    assert not wrong, f"{part} must not import {', '.join(wrong)}"


def test_every_package_has_its_place() -> None:
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert packages <= {*LAYERS, *SERVING_ALL}


def test_a_verb_knows_no_family() -> None:
    for path in (SOURCE / "verbs").glob("*.py"):
        if path.name != "__init__.py":  # which names the functions of all verbs
            assert "families" not in set(imported(path)), path


def opens_onnx(path: Path) -> bool:
    """Does a file import the package of the ONNX protobufs, also late?"""
    names: set[str] = set()
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "onnx" in text else ():
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return any(name.split(".")[0] == "onnx" for name in names)


def test_only_the_codec_opens_onnx_protobufs() -> None:
    """All others go through the file graph."""
    codec = SOURCE / "files" / "onnx"
    found = [str(path.relative_to(SOURCE)) for path in FILES if opens_onnx(path)]
    assert found
    assert [name for name in found if not (SOURCE / name).is_relative_to(codec)] == []
