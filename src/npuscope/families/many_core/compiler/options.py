"""What may be asked of the many-core compiler, and what is wrong with it if something is."""

from __future__ import annotations

from msgspec import Struct, field

from npuscope.errors import UsageError
from npuscope.families.many_core.compiler.stages import PipelineStage
from npuscope.families.many_core.layout import Pmu
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.records import DEFAULT_LEVEL, LEVELS, PMU_COUNTERS
from npuscope.structs import replace

# Events of the same processor family; which ones the vendor's recipes hold is not public.
RECIPES: dict[str, tuple[int, ...]] = {
    "AxiRd": (0x40, 0x41, 0xCE, 0x3F, 0xCD),
    "AxiWr": (0x42, 0x43, 0xCF, 0x46, 0x55),
    "AxiRdWr": (0x40, 0xCE, 0x3F, 0xCD, 0x42, 0xCF, 0x46, 0x55),
    "KernelUtil": (0x100, 0x200, 0x240, 0x3, 0x111, 0x105),
    "HmxMacs": (0x200, 0x205, 0x211, 0x212, 0x209, 0x20A, 0x214),
}
MOST_DEVICES = 16
_MOST_EVENT = 0x3FF  # ten bits select an event


class CoreCompileOptions(Struct, frozen=True):
    """`cores` None takes all that the network has work for; levels between the known ones
    collect what the next lower one does."""

    cores: int | None = None
    devices: int = 1
    stats_level: int = DEFAULT_LEVEL
    stats_batch: int = 1
    ddr_stats: bool = False
    pmu: Pmu = field(default_factory=Pmu)
    network: str = "QAicGraph"
    mos: int | None = None  # cores over which the channels of a product are split at most
    tile_kb: int | None = None  # largest output of an op on a core; None: as the machine says
    depth_first: bool = False  # parts of a batch go through several layers where it does not fit
    depth_first_mb: int | None = None  # of VTCM for its activations; None: as the machine says
    stages: tuple[PipelineStage, ...] = ()  # fewer than two: all devices share every op

    def on(self, machine: CoreMachine) -> CoreMachine:
        """The machine as these options use it."""
        if self.tile_kb is None:
            return machine
        return replace(machine, memory=replace(machine.memory, tile_bytes=self.tile_kb * 1024))

    def depth_first_room(self, machine: CoreMachine) -> float:
        """Bytes of a core for activations."""
        room = machine.memory.vtcm_bytes * machine.memory.activation_share
        return room if self.depth_first_mb is None else min(room, self.depth_first_mb * 2**20)

    def check(self, machine: CoreMachine) -> None:
        most = machine.cores.count
        if self.cores is not None and not 1 <= self.cores <= most:
            raise UsageError(
                f"{self.cores} cores: {machine.name} has 1 to {most}", where="-aic-num-cores"
            )
        if not 1 <= self.devices <= MOST_DEVICES:
            raise UsageError(
                f"{self.devices} devices: expected 1 to {MOST_DEVICES}", where="--devices"
            )
        stats_level(self.stats_level)
        if self.mos is not None and self.mos < 1:
            raise UsageError(f"expected at least 1, found {self.mos}", where="-mos")
        if self.tile_kb is not None and not 1 <= self.tile_kb <= machine.memory.vtcm_bytes // 1024:
            most = machine.memory.vtcm_bytes // 1024
            raise UsageError(
                f"expected 1 to {most} KB, found {self.tile_kb}", where="-size-split-granularity"
            )
        if self.depth_first_mb is not None and self.depth_first_mb < 1:
            raise UsageError(
                f"expected at least 1 MB, found {self.depth_first_mb}", where="-aic-depth-first-mem"
            )
        if self.stats_batch < 1:
            raise UsageError("a batch has at least 1 inference", where="-stats-batchsize")
        self._check_level(self.ddr_stats, "DDR traffic", "-ddr-stats")
        self._check_level(bool(self.pmu.events), "counting events", "-aic-pmu-events")

    def _check_level(self, is_wanted: bool, what: str, option: str) -> None:
        lowest = LEVELS[0]
        if is_wanted and self.stats_level < lowest:
            raise UsageError(
                f"{what} needs stats level {lowest} or more, not {self.stats_level}",
                where=option,
                hint=f"leave -stats-level out: {DEFAULT_LEVEL} is the default",
            )


def stats_level(number: int) -> tuple[int, str]:
    """The level that `number` amounts to, and a note where that is another one."""
    if number < 0:
        raise UsageError(f"level {number} is below 0", where="-stats-level")
    level = max((lower for lower in LEVELS if lower <= number), default=0)
    if level == number or number == 0:
        return level, ""
    if level == 0:
        return level, f"level {number} collects nothing: {LEVELS[0]} is the lowest that does"
    return level, f"level {number} collects what level {level} does"


def pmu_of(recipe: str | None, events: str | None) -> Pmu:
    """Counters from a recipe's name or from hexadecimal numbers."""
    if recipe and events:
        raise UsageError(
            "a recipe and single events exclude each other",
            where="-aic-pmu-recipe, -aic-pmu-events",
            hint="give one of them",
        )
    if recipe:
        if recipe not in RECIPES:
            names = ", ".join(RECIPES)
            raise UsageError(
                f"unknown recipe '{recipe}'", where="-aic-pmu-recipe", hint=f"known: {names}"
            )
        return Pmu(recipe, RECIPES[recipe])
    return Pmu("", _events(events)) if events is not None else Pmu()


def _events(text: str) -> tuple[int, ...]:
    numbers = []
    for word in map(str.strip, text.split(",")):
        digits = word.lower().removeprefix("0x")
        if not digits or any(char not in "0123456789abcdef" for char in digits):
            raise UsageError(
                f"expected hexadecimal numbers such as 3F,70,200, found '{word}'",
                where="-aic-pmu-events",
            )
        if int(digits, 16) > _MOST_EVENT:
            raise UsageError(f"event {word} is above {_MOST_EVENT:X}", where="-aic-pmu-events")
        numbers.append(int(digits, 16))
    if len(numbers) > PMU_COUNTERS:
        raise UsageError(
            f"{len(numbers)} events: there are {PMU_COUNTERS} counters", where="-aic-pmu-events"
        )
    if len(set(numbers)) != len(numbers):
        raise UsageError("an event is named twice", where="-aic-pmu-events")
    return tuple(numbers)
