"""What `identify` tells about a runtime-loadable image: its counts, and every number in it."""

from __future__ import annotations

from typing import Any

from npuscope.identify.sample import FileFacts, Sample, plain
from npuscope.loadable.image import Image, ImagePool, read_image_file
from npuscope.loadable.image_model import flags_text, version_text


def inspect_loadable(sample: Sample) -> FileFacts:
    image = read_image_file(sample.path)
    ignored = ("the instructions of the code", "the bytes of parameters")
    return FileFacts(version_text(image), image_counts(image), image_values(image), ignored)


def image_counts(image: Image) -> dict[str, Any]:
    return {
        "network": image.name,
        "runtime": image.runtime,
        "flags": f"{image.header.flags:#010x}",
        "flags_text": flags_text(image.flags),
        "xip_bytes": image.xip_bytes,
        "copy_bytes": image.copy_bytes,
        "xip_possible": image.xip_possible,
        "ext_ram_bytes": image.ext_ram_bytes,
        "params_offset": image.header.params_offset,
        "params_bytes": image.context.params_bin_sz,
        "split": image.split,
        "pools": len(image.pools),
        "relocations": image.relocations.count,
        "flash_relocations": len(image.relocations.flash),
        "blobs": len(image.blobs),
        "trailer": image.trailer.value,
        "params_trailer": image.params_trailer.value,
        "params_crc": image.params_crc.value,
        "notes": list(image.notes),
    }


def image_values(image: Image) -> dict[str, Any]:
    values: dict[str, Any] = plain(
        {
            "header": image.header,
            "flags": image.flags,
            "context": image.context,
            "sections": image.sections,
            "relocations": image.relocations,
            "blobs": image.blobs,
            "entry_points": image.entry_points,
        }
    )
    return {**values, "pools": [pool_json(pool) for pool in image.pools]}


def pool_json(pool: ImagePool) -> dict[str, Any]:
    """A row of the pool table; `package` prints the same."""
    row = pool.descriptor
    return {
        "name": pool.name,
        "flags": f"{row.flags:08x}",
        "flags_text": pool.flags.text,
        "foff": row.foff,
        "dst": row.dst,
        "size": row.size,
    }
