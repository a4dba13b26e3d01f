"""What a firmware offers to loadable images: its memories and what it was built as."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.bounded_file import FIRMWARE_MAP, parse_json, parse_toml, read_text
from npuscope.errors import FileError
from npuscope.loadable.codes import Cpu
from npuscope.machine.foreign_json import VendorNode
from npuscope.program.network_c.layout import DIALECT_2, DIALECT_3
from npuscope.text import safe_terminal

_FOLDER = Path(__file__).parent / "firmware_maps"
_ADDRESS_END = 1 << 32
_DIALECTS = {2: DIALECT_2, 3: DIALECT_3}
_FLAGS = ("fpu", "secure", "debug_info", "asynchronous")
_SIZES = ("epoch_item_bytes", "buffer_info_bytes")
_REGIONS = ("ext_ram", "flash", "params")
_KEYS = ("name", "cpu", *_FLAGS, "runtime", "dialect", *_SIZES, "exec_ram", *_REGIONS, "pools")


class FirmwareRegion(Struct, frozen=True):
    """Memory that an image may use."""

    name: str
    address: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.address + self.size_bytes

    def holds(self, address: int, size_bytes: int) -> bool:
        return self.address <= address and address + size_bytes <= self.end


class FirmwareMap(Struct, frozen=True):
    """None stands for what the file does not state; it is not checked."""

    name: str
    cpu: int | None = None
    fpu: bool | None = None
    secure: bool | None = None
    debug_info: bool | None = None
    asynchronous: bool | None = None
    runtime: tuple[int, int, int] | None = None
    epoch_item_bytes: int | None = None
    buffer_info_bytes: int | None = None
    exec_ram: tuple[FirmwareRegion, ...] = ()
    ext_ram: FirmwareRegion | None = None
    flash: FirmwareRegion | None = None
    params: FirmwareRegion | None = None
    pools: tuple[FirmwareRegion, ...] = ()


def known_maps() -> tuple[str, ...]:
    """Names of the maps that come with the package."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load_firmware_map(name_or_file: str | Path) -> FirmwareMap:
    """A packaged map by name, or a file in TOML or JSON."""
    packaged = _FOLDER / f"{name_or_file}.toml"
    path = packaged if str(name_or_file) in known_maps() else Path(name_or_file)
    node = VendorNode(_table(path), file=str(path))
    _refuse_unknown(node, _KEYS)
    name = node.find("name")
    cpu = node.find("cpu")
    sizes: dict[str, Any] = {
        key: entry.whole() if (entry := node.find(key)) else None for key in _SIZES
    }
    regions: dict[str, Any] = {
        key: _region(entry, key) if (entry := node.find(key)) else None for key in _REGIONS
    }
    return FirmwareMap(
        name=name.text() if name else Path(node.file).stem,
        cpu=_cpu(cpu) if cpu else None,
        runtime=_runtime(node),
        exec_ram=_exec_ram(node),
        pools=tuple(_region(row, row.get("name").text()) for row in _rows(node, "pools")),
        **{key: _flag(node, key) for key in _FLAGS},
        **sizes,
        **regions,
    )


def _table(path: Path) -> dict[str, Any]:
    hint = f"give a file, or one of the known maps: {', '.join(known_maps())}"
    text = read_text(path, FIRMWARE_MAP, hint=hint)
    try:
        table: dict[str, Any] = parse_json(text) if text.lstrip()[:1] == "{" else parse_toml(text)
        return table
    except ValueError as error:
        reason = safe_terminal(str(error))
        hint = "docs/formats/firmware_map.md shows one"
        raise FileError(f"is neither TOML nor JSON: {reason}", where=str(path), hint=hint) from None


def _refuse_unknown(node: VendorNode, names: Iterable[str]) -> None:
    if not isinstance(node.value, dict):
        raise node.error("expected a table")
    strange = [key for key in node.value if key not in names]
    if strange:
        raise node.error(f"unknown key '{safe_terminal(strange[0])}'; known: {', '.join(names)}")


def _cpu(node: VendorNode) -> int:
    """A core by name, or its part number."""
    if isinstance(node.value, str):
        name = node.value.upper().replace("-", "_").replace("+", "_PLUS")
        if name not in Cpu.__members__:
            names = ", ".join(cpu.lower().replace("_", "-") for cpu in Cpu.__members__)
            raise node.error(f"unknown CPU '{safe_terminal(node.value)}'; known: {names}")
        return Cpu[name]
    return node.whole()


def _runtime(node: VendorNode) -> tuple[int, int, int] | None:
    """Three numbers, as text or by the dialect that a runtime speaks."""
    entry, dialect = node.find("runtime"), node.find("dialect")
    version = _version(entry) if entry else None
    if dialect is None:
        return version
    if dialect.value not in _DIALECTS:
        raise dialect.error("expected 2 or 3")
    spoken = _DIALECTS[dialect.value].runtime[:3]
    if version not in (None, spoken):
        raise dialect.error(
            f"dialect {dialect.value} belongs to runtime {'.'.join(map(str, spoken))}"
        )
    return spoken


def _version(node: VendorNode) -> tuple[int, int, int]:
    parts = node.text().split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise node.error("expected three numbers such as 1.1.1")
    major, minor, micro = (int(part) for part in parts)
    return major, minor, micro


def _flag(node: VendorNode, key: str) -> Any:
    entry = node.find(key)
    if entry is not None and not isinstance(entry.value, bool):
        raise entry.error("expected true or false")
    return entry.value if entry else None


def _exec_ram(node: VendorNode) -> tuple[FirmwareRegion, ...]:
    """One table, or several to choose from."""
    entry = node.find("exec_ram")
    if entry is not None and isinstance(entry.value, dict):
        return (_region(entry, "exec_ram"),)
    return tuple(_region(row, "exec_ram") for row in _rows(node, "exec_ram"))


def _rows(node: VendorNode, key: str) -> tuple[VendorNode, ...]:
    entry = node.find(key)
    return tuple(entry.items()) if entry else ()


def _region(node: VendorNode, name: str) -> FirmwareRegion:
    _refuse_unknown(node, ("name", "address", "size"))
    address, size = node.get("address").whole(), node.get("size").whole()
    if address < 0 or size < 1 or address + size > _ADDRESS_END:
        raise node.error(f"{size} bytes at {address:#x} are not a range of 32-bit addresses")
    return FirmwareRegion(name, address, size)
