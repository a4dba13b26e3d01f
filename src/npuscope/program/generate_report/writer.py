"""The report of a compilation for a Program of ours, in the style of its compiler generation."""

from __future__ import annotations

from itertools import groupby
from typing import Protocol

from npuscope.graph.model import Graph, Op, Tensor
from npuscope.machine.model import Machine
from npuscope.ops.table import OPS
from npuscope.program.generate_report.summary import BuildCall, summary_lines, weights_of
from npuscope.program.generate_report.usage import PoolUsage, pool_usage
from npuscope.program.generate_report.vendor_macc import total_vendor_macc, vendor_macc
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.text import safe_terminal
from npuscope.version import __version__

# --- The layer table of a report, from a Graph ---

# Labels by rank, as tensors are channel-last.
_LABELS = {1: "b", 2: "bc", 3: "bwc", 4: "bhwc"}
_HEADS = ("m_id", "layer (original)", "oshape", "param/size", "macc", "connected to")
_RIGHT = (False, False, False, False, True, True)
_LONGEST = 40


def layer_lines(graph: Graph) -> list[str]:
    """One row per layer with a ruler between; further inputs on lines of their own."""
    blocks: list[list[tuple[str, ...]]] = [
        [("0", f"{_short(name)} ()", _shape(graph.tensor(name)), "", "", "")]
        for name in graph.inputs
    ]
    blocks += [_op_block(graph, op, i) for i, op in enumerate(graph.ops)]
    cells = [_HEADS, *(row for block in blocks for row in block)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADS))]
    ruler = " ".join("-" * width for width in widths)
    lines = [ruler, _line(_HEADS, widths), ruler]
    for block in blocks:
        lines += [*(_line(row, widths) for row in block), ruler]
    weights = sum(t.size_bytes for t in weights_of(graph))
    return [
        *lines,
        f"model: macc={total_vendor_macc(graph):,} weights={weights:,} activations=-- io=--",
    ]


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    pairs = zip(row, widths, _RIGHT, strict=True)
    return " ".join(f"{c:>{w}}" if right else f"{c:<{w}}" for c, w, right in pairs).rstrip()


def _op_block(graph: Graph, op: Op, index: int) -> list[tuple[str, ...]]:
    constants = [t for t in graph.input_tensors(op) if t is not None and t.is_constant]
    params, size = sum(t.elements for t in constants), sum(t.size_bytes for t in constants)
    inputs = [_short(n) for n in op.inputs if n and not graph.tensor(n).is_constant]
    original = op.origin[0].partition(":")[0] if op.origin else op.kind
    work = vendor_macc(graph, op)
    first = (
        str(index),
        f"{_short(op.outputs[0])} ({_word(original)})",
        _shape(graph.output_tensor(op)),
        f"{params:,}/{size:,}" if params else "",
        f"{work:,}" if work else "",
        inputs[0] if inputs else "",
    )
    return [first, *(("", "", "", "", "", name) for name in inputs[1:])]


def _shape(tensor: Tensor) -> str:
    labels = _LABELS.get(len(tensor.shape), "d" * len(tensor.shape))
    return "[" + ",".join(f"{k}:{d}" for k, d in zip(labels, tensor.shape, strict=True)) + "]"


def _short(name: str) -> str:
    """One word that fits a column: the table is split at blanks and brackets."""
    word = _word(name)
    return word if len(word) <= _LONGEST else f"{word[:18]}..{word[-20:]}"


def _word(name: str) -> str:
    text = safe_terminal(name)
    return "".join(c if c not in " \t[]()|" else "_" for c in text) or "_"


# --- What a Program puts into each physical pool ---

# --- The report of one of our Programs, in the style of its compiler generation ---

_RULER = "-" * 84
_END = "=" * 84
# Reports before 3.0 list every epoch on a line of its own, without a box.
_OLD_STYLE = "2."
_OLD_MARKS = {EpochKind.SW: "-SW-", EpochKind.HYBRID: " ?? "}
_MARKS = {EpochKind.SW: "SW", EpochKind.HYBRID: "Hybrid"}


class TimedRun(Protocol):
    """A run of the program, for the last lines of the report."""

    @property
    def total_ms(self) -> float: ...

    @property
    def inferences_per_s(self) -> float: ...


def generate_report_text(
    program: Program,
    machine: Machine,
    graph: Graph | None = None,
    profile: TimedRun | None = None,
    call: BuildCall | None = None,
) -> str:
    """Tool, layers, compiler, pools, used ranges, epochs, sections: in the vendor's order."""
    usage = pool_usage(program)
    used = [pool for pool in usage if pool.high > pool.low]
    width = max((len(pool.name) for pool in used), default=0)
    rows = [f"\t{_place(pool, width)} 0x{pool.low:08X}-0x{pool.high:08X}" for pool in used]
    parts = [
        _head(program, call),
        ["", *summary_lines(program, graph, call), ""] if graph else [],
        layer_lines(graph) if graph else [],
        _compiler(program, machine, call),
        _pools(usage),
        ["", "Used memory ranges", _RULER, *rows, _END],
        ["", "Epochs details", _RULER, *epoch_lines(program), _END],
        _sections(usage),
        _speed(profile, machine, graph) if profile else [],
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(program: Program, call: BuildCall | None) -> list[str]:
    model = safe_terminal(program.model_file or program.name)
    words = f"compile {model} --generation {program.generation}"
    if call is not None and call.words:
        words = safe_terminal(" ".join(call.words))
    return [
        f"npuscope v{__version__}",
        *([f"Created date          : {call.date}"] if call is not None and call.date else []),
        f"Parameters            : {words}",
        *([f"model_hash            : 0x{program.model_md5}"] if program.model_md5 else []),
        "",
        f"Model name - {safe_terminal(program.name)}",
    ]


def _compiler(program: Program, machine: Machine, call: BuildCall | None) -> list[str]:
    controller = "--epoch-controller" if program.epoch_controller else "--no-epoch-controller"
    arguments = f"--machine {machine.name} --generation {program.generation} {controller}"
    if call is not None:
        arguments = call.compiler_arguments(program)
    return [
        "",
        "Compilation details",
        _RULER,
        f"Compiler version: {__version__}",
        f"Compiler arguments:  {safe_terminal(arguments)}",
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


def epoch_lines(program: Program, together: bool = False) -> list[str]:
    """The epochs as the report of a generation lists them. With `together`, neighbours that say the
    same share a line, which keeps the list of a large network on a screen."""
    if program.generation.startswith(_OLD_STYLE):
        return _old_epochs(program, together)
    return _boxed_epochs(program)


def _old_epochs(program: Program, together: bool = False) -> list[str]:
    """Those without work count too, and pass for epochs of the NPU."""
    total, software = sum(program.tally.values()), program.count(EpochKind.SW)
    lines = [
        f"Total number of epochs: {total} of which {software} implemented in software",
        "---",
        "epoch ID   HW/SW/EC Operation (SW only)",
    ]
    rows = [(epoch.number, _old_words(epoch, program.epoch_controller)) for epoch in program.epochs]
    for words, run in groupby(rows, key=lambda row: row[1] if together else row):
        numbers = [number for number, _ in run]
        label = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
        lines.append(f"epoch {label:<6} {words if together else words[1]}".rstrip())
    return lines


def _old_words(epoch: Epoch, controller: bool) -> str:
    in_blob = epoch.blob is not None or (controller and epoch.kind is EpochKind.EMPTY)
    mark = _OLD_MARKS.get(epoch.kind, " EC " if in_blob else " HW ")
    details = f"({_operator(epoch):^20})" if epoch.kind is EpochKind.SW else ""
    return f"{mark}   {details}"


def _boxed_epochs(program: Program) -> list[str]:
    counts = {kind: program.count(kind) for kind in EpochKind}
    blobs = len({epoch.blob for epoch in program.epochs if epoch.blob is not None})
    labels = (
        ("Total number of epochs", sum(program.tally.values()), ""),
        (">> pure software (SW) epochs", counts[EpochKind.SW], ""),
        (">> hybrid epochs (using both software and hardware)", counts[EpochKind.HYBRID], ""),
        (
            ">> pure hardware (HW or EC) epochs",
            counts[EpochKind.HW],
            f"  (implemented in {blobs} epoch controller blobs/meta epochs)",
        ),
    )
    lines = [f"{label:<51} {number:>4}{more}" for label, number, more in labels]
    # One row per epoch; those of one epoch-controller blob share a row.
    keyed = (
        ((True, epoch.blob) if epoch.blob is not None else (False, epoch.number), epoch)
        for epoch in program.executed
    )
    runs = (list(run) for _, run in groupby(keyed, key=lambda pair: pair[0]))
    return [
        *lines,
        "---",
        *_box([("epoch ID", "Type", "Details"), *[_row(run[0][1], run[-1][1]) for run in runs]]),
    ]


def _row(first: Epoch, last: Epoch) -> tuple[str, str, str]:
    many = first.number != last.last_number
    name = f"epochs {first.number:>4} -> {last.last_number}" if many else f"epoch_{first.number}"
    mark = _MARKS.get(first.kind, "EC" if first.blob is not None else "HW")
    return name, mark, "" if first.kind is EpochKind.HW else _operator(first)


def _operator(epoch: Epoch) -> str:
    """The operator by its ONNX name, free of what would break a cell; a Gemm is a Conv there."""
    name = epoch.call.kernel if epoch.call else next(iter(epoch.operators), "")
    name = _REPORTED.get(name) or next(iter(OPS[name].onnx if name in OPS else ()), name)
    return safe_terminal(name).replace("|", "/")


_REPORTED = {
    "FullyConnected": "Conv",
    "Quantize": "QuantizeLinear",
    "Dequantize": "DequantizeLinear",
}


def _box(rows: list[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    ruler = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [
        f"| {name:<{widths[0]}} | {mark:^{widths[1]}} | {more:<{widths[2]}} |"
        for name, mark, more in rows
    ]
    return [ruler, lines[0], ruler, *lines[1:], ruler]


def _sections(usage: tuple[PoolUsage, ...]) -> list[str]:
    """What the network itself needs; only a linker knows code sizes."""
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


def _speed(profile: TimedRun, machine: Machine, graph: Graph | None) -> list[str]:
    lines = [
        "",
        f"estimated duration    : {profile.total_ms:.3f} ms",
        f"estimated rate        : {profile.inferences_per_s:.2f} inf/s",
    ]
    if graph is None or not machine.peak_gops or not profile.total_ms:
        return lines
    gops = 2 * total_vendor_macc(graph) / profile.total_ms / 1e6
    return [*lines, f"estimated GOPS        : {gops:.1f} of {machine.peak_gops:g}"]
