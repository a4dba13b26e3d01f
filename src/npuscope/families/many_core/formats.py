"""Files of many-core machines: how they are told from others, and who reads them."""

from __future__ import annotations

import re

from npuscope.families.interface import Format, Rank
from npuscope.families.many_core.buffer_format import MAGIC as STATS_MAGIC
from npuscope.families.many_core.buffer_format import is_summary
from npuscope.families.many_core.qpc import MAGIC as QPC_MAGIC
from npuscope.identify.binary import is_raw_image
from npuscope.identify.documents import is_schema
from npuscope.identify.sample import Sample

_INSPECT = "npuscope.families.many_core.inspect:"
# The vendor's runner names the buffers of several devices with a number behind.
_BUFFER_NAME = re.compile(r"aiccyclecounts(_[^./]*)?\.bin$")


def _is_qpc(sample: Sample) -> bool:
    return sample.head.startswith(QPC_MAGIC.to_bytes(4, "little"))


def _is_stats_buffer(sample: Sample) -> bool:
    return sample.head.startswith(STATS_MAGIC)


def _is_vendor_buffer(sample: Sample) -> bool:
    """By its name alone: its bytes tell nothing."""
    return is_raw_image(sample) and bool(_BUFFER_NAME.search(sample.path.name))


def _is_summary(sample: Sample) -> bool:
    return is_summary(sample.head)


def _is_specializations(sample: Sample) -> bool:
    return isinstance(sample.document.get("specializations"), list)


FORMATS = (
    Format(
        "qpc",
        "program container (QPC)",
        _is_qpc,
        f"{_INSPECT}inspect_qpc",
        disassemble="npuscope.families.many_core.listing:list_program",
    ),
    Format("stats_buffer", "stats buffer", _is_stats_buffer, f"{_INSPECT}inspect_stats_buffer"),
    Format("opstats", "opstats", is_schema("opstats"), f"{_INSPECT}inspect_opstats"),
    Format("opstats_summary", "summary of opstats", _is_summary, f"{_INSPECT}inspect_summary"),
    Format(
        "specializations",
        "sets of sizes for -network-specialization-config",
        _is_specializations,
        f"{_INSPECT}inspect_specializations",
    ),
    Format(
        "raw_image",
        "raw image of a memory",
        _is_vendor_buffer,
        f"{_INSPECT}inspect_vendor_buffer",
        Rank.REST,
    ),
)
