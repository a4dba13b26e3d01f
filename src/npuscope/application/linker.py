"""GNU ld: regions of a script's MEMORY block or of a map file, and what a map says of their use."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import LINKER, read_text
from npuscope.errors import FileError
from npuscope.loadable.firmware_map import FirmwareRegion
from npuscope.text import safe_terminal

_END = 1 << 32
_MOST_REGIONS = 200
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)|//[^\n]*")
_MEMORY = re.compile(r"\bMEMORY\s*\{([^}]{0,20000})\}")
_REGION = re.compile(
    r"(\w{1,80})\s*(?:\([^)]{0,40}\))?\s*:\s*(?:ORIGIN|org|o)\s*=\s*([^,\n]{1,200}),"
    r"\s*(?:LENGTH|len|l)\s*=\s*([^\n,}]{1,200})",
    re.IGNORECASE,
)
_SYMBOL = re.compile(r"^\s*(\w{1,80})\s*=\s*([^;=\n]{1,200});", re.MULTILINE)
_SECTION = re.compile(r"^\s*(\.[\w.]{1,80})\b[^{};]{0,200}\{", re.MULTILINE)
_INPUTS = re.compile(r"\*\s*\(([^()]{1,400})\)")
_TARGET = re.compile(r"\}\s*>\s*(\w{1,80})")
_MAP_HEAD = "Memory Configuration"
_MAP_REGION = re.compile(r"^(\S{1,80})\s+0x([0-9a-f]{1,16})\s+0x([0-9a-f]{1,16})", re.MULTILINE)
# An output section stands at the line's start; a long name has its figures in the next line.
_MAP_SECTION = re.compile(r"^(\.\S{1,200})\s+0x([0-9a-f]{1,16})\s+0x([0-9a-f]{1,16})", re.MULTILINE)
_NUMBER = re.compile(r"\b(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18})([kKmM]?)\b")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}
_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}


class OutputSection(Struct, frozen=True):
    """An output section; its size is known from a map alone."""

    name: str
    region: str
    address: int = 0
    size_bytes: int = 0
    inputs: tuple[str, ...] = ()  # patterns of what a script puts into it

    def takes(self, name: str) -> bool:
        """Whether an input section of this name goes here."""
        return name == self.name or any(fnmatchcase(name, pattern) for pattern in self.inputs)


class LinkerLayout(Struct, frozen=True):
    """Regions in RAM and elsewhere, and what lies in them."""

    regions: tuple[FirmwareRegion, ...] = ()
    sections: tuple[OutputSection, ...] = ()
    heap_bytes: int = 0
    stack_bytes: int = 0
    is_map: bool = False

    def used_bytes(self, region: FirmwareRegion) -> int:
        """From the region's start to the end of its last section."""
        inside = [s for s in self.sections if s.size_bytes and region.holds(s.address, 0)]
        ends = (section.address + section.size_bytes for section in inside)
        return max(ends, default=region.address) - region.address


def read_linker_file(path: str | Path) -> LinkerLayout:
    text = read_text(path, LINKER, errors="replace")
    layout = _of_map(text) if _MAP_HEAD in text else _of_script(_COMMENT.sub(" ", text), str(path))
    if not layout.regions:
        hint = "expected a script with a MEMORY block, or the map that the linker writes"
        raise FileError("states no memory regions", where=str(path), hint=hint)
    return layout


def _of_script(text: str, where: str) -> LinkerLayout:
    symbols: dict[str, int] = {}
    for name, expression in _SYMBOL.findall(text):
        value = _value(expression, symbols)
        if value is not None:
            symbols.setdefault(name, value)
    regions: list[FirmwareRegion] = []
    rows = (row for block in _MEMORY.findall(text) for row in _REGION.findall(block))
    for name, origin, length in rows:
        address, size = _value(origin, symbols), _value(length, symbols)
        if size == 0:  # a region that a generator leaves empty
            continue
        if address is None or size is None or not (0 <= address < address + size <= _END):
            expression = safe_terminal(f"{origin.strip()} + {length.strip()}")
            raise FileError(
                f"region {safe_terminal(name)} has no usable range: {expression}", where=where
            )
        regions.append(FirmwareRegion(name, address, size))
    names = {region.name for region in regions}
    return LinkerLayout(
        tuple(regions[:_MOST_REGIONS]),
        tuple(_sections(text, names)),
        symbols.get("_Min_Heap_Size", 0),
        symbols.get("_Min_Stack_Size", 0),
    )


def _sections(text: str, regions: set[str]) -> Iterator[OutputSection]:
    """Output sections with the region that each is put into."""
    starts = list(_SECTION.finditer(text))
    ends = [*(match.start() for match in starts[1:]), len(text)]
    for match, end in zip(starts, ends, strict=False):
        body = text[match.end() : end]
        target = _TARGET.search(body)
        if target and target[1] in regions:
            inputs = _INPUTS.findall(body[: target.start()])
            yield OutputSection(match[1], target[1], inputs=tuple(" ".join(inputs).split()))


def _value(expression: str, symbols: dict[str, int]) -> int | None:
    """A sum of products of numbers (16K, 0x100) and of symbols; None for anything else."""
    plain = _NUMBER.sub(lambda m: str(int(m[1], 0 if m[1][:2] in ("0x", "0X") else 10)
        * _UNITS[m[2].lower()]), expression.strip())  # fmt: skip
    try:
        tree = ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _evaluated(tree.body, symbols)


def _evaluated(node: ast.expr, symbols: dict[str, int]) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return symbols.get(node.id)
    if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATIONS:
        return None
    left, right = _evaluated(node.left, symbols), _evaluated(node.right, symbols)
    if left is None or right is None or abs(left) > _END or abs(right) > _END:
        return None
    if right == 0 and isinstance(node.op, ast.FloorDiv | ast.Div):
        return None
    result: int = _OPERATIONS[type(node.op)](left, right)
    return result


def _of_map(text: str) -> LinkerLayout:
    _, _, rest = text.partition(_MAP_HEAD)
    table, _, body = rest.partition("Linker script and memory map")
    rows = [(n, int(a, 16), int(s, 16)) for n, a, s in _MAP_REGION.findall(table)]
    regions = tuple(
        FirmwareRegion(*row) for row in rows if row[0] != "*default*" and 0 < row[2] <= _END
    )
    joined = re.sub(r"^(\.\S{15,200})\n\s+", r"\1 ", body, flags=re.MULTILINE)
    sections = tuple(
        OutputSection(name, _region_at(int(at, 16), regions), int(at, 16), int(size, 16))
        for name, at, size in _MAP_SECTION.findall(joined)
        if int(size, 16) and _region_at(int(at, 16), regions)
    )
    return LinkerLayout(regions[:_MOST_REGIONS], sections, is_map=True)


def _region_at(address: int, regions: tuple[FirmwareRegion, ...]) -> str:
    return next((region.name for region in regions if region.holds(address, 1)), "")
