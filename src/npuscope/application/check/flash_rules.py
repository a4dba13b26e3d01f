"""Which file, or which step, brings the weights of a network into flash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from npuscope.application.check.folder import AppFolder, boards_of, readable_text
from npuscope.application.check.model import AddressRange, AppFinding, AppSeverity, CheckedNetwork
from npuscope.bounded_file import REPORT, is_pointer
from npuscope.errors import NpuscopeError
from npuscope.program.weight_files import read_hex
from npuscope.text import safe_terminal

_TEXTS = (".sh", ".bat", ".md", ".ps1", ".py", ".mk")
_MOST_BYTES = 64 << 20


def flash_findings(
    folder: AppFolder, board: str, networks: Sequence[CheckedNetwork]
) -> Iterator[AppFinding]:
    images = [f for f in folder.files if f.suffix in (".hex", ".bin", ".raw")]
    fitting = [f for f in images if board in boards_of(folder.shown(f))]
    covered: dict[Path, list[AddressRange]] = {}
    texts = [f for f in folder.files if f.suffix.lower() in _TEXTS or f.name == "Makefile"]
    for network in networks:
        if not network.flash or _has_file(network, fitting, covered):
            continue
        start = min(span.start for span in network.flash)
        size = max(span.end for span in network.flash) - start
        words = rf"\b{re.escape(network.name)}_data\b|\b{start:#010x}\b|[}})%]_data\b"
        steps = [f for f in texts if re.search(words, readable_text(f, REPORT), re.IGNORECASE)]
        what = f"'{safe_terminal(network.name)}' reads {size:,} bytes of weights at {start:#010x}"
        if steps:
            files = ", ".join(safe_terminal(folder.shown(step)) for step in steps[:3])
            text = f"{what}; no file here holds them, though {files} speaks of one"
        else:
            text = f"{what}, and no file or step of the folder brings them there"
        hint = "write them once with the programmer; flash that was erased reads as 0xFF"
        severity = AppSeverity.LATENT if steps else AppSeverity.ERROR
        yield AppFinding("weights-not-flashed", severity, board, text, (network.file,), hint)


def _has_file(
    network: CheckedNetwork, images: Sequence[Path], covered: dict[Path, list[AddressRange]]
) -> bool:
    """A file by its name, by its size, or by the addresses that it holds."""
    size = max(span.end for span in network.flash) - min(span.start for span in network.flash)
    prefixes = (*(f"{network.name.lower()}{mark}" for mark in "_-"), "network_data")
    for image in images:
        name = image.name.lower()
        own = name.startswith(prefixes) and re.search(r"data|atonbuf|weights", name)
        if own and _is_whole(image, size):
            return True
        if image.suffix != ".hex" and image.stat().st_size == size:
            return True
    for image in images:
        if image.suffix == ".hex" and image not in covered:
            covered[image] = []
            with suppress(NpuscopeError, OSError):
                if image.stat().st_size <= _MOST_BYTES:
                    rows = read_hex(image)
                    covered[image] = [AddressRange(image.name, "data", r.address, r.end)
                        for r in rows]  # fmt: skip
    ranges = [one for spans in covered.values() for one in spans]
    return all(
        any(one.start <= span.start and span.end <= one.end for one in ranges)
        for span in network.flash
    )


def _is_whole(image: Path, size: int) -> bool:
    """Kept elsewhere by Git, or with all bytes; a hex file has more than twice as many."""
    try:
        return is_pointer(image) or image.stat().st_size >= size
    except (NpuscopeError, OSError):
        return False
