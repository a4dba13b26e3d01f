"""Two runtime-loadable images side by side: what differs, part by part."""

from __future__ import annotations

from msgspec import Struct

from npuscope.loadable.codes import cpu_name, toolchain_name
from npuscope.loadable.image import Image
from npuscope.loadable.image_model import version_text

Value = str | int | bool | None


class Difference(Struct, frozen=True):
    """`part` is one of PARTS; None stands for what one of the two does not have."""

    part: str
    name: str
    a: Value
    b: Value


PARTS = ("runtime", "flags", "required RAM", "sizes", "pools", "code", "parameters")


def compare_images(a: Image, b: Image) -> tuple[Difference, ...]:
    """All differences, in the order of PARTS."""
    mine, other = _facts(a), _facts(b)
    keys = [*mine, *(key for key in other if key not in mine)]
    keys.sort(key=lambda key: PARTS.index(key[0]))
    return tuple(
        Difference(*key, mine.get(key), other.get(key))
        for key in keys
        if mine.get(key) != other.get(key)
    )


def _facts(image: Image) -> dict[tuple[str, str], Value]:
    flags, context, relocations = image.flags, image.context, image.relocations
    flag_names = flags.__struct_fields__
    parts: dict[str, dict[str, Value]] = {
        "runtime": {
            "network": image.name,
            "version": version_text(image),
            "version text": image.runtime,
            "epoch item bytes": context.epoch_item_bytes,
            "buffer info bytes": context.buffer_info_bytes,
        },
        "flags": {
            **{name.replace("_", " "): getattr(flags, name) for name in flag_names},
            "cpu": cpu_name(flags.cpu),
            "toolchain": toolchain_name(flags.toolchain),
        },
        "required RAM": {
            "XIP bytes": image.xip_bytes,
            "COPY bytes": image.copy_bytes,
            "XIP possible": image.xip_possible,
            "external RAM bytes": image.ext_ram_bytes,
            "activations bytes": context.acts_sz,
        },
        "sizes": {
            "file": image.size_bytes,
            **{section.name: section.size_bytes for section in image.sections},
        },
        "pools": {
            f"{pool.name} {name}": value
            for pool in image.pools
            for name, value in (
                ("flags", pool.flags.text),
                ("foff", pool.descriptor.foff),
                ("dst", f"{pool.descriptor.dst:#010x}"),
                ("size", pool.descriptor.size),
            )
        },
        "code": {
            "text+rodata CRC-32": _crc(image.section("text+rodata").crc32),
            "data CRC-32": _crc(image.section("data").crc32),
            "relocations in data": len(relocations.ram) + sum(map(bool, relocations.got)),
            "relocations in code": len(relocations.flash),
            "blobs": len(image.blobs),
            "blob bytes": sum(blob.size_bytes for blob in image.blobs),
        },
        "parameters": {
            "CRC-32": _crc(context.params_bin_crc32),
            "bytes": context.params_bin_sz,
            "split": image.split,
            "checksum": image.params_crc.value,
            "trailer": image.trailer.value,
        },
    }
    return {(part, name): value for part in PARTS for name, value in parts[part].items()}


def _crc(value: int | None) -> str | None:
    return None if value is None else f"{value:08x}"
