"""The same report for a Program of ours, in the style of its compiler generation."""

from __future__ import annotations

from itertools import groupby
from typing import Protocol

from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.program.generate_report.layers import layer_lines
from npuscope.program.generate_report.usage import PoolUsage, pool_usage
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.text import safe_terminal
from npuscope.version import __version__

_RULER = "-" * 84
_END = "=" * 84
# Reports before 3.0 list every epoch on a line of its own, without a box.
_OLD_STYLE = "2."
_OLD_MARKS = {EpochKind.SW: "-SW-", EpochKind.HYBRID: " ?? "}
_MARKS = {EpochKind.SW: "SW", EpochKind.HYBRID: "Hybrid"}


class Timed(Protocol):
    """A run of the program: what the last lines of the report tell."""

    @property
    def total_ms(self) -> float: ...

    @property
    def inferences_per_s(self) -> float: ...


def generate_report_text(
    program: Program, machine: Machine, graph: Graph | None = None, profile: Timed | None = None
) -> str:
    """Tool, layers, compiler, pools, used ranges, epochs, sections: in the vendor's order."""
    usage = pool_usage(program)
    parts = [
        _head(program),
        layer_lines(graph) if graph else [],
        _compiler(program, machine),
        _pools(usage),
        _ranges(usage),
        _epochs(program),
        _sections(usage),
        _speed(profile) if profile else [],
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(program: Program) -> list[str]:
    model = safe_terminal(program.model_file or program.name)
    return [
        f"npuscope v{__version__}",
        f"Parameters            : compile {model} --generation {program.generation}",
        *([f"model_hash            : 0x{program.model_md5}"] if program.model_md5 else []),
        "",
        f"Model name - {safe_terminal(program.name)}",
    ]


def _compiler(program: Program, machine: Machine) -> list[str]:
    controller = "--epoch-controller" if program.epoch_controller else "--no-epoch-controller"
    return [
        "",
        "Compilation details",
        _RULER,
        f"Compiler version: {__version__}",
        f"Compiler arguments:  --machine {machine.name} --generation {program.generation}"
        f" {controller}",
        _END,
    ]


def _pools(usage: tuple[PoolUsage, ...]) -> list[str]:
    weights = sum(pool.weights_bytes for pool in usage)
    activations = sum(pool.activations_bytes for pool in usage)
    total = f"Total: {' ' * 36}{amount(weights + activations)}"
    width = max((len(pool.name) for pool in usage), default=0)
    return [
        "",
        "Memory usage information  (input/output buffers are included in activations)",
        _RULER,
        *(_pool(pool, width) for pool in usage),
        "---",
        f"{total:<90} -- weights: {amount(weights):<30} activations: {amount(activations)}",
        _END,
    ]


def _pool(pool: PoolUsage, width: int) -> str:
    def use(used: int) -> str:
        share = 100 * used / pool.size_bytes if pool.size_bytes else 0.0
        return f"({share:6.2f} % used)"

    used = pool.weights_bytes + pool.activations_bytes
    return (
        f"\t{_place(pool, width)} {amount(used)} / {amount(pool.size_bytes)}  {use(used)}"
        f" -- weights: {amount(pool.weights_bytes)} {use(pool.weights_bytes)}"
        f"  activations: {amount(pool.activations_bytes)} {use(pool.activations_bytes)}"
    )


def _place(pool: PoolUsage, width: int) -> str:
    name = safe_terminal(pool.name)
    return f"{name:<{width}} [0x{pool.address:08X} - 0x{pool.address + pool.size_bytes:08X}]:"


def amount(size_bytes: int) -> str:
    """Three decimals of kB or MB, whole bytes below: width 13."""
    if size_bytes < 1 << 10:
        return f"{size_bytes:>10}  B"
    if size_bytes < 1 << 20:
        return f"{size_bytes / (1 << 10):>10.3f} kB"
    return f"{size_bytes / (1 << 20):>10.3f} MB"


def _ranges(usage: tuple[PoolUsage, ...]) -> list[str]:
    used = [pool for pool in usage if pool.high > pool.low]
    width = max((len(pool.name) for pool in used), default=0)
    rows = [f"\t{_place(pool, width)} 0x{pool.low:08X}-0x{pool.high:08X}" for pool in used]
    return ["", "Used memory ranges", _RULER, *rows, _END]


def _epochs(program: Program) -> list[str]:
    old = program.generation.startswith(_OLD_STYLE)
    return ["", "Epochs details", _RULER, *(_old_epochs if old else _boxed_epochs)(program), _END]


def _old_epochs(program: Program) -> list[str]:
    total, software = len(program.executed), program.count(EpochKind.SW)
    return [
        f"Total number of epochs: {total} of which {software} implemented in software",
        "---",
        "epoch ID   HW/SW/EC Operation (SW only)",
        *(_old_epoch(epoch) for epoch in program.executed),
    ]


def _old_epoch(epoch: Epoch) -> str:
    mark = _OLD_MARKS.get(epoch.kind, " EC " if epoch.blob is not None else " HW ")
    details = f"({_operator(epoch):^20})" if epoch.kind is EpochKind.SW else ""
    return f"epoch {epoch.number:<6} {mark}   {details}".rstrip()


def _boxed_epochs(program: Program) -> list[str]:
    counts = {kind: program.count(kind) for kind in EpochKind}
    blobs = len({epoch.blob for epoch in program.epochs if epoch.blob is not None})
    labels = (
        ("Total number of epochs", len(program.executed), ""),
        (">> pure software (SW) epochs", counts[EpochKind.SW], ""),
        (">> hybrid epochs (using both software and hardware)", counts[EpochKind.HYBRID], ""),
        (
            ">> pure hardware (HW or EC) epochs",
            counts[EpochKind.HW],
            f"  (implemented in {blobs} epoch controller blobs/meta epochs)",
        ),
    )
    lines = [f"{label:<51} {number:>4}{more}" for label, number, more in labels]
    return [*lines, "---", *_box([("epoch ID", "Type", "Details"), *_rows(program)])]


def _rows(program: Program) -> list[tuple[str, str, str]]:
    """One row an epoch; those of one epoch-controller blob share a row."""
    keyed = ((_blob_key(epoch), epoch) for epoch in program.executed)
    runs = (list(run) for _, run in groupby(keyed, key=lambda pair: pair[0]))
    return [_row(run[0][1], run[-1][1]) for run in runs]


def _blob_key(epoch: Epoch) -> tuple[bool, int]:
    return (True, epoch.blob) if epoch.blob is not None else (False, epoch.number)


def _row(first: Epoch, last: Epoch) -> tuple[str, str, str]:
    many = first.number != last.last_number
    name = f"epochs {first.number:>4} -> {last.last_number}" if many else f"epoch_{first.number}"
    mark = _MARKS.get(first.kind, "EC" if first.blob is not None else "HW")
    return name, mark, "" if first.kind is EpochKind.HW else _operator(first)


def _operator(epoch: Epoch) -> str:
    """The kernel's name, free of what would break a cell."""
    name = epoch.call.kernel if epoch.call else next(iter(epoch.operators), "")
    return safe_terminal(name).replace("|", "/")


def _box(rows: list[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    ruler = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [
        f"| {name:<{widths[0]}} | {mark:^{widths[1]}} | {more:<{widths[2]}} |"
        for name, mark, more in rows
    ]
    return [ruler, lines[0], ruler, *lines[1:], ruler]


def _sections(usage: tuple[PoolUsage, ...]) -> list[str]:
    """What the network itself asks for; code sizes are known to a linker only."""
    weights = sum(pool.weights_bytes for pool in usage)
    activations = sum(pool.activations_bytes for pool in usage)
    ruler = f" {'-' * 20} {'-' * 12} {'-' * 12} {'-' * 12} {'-' * 12}"
    rows = [("weights", 0, weights, 0, 0), ("activations", 0, 0, 0, activations)]
    return [
        "",
        ' Requested memory size by section - "network data only"',
        ruler,
        f" {'module':<20} {'text':>12} {'rodata':>12} {'data':>12} {'bss':>12}",
        ruler,
        *(f" {n:<20} {t:>12,} {r:>12,} {d:>12,} {b:>12,}" for n, t, r, d, b in rows),
        ruler,
    ]


def _speed(profile: Timed) -> list[str]:
    return [
        "",
        f"estimated duration    : {profile.total_ms:.3f} ms",
        f"estimated rate        : {profile.inferences_per_s:.2f} inf/s",
    ]
