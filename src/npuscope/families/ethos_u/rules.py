"""Rules on what streams of an Ethos-U show, and on networks that Vela does not compile as they are
meant."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from npuscope.families.ethos_u.build import FAMILY, EthosRun
from npuscope.families.ethos_u.faults import faults_of
from npuscope.families.ethos_u.timing import KernelLimit, KernelTime
from npuscope.graph.model import Graph
from npuscope.ops.moves import MirrorPadAttrs
from npuscope.profiling.model import Profile
from npuscope.program.model import EpochKind
from npuscope.report.figures import size
from npuscope.rulebook import fixes
from npuscope.rulebook import registry as rulebook
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.fix import FixTemplate, FunctionEffect, at_most
from npuscope.rulebook.fix import timed as timed_gain

# From these on something is worth a word: shares of the whole time, and of what is possible.
_SHARE, _POOR_FILL, _LEAST_GAIN = 0.05, 0.25, 0.01

MORE_SRAM = FixTemplate(
    "ethos-more-sram",
    "let Vela use more SRAM: --optimise Performance, a larger --arena-cache-size, another "
    "--memory-mode",
    function=FunctionEffect.UNTOUCHED,
)
OTHER_MODE = FixTemplate(
    "ethos-memory-mode",
    "--memory-mode {mode}, where the chip has {sram} of SRAM for it",
    function=FunctionEffect.UNTOUCHED,
)
ONE_STREAM = FixTemplate(
    "ethos-one-stream", "replace the operators between the streams with ones that Vela takes"
)
FULL_BLOCKS = FixTemplate(
    "ethos-full-blocks",
    "use multiples of 8 input channels and of 16 output channels, and dense layers for narrow "
    "depthwise ones",
)
CHANNELS_LAST = FixTemplate(
    "ethos-channels-last",
    "export the network with channels-last inputs and outputs (torch.channels_last)",
)
OTHER_FORM = FixTemplate(
    "ethos-other-form",
    "write it in another form: int8 for uint8, reductions that keep their dimensions, an operator "
    "between the part and the layer that reads it",
)
PAD_THE_IMAGE = FixTemplate("ethos-pad-the-image", "mirror height and width only")

advise = partial(rulebook.advise, family=FAMILY)
lint = partial(rulebook.lint, family=FAMILY)


@advise(
    "ADV-ETHOS-BORDER",
    "The network is cut into several command streams",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Every stream is started by the CPU and ends with an interrupt, and operators between "
    "two streams run on the CPU.",
    fixes=(ONE_STREAM,),
)
def several_streams(profile: Profile) -> Iterator[Hit]:
    """The NPU is started more than once per inference."""
    run: EthosRun = profile.payload
    if len(run.offloads) > 1:
        yield Hit((), len(run.offloads), 1)


@advise(
    "ADV-ETHOS-CONSTANTS",
    "A layer waits for its weights or scales",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="Weights and scales are read from a far memory while the layer runs, and the NPU has "
    "room for few reads at a time. Vela copies them to SRAM in advance where the SRAM has room "
    "(--optimise Performance, a larger --arena-cache-size).",
    fixes=(MORE_SRAM, fixes.COMPRESS_WEIGHTS),
)
def waits_for_constants(profile: Profile) -> Iterator[Hit]:
    """Reads of weights and scales take longer than the products."""
    yield from _limited(profile, KernelLimit.CONSTANTS)


@advise(
    "ADV-ETHOS-PORT",
    "A layer waits for a memory port",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Inputs of every block, with its border, and the outputs go through one port. A stripe "
    "that is higher reads fewer borders; feature maps in SRAM are read faster.",
    fixes=(MORE_SRAM,),
)
def waits_for_port(profile: Profile) -> Iterator[Hit]:
    """Transfers of feature maps take longer than the products."""
    yield from _limited(profile, KernelLimit.PORT)


@advise(
    "ADV-ETHOS-TRANSFER",
    "Layers wait for weights that are being copied",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="Weights of a layer are copied to SRAM while the layer before runs; where that is "
    "shorter than the copy, the NPU stands still.",
    fixes=(MORE_SRAM, fixes.COMPRESS_WEIGHTS),
)
def waits_for_copies(profile: Profile) -> Iterator[Hit]:
    """A kernel starts only after a copy has ended."""
    run: EthosRun = profile.payload
    waited = total = 0.0
    for time in run.offloads:
        total += time.stream.cycles
        waited += sum(one.waited for one in time.stream.kernels[1:])
    if total and waited > _SHARE * total:
        share = f"{100 * waited / total:.0f} %"
        yield Hit((), share, f"{100 * _SHARE:.0f} % of the time", {"cycles": round(waited)})


@advise(
    "ADV-ETHOS-MODE",
    "Another memory mode is faster",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="The memory mode says whether weights and feature maps are in SRAM or in the memory "
    "beyond. What is in SRAM is read faster, and Vela does not copy it first.",
    fixes=(OTHER_MODE,),
)
def faster_mode(profile: Profile) -> Iterator[Hit]:
    """The network was compiled in the other memory modes too, and one of them takes less time."""
    run: EthosRun = profile.payload
    best = min(run.other_modes, key=lambda trial: trial.total_ms, default=None)
    if best is not None and best.total_ms < (1 - _LEAST_GAIN) * profile.total_ms:
        words: dict[str, Value] = {"mode": best.mode, "sram": size(best.sram_bytes)}
        evidence: dict[str, Value] = {"mode": best.mode, "sram_bytes": best.sram_bytes}
        yield Hit(
            (),
            f"{best.total_ms:.4g} ms with {best.mode}, {profile.total_ms:.4g} ms with "
            f"{run.build.machine.memory_mode}",
            None,
            evidence,
            fixes={OTHER_MODE.id: words},
            gains={OTHER_MODE.id: timed_gain(profile.total_ms - best.total_ms)},
        )


@advise(
    "ADV-ETHOS-FILL",
    "The MAC units are badly filled",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="The MAC units take micro-blocks of pixels, output and input channels: 8 inputs, and 4 "
    "to 64 outputs. Fewer channels, or a depthwise layer, leave the rest of them idle.",
    fixes=(FULL_BLOCKS,),
)
def badly_filled(profile: Profile) -> Iterator[Hit]:
    """Most products of a layer are products with padding."""
    run: EthosRun = profile.payload
    total = sum(time.stream.cycles for time in run.offloads)
    for number, one in _kernels(run):
        room = one.work.mac_cycles * run.build.machine.macs
        long = one.cycles > _SHARE * total and one.limit is KernelLimit.MAC
        if long and one.work.macs and one.work.macs < _POOR_FILL * room:
            share = f"{100 * one.work.macs / room:.0f} %"
            evidence: dict[str, Value] = {"kernel": one.kernel.kind, "cycles": round(one.cycles)}
            yield Hit(run.origin(number, one), share, f"{100 * _POOR_FILL:.0f} %", evidence)


@advise(
    "ADV-ETHOS-TRANSPOSES",
    "Transposes between the layouts take time",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="The network has its channels first, the NPU's layers have them last. Transposes around "
    "the layers bring one into the other, and the NPU computes them pixel by pixel, in many small "
    "kernels.",
    fixes=(CHANNELS_LAST, fixes.KEEP_LAYOUT),
)
def transposes_take_time(profile: Profile) -> Iterator[Hit]:
    """Transposes take a part of the time."""
    run: EthosRun = profile.payload
    if run.build.source is None:
        return
    kinds: dict[str, set[str]] = {}
    for name, op in zip(run.build.names, run.build.source.ops, strict=False):
        kinds.setdefault(name, set()).add(op.kind)
    copied: dict[str, float] = {}
    last = ""
    for part in profile.epochs:
        # Kernels of a transpose after its first one have no operator of their own.
        last = part.origin[0] if part.origin else last
        if part.kind is EpochKind.HW and kinds.get(last) == {"TRANSPOSE"}:
            copied[last] = copied.get(last, 0.0) + part.ms
    spent = sum(copied.values())
    if spent > _SHARE * profile.total_ms:
        share = f"{100 * spent / profile.total_ms:.0f} % of the time"
        gains = {fix.id: at_most(spent) for fix in (CHANNELS_LAST, fixes.KEEP_LAYOUT)}
        evidence: dict[str, Value] = {"ms": round(spent, 6)}
        yield Hit(tuple(copied), share, f"below {100 * _SHARE:.0f} %", evidence, gains=gains)


@advise(
    "ADV-ETHOS-LAYOUT",
    "An image crosses the border of the NPU channels first",
    severity=Severity.INFO,
    confidence=Confidence.REPORTED,
    cause="PyTorch keeps images channels first, the NPU takes them channels last. Where the "
    "delegate expects the latter, ExecuTorch reorders the image on the CPU, which no report of "
    "Vela's shows; else the command stream begins with it.",
    fixes=(CHANNELS_LAST,),
)
def channels_first(profile: Profile) -> Iterator[Hit]:
    """The program stores an input or output of a delegate channels first."""
    run: EthosRun = profile.payload
    for step in run.build.file.steps:
        if step.shape:
            who = "the CPU reorders it" if step.reorders else "the command stream reorders it"
            evidence: dict[str, Value] = {"bytes": step.elements, "by": who}
            yield Hit((), f"{'x'.join(map(str, step.shape))}, {who}", None, evidence)


def _kernels(run: EthosRun) -> Iterator[tuple[int, KernelTime]]:
    for time in run.offloads:
        for one in time.stream.kernels:
            yield time.number, one


def _limited(profile: Profile, limit: KernelLimit) -> Iterator[Hit]:
    """Kernels with that limit that take a share of the time, by source operator."""
    run: EthosRun = profile.payload
    total = sum(time.stream.cycles for time in run.offloads)
    cycles: dict[tuple[str, ...], float] = {}
    for number, one in _kernels(run):
        if one.limit is limit:
            origin = run.origin(number, one)
            cycles[origin] = cycles.get(origin, 0.0) + one.cycles
    for origin, total_of in cycles.items():
        if total_of > _SHARE * total:
            ms = total_of / (1e3 * run.build.machine.clock_mhz)
            yield Hit(origin, f"{100 * total_of / total:.0f} % of the time", None, {"ms": ms})


# --- Networks ---


@lint(
    "LINT-ETHOS-MIRROR-PAD",
    "Vela drops mirrored channels and batches",
    severity=Severity.ERROR,
    confidence=Confidence.VERIFIED,
    cause="ethos-u-vela 5.2.0 compiles a MIRROR_PAD along channels or the batch to copies of those "
    "that were there: the new ones hold what happened to be in memory.",
    fixes=(PAD_THE_IMAGE,),
)
def mirrored_channels(graph: Graph, machine: str) -> Iterator[Hit]:
    """A mirror pad along the channels or the batch is compiled to something else."""
    for op in graph.ops:
        if isinstance(op.attrs, MirrorPadAttrs) and any(faults_of(graph, op, machine)):
            yield Hit(op.origin, str(op.attrs.pads), None)


@lint(
    "LINT-ETHOS-VALUES",
    "Vela compiles an operator to something else",
    severity=Severity.ERROR,
    confidence=Confidence.VERIFIED,
    cause="ethos-u-vela 5.2.0 gives other values for some operators, and says nothing: bytes that "
    "are clipped as if they were signed (TRANSPOSE of uint8), reductions that lose a dimension, "
    "padded windows over a strided slice, transposed convolutions of a part of a tensor, nearest "
    "resizes by a broken factor and divisions on the U85. docs/ethos_u.md lists what each does.",
    fixes=(OTHER_FORM,),
)
def changed_values(graph: Graph, machine: str) -> Iterator[Hit]:
    """Vela's stream of the operator gives other values than the operator."""
    for op in graph.ops:
        if not isinstance(op.attrs, MirrorPadAttrs):
            for fault in faults_of(graph, op, machine):
                yield Hit(op.origin, fault.name, None)
