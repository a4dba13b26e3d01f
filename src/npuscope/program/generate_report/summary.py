"""The summary that the vendor's front end prints at the end of `generate`: format, parameters,
inputs and outputs, weights against the float model, activations, RAM."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npuscope.graph.model import DType, Graph, Tensor
from npuscope.ops.table import total_macs
from npuscope.program.generate_report.usage import pool_usage
from npuscope.program.generate_report.vendor_macc import total_vendor_macc
from npuscope.program.model import Buffer, Program
from npuscope.text import safe_terminal

_RULER = "-" * 100
_FLOAT_BYTES = 4


class BuildCall(Struct, frozen=True):
    """How a build was asked for: what its files are called, and what its report repeats."""

    directory: str = ""
    name: str = "network"
    csv: str = ""
    info: str = ""
    application: str = ""
    level: int | None = None
    mpool: str = ""
    words: tuple[str, ...] = ()
    date: str = ""

    def compiler_arguments(self, program: Program) -> str:
        """The same in the spelling of the vendor's compiler."""
        folder = f"{self.directory.rstrip('/')}/" if self.directory else "./"
        pool_file = f"{program.machine}.mpool"
        rows = (
            f'-i "{program.model_file or program.name}" -g "{self.name}.c"',
            f'--load-mpool "{self.mpool or pool_file}" --save-mpool-file "{folder}{pool_file}"',
            f'--out-dir-prefix "{folder}"',
            f"--optimization {self.level}" if self.level is not None else "",
            "--enable-epoch-controller" if program.epoch_controller else "",
            "--all-buffers-info --enable-virtual-mem-pools",
            f'--csv-file "{self.csv or f"{self.name}.csv"}"',
            f'--output-info-file "{self.info or "c_info.json"}"',
        )
        return " ".join(row for row in rows if row)


def summary_lines(program: Program, graph: Graph, call: BuildCall | None = None) -> list[str]:
    """Names and order are the vendor's."""
    call = call or BuildCall()
    return [
        "Exec/report summary (compile)",
        _RULER,
        *(_row(name, value) for name, value in _model(program, graph, call)),
        _RULER,
        *(_row(name, value) for name, value in _tensors(program, graph)),
        *(_row(name, value) for name, value in _sizes(program, graph)),
        _RULER,
        "(*) inputs and outputs are part of the activations unless marked 'user'",
    ]


def _row(name: str, value: str) -> str:
    return f"{name:<19}: {safe_terminal(value)}"


def _model(program: Program, graph: Graph, call: BuildCall) -> Iterator[tuple[str, str]]:
    yield "model file", program.model_file or program.name
    yield (
        "type",
        program.model_file.rpartition(".")[2].lower() if "." in program.model_file else "graph",
    )
    yield "c_name", call.name
    buffers = program.buffer_map()
    allocated = [
        f"allocate-{side}"
        for side, names in (("inputs", graph.inputs), ("outputs", graph.outputs))
        if all(name in buffers and buffers[name].pool for name in names)
    ]
    yield "options", ", ".join(allocated) or "none"
    level = "" if call.level is None else f" (--optimization {call.level})"
    yield "optimization", f"balanced{level}"
    yield "target/series", f"{program.machine}npu"
    if call.directory:
        yield "workspace dir", call.directory
        yield "output dir", call.directory
    yield "model_fmt", model_format(graph)
    yield "model_name", program.name
    if program.model_md5:
        yield "model_hash", f"0x{program.model_md5}"
    items = sum(tensor.elements for tensor in weights_of(graph))
    yield "params #", f"{items:,} items ({_size(items * _FLOAT_BYTES)})"


def model_format(graph: Graph) -> str:
    """`ss/sa per channel`: weights signed and symmetric, activations signed and asymmetric.

    The first letter is the sign (s, u), the second symmetric or asymmetric (s, a), as the vendor
    writes it; a float model is `float`.
    """
    quantized = [t for t in weights_of(graph) if t.quant is not None and t.dtype is not DType.INT32]
    values = [t for t in graph.tensors.values() if not t.is_constant and t.quant is not None]
    if not quantized and not values:
        return "float"
    axis = any(t.quant is not None and len(t.quant.scales) > 1 for t in quantized)
    return f"{_letters(quantized)}/{_letters(values)} {'per channel' if axis else 'per tensor'}"


def _letters(tensors: list[Tensor]) -> str:
    unsigned = any(tensor.dtype is DType.UINT8 for tensor in tensors)
    shifted = any(tensor.quant is not None and any(tensor.quant.zero_points) for tensor in tensors)
    return f"{'u' if unsigned else 's'}{'a' if shifted else 's'}"


def weights_of(graph: Graph) -> list[Tensor]:
    """Constants that ops read, each once."""
    names = dict.fromkeys(name for op in graph.ops for name in op.inputs if name)
    return [graph.tensor(name) for name in names if graph.tensor(name).is_constant]


def _tensors(program: Program, graph: Graph) -> Iterator[tuple[str, str]]:
    buffers = program.buffer_map()
    for side, names in (("input", graph.inputs), ("output", graph.outputs)):
        for number, name in enumerate(names, 1):
            yield f"{side} {number}/{len(names)}", _tensor(graph.tensor(name), buffers.get(name))
        # As the vendor counts: what lies in the activations is counted there.
        user = [name for name in names if name not in buffers or not buffers[name].pool]
        total = sum(graph.tensor(name).size_bytes for name in user)
        yield f"{side}s (total)", f"{total:,} Bytes"


def _tensor(tensor: Tensor, buffer: Buffer | None) -> str:
    dtype = str(tensor.dtype.numpy.name)
    shape = "x".join(map(str, tensor.shape))
    parts = [f"'{tensor.name}'", f"{dtype}({shape})", f"{tensor.size_bytes:,} Bytes"]
    if tensor.quant is not None:
        parts.append(f"QLinear({tensor.quant.scales[0]:.9f},{tensor.quant.zero_points[0]},{dtype})")
    return ", ".join([*parts, "activations" if buffer is not None and buffer.pool else "user"])


def _sizes(program: Program, graph: Graph) -> Iterator[tuple[str, str]]:
    weights = [b for b in program.buffers if b.is_param and not b.view_of]
    pools = {buffer.pool for buffer in weights}
    size = sum(buffer.size_bytes for buffer in weights)
    in_float = _FLOAT_BYTES * sum(tensor.elements for tensor in weights_of(graph))
    change = size - in_float
    share = f"({100 * change / in_float:+.1f}%)" if in_float else ""
    yield (
        "macc",
        f"{total_vendor_macc(graph):,} as the vendor counts, {total_macs(graph):,} products",
    )
    yield (
        "weights (ro)",
        f"{_bytes(size)} ({_segments(len(pools))}) / {change:+,}{share} vs float model",
    )
    # Pools that hold activations, with the weights that lie in them too.
    pools_used = [pool for pool in pool_usage(program) if pool.activations_bytes]
    marks = [pool.weights_bytes + pool.activations_bytes for pool in pools_used]
    activations = sum(marks)
    yield "activations (rw)", f"{_bytes(activations)} ({_segments(len(marks))}) *"
    yield "ram (total)", f"{_bytes(activations)} = {activations:,} + 0 + 0"


def _segments(count: int) -> str:
    return f"{count} segment{'' if count == 1 else 's'}"


def _bytes(count: int) -> str:
    return f"{count:,} B ({_size(count)})"


def _size(count: int) -> str:
    if count < 1 << 20:
        return f"{count / (1 << 10):.2f} KiB"
    return f"{count / (1 << 20):.2f} MiB"
