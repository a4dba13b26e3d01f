"""Arguments of slices, under the names that the vendor's traces have, as numbers and texts."""

from __future__ import annotations

import numpy as np

from npuscope.manycore.layout import CoreOpInfo
from npuscope.manycore.opstats.runs import OpRuns
from npuscope.manycore.opstats.trace_rows import Scene
from npuscope.manycore.program import Space
from npuscope.manycore.records import UTIMER_HZ
from npuscope.manycore.stats import Records
from npuscope.trace_builder import Args, TraceBuilder
from npuscope.trace_model import Column, floats, ints, texts

_TICKS_PER_US = UTIMER_HZ / 1e6
_NO_MULTICAST = 0xFFFF


def op_args(scene: Scene, op: np.ndarray) -> Args:
    """What the program says of an op."""
    infos, builder = scene.index.infos, scene.builder
    sizes = scene.index.out_bytes[op]
    return {
        "oc": ints(np.array([info.oc for info in infos], np.int64)[op]),
        "opKind": _texts(builder, [info.kind for info in infos], op),
        "opMemory": _texts(builder, [info.memory.value for info in infos], op),
        "opName": _texts(builder, [info.name for info in infos], op),
        "opShape": _texts(builder, [_shape(info) for info in infos], op),
        "opTypes": _texts(builder, [", ".join(info.dtypes) for info in infos], op),
        "opAttributes": _texts(builder, [info.attributes for info in infos], op),
        **_operands(builder, infos, op),
        "opOutputSize": ints(sizes, sizes > 0),
    }


def _shape(info: CoreOpInfo) -> str:
    return "x".join(map(str, info.shape))


def _texts(builder: TraceBuilder, values: list[str], op: np.ndarray) -> Column:
    ids = builder.texts(values)
    present = np.array([bool(value) for value in values], bool)
    return texts(ids[op], present[op])


def _operands(builder: TraceBuilder, infos: tuple[CoreOpInfo, ...], op: np.ndarray) -> Args:
    most = max((len(info.operands) for info in infos), default=0)
    return {
        f"opOperand{i}": _texts(
            builder, [info.operands[i] if i < len(info.operands) else "" for info in infos], op
        )
        for i in range(most)
    }


def run_args(scene: Scene, runs: OpRuns, rows: np.ndarray) -> Args:
    """What was measured of a run. An asynchronous op's is only that of issuing it."""
    size = scene.index.out_bytes[runs.op[rows]]
    ticks, cycles = runs.execute_uc[rows], runs.pc[rows]
    here = ~runs.asynchronous[rows]
    writes = (size > 0) & here
    return {
        "opPCycle": ints(cycles),
        "opUCycle": ints(ticks),
        "effectiveFreq": floats(cycles * _TICKS_PER_US / np.maximum(ticks, 1), ticks > 0),
        "PCyclesPerKB": floats(cycles * 1024 / np.maximum(size, 1), writes),
        "UCyclesPerKB": floats(ticks * 1024 / np.maximum(size, 1), writes),
        "sample": ints(runs.sample[rows], runs.sample[rows] > 0),
    }


def transfer_args(scene: Scene, records: Records) -> Args:
    moved = records["bytes"].astype(np.int64)
    ticks = records["done_uc"].astype(np.int64) - records["issue_uc"].astype(np.int64)
    spaces = scene.builder.texts([*(space.name for space in Space), "?"])
    multicast = records["mcid"] != _NO_MULTICAST
    return {
        "opUCycle": ints(ticks),
        "bytes": ints(moved),
        "source": texts(spaces[np.minimum(records["src"], len(Space))]),
        "target": texts(spaces[np.minimum(records["dst"], len(Space))]),
        "multicastId": ints(records["mcid"], multicast),
        "UCyclesPerKB": floats(ticks * 1024 / np.maximum(moved, 1), moved > 0),
    }
