"""Images and builds as text: pool tables, a load-and-run with its epochs, a checklist."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from npuscope.boards.device import NodeCounters
from npuscope.boards.emulated.boot import Mode
from npuscope.loadable.codes import AddressBase, cpu_name, name_of, segment_of
from npuscope.loadable.compare import PARTS, Difference, Value
from npuscope.loadable.fitting import Fitting
from npuscope.loadable.image import Image, ImagePool, Seal
from npuscope.loadable.image_model import CLOSING, flags_text, version_text
from npuscope.profiling.load_and_run import LoadAndRun
from npuscope.profiling.measure import device_part
from npuscope.profiling.model import Profile
from npuscope.program.model import EpochKind
from npuscope.report.device_values import said_values
from npuscope.report.figures import (
    clocks_of,
    ms,
    percent,
    source_of,
    total_phases,
)
from npuscope.shown import significant
from npuscope.text import safe_terminal

# --- Images: sizes and pool table as the vendor's tools print them ---

_HEADINGS = ("name (addr)", "flags", "foff", "dst", "size")
_SEALS = {
    Seal.OK: "intact: the trailer's checksum is correct",
    Seal.ABSENT: "no trailer: the file cannot be checked as a whole",
    Seal.WRONG: "DAMAGED: the trailer's length or checksum is wrong",
}


def size_lines(image: Image) -> list[str]:
    """RAM that the two modes of loading need, and the place of the parameters."""
    size = image.context.params_bin_sz
    apart = " in a separate file" if image.split else ""
    return [
        f"XIP size      = {_sized(image.xip_bytes)} data+got+bss sections",
        f"COPY size     = {_sized(image.copy_bytes)} +ro sections",
        f"PARAMS offset = {_sized(image.header.params_offset)}",
        f"PARAMS size   = {_sized(size)}{apart}",
    ]


def pool_table(image: Image) -> list[str]:
    """The pool descriptors with the one that closes them."""
    rows = [_pool_cells(pool) for pool in (*image.pools, CLOSING)]
    start = image.header.params_start
    return [
        *boxed(_HEADINGS, rows),
        f" Table: mempool c-descriptors (off={start:08x}, {len(rows)} entries, "
        f"from {name_of(AddressBase, segment_of(start))})",
    ]


def boxed(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """A table in boxes; a column is at least two wider than its heading."""
    columns = zip(headings, *rows, strict=True)
    widths = [max(len(cells[0]) + 2, *map(len, cells)) for cells in columns]
    return [
        _rule(widths, "┌┬┐"),
        _row(headings, widths),
        _rule(widths, "├┼┤"),
        *(_row(row, widths) for row in rows),
        _rule(widths, "└┴┘"),
    ]


def image_text(source: str, image: Image) -> str:
    """All that a person asks first about an image."""
    tables = [f"   {line}".rstrip() for line in (*size_lines(image), "", *pool_table(image))]
    name = safe_terminal(image.name)
    whole = "" if image.whole else ", DAMAGED"
    ways = "XIP or COPY" if image.xip_possible else "COPY only"
    headline = (
        f"{safe_terminal(source)}: runtime-loadable image of '{name}', runtime "
        f"{version_text(image)}, {len(image.pools)} pools, {ways}{whole}"
    )
    return "\n".join([headline, "", *_facts(image), "", *tables])


def comparison_text(a: str, b: str, differences: tuple[Difference, ...]) -> str:
    """What differs; the first line counts it by part."""
    names = f"{safe_terminal(a)} and {safe_terminal(b)}"
    if not differences:
        return f"{names}: no difference"
    parts = [difference.part for difference in differences]
    counts = ", ".join(f"{part} {parts.count(part)}" for part in PARTS if part in parts)
    rows = [(d.part, safe_terminal(d.name), _value(d.a), _value(d.b)) for d in differences]
    table = aligned_rows([("part", "what", "a", "b"), *rows])
    return "\n".join([f"{names}: {len(differences)} differences ({counts})", *table])


def fitting_text(source: str, fitting: Fitting) -> str:
    """Yes or no, by which way, then every check."""
    ways = [n for n, good in (("XIP", fitting.xip_loads), ("COPY", fitting.copy_loads)) if good]
    untold = sum(check.passed is None for check in fitting.common)
    limit = ", as far as the map states" if untold and ways else ""
    answer = f"yes, as {' or '.join(ways)}{limit}" if ways else "no"
    target = f"{safe_terminal(source)} on {safe_terminal(fitting.firmware)}"
    checks = [
        *(("both", check) for check in fitting.common),
        *(("XIP", check) for check in fitting.xip),
        *(("COPY", check) for check in fitting.copy),
    ]
    states = {True: "ok", False: "NO", None: "?"}
    rows = [
        (mode, safe_terminal(c.name), states[c.passed], c.asked, safe_terminal(c.offered))
        for mode, c in checks
    ]
    heading = ("mode", "check", "", "asked", "offered")
    return "\n".join([f"{answer}: {target}", *aligned_rows([heading, *rows])])


def aligned_rows(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _value(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else safe_terminal(value)


def _facts(image: Image) -> list[str]:
    size = sum(blob.size_bytes for blob in image.blobs)
    relocations = image.relocations
    got = sum(1 for word in relocations.got if word)
    spans = [
        f"{safe_terminal(pool.name)} {pool.descriptor.dst:08x}+{pool.descriptor.size:,}"
        for pool in image.fixed_pools
    ]
    rows = {
        "flags": f"{image.header.flags:08x} {flags_text(image.flags)}",
        "runtime": f"{safe_terminal(image.runtime)} ({version_text(image)})",
        "structures": f"epoch item {image.context.epoch_item_bytes} bytes, "
        f"buffer info {image.context.buffer_info_bytes} bytes",
        "file": f"{image.size_bytes:,} bytes, {_SEALS[image.trailer]}",
        "parameters": _parameters(image),
        "relocations": f"{got} in the GOT, {len(relocations.ram)} in data, "
        f"{len(relocations.flash)} in code",
        "blobs": f"{len(image.blobs)} of the epoch controller, {size:,} bytes",
        "fixed": ", ".join(spans) or "no address is fixed",
    }
    return [f"  {key:<12} {text}" for key, text in rows.items()] + [
        f"  note         {note}" for note in image.notes
    ]


def _parameters(image: Image) -> str:
    crc = f"CRC-32 {image.context.params_bin_crc32:08x}"
    states = {Seal.OK: "right", Seal.WRONG: "WRONG", Seal.ABSENT: "not checked"}
    if not image.context.params_bin_sz:
        return "none"
    if image.params_bytes is None:
        return f"in a separate file that was not found, {crc}"
    place = "in a separate file" if image.split else f"at byte {image.header.params_offset}"
    return f"{place}, {crc} {states[image.params_crc]}"


def _pool_cells(pool: ImagePool) -> tuple[str, ...]:
    row = pool.descriptor
    return (
        f"{safe_terminal(pool.name)} ({row.name:08x})",
        f"{row.flags:08x} {pool.flags.text}",
        str(row.foff),
        f"{row.dst:08x}",
        str(row.size),
    )


def _sized(size: int) -> str:
    return f"{size:<10,}({size:#x})"


def _rule(widths: list[int], corners: str) -> str:
    return corners[0] + corners[1].join("─" * (width + 2) for width in widths) + corners[2]


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = (f" {cell:<{width}} " for cell, width in zip(cells, widths, strict=True))
    return f"│{'│'.join(padded)}│"


# --- Load-and-run: what was loaded where, then the epochs with their times ---

SCHEMA = "npuscope/run/1"
_MODEL_ERROR = (
    "NPU cycles are simulated (docs/accuracy.md); instructions are those of npuscope's own kernels "
    "without vectors, not of the vendor's library (docs/board.md)"
)
_NO_TOTAL = (
    "no total is predicted: the image's NAME_rel.program.json is not beside it; `npuscope estimate "
    "BUILD` gives it"
)


def run_json(run: LoadAndRun) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "network": run.network.name,
        "board": run.info.description,
        "cpu": cpu_of(run),
        "mode": ("xip" if Mode.XIP in run.placed.mode else "copy"),
        "total_ms": run.total_ms,
        "inferences_per_s": 1e3 / run.total_ms if run.total_ms else None,
        "provenance": _total_provenance(run),
        "npu_ms": run.npu_ms if run.inferences else None,
        "cpu_instructions": run.instructions if run.inferences else None,
        "phases": [round(value) for value in run.phases] if run.inferences else None,
        "line": {"baud": run.line.baud, "bytes": run.line.bytes, "ms": run.line.ms},
        "model_error": _MODEL_ERROR,
        "epochs": [
            {
                "name": row.name,
                "first": row.number,
                "last": row.last,
                "kind": row.kind.value,
                "mcu_cycles": list(row.mcu_cycles),
            }
            for row in _nodes(run)
        ],
        "outputs": _outputs(run),
    }


def _total_provenance(run: LoadAndRun) -> str | None:
    """Of `total_ms`: nothing that was emulated is in it."""
    return source_of(run.prediction).value if run.prediction and run.inferences else None


def _nodes(run: LoadAndRun) -> tuple[NodeCounters, ...]:
    return run.inferences[-1].nodes if run.inferences else ()


def _outputs(run: LoadAndRun) -> list[dict[str, str]]:
    if not run.inferences:
        return []
    values = run.inferences[-1].outputs
    return [
        {
            "name": tensor.name,
            "sha256": hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest(),
        }
        for tensor, value in zip(run.network.outputs, values, strict=True)
    ]


def run_lines(run: LoadAndRun, verbosity: int = 1) -> list[str]:
    """The answer first, then the table of epochs: what was emulated, and the predicted total."""
    if not run.inferences:
        return [f"{safe_terminal(run.network.name)} is loaded and ready: {_where(run)}"]
    # A real board runs vector code: the CPU's part here is work done, not a prediction.
    total = f", {_total(run.prediction)}" if run.prediction else ""
    answer = (
        f"{safe_terminal(run.network.name)}: NPU {run.npu_ms:.3f} ms{total}; "
        f"{run.instructions:,} CPU instructions without vectors "
        f"on the emulated board ({cpu_of(run)}), {_where(run)}"
    )
    if verbosity == 0:
        return [answer]
    more = ["", *_everything(run)] if verbosity > 1 else []
    beside = f"  plus the serial line of a real board: {run.line.told}"
    rows = [_epoch_row(node, run) for node in _nodes(run)]
    return [
        answer,
        *more,
        "",
        _RULE,
        f"  {'epoch':<26}{'type':<8}{'NPU ms':>8}{'CPU instructions':>22}",
        _RULE,
        *rows,
        _RULE,
        f"  {'emulated':<34}{run.npu_ms:>8.3f}{run.instructions:>22,}",
        _RULE,
        *_predicted(run),
        "",
        beside,
        f"  {_MODEL_ERROR}",
    ]


def _everything(run: LoadAndRun) -> list[str]:
    """Sizes and pools of the image, and what the board says of itself and the network."""
    said = said_values(device_part(run.info, run.network))
    return [
        *size_lines(run.image),
        "",
        *pool_table(run.image),
        "",
        *(f"{name:<20}: {value}" for name, value in said.items()),
    ]


def cpu_of(run: LoadAndRun) -> str:
    """The processor that ran: images for another one are refused."""
    return cpu_name(run.image.flags.cpu)


def _where(run: LoadAndRun) -> str:
    mode = "executed in place" if Mode.XIP in run.placed.mode else "copied to RAM"
    return f"{mode} from {run.placed.address:#x}"


def _total(profile: Profile) -> str:
    """The time that `estimate` gives for the same build."""
    if profile.is_mostly_unknown:
        return "the total is not known"
    least = "at least " if profile.is_lower_bound else ""
    speed = f"{significant(profile.inferences_per_s, 4)} inf/s"
    return f"predicted total {least}{ms(profile.total_ms)} ms ({speed})"


def _predicted(run: LoadAndRun) -> list[str]:
    """The total in MCU cycles before, during and after the epochs, as a board's table ends."""
    profile = run.prediction
    if profile is None:
        return [f"  {_NO_TOTAL}"]
    if profile.is_mostly_unknown:
        return [f"  {_total(profile)}"]
    cycles = total_phases(profile.epochs, clocks_of(profile)).mcu_cycles
    counts = "  ".join(f"{round(value):>11,}" for value in cycles)
    shares = "  ".join(f"{percent(value, sum(cycles)):>11}" for value in cycles)
    speed = significant(profile.inferences_per_s, 4)
    return [
        f"  {'predicted total':<34}{ms(profile.total_ms):>8}  [ {counts} ]",
        f"  {'':<28}{speed:>8} inf/s  [ {shares} ]",
        _RULE,
        "  predicted: as `npuscope estimate` says of this build, MCU cycles before, during and "
        "after epochs",
    ]


_RULE = "  " + "-" * 84


def _epoch_row(node: NodeCounters, run: LoadAndRun) -> str:
    name = safe_terminal(node.name)[:26]
    npu = "-" if node.kind is EpochKind.SW else f"{run.npu_ms_of(node):.3f}"
    return f"  {name:<26}{node.kind.value:<8}{npu:>8}{run.instructions_of(node):>22,}"
