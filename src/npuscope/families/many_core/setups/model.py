"""The time of a set-up from the work of its network: engines, DDR, exchange, host.

A few sums over the ops, so that thousands of set-ups take a second. The simulator shows what
happens op by op; this is what was fitted to published runs, and it says how far off it may be.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.setups.work import Column, NetworkWork
from npuscope.shown import counted, significant

MODEL_ERROR = "the range holds 80 % of published runs of other networks"


_LEAST_MS = 5e-4  # of a part that is worth a word


class SetupLimit(StrEnum):
    """What a set-up waits for most."""

    HMX = "HMX"
    HVX = "HVX"
    DDR = "DDR"
    EXCHANGE = "exchange"
    SYNC = "synchronisation"
    HOST = "host"
    LINK = "PCIe"


class CardSetup(Struct, frozen=True, order=True):
    """`copies` of a network, each on its own cores, with so many inferences in flight."""

    cores: int
    copies: int = 1
    batch: int = 1
    in_flight: int = 1
    depth_first: bool = True
    mxfp6: bool = False  # weights of products in blocks of 6-bit floats
    devices: int = 1  # that share each copy, with so many cores and a DDR each

    @property
    def all_cores(self) -> int:
        """Of one copy."""
        return self.cores * self.devices

    def __str__(self) -> str:
        cores = counted(self.cores, "core")
        return f"{self.copies} x {cores}, batch {self.batch}, {self.in_flight} in flight"


class SetupPrediction(Struct, frozen=True):
    """Milliseconds of one run of one copy, by what they are spent on, and what follows."""

    setup: CardSetup
    parts_ms: dict[SetupLimit, float]
    device_ms: float
    host_ms: float
    period_ms: float  # from one run of a copy to its next
    ddr_bytes: float  # of one run of one copy
    macs: float
    interval: tuple[float, float]  # of the time, as factors
    watts: float | None = None  # of the card, where they were published for the machine

    @property
    def inferences_per_s(self) -> float:
        return 1e3 * self.setup.copies * self.setup.batch / self.period_ms

    @property
    def latency_ms(self) -> float:
        return self.setup.in_flight * self.period_ms

    @property
    def limit(self) -> SetupLimit:
        return max(self.parts_ms, key=self.parts_ms.__getitem__)

    @property
    def limit_words(self) -> str:
        """The limit, and what all parts take."""
        parts = (f"{limit} {significant(ms, 4)} ms" for limit, ms in self.parts_ms.items()
                 if ms >= _LEAST_MS)  # fmt: skip
        return f"{self.limit}: {', '.join(parts)}"

    @property
    def ddr_gb_per_s(self) -> float:
        return self.setup.copies * self.ddr_bytes / self.period_ms / 1e6

    @property
    def inferences_per_j(self) -> float | None:
        return None if self.watts is None else self.inferences_per_s / self.watts


class SetupWork(Struct, frozen=True):
    """The work of a run of one copy, without what the rates of the machine make of it."""

    products: float  # cycles of HMX's peak, of the core with most blocks
    stored_kb: float  # of sums, on that core
    vectors: float  # cycles of HVX, of the core with most of them
    unpacked_kb: float  # of weights in blocks, per core
    loaded: float  # bytes of weights and states from DDR
    spilled: float  # bytes of activations that leave VTCM and come back
    tiles: float  # of a core, at least one per op
    ops: int
    gathers: int  # ops that need what other cores have made
    crossing: float  # bytes of pictures between cores
    mixed: float  # bytes of channels that change their blocks, of other cores
    macs: float
    input_bytes: float
    output_bytes: float
    convolves: bool


def predict(work: NetworkWork, machine: CoreMachine, setup: CardSetup) -> SetupPrediction:
    return timed(setup_work(work, machine, setup), machine, setup)


def setup_work(work: NetworkWork, machine: CoreMachine, setup: CardSetup) -> SetupWork:
    products, stored_kb = _product_work(work, machine, setup)
    loaded, spilled = _ddr_bytes(work, machine, setup)
    tiles: Column = work.writes * setup.batch / setup.all_cores / machine.memory.tile_bytes
    scaled = work.pictures & (work.products | (work.weights > 0))
    return SetupWork(
        products,
        stored_kb,
        _vector_cycles(work, setup),
        float(work.weights[work.packed].sum()) / 1024 / setup.all_cores if setup.mxfp6 else 0.0,
        loaded,
        spilled,
        float(np.maximum(tiles, 1).sum()),
        len(tiles),
        int(work.gathers.sum()),
        float(setup.batch * work.reads[scaled].sum()) * (setup.all_cores > 1),
        float(setup.batch * work.reads[work.mixes].sum()) * (1 - 1 / setup.all_cores),
        float(work.macs * setup.batch),
        work.input_bytes * setup.batch,
        work.output_bytes * setup.batch,
        work.convolves,
    )


def timed(work: SetupWork, machine: CoreMachine, setup: CardSetup) -> SetupPrediction:
    costs, host, copies = machine.setups, machine.host, setup.copies
    hz, cores = machine.core_hz, setup.all_cores
    hmx = (costs.product_share * work.products + costs.store_cycles_per_kb * work.stored_kb) / hz
    hvx = (work.vectors + costs.mxfp6_cycles_per_kb * work.unpacked_kb) / hz
    shared = setup.devices * machine.ddr.effective_gb_per_s * 1e9 / copies
    ddr = work.loaded / min(shared, cores * machine.load_bytes_per_s())
    spill = costs.spill_share * work.spilled / shared
    # Of what an op reads a core has made 1 / cores; it waits for the rest.
    joins = costs.join_cycles * (cores > 1) * work.ops
    gathers = costs.gather_cycles * (1 - 1 / cores) * work.gathers
    sync = (costs.tile_cycles * work.tiles + joins + gathers) / hz
    crossing = costs.exchange_share * work.crossing + costs.mix_share * work.mixed
    exchange = crossing / (machine.noc.gb_per_s * 1e9)
    # Engines overlap in part: the larger the exponent is, the more. Loads run ahead of both.
    overlap = costs.mxfp6_overlap if setup.mxfp6 else costs.overlap
    ahead = costs.mxfp6_overlap if setup.mxfp6 else costs.load_overlap
    engines = (hmx**overlap + hvx**overlap) ** (1 / overlap)
    together = (engines**ahead + ddr**ahead) ** (1 / ahead)
    device = together + sync + spill + exchange

    input_gb, output_gb = work.input_bytes / 1e9, work.output_bytes / 1e9
    links = (input_gb / host.gb_per_s, output_gb / host.output_gb_per_s)
    # With one inference in flight the copies move their bytes at about the same time.
    crowd = 1 + host.crowding * (copies - 1) if setup.in_flight == 1 else 1.0
    own = host.fixed_us / 1e6 + crowd * sum(links) + (input_gb + output_gb) / host.copy_gb_per_s
    # One in flight: device and host take turns. More: the slower of them is waited for.
    bounds = [(device + own) / setup.in_flight, *(copies * link for link in links)]
    bounds += [device] * (setup.in_flight > 1)
    period = sum(bound**costs.sharpness for bound in bounds) ** (1 / costs.sharpness)
    parts = {
        SetupLimit.HMX: hmx,
        SetupLimit.HVX: hvx,
        SetupLimit.DDR: ddr + spill,
        SetupLimit.EXCHANGE: exchange,
        SetupLimit.SYNC: sync,
        SetupLimit.HOST: own / setup.in_flight,
        SetupLimit.LINK: copies * max(links),
    }
    low, high = costs.convolving_interval if work.convolves else costs.interval
    watts, runs = None, copies / period
    if machine.power is not None:
        watts = machine.power.idle_w + runs / 1e9 * (
            1e9 * cores * (machine.power.w_per_hmx * hmx + machine.power.w_per_hvx * hvx)
            + machine.power.w_per_ddr_gb * (work.loaded + work.spilled)
            + machine.power.w_per_link_gb * (input_gb + output_gb) * 1e9
        )
    return SetupPrediction(
        setup,
        {limit: 1e3 * seconds for limit, seconds in parts.items()},
        1e3 * device,
        1e3 * own,
        1e3 * period,
        work.loaded + work.spilled,
        work.macs,
        (low, high),
        watts,
    )


def _product_work(work: NetworkWork, machine: CoreMachine, setup: CardSetup) -> tuple[float, float]:
    """Of the core with most blocks: cycles of whole blocks, and KB of their sums."""
    hmx, batch = machine.hmx, setup.batch
    shared = work.groups == 1
    rows = np.ceil(work.rows * np.where(shared, batch, 1) / hmx.least_rows)
    groups = np.where(shared, 1, work.groups * batch)
    # Along the channels, or along rows and groups: what leaves the busiest core least.
    channels = np.ceil(work.channels / 32)
    blocks = np.minimum(
        np.ceil(channels / setup.all_cores) * rows * groups,
        np.ceil(rows * groups / setup.all_cores) * channels,
    )
    values = (blocks * hmx.least_rows * 32)[work.products]
    cycles = np.ceil(work.depth / 32) * 32 / work.macs_per_cycle
    return float(values @ cycles[work.products]), float(values.sum()) * 2 / 1024


def _vector_cycles(work: NetworkWork, setup: CardSetup) -> float:
    """Of the core with most work; the cores share channels or rows, as products do."""
    channels, lanes, cores = work.blocks, np.maximum(work.lanes * setup.batch, 1), setup.all_cores
    share = np.minimum(np.ceil(channels / cores) / channels, np.ceil(lanes / cores) / lanes)
    return float((work.cycles * setup.batch * share).sum())


def _ddr_bytes(work: NetworkWork, machine: CoreMachine, setup: CardSetup) -> tuple[float, float]:
    """Weights and states that every run loads, and activations that leave VTCM and come back."""
    costs, batch = machine.setups, setup.batch
    stored = np.where(work.packed, costs.mxfp6_ratio, 1.0) if setup.mxfp6 else 1.0
    weights = work.weights * stored
    activations = work.reads + work.writes
    per_core = activations / setup.all_cores
    room = costs.room_depth_first_bytes if setup.depth_first else costs.room_bytes
    outside = work.pictures & (per_core > room)
    spilled = float(activations[outside].sum() * batch)
    # A batch that does not fit, with all that waits for later ops, goes through in parts: weights
    # come again, or activations leave.
    held = work.held / setup.all_cores
    tight = ~outside & (held * batch > costs.room_bytes)
    rounds = np.ceil(held * batch / costs.room_bytes) - 1
    again = np.minimum(weights * rounds, activations * batch)[tight].sum()
    stay = weights_stay(work, machine, setup)
    states = work.state_bytes * batch
    return float((0.0 if stay else weights.sum()) + again) + states, spilled


def weights_stay(work: NetworkWork, machine: CoreMachine, setup: CardSetup) -> bool:
    """Whether the cores keep their weights in VTCM from run to run."""
    stored = np.where(work.packed, machine.setups.mxfp6_ratio, 1.0) if setup.mxfp6 else 1.0
    held = float((work.weights * stored).sum()) / setup.all_cores
    return held <= machine.setups.resident_bytes
