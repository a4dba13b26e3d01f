"""Programs of a few ops, written by hand, for the simulator's tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from many_core.samples import CORE_HZ, DMA, GROUPS, HMX, HVX, THREADS, UUID
from npuscope.families.many_core.layout import (
    CoreOpInfo,
    CorePort,
    Layout,
    MemorySpace,
    Pmu,
    Specialization,
)
from npuscope.families.many_core.program import (
    Binding,
    CoreOp,
    CoreProgram,
    DeviceProgram,
    Space,
    Transfer,
)
from npuscope.structs import replace

KB = 1024


@dataclass
class Writer:
    """Ops of one device in the order of issue; numbers are given by core."""

    cores: int = 1
    ops: list[CoreOp] = field(default_factory=list)

    def add(self, core: int, group: int, kind: str, kilobytes: float = 0, **more: object) -> CoreOp:
        oc = sum(1 for op in self.ops if op.core == core)
        transfer = more.get("transfer")
        asynchronous = bool(more.pop("asynchronous", transfer is not None))
        memory = MemorySpace.TCM if kilobytes or transfer else MemorySpace.DDR
        info = CoreOpInfo(
            oc=oc,
            name=f"{kind}__{oc}",
            kind=kind,
            memory=memory,
            dtypes=("float16",),
            shape=(1,),
            out_bytes=int(kilobytes * KB),
            macs=int(more.pop("macs", 0)),  # type: ignore[call-overload]
            asynchronous=asynchronous,
        )
        op = CoreOp(info, core, group, **more)  # type: ignore[arg-type]
        self.ops.append(op)
        return op

    def copy(self, core: int, kilobytes: float, **more: object) -> CoreOp:
        transfer = Transfer(int(kilobytes * KB), Space.DDR, Space.VTCM)
        return self.add(core, DMA, "aiccopytovtcm", kilobytes, transfer=transfer, **more)

    def end(self) -> Writer:
        for core in range(self.cores):
            last = tuple(op.key for op in self.ops if op.core == core)
            for group in (HVX, HMX, DMA):
                self.add(core, group, "aicendcyclestats", waits_for=last)
        return self

    def part(self, name: str) -> DeviceProgram:
        ops = tuple(
            tuple(
                tuple(op for op in self.ops if (op.core, op.group) == (core, group))
                for group in range(len(GROUPS))
            )
            for core in range(self.cores)
        )
        return DeviceProgram(name, ops)


def program_of(
    writers: Sequence[Writer], *, level: int = 70, pmu: Pmu | None = None, ddr: bool = False
) -> CoreProgram:
    alone = len(writers) == 1
    names = ["QAicGraph"] if alone else [f"QAicGraph_slice{i:02}" for i in range(len(writers))]
    parts = tuple(writer.part(name) for writer, name in zip(writers, names, strict=True))
    layout = Layout(
        program_uuid=UUID,
        network="QAicGraph",
        stats_level=level,
        stats_batch=1,
        ddr_stats=ddr,
        core_hz=CORE_HZ,
        cores=writers[0].cores,
        threads=THREADS,
        groups=GROUPS,
        ports=(CorePort(100, True, "host", "input"), CorePort(101, False, "host", "output")),
        pmu=pmu or Pmu(),
        specializations=tuple(
            Specialization(part.name, tuple(_infos(core) for core in part.ops)) for part in parts
        ),
    )
    return CoreProgram(
        layout=layout,
        devices=parts,
        inputs=(Binding("in", (1, 1024), "float32", 4 * KB),),
        outputs=(Binding("out", (1, 256), "float32", KB),),
    )


def at_level(program: CoreProgram, level: int) -> CoreProgram:
    return replace(program, layout=replace(program.layout, stats_level=level))


def _infos(core: tuple[tuple[CoreOp, ...], ...]) -> tuple[tuple[CoreOpInfo, ...], ...]:
    return tuple(tuple(op.info for op in group) for group in core)
