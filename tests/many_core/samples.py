"""Small many-core programs and the records of running them, made by hand and by rule.

Two cores (or more) with four HVX threads, one HMX and one DMA thread each. Every group runs its ops
one after the other; threads of a group end apart and meet at the barrier. Nothing here is timed by
the simulator: the figures only keep the order that real records have.
"""

from __future__ import annotations

import numpy as np

from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.layout import (
    CoreOpInfo,
    CorePort,
    CoreThread,
    Dependency,
    Engine,
    Layout,
    MemorySpace,
    Pmu,
    Specialization,
    ThreadGroup,
)
from npuscope.families.many_core.program import (
    Binding,
    CoreOp,
    CoreProgram,
    DeviceProgram,
    MulticastEntry,
    Space,
    Transfer,
)
from npuscope.families.many_core.records import ASYNCHRONOUS, SECTIONS, UTIMER_HZ, Needs, SectionId
from npuscope.structs import replace

UUID = "00112233445566778899aabbccddeeff"
CORE_HZ = 1_200_000_000
UTC_NS = 1_700_000_000_000_000_000
FIRST_TICK = 1_000_000
HVX, HMX, DMA = 0, 1, 2  # indices of the groups
GROUPS = (ThreadGroup("HVX", (0, 1, 2, 3)), ThreadGroup("HMX", (4,)), ThreadGroup("DMAIssue", (5,)))
THREADS = (
    *(CoreThread(i, Engine.HVX, HVX) for i in range(4)),
    CoreThread(4, Engine.HMX, HMX),
    CoreThread(5, Engine.DMA, DMA),
)
RECIPE = Pmu("KernelUtil", (0x100, 0x200, 0x240, 0x3, 0x111, 0x105))
HOST_IN, HOST_OUT, PEER_PORT = 100, 101, 102

# Kind, group, memory, KB of output, ticks; the ops of a core in the order of `oc`.
_OPS = (
    ("aicinputsemaphoreinc", DMA, MemorySpace.DDR, 0, 2),
    ("aiccopytovtcm", DMA, MemorySpace.TCM, 64, 3),
    ("aicmulticastvtcm", DMA, MemorySpace.TCM, 32, 3),
    ("aicconverttod32", HVX, MemorySpace.TCM, 64, 40),
    ("aicconvolutiond32", HMX, MemorySpace.TCM, 128, 90),
    ("elementadd", HVX, MemorySpace.TCM, 128, 60),
    ("aicconvolutiond32", HMX, MemorySpace.TCM, 64, 45),
    ("aicsoftmax", HVX, MemorySpace.TCM, 16, 120),
    ("elementadd", HVX, MemorySpace.TCM, 64, 30),
    ("aicoutputsemaphoreinc", DMA, MemorySpace.DDR, 0, 2),
    ("aicendcyclestats", HVX, MemorySpace.DDR, 4, 50),
    ("aicendcyclestats", HMX, MemorySpace.DDR, 4, 50),
    ("aicendcyclestats", DMA, MemorySpace.DDR, 4, 50),
)
_ASYNC = ("aiccopytovtcm", "aicmulticastvtcm")
_NEEDS = {1: (0,), 2: (1,), 3: (1,), 4: (2, 3), 5: (4,), 6: (5,), 7: (6,), 8: (7,), 9: (8,)}


def op_infos(core: int, repeat: int = 1) -> list[tuple[int, CoreOpInfo]]:
    """Group and op of one core; `repeat` makes the network that many times as long."""
    rows = list(_OPS[:-3]) * repeat + list(_OPS[-3:])
    return [(row[1], _info(core, oc, row)) for oc, row in enumerate(rows)]


def _info(core: int, oc: int, row: tuple) -> CoreOpInfo:
    kind, group, memory, kilobytes, _ = row
    macs = kilobytes * 1024 * 64 if group == HMX and kilobytes > 4 else 0
    return CoreOpInfo(
        oc=oc,
        name=f"layer{oc}/{kind}__{core}",
        kind=kind,
        memory=memory,
        dtypes=("float16",),
        shape=(1, max(kilobytes, 1), 512),
        out_bytes=kilobytes * 1024,
        macs=macs,
        rd_bytes=kilobytes * 1024 if group == DMA else 0,
        wr_bytes=0,
        attributes="",
        operands=(f"out TCM Output t{oc} float16 1x{max(kilobytes, 1)}x512 {kilobytes}KB",),
        asynchronous=kind in _ASYNC,
        origin=(f"node{oc}",),
    )


def specialization(name: str, cores: int = 2, repeat: int = 1) -> Specialization:
    ops = tuple(_grouped(op_infos(core, repeat)) for core in range(cores))
    edges = [
        Dependency((core, source), (core, target))
        for core in range(cores)
        for target, sources in _NEEDS.items()
        for source in sources
    ]
    across = [Dependency((0, 2), (core, 4), data=False) for core in range(1, cores)]
    return Specialization(name, ops, (*edges, *across))


def _grouped(rows: list[tuple[int, CoreOpInfo]]) -> tuple[tuple[CoreOpInfo, ...], ...]:
    return tuple(tuple(op for of, op in rows if of == group) for group in range(len(GROUPS)))


def layout(
    cores: int = 2,
    level: int = 100,
    devices: int = 1,
    *,
    pmu: Pmu = RECIPE,
    ddr: bool = True,
    batch: int = 8,
    repeat: int = 1,
) -> Layout:
    """With everything collected unless told otherwise."""
    names = ["QAicGraph"] if devices == 1 else [f"QAicGraph_slice{i:02}" for i in range(devices)]
    peers = (CorePort(PEER_PORT, True, "p2p", "peer", 1),) if devices > 1 else ()
    return Layout(
        program_uuid=UUID,
        network="QAicGraph",
        stats_level=level,
        stats_batch=batch,
        ddr_stats=ddr,
        core_hz=CORE_HZ,
        cores=cores,
        threads=THREADS,
        groups=GROUPS,
        ports=(
            CorePort(HOST_IN, True, "host", "input"),
            CorePort(HOST_OUT, False, "host", "output"),
            *peers,
        ),
        pmu=pmu,
        specializations=tuple(specialization(name, cores, repeat) for name in names),
    )


def program(made: Layout | None = None) -> CoreProgram:
    """A program of a layout, with waits, transfers and constants; it carries its own id."""
    from npuscope.families.many_core.container import with_program_id

    made = made or layout()
    devices = tuple(_device(part, made.cores) for part in made.specializations)
    return with_program_id(
        CoreProgram(
            layout=made,
            devices=devices,
            inputs=(Binding("input", (1, 16, 64), "float32", 4096),),
            outputs=(Binding("output", (1, 10), "float32", 40),),
            constants={
                "weights": np.arange(24, dtype=np.float16).reshape(4, 6),
                "bias": np.arange(-3, 3, dtype=np.int32),
            },
            constant_bytes=72,
            macs=123456,
            warnings=("constants are converted to float16",),
        )
    )


def _device(part: Specialization, cores: int) -> DeviceProgram:
    ops = tuple(
        tuple(
            tuple(_core_op(part, core, group, info, cores) for info in infos)
            for group, infos in enumerate(groups)
        )
        for core, groups in enumerate(part.ops)
    )
    everyone = (1 << cores) - 1
    return DeviceProgram(part.name, ops, (MulticastEntry(everyone, 32768),), (262144,) * cores)


def _core_op(part: Specialization, core: int, group: int, info: CoreOpInfo, cores: int) -> CoreOp:
    waits = tuple(e.source for e in part.dependencies if e.target == (core, info.oc))
    transfer = None
    if info.kind == "aiccopytovtcm":
        transfer = Transfer(info.out_bytes, Space.DDR, Space.VTCM)
    if info.kind == "aicmulticastvtcm":
        transfer = Transfer(info.out_bytes, Space.VTCM, Space.VTCM, (1 << cores) - 1, 0)
    return CoreOp(
        info=info,
        core=core,
        group=group,
        waits_for=waits,
        transfer=transfer,
        semaphore=3 if "semaphoreinc" in info.kind else None,
        port_wait=HOST_IN if info.kind == "aicinputsemaphoreinc" else None,
        vtcm_offset=info.oc * 65536 if info.memory is MemorySpace.TCM else None,
    )


def stats(
    made: Layout | None = None, *, device: int = 0, inference: int = 0, level: int | None = None
) -> Stats:
    """Records of one inference; those of a lower level are the same records, fewer sections."""
    made = made or layout()
    level = made.stats_level if level is None else level
    name = f"aic-profiling-program-0-activation-0-inf-{inference}-{made.network}-aiccyclecounts"
    whole = _all_records(made, device, inference)
    kept = {key: rows for key, rows in whole.items() if _collected(key, level, made)}
    return Stats(made, name, level, device, device, inference, UTC_NS, kept)


def _collected(key: SectionId, level: int, made: Layout) -> bool:
    section = SECTIONS[key]
    asked = {Needs.NOTHING: True, Needs.PMU: bool(made.pmu.events), Needs.DDR: made.ddr_stats}
    return level >= section.min_level and asked[section.needs]


def _all_records(made: Layout, device: int, inference: int) -> dict[SectionId, np.ndarray]:
    rows: dict[SectionId, list[tuple]] = {key: [] for key in SectionId}
    for core in range(made.cores):
        _core_records(rows, made, device, core, FIRST_TICK + 10_000 * inference + core)
    if len(made.specializations) > 1:
        peer = (device + 1) % len(made.specializations)
        start = FIRST_TICK + 10_000 * inference + 200
        rows[SectionId.P2P_REC].append((device, peer, PEER_PORT, 0, 7, 8, start, start + 25, 4096))
    return {key: np.array(found, SECTIONS[key].dtype) for key, found in rows.items()}


def _core_records(
    rows: dict[SectionId, list[tuple]], made: Layout, device: int, core: int, origin: int
) -> None:
    ends: dict[int, int] = {}
    clocks = [origin] * len(GROUPS)
    spec = made.specializations[device]
    for group, info in sorted(
        ((g, op) for g, ops in enumerate(spec.ops[core]) for op in ops), key=lambda row: row[1].oc
    ):
        _op_records(rows, spec, core, group, info, ends, clocks)
    last = max(clocks)
    for thread in THREADS:
        where = (core, thread.id)
        cycles = [_cycles(tick) for tick in (origin, last)]
        rows[SectionId.THREAD_INF].append((*where, 0, origin, last, *cycles))
        rows[SectionId.THREAD_ACT].append((*where, 0, origin - 5000, origin - 5000 + 1500 + core))
        counts = [1000 * (i + 1) + 10 * core + thread.id for i in range(len(made.pmu.events))]
        rows[SectionId.PMU_THREAD].append((*where, len(counts), 0, *_eight(counts)))
        for port in (HOST_IN, HOST_OUT):
            waits = thread.id == 5
            wait = (40 if port == HOST_IN else 1) if waits else 0
            rows[SectionId.PORT_WAIT].append((*where, port, 0, int(waits), 0, wait))
    rows[SectionId.DDR_CORE].append((core, 0, 1 << 20, 1 << 18, 32768, 32768 if core == 0 else 0))
    rows[SectionId.PORT_RING].append((HOST_IN, 0, core, origin + 1))


def _op_records(
    rows: dict[SectionId, list[tuple]],
    spec: Specialization,
    core: int,
    group: int,
    info: CoreOpInfo,
    ends: dict[int, int],
    clocks: list[int],
) -> None:
    sync = clocks[group]
    start = max([sync, *(ends.get(source, 0) for source in _NEEDS.get(info.oc, ()))])
    ticks = next(row[4] for row in _OPS if row[0] == info.kind and row[3] * 1024 == info.out_bytes)
    threads = GROUPS[group].threads
    barrier = start + ticks + len(threads) - 1
    # Semaphore increments are ops too: level 50 has them by themselves, level 70 all together.
    kinds = [SectionId.OP_REC, *([SectionId.SEM_OP] if "semaphoreinc" in info.kind else [])]
    flags = ASYNCHRONOUS if info.asynchronous else 0
    for nth, thread in enumerate(threads):
        end = start + ticks + nth
        row = (core, thread, info.oc, sync, start, end, barrier, _cycles(end - start), flags, 0)
        for kind in kinds:
            rows[kind].append(row)
        counts = [info.oc * 10 + i for i in range(len(RECIPE.events))]
        rows[SectionId.OP_PMU].append((core, thread, info.oc, *_eight(counts)))
    done = barrier
    if info.asynchronous:
        done = barrier + info.out_bytes // 1024
        entry = 0 if info.kind == "aicmulticastvtcm" else 0xFFFF
        source = Space.VTCM if entry == 0 else Space.DDR
        moved = (info.out_bytes, source, Space.VTCM, entry, 0)
        rows[SectionId.DMA_REC].append((core, threads[0], info.oc, start, done, *moved))
    ends[info.oc] = done
    clocks[group] = barrier


def _cycles(ticks: int) -> int:
    return ticks * CORE_HZ // UTIMER_HZ


def _eight(counts: list[int]) -> list[int]:
    return [*counts, *[0] * (8 - len(counts))]


def with_rows(made: Stats, section: SectionId, rows: np.ndarray) -> Stats:
    """The same with other records in one section."""
    return replace(made, sections={**made.sections, section: rows})
