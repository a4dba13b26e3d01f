"""Profile the device that a descriptor names: connect, plan, run, check, collect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from msgspec import Struct, field

from npuscope.boards.client_exchange import Timeouts
from npuscope.boards.device import (
    NOTHING,
    Descriptor,
    DescriptorKind,
    Device,
    DeviceInfo,
    Inference,
    NetworkDesc,
    Request,
    random_values,
)
from npuscope.boards.remote import RemoteBoard
from npuscope.boards.runtime import epoch_blocks, with_blob_size
from npuscope.boards.simulated import SimulatedBoard, network_desc, simulated_info
from npuscope.errors import DeviceError, TargetError, UsageError
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.ops.run import run as run_reference
from npuscope.profiling.agreement import AgreementTally
from npuscope.profiling.clock_check import clock_warnings
from npuscope.profiling.collect import collect
from npuscope.profiling.model import DevicePart, Profile
from npuscope.profiling.output_tallies import output_step
from npuscope.profiling.passes import CounterPass, CounterPlan, counter_plan
from npuscope.profiling.printed import CompilerText, with_compiler, with_totals
from npuscope.profiling.recorded import LogDevice, Recorded
from npuscope.program.model import Program
from npuscope.program.network_c.layout import dialect as dialect_of
from npuscope.shown import Rows, ShownRecord, counted
from npuscope.structs import replace
from npuscope.text import safe_terminal

_SEED = 0


class RunSubject(Struct, frozen=True):
    """What is known of the network on the device; nothing of it has to be."""

    program: Program | None = None
    machine: Machine | None = None
    graph: Graph | None = None


class Measurement(ShownRecord, frozen=True):
    """A Profile with the device's own words and every inference behind it."""

    profile: Profile
    info: DeviceInfo
    network: NetworkDesc
    recorded: tuple[Recorded, ...]
    program: Program | None
    subject: RunSubject = RunSubject()
    # By first and last epoch: what a printed report says of the compiler, where one was read.
    said: Mapping[tuple[int, int], CompilerText] = field(default_factory=dict)

    def told(self) -> str:
        times = counted(len(self.recorded), "inference")
        return f"{self.network.name}, {times}: {self.profile.told()}"

    def table(self) -> Rows:
        return self.profile.table()


class _Recorder:
    """Hands requests on and keeps what came back."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.recorded: list[Recorded] = []

    @property
    def source(self) -> str:
        return self._device.source

    def info(self) -> DeviceInfo:
        return self._device.info()

    def run(self, request: Request) -> Inference:
        inference = self._device.run(request)
        key = (request.network, request.per_layer, request.options)
        self.recorded.append(Recorded(*key, inference))
        return inference

    def close(self) -> None:
        self._device.close()


@contextmanager
def opened(
    descriptor: Descriptor, subject: RunSubject, timeouts: Timeouts | None = None
) -> Iterator[Device]:
    device = _open(descriptor, subject, timeouts)
    try:
        yield device
    finally:
        device.close()


def _open(descriptor: Descriptor, subject: RunSubject, timeouts: Timeouts | None) -> Device:
    match descriptor.kind:
        case DescriptorKind.LOG:
            return LogDevice.open(descriptor.path)
        case DescriptorKind.SERIAL | DescriptorKind.SOCKET:
            return RemoteBoard.connect(descriptor, timeouts)
    if subject.program is None or subject.machine is None:
        name = descriptor.kind.value
        raise UsageError(f"the {name} device needs a network", hint="give a model or a program")
    if descriptor.kind is DescriptorKind.EMULATED:
        return _emulated(subject.program, subject.machine)
    return SimulatedBoard(subject.program, subject.machine, blob_fetch=True)


def _emulated(program: Program, machine: Machine) -> Device:
    """The program packaged for the board's processor, loaded and served by its firmware."""
    from npuscope.boards.emulated.boot import Placed, load
    from npuscope.boards.emulated.firmware import CPU
    from npuscope.loadable.build import package_program
    from npuscope.loadable.codes import PackageOptions

    package = package_program(program, machine, PackageOptions(cpu=CPU))
    image = next(iter(package.files.values()))
    dialect = dialect_of(program.generation).number
    loaded = load([Placed(image)], program.generation, machine.clocks, dialect=dialect)
    loaded.require_all()
    return loaded.board


def measure(
    device: Device,
    subject: RunSubject,
    *,
    network: str = "",
    batch: int | None = None,
    vendor_plan: bool = False,
) -> Measurement:
    """Counters of `batch` samples per pass (a log: as many as it holds)."""
    recorder = _Recorder(device)
    described = _chosen(device.info(), network)
    notes = list(_link_notes(device)) + list(
        clock_warnings(subject.program, device.info().clocks) if subject.program else ()
    )
    if isinstance(device, LogDevice):
        plan, order = recorded_plan(device, described.name)
        inputs, batch = None, min(batch or order, order)
    else:
        plan = counter_plan(program=subject.program, vendor_plan=vendor_plan)
        inputs, batch = random_inputs(described), batch or 1
        notes += _output_notes(device, described, subject, inputs)
        # With inputs of its own the simulated board also times what cannot be executed.
        inputs = None if isinstance(device, SimulatedBoard) else inputs
    subject_parts = (subject.program, subject.machine, subject.graph)
    collected = collect(recorder, described.name, plan, inputs, batch, *subject_parts)
    said = device.said if isinstance(device, LogDevice) else {}
    part = replace(device_part(device.info(), described), passes=plan.text(batch))
    profile = with_compiler(collected, said)
    if isinstance(device, LogDevice):
        part = replace(part, banner=device.banner, created=device.created, session=device.session)
        profile = with_totals(profile, device.totals)
    profile = replace(profile, notes=(*collected.notes, *notes), device=part)
    if subject.program is not None:
        profile = _with_bit_streams(profile, subject.program)
    results = tuple(recorder.recorded)
    return Measurement(profile, device.info(), described, results, subject.program, subject, said)


def _with_bit_streams(profile: Profile, program: Program) -> Profile:
    """What the epoch controller has to fetch for each block that it runs."""
    blocks = (block for block in epoch_blocks(program) if block.blob is not None)
    sizes = {(b.number, b.last_number): with_blob_size(b, program).blob_bytes for b in blocks}
    if not sizes:
        return profile
    epochs = (replace(e, blob_bytes=sizes.get((e.first, e.last), 0)) for e in profile.epochs)
    return replace(profile, epochs=tuple(epochs))


def _chosen(info: DeviceInfo, name: str) -> NetworkDesc:
    """The network of that name; without a name the only one."""
    names = ", ".join(safe_terminal(network.name) for network in info.networks) or "none"
    fitting = [network for network in info.networks if network.name == name or not name]
    if not fitting:
        what = f"network '{name}'" if name else "network"
        raise DeviceError(f"no {what} on the device", where="--name", hint=f"found: {names}")
    if len(fitting) > 1:
        raise UsageError("the device has several networks", where="--name", hint=f"one of {names}")
    return fitting[0]


def recorded_plan(device: LogDevice, network: str) -> tuple[CounterPlan, int]:
    """The passes of a log in their order, and how many samples all of them have."""
    rows = [r for r in device.recorded if r.per_layer and r.network in (network, "")]
    samples = Counter(row.options for row in rows)
    if not samples:
        raise DeviceError("the log has no per-layer inference", where=device.where)
    return CounterPlan(tuple(CounterPass(o, "as recorded") for o in samples)), min(samples.values())


# --- Inputs and outputs ---


def random_inputs(network: NetworkDesc) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(_SEED)
    return tuple(random_values(random, np.dtype(t.dtype), t.shape) for t in network.inputs)


def _output_notes(
    device: Device, network: NetworkDesc, subject: RunSubject, inputs: tuple[np.ndarray, ...]
) -> Iterator[str]:
    """One inference's outputs against the reference executor's."""
    graph = subject.graph
    if graph is None:
        return
    tensors = [graph.tensor(name) for name in graph.inputs]
    if [(t.shape, t.dtype.numpy) for t in tensors] != [(a.shape, a.dtype) for a in inputs]:
        yield "outputs not compared: the inputs of model and device differ"
        return
    request = Request(network.name, inputs, per_layer=False, options=NOTHING)
    try:
        outputs = device.run(request).outputs
    except TargetError as error:
        yield f"outputs not compared: {error.message}"
        return
    expected = run_reference(graph, dict(zip(graph.inputs, inputs, strict=True)))
    for name, output in zip(graph.outputs, outputs, strict=True):
        tally = AgreementTally(output_step(graph, name, expected[name]))
        tally.add(output, expected[name].reshape(output.shape))
        agreement = tally.agreement(name)
        yield (
            f"output {name} against the reference: {agreement.exact_share:.1%} equal, "
            f"{agreement.within_1_lsb_share:.1%} within 1 LSB, cosine {agreement.cosine:.4f}"
        )


def simulated_part(program: Program, machine: Machine, batch: int = 1) -> DevicePart:
    """What the simulated board says of itself, without running anything on it."""
    described = network_desc(program, len(epoch_blocks(program)))
    part = device_part(simulated_info(machine, (described,)), described)
    return replace(part, passes=counter_plan(program=program).text(batch))


def device_part(info: DeviceInfo, network: NetworkDesc) -> DevicePart:
    return DevicePart(
        network.name,
        network.nodes,
        network.activations_bytes,
        network.compiled,
        info.protocol,
        network.tools,
        network.runtime,
        info.capabilities,
        info.description,
        info.attributes,
    )


def _link_notes(device: Device) -> Iterator[str]:
    if isinstance(device, LogDevice):
        yield from device.notes
    if isinstance(device, RemoteBoard) and not device.info().link_checked:
        yield "link not checked: the board offers no checksum of its memory"
