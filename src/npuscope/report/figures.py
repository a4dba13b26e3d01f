"""What follows from counters, and how numbers read: clocks, milliseconds, totals, units."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from npuscope.profiling.model import (
    UNKNOWN_FIT,
    EpochProfile,
    Profile,
    Provenance,
    RunClocks,
    TensorInfo,
)
from npuscope.program.dot import choked_port
from npuscope.program.model import Claims, EpochKind
from npuscope.shown import counted, significant
from npuscope.sim.counters import Bound
from npuscope.text import safe_terminal

# --- Numbers as text, in one place so that every table agrees ---

DASH = "-"


def ms(value: float) -> str:
    """Milliseconds with about three figures that matter, down to a microsecond."""
    if value >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 10 else f"{value:.3f}"


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else DASH


def count(value: float) -> str:
    """A count with thousands separators."""
    return f"{round(value):,}"


def size(value: float) -> str:
    """Bytes in binary units, as memories are sold."""
    if value < 1024:
        return f"{round(value)} B"
    if value < 1024 * 1024:
        return f"{value / 1024:.1f} KiB"
    return f"{value / (1024 * 1024):.2f} MiB"


def rate(bytes_moved: float, milliseconds: float) -> str:
    """Decimal units, as buses are specified; a dash where no time passed."""
    if milliseconds <= 0:
        return DASH
    per_second = bytes_moved * 1000 / milliseconds
    if per_second >= 1e9:
        return f"{per_second / 1e9:.2f} GB/s"
    return f"{per_second / 1e6:.2f} MB/s"


def per(amount: float, cycles: float) -> str:
    """Operations per cycle."""
    return f"{amount / cycles:.1f}" if cycles > 0 else DASH


def millions(value: float) -> str:
    if value >= 1e9:
        return f"{value / 1e9:.2f} G"
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    return f"{value / 1e3:.1f} k" if value >= 1e3 else str(round(value))


def bar(part: float, whole: float, width: int = 30) -> str:
    """A bar in plain ASCII: reports travel through mails, logs and Windows consoles."""
    return "#" * round(width * part / whole) if whole > 0 else ""


def shorten(text: str, width: int) -> str:
    """A name in plain ASCII; the middle goes, for names of layers differ at their end."""
    if len(text) <= width:
        return text
    room = width - 3
    return f"{text[: room - room // 2]}...{text[len(text) - room // 2 :]}"


def shorten_end(text: str, width: int) -> str:
    """A sentence or a list, which is read from its start."""
    return text if len(text) <= width else f"{text[: width - 3]}..."


# --- Figures derived from counters: other clock, milliseconds, totals ---

# Unit types under the names of the vendor's profiler, so that logs compare line by line.
_UNIT_NAMES = {
    "CONVACC": "CONV_ACC",
    "ARITH": "ARITH_ACC",
    "ACTIV": "ACTIV_ACC",
    "POOL": "POOL_ACC",
    "STRENG": "STR_ENG",
}
_LABELS = {
    Provenance.ESTIMATE: "predicted",
    Provenance.SIMULATION: "simulated",
    Provenance.EMULATION: "emulated: NPU cycles simulated, CPU instructions counted as cycles",
    Provenance.BOARD: "measured on a board",
    Provenance.LOG: "measured, read from a log",
    Provenance.VENDOR_FILE: "stated by a vendor file",
}


def label(source: Provenance) -> str:
    """The word that goes with a number of this source. Only measurements are measured."""
    return _LABELS[source]


def source_of(profile: Profile) -> Provenance:
    return profile.runs[0].source if profile.runs else Provenance.ESTIMATE


def is_predicted(source: Provenance) -> bool:
    return source in (Provenance.ESTIMATE, Provenance.SIMULATION)


def clocks_of(profile: Profile) -> RunClocks:
    """The clocks the counters were taken at."""
    if profile.runs:
        return profile.runs[0].clocks
    machine = profile.machine
    return RunClocks(machine.mcu_mhz, machine.npu_mhz, 0.0, 0.0)


class Phases(Struct, frozen=True):
    """pre, core and post of one epoch (or of all) in both clocks and in milliseconds."""

    mcu_cycles: tuple[float, float, float]
    npu_cycles: tuple[float, float, float]
    ms: tuple[float, float, float]

    @property
    def total_ms(self) -> float:
        return sum(self.ms)

    @property
    def core_ms(self) -> float:
        return self.ms[1]

    @property
    def core_npu_cycles(self) -> float:
        return self.npu_cycles[1]

    @property
    def total_npu_cycles(self) -> float:
        return sum(self.npu_cycles)


def phases(epoch: EpochProfile, clocks: RunClocks) -> Phases:
    """pre and post are counted by the MCU, core by the NPU; the other clock is derived."""
    pre, core, post = (
        epoch.counters.pre_cycles,
        epoch.counters.core_cycles,
        epoch.counters.post_cycles,
    )
    ratio = clocks.npu_mhz / clocks.mcu_mhz
    cycles = epoch.counters.core_mcu_cycles
    return Phases(
        mcu_cycles=(pre, core / ratio if cycles is None else cycles, post),
        npu_cycles=(pre * ratio, core, post * ratio),
        ms=(
            pre / (clocks.mcu_mhz * 1000),
            core / (clocks.npu_mhz * 1000),
            post / (clocks.mcu_mhz * 1000),
        ),
    )


def total_phases(epochs: tuple[EpochProfile, ...], clocks: RunClocks) -> Phases:
    parts = [phases(epoch, clocks) for epoch in epochs]
    return Phases(
        mcu_cycles=_sum3([part.mcu_cycles for part in parts]),
        npu_cycles=_sum3([part.npu_cycles for part in parts]),
        ms=_sum3([part.ms for part in parts]),
    )


def _sum3(rows: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    return sum(r[0] for r in rows), sum(r[1] for r in rows), sum(r[2] for r in rows)


def traffic(epochs: tuple[EpochProfile, ...]) -> dict[str, tuple[int, int]]:
    """Pool -> bytes read, bytes written, over the epochs given."""
    total: dict[str, tuple[int, int]] = {}
    for epoch in epochs:
        for row in epoch.counters.traffic:
            reads, writes = total.get(row.pool, (0, 0))
            total[row.pool] = reads + row.read_bytes, writes + row.write_bytes
    return total


def is_bare(epoch: EpochProfile) -> bool:
    """Counted on a device without its program: the compiler's figures are not known, not 0."""
    return epoch.claims == Claims() and epoch.counters.bound is Bound.UNKNOWN


def bus_traffic(epochs: tuple[EpochProfile, ...]) -> dict[str, tuple[int, int]]:
    """Bus interface -> bytes read, bytes written, over the epochs given."""
    total: dict[str, tuple[int, int]] = {}
    for bus in (bus for epoch in epochs for bus in epoch.counters.busif):
        name = f"busif {bus.id}"
        reads, writes = total.get(name, (0, 0))
        total[name] = reads + bus.read_bytes, writes + bus.write_bytes
    return total


def operations(epoch: EpochProfile) -> dict[str, int]:
    """Kind and number of operations, {'hw.conv': 4, 'hw.dmain': 6, ...}.

    A convolution counts once for every accelerator that works on it.
    """
    where = epoch.kind.value.lower()
    counts = Counter(f"{where}.{name.lower()}" for name in epoch.operators)
    convolutions = epoch.units.get("CONVACC", 0)
    if epoch.kind is EpochKind.HW and f"{where}.conv" in counts:
        counts[f"{where}.conv"] = max(convolutions, counts[f"{where}.conv"])
    directions = Counter(engine.dir for engine in epoch.counters.engines)
    for direction, name in (("i", "dmain"), ("o", "dmaout")):
        if directions[direction]:
            counts[f"hw.{name}"] = directions[direction]
    return dict(counts)


def bound_text(epoch: EpochProfile) -> str:
    """With the port of a convolution that it means."""
    bound = epoch.counters.bound.value
    port = choked_port(bound) if epoch.units.get("CONVACC") else ""
    return f"{bound}, choked ports = ({port})" if port else bound


def processor_units(epoch: EpochProfile) -> dict[str, int]:
    if epoch.kind is EpochKind.SW:
        return {"PROCESSOR": 1}
    return {_UNIT_NAMES.get(unit, unit): number for unit, number in epoch.units.items() if number}


# --- The top of every text report: the answer, then each assumption once ---


def answer(profile: Profile) -> str:
    """Does it compile, does it fit and how fast: the line a reader may stop at."""
    stopped = f"{safe_terminal(profile.stopped)}; without that: " if profile.stops else ""
    return f"{stopped}{_fit_and_speed(profile)}"


def _fit_and_speed(profile: Profile) -> str:
    if not profile.epochs:
        return "nothing to compute: the network hands its inputs on, and no epoch is compiled"
    if profile.is_mostly_unknown:
        number, params = len(profile.unknown_ops), profile.model.unknown_params
        # Epochs of which nothing is known have no operators either.
        total = sum(max(1, len(epoch.operators)) for epoch in profile.epochs)
        kinds = shorten_end(safe_terminal(", ".join(dict.fromkeys(profile.unknown_ops))), 80)
        weights = f" and {millions(params)} weights" if params else ""
        return (
            f"the time of this network is not known: {number} of its {total} ops{weights} have no "
            f"known cost ({kinds})"
        )
    if profile.is_lower_bound:
        return f"{verdict(profile)}; {least_time(profile)} ({how_sure(profile)})"
    speed = f"{ms(profile.total_ms)} ms, {significant(profile.inferences_per_s, 4)} inf/s"
    return f"{verdict(profile)}; {speed} ({how_sure(profile)})"


def least_time(profile: Profile) -> str:
    """The time of a network of which a part is not known."""
    number = len(profile.unknown_ops)
    kinds = safe_terminal(", ".join(dict.fromkeys(profile.unknown_ops)))
    blobs = {epoch.name for epoch in profile.epochs if epoch.kind is EpochKind.HW}
    if blobs.intersection(profile.unknown_ops):
        return f"at least {ms(profile.total_ms)} ms; the cost of {kinds} is not known"
    ops = "1 op" if number == 1 else f"{number} ops"
    return f"at least {ms(profile.total_ms)} ms; {ops} of unknown cost ({kinds}) on the CPU"


def verdict(profile: Profile) -> str:
    """The least memory that the network needs, and where its weights are now."""
    fit = profile.fit
    if profile.fit_words:
        return safe_terminal(profile.fit_words)
    if fit == UNKNOWN_FIT:
        return "runs on the device"
    # The first word decides a purchase: where the range of the RAM crosses the limit, it says so.
    fits = "fits, probably" if fit.unsure else "fits"
    if fit.on_chip:
        # A memory that holds weights alone is flash, or takes its place.
        used = profile.memory.pools
        names = [pool.name for pool in used if pool.weights_bytes and not pool.activations_bytes]
        if names:
            return f"{fits}; weights in {safe_terminal(', '.join(names))} (all could fit on chip)"
        return "fits on chip, weights included"
    if fit.with_flash:
        return f"{fits}; weights in flash"
    return "fits with external RAM" if fit.with_external_ram else "does not fit"


def how_sure(profile: Profile) -> str:
    """Where the time comes from, with the published error of a prediction."""
    source = source_of(profile)
    if is_predicted(source) and profile.model_error:
        return f"{label(source)}{_assumption(profile)}, known error: {profile.model_error}"
    return label(source)


def _assumption(profile: Profile) -> str:
    """How boards drive external memories halves a time or doubles it, so a guess is named."""
    machine = profile.machine
    set_ups = {"flash": f"flash {machine.flash}", "psram": f"PSRAM {machine.psram}"}
    names = [safe_terminal(set_ups[memory]) for memory in machine.assumed if memory in set_ups]
    names += [safe_terminal(one) for one in profile.taken]
    *first, last = names or [""]
    return f", assuming {', '.join(first)}{' and ' if first else ''}{last}" if last else ""


def epoch_counts(profile: Profile) -> str:
    """`14 HW, 1 SW, 0 HYBRID, 1 blob`; kinds of epochs have no plural."""
    blobs = profile.counts.get("blobs")
    kinds = [f"{number} {name}" for name, number in profile.counts.items() if name != "blobs"]
    return ", ".join([*kinds, *([] if blobs is None else [counted(blobs, "blob")])])


def model_line(profile: Profile) -> str:
    model = profile.model
    name = safe_terminal(model.file) or "model"
    rows = len(profile.epochs)
    number = profile.epoch_count
    # A device may report many epochs of one blob as a single one; a number without work has no row.
    together = number != rows and any(epoch.first != epoch.last for epoch in profile.epochs)
    epochs = counted(number, "epoch") + (f" reported as {rows}" if together else "")
    if profile.fit == UNKNOWN_FIT:  # a device does not report MACs and parameters
        return f"model    {name}: {epochs}"
    macs = "MACs not known" if profile.is_mostly_unknown else f"{millions(model.macs)} MACs"
    return f"model    {name}: {macs}, {millions(model.params)} parameters, {epochs}"


def machine_line(profile: Profile) -> str:
    return f"machine  {machine_words(profile)}"


def machine_words(profile: Profile) -> str:
    """Chip, board and compiler, then how they were set."""
    parts = [chip_words(profile), *compiler_words(profile)]
    if profile.machine_words:
        own = profile.machine_words.removeprefix(f"{profile.machine.name}, ")
        return safe_terminal(", ".join([*parts, own]))
    machine, clocks = profile.machine, clocks_of(profile)
    parts.append(f"epoch controller {'on' if machine.epoch_controller else 'off'}")
    parts += [f"MCU {clocks.mcu_mhz:g} MHz", f"NPU {clocks.npu_mhz:g} MHz"]
    roads = {"flash": machine.flash, "PSRAM": machine.psram}
    return safe_terminal(", ".join([*parts, *(f"{n} {how}" for n, how in roads.items() if how)]))


def chip_words(profile: Profile) -> str:
    """`stm32n6 (STM32N6x7), board stm32n6570-dk`; what a device only said of itself as it is."""
    machine = profile.machine
    if not machine.chip:
        return machine.name
    board = f"board {machine.board}" if machine.board else "no board named"
    return f"{machine.name} ({machine.chip}), {board}"


def compiler_words(profile: Profile) -> list[str]:
    machine = profile.machine
    number = f"generation {machine.generation}" if machine.generation else ""
    words = ": ".join(filter(None, (number, machine.compiler)))
    return [words] if words else []


def interval_line(profile: Profile) -> list[str]:
    interval = _range(profile)
    return [f"range    {interval}"] if interval else []


def label_with_range(profile: Profile) -> str:
    """No predicted figure stands without its range."""
    interval = _range(profile)
    return f"{label(source_of(profile))}{f', {interval}' if interval else ''}"


def _range(profile: Profile) -> str:
    """Only a range that is wider than a point says something."""
    low, high = profile.interval_ms
    known = bool(profile.epochs) and not profile.is_mostly_unknown
    if not is_predicted(source_of(profile)) or low == high or not known:
        return ""
    if high is None:
        ops = "the unknown op" if len(profile.unknown_ops) == 1 else "the unknown ops"
        return f"at least {ms(low)} ms, without {ops}"
    return f"{ms(low)} to {ms(high)} ms"


def tensor_lines(profile: Profile) -> list[str]:
    model = profile.model
    return [
        *(_tensor("I", i, len(model.inputs), t) for i, t in enumerate(model.inputs, 1)),
        *(_tensor("O", i, len(model.outputs), t) for i, t in enumerate(model.outputs, 1)),
    ]


def _tensor(side: str, number: int, total: int, tensor: TensorInfo) -> str:
    shape = ",".join(str(dim) for dim in tensor.shape)
    quant = ""
    if tensor.scale is not None:
        quant = f", QLinear({tensor.scale:.9g},{tensor.zero_point},{tensor.dtype})"
    return (
        f"{side}[{number}/{total}]   '{safe_terminal(tensor.name)}' : {tensor.dtype}[{shape}], "
        f"{tensor.size_bytes} bytes{quant}"
    )


def note_lines(profile: Profile) -> list[str]:
    return [f"note     {safe_terminal(note)}" for note in profile.notes]
