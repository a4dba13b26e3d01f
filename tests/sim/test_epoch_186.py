"""EpochBlock_186 of the vendor's published profile, built as a layer and compiled by us.

A plain 1x1 convolution of 256 to 18 channels on 7 x 7 pixels. Its input's zero point is neither 0
nor -128, so it runs 16x8 and not deep: four units in series and four passes through memory.
"""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.compiler.pipeline import compile_graph
from npuscope.graph.model import DType, Graph, Op, Quant, Tensor
from npuscope.machine.load import load_machine
from npuscope.ops.layers import ConvAttrs
from npuscope.profiling.run import profile
from npuscope.program.links import Wiring
from npuscope.program.units import Convacc, Ref, Streng
from npuscope.sim.counters import Bound, count_bursts, engine_runs

PIXELS, INPUTS, OUTPUTS = 49, 256, 18
PUBLISHED_CORE_CYCLES = 13_300
PUBLISHED_READ_BYTES = 24_288
PUBLISHED_WRITTEN_BYTES = 7_960
PUBLISHED_MISSES = 80


def layer() -> Graph:
    rng = np.random.default_rng(186)
    kernels = rng.integers(-127, 128, (OUTPUTS, 1, 1, INPUTS), dtype=np.int8)
    scales = (0.01,) * OUTPUTS
    bias = tuple(0.02 * scale for scale in scales)
    zeros = (0,) * OUTPUTS
    tensors = (
        Tensor("x", (1, 7, 7, INPUTS), DType.INT8, Quant((0.02,), (3,))),
        Tensor("w", kernels.shape, DType.INT8, Quant(scales, zeros, 0), kernels),
        Tensor("b", (OUTPUTS,), DType.INT32, Quant(bias, zeros, 0), np.zeros(OUTPUTS, np.int32)),
        Tensor("y", (1, 7, 7, OUTPUTS), DType.INT8, Quant((0.05,), (-4,))),
    )
    conv = Op("Conv2D", "conv", ("x", "w", "b"), ("y",), ConvAttrs((1, 1), (0, 0, 0, 0)))
    return Graph("epoch_186", tensors, (conv,), ("x",), ("y",))


@pytest.fixture(scope="module")
def epoch():
    machine = load_machine(generation="2.2", epoch_controller=False)
    graph = layer()
    (found,) = profile(compile_graph(graph, machine), machine, graph).epochs
    return found


@pytest.fixture(scope="module")
def group():
    machine = load_machine(generation="2.2", epoch_controller=False)
    (epoch,) = compile_graph(layer(), machine).executed
    (group,) = epoch.groups
    return group


def test_the_compiler_section(epoch):
    claims = epoch.claims
    assert claims.ops == 2 * PIXELS * INPUTS * OUTPUTS + 2 * PIXELS * OUTPUTS == 453_348
    assert claims.compute_cycles == 4_608
    assert claims.max_cycles == 27_648


def test_memory_accesses(epoch):
    accesses = {access.pool: access for access in epoch.claims.accesses}
    assert set(accesses) == {"npuRAM5", "octoFlash"}
    assert accesses["npuRAM5"].reads == 19_600
    assert (accesses["octoFlash"].reads, accesses["octoFlash"].writes) == (4_608, 0)


def test_operations_per_cycle(epoch):
    ops = epoch.claims.ops
    assert round(ops / epoch.claims.compute_cycles, 1) == 98.4
    assert round(ops / epoch.claims.max_cycles, 1) == 16.4


def test_the_units(epoch, group):
    assert epoch.units == {"STRENG": 8, "CONVACC": 4, "ARITH": 2}
    wiring = Wiring(group)
    convolutions = [unit for unit in group.units if isinstance(unit, Convacc)]
    assert [wiring.frames(unit) for unit in convolutions] == [4, 4, 4, 4]
    assert {(c.nKernels, c.batchDepth, c.deepmode, c.fsub) for c in convolutions} == {
        (18, 16, 0, 3)
    }
    # Partial sums come back through memory into the first of the pipe only.
    fed = [c for c in convolutions if wiring.source(c, 2) in wiring.engines]
    assert [(c.id, c.afilt_tot, c.afilt_first, c.afilt_last) for c in fed] == [(0, 4, 1, 3)]


def test_core_cycles(epoch):
    assert epoch.counters.core_cycles == pytest.approx(PUBLISHED_CORE_CYCLES, rel=0.05)
    assert epoch.counters.bound is Bound.FLASH


def test_bus_totals(epoch):
    """As the profiler sums them: bursts times their length, both interfaces."""
    read = sum(bus.read_bytes for bus in epoch.counters.busif)
    written = sum(bus.write_bytes for bus in epoch.counters.busif)
    assert read == pytest.approx(PUBLISHED_READ_BYTES, rel=0.01)
    assert written == pytest.approx(PUBLISHED_WRITTEN_BYTES, rel=0.01)


def test_cache_misses(epoch):
    cache = epoch.counters.cache
    assert cache.read_miss >= 4_608 // 64 == 72
    assert cache.read_miss == pytest.approx(PUBLISHED_MISSES, rel=0.15)
    assert (cache.read_hit, cache.read_alloc_miss) == (0, 0)


def test_engines(epoch):
    engines = epoch.counters.engines
    assert len(engines) == 8
    assert sum(engine.bytes for engine in engines if engine.pool == "octoFlash") == 4_608
    core = epoch.counters.core_cycles
    slow = {engine.id for engine in engines if engine.active_cycles == round(core)}
    # The weight engine waits for the flash, both writers for the last pass.
    assert slow == {e.id for e in engines if e.pool == "octoFlash" or e.dir == "o"}


def test_published_bursts_follow_from_the_vendors_layout():
    """Features in blocks of 16 channels dealt to four engines, partial sums from byte 16 on.

    The same burst rule then gives every published number but one: the flash shows eight single
    beats more, as many as it has misses above its 72 lines.
    """
    flash = Streng(id=4, dir=0, addr_base=Ref("w"), raw=1, frame_count=4_608)
    blocks = [frames(depth=16, count=4, step=4 * 16 * PIXELS) for _ in range(4)]
    features = [bursts(engine, 16 * PIXELS * n) for n, engine in enumerate(blocks)]
    sums = bursts(frames(depth=36, count=4, step=0), 16)
    result = bursts(frames(depth=18, count=1, step=0), 0)
    assert add(bursts(flash, 0), *features[:3]) == (8 - 8, 12, 16, 208)
    assert add(features[3], sums) == (4, 12, 8, 152)
    assert add(sums, result) == (5, 9, 9, 117)


def frames(depth: int, count: int, step: int) -> Streng:
    """An engine over frames of 7 x 7 pixels, `depth` bytes each, without gaps."""
    return Streng(
        id=0,
        dir=0,
        addr_base=Ref("x"),
        fwidth=7,
        fheight=7,
        batch_depth=depth,
        batch_offset=depth,
        frame_offset=step,
        frame_tot_cnt=count,
    )


def bursts(engine: Streng, address: int) -> tuple[int, ...]:
    return count_bursts(engine_runs(engine, address))


def add(*rows: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=True)))
