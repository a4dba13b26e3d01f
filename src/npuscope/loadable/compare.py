"""Two runtime-loadable images side by side: what differs, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from npuscope.lean_dataclass import dataclass
from npuscope.loadable.codes import cpu_name, toolchain_name
from npuscope.loadable.image import Image, ImagePool
from npuscope.loadable.image_model import version_text
from npuscope.loadable.layout import Flags

Value = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Difference:
    """`part` is one of PARTS; None stands for what one of the two does not have."""

    part: str
    name: str
    a: Value
    b: Value


PARTS = ("runtime", "flags", "required RAM", "sizes", "pools", "code", "parameters")


def compare_images(a: Image, b: Image) -> tuple[Difference, ...]:
    """All differences, in the order of PARTS."""
    mine, other = dict(_facts(a)), dict(_facts(b))
    keys = [*mine, *(key for key in other if key not in mine)]
    keys.sort(key=lambda key: PARTS.index(key[0]))
    return tuple(
        Difference(*key, mine.get(key), other.get(key))
        for key in keys
        if mine.get(key) != other.get(key)
    )


def _facts(image: Image) -> Iterator[tuple[tuple[str, str], Value]]:
    yield from ((("runtime", name), value) for name, value in _runtime(image).items())
    yield from ((("flags", name), value) for name, value in _flags(image.flags).items())
    yield from ((("required RAM", name), value) for name, value in _ram(image).items())
    yield ("sizes", "file"), image.size_bytes
    yield from ((("sizes", section.name), section.size_bytes) for section in image.sections)
    for pool in image.pools:
        yield from ((("pools", name), value) for name, value in _pool(pool).items())
    yield from ((("code", name), value) for name, value in _code(image).items())
    yield from ((("parameters", name), value) for name, value in _parameters(image).items())


def _runtime(image: Image) -> dict[str, Value]:
    return {
        "network": image.name,
        "version": version_text(image),
        "version text": image.runtime,
        "epoch item bytes": image.context.epoch_item_bytes,
        "buffer info bytes": image.context.buffer_info_bytes,
    }


def _flags(flags: Flags) -> dict[str, Value]:
    names = [entry.name for entry in fields(flags)]
    found: dict[str, Value] = {n.replace("_", " "): getattr(flags, n) for n in names}
    return {**found, "cpu": cpu_name(flags.cpu), "toolchain": toolchain_name(flags.toolchain)}


def _ram(image: Image) -> dict[str, Value]:
    return {
        "XIP bytes": image.xip_bytes,
        "COPY bytes": image.copy_bytes,
        "XIP possible": image.xip_possible,
        "external RAM bytes": image.ext_ram_bytes,
        "activations bytes": image.context.acts_sz,
    }


def _pool(pool: ImagePool) -> dict[str, Value]:
    row = pool.descriptor
    return {
        f"{pool.name} flags": pool.flags.text,
        f"{pool.name} foff": row.foff,
        f"{pool.name} dst": f"{row.dst:#010x}",
        f"{pool.name} size": row.size,
    }


def _code(image: Image) -> dict[str, Value]:
    found = image.relocations
    return {
        "text+rodata CRC-32": _crc(image.section("text+rodata").crc32),
        "data CRC-32": _crc(image.section("data").crc32),
        "relocations in data": len(found.ram) + sum(1 for word in found.got if word),
        "relocations in code": len(found.flash),
        "blobs": len(image.blobs),
        "blob bytes": sum(blob.size_bytes for blob in image.blobs),
    }


def _parameters(image: Image) -> dict[str, Value]:
    return {
        "CRC-32": _crc(image.context.params_bin_crc32),
        "bytes": image.context.params_bin_sz,
        "split": image.split,
        "checksum": image.params_crc.value,
        "trailer": image.trailer.value,
    }


def _crc(value: int | None) -> str | None:
    return None if value is None else f"{value:08x}"
