"""Rules on ranges of memory: overlaps, ends of chips, alignment, full regions, missing weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from npuscope.application.check.model import (
    APPLICATION_SLOT,
    FLASH_START,
    LINE,
    PSRAM_START,
    AddressRange,
    AppFinding,
    AppSeverity,
    CheckedNetwork,
    chip_end,
)
from npuscope.text import safe_terminal

_SMALL_SLOT = 512 * 1024  # an application of the vendor's kind has 0.6 to 0.9 MB


def memory_findings(
    board: str, networks: Sequence[CheckedNetwork], regions: Sequence[AddressRange]
) -> Iterator[AppFinding]:
    for network in networks:
        yield from _ends(board, network)
        for pool in network.pools:
            if pool.start % LINE:
                text = (
                    f"pool {pool} of '{safe_terminal(pool.owner)}' does not start on {LINE} bytes"
                )
                yield AppFinding("alignment", AppSeverity.ERROR, board, text)
        yield from _in_regions(board, network, regions)
        if any(one.shared(other) for one in network.inputs for other in network.outputs):
            text = f"{_name(network)} writes outputs over its input: fill it again before every run"
            yield AppFinding("output-in-input", AppSeverity.NOTE, board, text, (network.file,))
    for one, other in combinations(networks, 2):
        yield from _two_networks(board, one, other)
    yield from _regions(board, regions)
    yield from _slot(board, networks)


def _ends(board: str, network: CheckedNetwork) -> Iterator[AppFinding]:
    for used in network.used:
        end = chip_end(used.start, board)
        if end is None:
            text = f"{_name(network)} uses {used.size_bytes:,} bytes at {used.start:#010x}, "
            yield AppFinding("past-chip", AppSeverity.ERROR, board,
                f"{text}where {board} has no memory", (network.file,))  # fmt: skip
        elif used.end > end:
            over = used.end - end
            text = f"{_name(network)} uses memory {over:,} bytes past its end at {end:#010x}"
            yield AppFinding("past-chip", AppSeverity.ERROR, board, text, (network.file,))
    for pool in network.pools:
        end = chip_end(pool.start, board)
        in_use = any(pool.shared(used) for used in network.used)
        if end is None and not in_use:
            text = f"{_name(network)} was offered {pool}, which {board} does not have; it is unused"
            yield AppFinding("pool-past-chip", AppSeverity.NOTE, board, text, (network.file,))
        elif end is not None and pool.end > end + LINE:
            over = pool.end - end
            text = f"pool {pool} of {_name(network)} ends {over:,} bytes past the chip"
            hint = f"give the pool {end - pool.start:,} bytes"
            yield AppFinding(
                "pool-past-chip", AppSeverity.LATENT, board, text, (network.file,), hint
            )


def _in_regions(
    board: str, network: CheckedNetwork, regions: Sequence[AddressRange]
) -> Iterator[AppFinding]:
    for region in regions:
        overlap = sum(used.shared(region) for used in network.used)
        offered = [pool for pool in network.pools if pool.shared(region)]
        if overlap:
            text = f"{_name(network)} uses {overlap:,} bytes of the linker's region {region}"
            hint = "end the region before the pool, or compile for other pools"
            yield AppFinding(
                "region-overlap", AppSeverity.ERROR, board, text, (network.file,), hint
            )
        elif offered:
            bytes_ = sum(pool.shared(region) for pool in offered)
            text = (
                f"pools of {_name(network)} reach {bytes_:,} bytes into the linker's region "
                f"{region}; nothing of it is used yet"
            )
            yield AppFinding("pool-in-region", AppSeverity.LATENT, board, text, (network.file,))


def _two_networks(board: str, one: CheckedNetwork, other: CheckedNetwork) -> Iterator[AppFinding]:
    names, files = f"{_name(one)} and {_name(other)}", (one.file, other.file)
    weights = sum(a.shared(b) for a in one.flash for b in other.flash)
    if weights:
        text = f"{names} have {weights:,} bytes of weights at the same addresses in flash"
        yield AppFinding("flash-overlap", AppSeverity.ERROR, board, text, files)
    else:
        pools = [
            a.shared(b) for a in one.pools for b in other.pools
            if FLASH_START <= a.start < PSRAM_START
        ]  # fmt: skip
        if sum(pools):
            text = f"flash pools of {names} overlap by {sum(pools):,} bytes; weights do not touch"
            hint = "end the first pool where the second begins"
            yield AppFinding("flash-pools", AppSeverity.LATENT, board, text, files, hint)
    ram = sum(
        a.shared(b) for a in one.used for b in other.used
        if not FLASH_START <= a.start < PSRAM_START
    )  # fmt: skip
    if ram:
        text = f"{names} share {ram:,} bytes of RAM: they may run one after the other only"
        yield AppFinding("shared-ram", AppSeverity.NOTE, board, text, files)


def _regions(board: str, regions: Sequence[AddressRange]) -> Iterator[AppFinding]:
    for region in regions:
        end = chip_end(region.start, board)
        if end is None or region.end > end:
            where = "lies where the board has no memory" if end is None else (
                f"ends {region.end - end:,} bytes past its memory")  # fmt: skip
            yield AppFinding(
                "region-past-chip", AppSeverity.ERROR, board, f"region {region} {where}"
            )
        if region.start % LINE:
            text = f"region {region} does not start on {LINE} bytes"
            yield AppFinding("alignment", AppSeverity.ERROR, board, text)
    for one, other in combinations(regions, 2):
        if one.shared(other):
            text = f"regions {one} and {other} overlap by {one.shared(other):,} bytes"
            yield AppFinding("regions-overlap", AppSeverity.ERROR, board, text)


def _slot(board: str, networks: Sequence[CheckedNetwork]) -> Iterator[AppFinding]:
    """Room of the signed image between its address and the first weights behind it."""
    starts = [s.start for n in networks for s in n.flash if s.start >= APPLICATION_SLOT]
    if starts and min(starts) - APPLICATION_SLOT <= _SMALL_SLOT:
        room = min(starts) - APPLICATION_SLOT
        text = (
            f"the application at {APPLICATION_SLOT:#010x} has {room:,} bytes before weights begin: "
            "a larger image overwrites them"
        )
        yield AppFinding("image-slot", AppSeverity.LATENT, board, text)


def _name(network: CheckedNetwork) -> str:
    return f"'{safe_terminal(network.name)}'"
