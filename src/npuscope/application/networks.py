"""Each network compiled, and the ways to place it: how much RAM where, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npuscope.application.memory import ALIGN
from npuscope.application.request import Application, Home, Kind, NetworkUse, WeightsHome
from npuscope.building import Build, Options, build
from npuscope.compiler.place import place
from npuscope.errors import FileError, NpuscopeError, TargetError
from npuscope.machine.model import Machine
from npuscope.machine.mpool import as_reached, with_these_pools
from npuscope.profiling.model import Profile
from npuscope.profiling.run import estimate
from npuscope.program.claims import with_claims
from npuscope.program.ec_blob.instructions import encode
from npuscope.program.ec_blob.lower import lower
from npuscope.program.model import EpochKind, Program
from npuscope.structs import replace

# Parts of the RAM that it would like, offered to a network where not all of it may be free.
_SHARES = (1.0, 0.75, 0.5, 0.25)
_WEIGHT_SHARES = (1.0, 0.5, 0.25)
_WORTH = 0.01  # weights on chip that save less than this share of the time stay in flash
_WORD_BYTES = 8
_NAMES = {Kind.NPU: "npuRAM", Kind.CPU: "cpuRAM", Kind.PSRAM: "hyperRAM"}
WEIGHTS = "weightsRAM"
FLASH = "octoFlash"


class Grant(Struct, frozen=True):
    """Bytes of RAM by kind, and of RAM for weights; where they lie is decided later."""

    npu: int = 0
    cpu: int = 0
    psram: int = 0
    weights: int = 0
    weights_kind: Kind = Kind.NPU

    def of(self, kind: Kind) -> int:
        return {Kind.NPU: self.npu, Kind.CPU: self.cpu, Kind.PSRAM: self.psram}[kind]


class Variant(Struct, frozen=True):
    """A network in a grant of memory, with its time there."""

    grant: Grant
    profile: Profile

    @property
    def ms(self) -> float:
        return self.profile.total_ms


class PlannedNetwork(Struct, frozen=True):
    """A network as it was compiled alone."""

    use: NetworkUse
    build: Build
    blobs_bytes: int
    input_bytes: int
    output_bytes: int
    variants: tuple[Variant, ...]
    is_fixed: bool = False  # a build of others: its addresses stay as they are

    @property
    def weights_bytes(self) -> int:
        return flash_bytes(self.build.program)


def compiled(application: Application, use: NetworkUse) -> Build:
    options: Options = {"board": application.board}
    if application.generation:
        options["generation"] = application.generation
    if use.input_data_type:
        options["input_data_type"] = use.input_data_type
    if use.output_data_type:
        options["output_data_type"] = use.output_data_type
    source = application.folder / (use.model or use.build)
    try:
        return build(source, options)
    except NpuscopeError as error:
        if isinstance(error, TargetError):
            # What does not fit the board alone is compiled for one with external RAM, to say by
            # how much it is too large.
            options.pop("board")
            return build(source, options)
        index = application.networks.index(use)
        key = "model" if use.model else "build"
        place_of = error.where or str(source)
        raise FileError(
            f"networks[{index}].{key}: {error.message}", where=place_of, hint=error.hint
        ) from None


def planned(
    application: Application, use: NetworkUse, room: Grant, base: Machine
) -> PlannedNetwork:
    """`room` is the largest range of each kind that the board has beside the application."""
    whole = compiled(application, use)
    program = whole.program
    buffers = program.buffer_map()
    inputs = sum(buffers[name].size_bytes for name in program.inputs if name in buffers)
    answers = sum(buffers[name].size_bytes for name in program.outputs if name in buffers)
    is_fixed = bool(use.build) and program.source != "npuscope"
    machine = replace(base, generation=whole.machine.generation)
    whole = replace(whole, machine=machine)
    variants = tuple(_variants(use, whole, room)) if not is_fixed else (
        Variant(Grant(), estimate(program, machine, whole.graph)),)  # fmt: skip
    return PlannedNetwork(use, whole, blob_bytes(program), inputs, answers, variants, is_fixed)


def blob_bytes(program: Program) -> int:
    """Bytes of the controller's programs, which lie in the application's image."""
    blobs = sorted({epoch.blob for epoch in program.epochs if epoch.blob is not None})
    if not program.epoch_controller or not all(
        epoch.groups is not None for epoch in program.epochs if epoch.kind is EpochKind.HW
    ):
        return 0
    try:
        return sum(_WORD_BYTES * -(-len(encode(lower(program, blob))) // 2) for blob in blobs)
    except TargetError:  # weights of 4 bits have no registers
        return 0


def flash_bytes(program: Program) -> int:
    return next((p.used_bytes for p in program.pools if p.name == FLASH), 0)


def external_names(use: NetworkUse, program: Program) -> dict[str, str]:
    """Buffers that the application gives, with names for their pools."""
    names = program.inputs if use.inputs is Home.APPLICATION else ()
    names += program.outputs if use.outputs is Home.APPLICATION else ()
    return {name: f"given_{index}" for index, name in enumerate(dict.fromkeys(names))}


def _variants(use: NetworkUse, whole: Build, room: Grant) -> Iterator[Variant]:
    """Smaller and smaller RAM on chip, each without and with weights beside the activations."""
    grants: set[Grant] = set()
    for share in _SHARES:
        banks = int(room.npu * share)
        for limit in (Grant(banks, 0, room.psram), Grant(banks, room.cpu, room.psram)):
            program = placed(use, whole, limit)
            if program is None:
                continue
            # What placement uses of each kind, not all that it was offered.
            used = {pool.name: pool.used_bytes for pool in program.pools}
            npu, cpu, psram = (_window(used.get(name, 0)) for name in _NAMES.values())
            base = Grant(npu, cpu, psram)
            if base not in grants:
                grants.add(base)
                yield from _with_weights(use, whole, room, base)


def _window(used: int) -> int:
    """A buffer may not end where its pool does."""
    return (used // ALIGN + 1) * ALIGN if used else 0


def _with_weights(use: NetworkUse, whole: Build, room: Grant, base: Grant) -> Iterator[Variant]:
    plain = timed(use, whole, base)
    if plain is None:
        return
    yield plain
    if use.weights is WeightsHome.FLASH:
        return
    total = sum(b.size_bytes + 16 for b in whole.program.buffers if b.is_param and not b.view_of)
    for share in _WEIGHT_SHARES:
        size = _window(int(total * share))
        for kind in (Kind.NPU, Kind.CPU):
            if size > room.of(kind) - base.of(kind):
                continue
            faster = timed(use, whole, replace(base, weights=size, weights_kind=kind))
            if faster is not None and plain.ms - faster.ms >= _WORTH * plain.ms:
                yield faster


def timed(use: NetworkUse, whole: Build, grant: Grant) -> Variant | None:
    machine = machine_with(whole.machine, grant)
    program = placed(use, whole, grant)
    if program is None:
        return None
    return Variant(grant, estimate(with_claims(program, machine), machine, whole.graph))


def placed(use: NetworkUse, whole: Build, grant: Grant) -> Program | None:
    """The program in this memory; None where it does not fit."""
    machine = machine_with(whole.machine, grant)
    try:
        return place(whole.program, machine, external_names(use, whole.program))
    except TargetError:
        return None


class Windows(Struct, frozen=True):
    """Where the parts of a grant lie; proposals until they are placed."""

    npu: int = 0x34200000
    cpu: int = 0x34100000
    psram: int = 0x90000000
    weights: int = 0x34300000
    flash: int = 0x71000000
    flash_bytes: int = 0


def machine_with(machine: Machine, grant: Grant, windows: Windows | None = None) -> Machine:
    """The machine with the granted memory as its pools, and no pool over several of them."""
    at = windows or Windows()
    like_npu = next(pool for pool in machine.pools if pool.path == "nic")
    like_cpu = next(pool for pool in machine.pools if pool.name == "cpuRAM2")
    flash = machine.memory(FLASH)
    psram = machine.memory("hyperRAM")
    if windows is None:  # weights stand behind the activations, in the same kind of RAM
        weights_at = (
            at.npu + grant.npu if grant.weights_kind is Kind.NPU else at.cpu - grant.weights
        )
        at = replace(at, weights=weights_at)
    like_weights = like_npu if grant.weights_kind is Kind.NPU else like_cpu
    # Weights that are copied to RAM when the board starts: no activation may lie among them.
    fixed = replace(like_weights, name=WEIGHTS, writable=False, constants_preferred=True)
    rows = (
        (replace(like_npu, name=_NAMES[Kind.NPU]), at.npu, grant.npu),
        (replace(like_cpu, name=_NAMES[Kind.CPU]), at.cpu, grant.cpu),
        (psram, at.psram, grant.psram),
        (fixed, at.weights, grant.weights),
        (flash, at.flash, at.flash_bytes or flash.size_bytes),
    )
    pools = tuple(
        as_reached(replace(pool, address=address, size_bytes=size,
            file=pool.file if pool.cacheable else pool.name), machine)
        for pool, address, size in rows if size
    )  # fmt: skip
    changed = with_these_pools(machine, pools)
    return replace(changed, placement=replace(changed.placement, virtual_pool=()))
