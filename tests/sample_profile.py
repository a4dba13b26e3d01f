"""A small Profile made by hand; its first epoch holds the figures of a published profile."""

from __future__ import annotations

from npuscope.profiling.model import (
    EpochProfile,
    Fit,
    MachineInfo,
    MemoryUse,
    ModelInfo,
    PoolUse,
    Profile,
    Provenance,
    Run,
    RunClocks,
    Spread,
    TensorInfo,
    TimeShares,
)
from npuscope.program.model import Access, Claims, EpochKind
from npuscope.sim.counters import (
    Bound,
    BusTraffic,
    CacheCounts,
    EngineActivity,
    EpochCounters,
    PoolTraffic,
)

CLOCKS = RunClocks(mcu_mhz=800.0, npu_mhz=1000.0, noc_mhz=400.0, nic_mhz=900.0)

_ENGINES = (
    (1, "i", 0, 5845, "npuRAM5", 12544),
    (2, "i", 0, 5679, "npuRAM5", 12544),
    (3, "i", 0, 5618, "npuRAM5", 12544),
    (4, "i", 0, 15190, "octoFlash", 4608),
    (5, "i", 1, 6788, "npuRAM5", 1764),
    (6, "i", 1, 6270, "npuRAM5", 12544),
    (7, "o", 1, 13935, "npuRAM5", 882),
    (8, "o", 1, 13785, "npuRAM5", 1764),
)


def hardware_epoch(source: Provenance = Provenance.SIMULATION) -> EpochProfile:
    counters = EpochCounters(
        number=186,
        last_number=186,
        pre_cycles=18859,
        core_cycles=13300,
        post_cycles=5253,
        bound=Bound.WEIGHTS,
        engines=tuple(EngineActivity(*row) for row in _ENGINES),
        busif=(
            BusTraffic(0, (8, 12, 16, 208), (0, 0, 0, 0)),
            BusTraffic(1, (4, 12, 8, 152), (5, 9, 9, 117)),
        ),
        cache=CacheCounts(read_miss=80),
        traffic=(PoolTraffic("octoFlash", 4608, 0), PoolTraffic("npuRAM5", 19600, 8820)),
    )
    claims = Claims(
        ops=453348,
        compute_cycles=4608,
        max_cycles=27648,
        accesses=(Access("octoFlash", 4608, 0), Access("npuRAM5", 19600, 8820)),
    )
    return EpochProfile(
        index=192,
        name="EpochBlock_186",
        first=186,
        last=186,
        kind=EpochKind.HW,
        blob=None,
        operators=("Conv", "Mul", "Add", "Add", "Sigmoid"),
        origin=("CONV_2D:57", "LOGISTIC:58"),
        units={"CONVACC": 4, "ARITH": 3, "ACTIV": 1, "STRENG": 8},
        claims=claims,
        counters=counters,
        ms=_ms(18859, 13300, 5253),
        provenance=source,
        spread=Spread(0.043, 0.0434, 0.044, 3),
    )


def software_epoch(source: Provenance = Provenance.SIMULATION) -> EpochProfile:
    counters = EpochCounters(
        number=187,
        last_number=187,
        pre_cycles=50,
        core_cycles=35,
        post_cycles=80000,
        bound=Bound.CPU,
        traffic=(PoolTraffic("npuRAM5", 4000, 4000),),
    )
    ms = _ms(50, 35, 80000)
    return EpochProfile(
        index=193,
        name="EpochBlock_187",
        first=187,
        last=187,
        kind=EpochKind.SW,
        blob=None,
        operators=("Softmax",),
        origin=("SOFTMAX:\x1b[31mred",),
        units={},
        claims=Claims(ops=1000),
        counters=counters,
        ms=ms,
        provenance=source,
        spread=Spread(ms, ms, ms, 1),
    )


def sample_profile(source: Provenance = Provenance.SIMULATION, fit: Fit | None = None) -> Profile:
    epochs = (hardware_epoch(source), software_epoch(source))
    total = sum(epoch.ms for epoch in epochs)
    core = 13300 / 1e6
    control = (18859 + 5253) / 8e5
    tensors = (
        TensorInfo("image", (1, 224, 224, 3), "uint8", 0.00392156862745098, 0, 150528),
        TensorInfo("scores", (1, 1000), "float32", None, None, 4000),
    )
    return Profile(
        program_hash="0" * 64,
        model=ModelInfo("net.tflite", "d" * 32, tensors[:1], tensors[1:], 226_674, 4_608),
        machine=MachineInfo("stm32n6", "4.0", True, 800.0, 1000.0),
        runs=(Run(source, CLOCKS, 3),),
        epochs=epochs,
        total_ms=total,
        interval_ms=(0.9 * total, 1.2 * total),
        model_error="median 9 % over 40 published latencies",
        time=TimeShares(core, control, total - core - control, 0.0),
        memory=MemoryUse(
            internal_ram_bytes=245_760,
            external_ram_bytes=0,
            weights_bytes=4_608,
            lower_bound_bytes=196_608,
            pools=(
                PoolUse("npuRAM5", 245_760, 458_752, 0, 245_760, 196_608),
                PoolUse("npuRAM6", 0, 458_752, 0, 0, 0),
                PoolUse("octoFlash", 4_608, 117_440_512, 4_608, 0, 0),
            ),
        ),
        fit=fit or Fit(False, True, True, "the weights need flash: 4.5 KiB"),
        counts={"HW": 1, "SW": 1, "HYBRID": 0, "blobs": 0},
        notes=("pools of the default file",),
    )


def _ms(pre: float, core: float, post: float) -> float:
    return (pre + post) / (CLOCKS.mcu_mhz * 1000) + core / (CLOCKS.npu_mhz * 1000)
