"""A device's answers as the log of the vendor's profiler, for `profile --log`.

`--connect log:FILE` reads it again. The device's own words go with it, so that the counters of a
simulated board stay simulated ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.boards.device import DeviceInfo, NetworkDesc, NodeCounters, TensorDesc
from npuscope.boards.wire.statistics import Place, block_type, config_lines, node_lines
from npuscope.profiling.measure import Measurement
from npuscope.profiling.recorded import Recorded
from npuscope.text import safe_terminal


def counter_log_text(measured: Measurement) -> str:
    info = measured.info
    lines = [
        *_header(info, measured.network),
        *config_lines(info.device_id, info.clocks, npu_cache=info.npu_cache),
    ]
    for row in measured.recorded:
        lines += _inference(row)
    return "\n".join(lines) + "\n"


def _header(info: DeviceInfo, network: NetworkDesc) -> Iterator[str]:
    for side, tensors in (("I", network.inputs), ("O", network.outputs)):
        for number, tensor in enumerate(tensors, 1):
            place = f"{side}[{number}/{len(tensors)}]"
            yield f"{place} '{safe_terminal(tensor.name)}' : {_tensor(tensor)}"
    values = {
        "n_nodes": network.nodes,
        "activations": network.activations_bytes,
        "compile_datetime": network.compiled,
        "protocol": info.protocol,
        "tools": network.tools,
        "runtime lib": network.runtime,
        "capabilities": ", ".join(info.capabilities),
        "device.desc": info.description,
    }
    for name, value in values.items():
        yield f"{name:<20}: {safe_terminal(str(value))}"


def _tensor(tensor: TensorDesc) -> str:
    shape = ",".join(map(str, tensor.shape))
    quant = f", QLinear({tensor.scale:.9f},{tensor.zero_point},{tensor.dtype})"
    return f"{tensor.dtype}[{shape}], {tensor.size_bytes} Bytes{quant if tensor.scale else ''}"


def _inference(row: Recorded) -> Iterator[str]:
    mode = "PERF_ONLY|PER_LAYER" if row.per_layer else "PERF_ONLY"
    yield f"-> Requested RUN mode: Mode.{mode} (param=0b0, option={int(row.options) << 8:#x})"
    current = 0
    for index, node in enumerate(row.inference.nodes):
        current = current if node.extra else node.number
        yield from node_lines(node, Place(index, current))
        yield _node_end(node)
    cycles = [*row.inference.mcu_cycles, sum(row.inference.mcu_cycles), 0]
    yield _end(row.network, cycles, row.inference.duration_ms, 'id=0.0 type=0x0/NONE,"epoch"')


def _node_end(node: NodeCounters) -> str:
    place = f"id={node.number}.{node.last} type=0x1000000/INTERNAL"
    return _end("", [*node.mcu_cycles], 0.0, f'{place},"epoch ({block_type(node).name})"')


def _end(name: str, cycles: list[int], duration_ms: float, place: str) -> str:
    time = f"dur={duration_ms:.3f}ms"
    return f'name="{safe_terminal(name)}" counters="CPU cycles"{cycles} {time} {place}'
