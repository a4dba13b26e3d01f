"""Machine: the hardware as data. The silicon (units, memories, clocks, costs) is kept apart from
the compiler Generation (habits, number rules, control cost).

All values come from TOML. A field is marked Timed or Mapped by its readers; users cannot set a
field without a mark.
"""

from __future__ import annotations

import pathlib

from msgspec import Struct
from msgspec.structs import asdict

from npuscope.machine.marks import (
    Bytes,
    Count,
    Cycles,
    Elements,
    Mapped,
    Mhz,
    Milliwatts,
    Rate,
    Room,
    Score,
    Some,
    Timed,
)
from npuscope.shown import Rows, ShownRecord
from npuscope.structs import replace
from npuscope.whole_file import write_whole

# Internal memories and peripherals have two addresses: bit 28 is set in the secure one.
SCHEMA = "npuscope/machine/1"
_SECURE_BIT = 1 << 28
_ALIASED = (2, 4)  # by their upper four bits, in the non-secure alias


def secure_alias(address: int) -> int:
    """The address under which secure code reaches the same place."""
    return address | _SECURE_BIT if address >> 28 in _ALIASED else address


def non_secure_alias(address: int) -> int:
    lower = address & ~_SECURE_BIT
    return lower if lower >> 28 in _ALIASED else address


class TileLimit(Struct, frozen=True):
    """Maximum of parallel kernels and of channels in one convolution tile."""

    kernels: Mapped[Some]
    depth: Mapped[Some]
    weights: Mapped[Count] = 0


class ConvaccLimits(Struct, frozen=True):
    max_kernel_width: Mapped[Some]
    max_kernel_width_strided: Mapped[Some]
    max_kernel_height: Mapped[Some]
    max_padding: Mapped[Count]
    max_stride: Mapped[Some]
    line_buffer_elements: Mapped[Elements]
    max_pipe: Mapped[Some]
    max_passes: Mapped[Some]
    min_deep_channels: Mapped[Count]
    depthwise_channels: Mapped[Some]
    depthwise_weight_cycles: Mapped[Rate]
    tiny_frame_bytes: Mapped[Bytes]
    copied_from_tiles: Mapped[Count]
    tiles: dict[str, TileLimit]


class PoolLimits(Struct, frozen=True):
    max_window: Mapped[Some]
    max_stride: Mapped[Some]
    max_padding: Mapped[Count]
    line_buffer_elements: Mapped[Elements]
    max_fused_channels: Mapped[Some]


class ArithLimits(Struct, frozen=True):
    max_vector: Mapped[Some]


class StreamLimits(Struct, frozen=True):
    engines_per_busif: Timed[Some]
    busif_bytes: Timed[Some]
    burst_beats: Mapped[tuple[Some, ...]]
    link_bits: Mapped[Some]
    feature_buffer_bytes: Mapped[Room]

    def busif(self, engine: int) -> int:
        return engine // self.engines_per_busif


class Clocks(Struct, frozen=True):
    mcu_mhz: Timed[Mhz]
    npu_mhz: Timed[Mhz]
    noc_mhz: Timed[Mhz]
    nic_mhz: Timed[Mhz]
    xspi_mhz: Timed[Mhz]


class MemoryPath(Struct, frozen=True):
    clock: Timed[str]
    bytes_per_cycle: Timed[Rate]
    access: Timed[Cycles]  # clocks of one access to less than a word of the bus
    wait: Timed[Rate] = 1.0  # an access to external RAM, times that of the measured set-up


class Cache(Struct, frozen=True):
    size_bytes: Timed[Bytes]
    line_bytes: Timed[Some]
    ways: Timed[Some]
    path: Timed[str]


class CoreCaches(Struct, frozen=True):
    """The processor's own cache of code, before external memory."""

    size_bytes: Timed[Bytes]
    line_bytes: Timed[Some]
    lead_cycles: Timed[Some]  # of the memory's clock, before the first byte of a line


class MemoryPool(Struct, frozen=True):
    name: Mapped[str]
    file: Mapped[str]
    address: Mapped[Room]
    size_bytes: Mapped[Room]
    byte_width: Mapped[Some]
    freq_ratio: Mapped[Rate]
    path: Timed[str]
    score: Mapped[Score]
    read_power_mw: Timed[Milliwatts] = 0.0
    write_power_mw: Timed[Milliwatts] = 0.0
    writable: Mapped[bool] = True
    cacheable: Mapped[bool] = False
    constants_preferred: Mapped[bool] = False
    # An image that is loaded at run time gets its address at that point.
    relative: Mapped[bool] = False


class Placement(Struct, frozen=True):
    bank_order: Mapped[tuple[str, ...]]
    virtual_pool: Mapped[tuple[str, ...]]
    virtual_byte_width: Mapped[Some]
    alignment_bytes: Mapped[Some]
    access_bytes: Mapped[Some]
    call_bytes: Mapped[Some]


class Timing(Struct, frozen=True):
    """Constants of the silicon's timing law, NPU cycles where the name has no other unit."""

    epoch_start_cycles: Timed[Cycles]
    move_start_cycles: Timed[Cycles]
    flush_lines: Timed[Cycles]
    flush_strided_cycles: Timed[Cycles]
    strided_read_cycles: Timed[Cycles]
    strided_write_cycles: Timed[Cycles]
    pair_cycles: Timed[Cycles]
    accumulation_turn_cycles: Timed[Cycles]
    overlap_weights: Timed[Room]
    vector_cycles: Timed[Cycles]
    second_vector_cycles: Timed[Cycles]
    vector_frame_cycles: Timed[Cycles]
    broadcast_cycles: Timed[Cycles]
    product_cycles: Timed[Cycles]
    elementwise_cycles: Timed[Cycles]
    external_read_ns: Timed[Cycles]
    external_write_ns: Timed[Cycles]
    external_call_bytes: Timed[Some]
    side_share: Timed[Cycles] = 0.0
    apart_word_cycles: Timed[Cycles] = 1.0
    wide_word_cycles: Timed[Cycles] = 1.0
    crowded_flash: Timed[Cycles] = 1.0


class SoftwareCost(Struct, frozen=True):
    """MCU cycles of a kernel: fixed + per_element * elements + per_pixel * pixels."""

    fixed: Timed[Cycles]
    per_element: Timed[Cycles]
    per_pixel: Timed[Cycles] = 0.0  # positions of the output, whatever its channels

    def cycles(self, elements: int, pixels: int = 0) -> float:
        return self.fixed + self.per_element * elements + self.per_pixel * pixels


class SoftwarePhases(Struct, frozen=True):
    pre_cycles: Timed[Cycles]
    core_cycles: Timed[Cycles]


class SoftwareLimits(Struct, frozen=True):
    """Products of layers on the CPU, a MCU cycle."""

    int8_macs_per_cycle: Timed[Rate]
    depthwise_macs_per_cycle: Timed[Rate]
    float_macs_per_cycle: Timed[Rate]


class Stated(Struct, frozen=True):
    """What an epoch has that is known from a report alone: units, and what does not overlap."""

    engines: Timed[Cycles]
    engines_per_operator: Timed[Cycles]
    units_per_operator: Timed[Cycles]
    entries: Timed[Count]
    tail: Timed[Cycles]
    series_tail: Timed[Cycles]
    copy_cycles: Timed[Cycles]
    element_cycles: Timed[Cycles]
    access_bytes: Timed[Some]


class Control(Struct, frozen=True):
    """What starting and ending an epoch costs: MCU cycles, or NPU cycles in the controller."""

    pre_fixed: Timed[Cycles]
    pre_per_unit: Timed[Cycles]
    pre_per_engine: Timed[Cycles]
    pre_per_entry: Timed[Cycles]
    post_fixed: Timed[Cycles]
    post_per_unit: Timed[Cycles]
    post_per_engine: Timed[Cycles]
    controller_cycles: Timed[Cycles]
    controller_pre_cycles: Timed[Cycles]
    controller_post_cycles: Timed[Cycles]
    pre_per_table: Timed[Cycles] = 0.0


class Generation(Struct, frozen=True):
    """How the compilers of one generation lower a network, and what control costs with them."""

    name: str
    title: Timed[str]
    default_optimization: Mapped[Count]
    requantize: Mapped[str]
    deep_on_tie: Mapped[bool]
    shrink_tile_for_pool: Mapped[bool]
    joins_padded_pools: Mapped[bool]
    depthwise: Mapped[str]
    depthwise_odd_copy: Mapped[bool]
    depthwise_joins: Mapped[bool]
    inflated_depth_16x8: Mapped[Count]
    deep_from: Mapped[Count]
    deep_weight_words: Mapped[Count]
    group_channels: Mapped[Count]
    software_columns: Mapped[bool]
    free_uint8_input: Mapped[bool]
    counts_accesses: Mapped[bool]
    saturation_safe_shift: Mapped[bool]
    per_channel_both_stages: Mapped[bool]
    quantize_across_reshape: Mapped[bool]
    splits_odd_channels: Mapped[bool]
    minimum_in_float: Mapped[bool]
    rows_in_place: Mapped[bool]
    map_constants_streamed: Mapped[bool]
    short_chain_values: Mapped[Count]
    relu_in_table: Mapped[bool]
    adds_vectors: Mapped[bool]
    hybrid_moves: Mapped[bool]
    concat_in_place: Mapped[bool]
    rescaled_parts_apart: Mapped[bool]
    fewest_reads_first: Mapped[bool]
    virtual_pool_rank: Mapped[str]
    fuses_swish: Mapped[str]
    sub_per_reader: Mapped[bool]
    software_one_input: Mapped[bool]
    pads_by_transposes: Mapped[bool]
    prelu_by_sides: Mapped[bool]
    relu_on_unit: Mapped[bool]
    products_in_steps: Mapped[bool]
    shortcut_frames: Mapped[bool]
    cuts_reconvergence: Mapped[bool]
    cut_keeps_units: Mapped[bool]
    vector_in_frames: Mapped[bool]
    external_factor: Timed[Rate]
    control: Control
    # Limits of the vendor's ONNX front end; 0 where no limit is known. Only lint uses them.
    newest_opset: Timed[Count] = 0
    newest_ir_version: Timed[Count] = 0


class Machine(ShownRecord, frozen=True):
    """One device with the compiler generation that programs it."""

    name: str
    description: str
    units: Mapped[dict[str, Count]]
    stream: StreamLimits
    convacc: ConvaccLimits
    arith: ArithLimits
    pool: PoolLimits
    clocks: Clocks
    paths: dict[str, MemoryPath]
    cache: Cache
    pools: tuple[MemoryPool, ...]
    placement: Placement
    timing: Timing
    software: dict[str, SoftwareCost]
    software_phases: SoftwarePhases
    software_limits: SoftwareLimits
    stated: Stated
    generation: Generation
    epoch_controller: bool = True
    core_caches: CoreCaches | None = None
    peak_gops: Timed[Rate] = 0.0  # as its maker states it; 0 where nobody does
    assumed: tuple[str, ...] = ("flash", "psram")  # set-ups of a board that nobody stated
    chip: str = ""  # as its maker calls it
    board: str = ""  # that a user named

    def memory(self, name: str) -> MemoryPool:
        return next(pool for pool in self.pools if pool.name == name)

    @property
    def longest_pipe(self) -> int:
        """Convolution units that may stand in series."""
        return min(self.convacc.max_pipe, self.units["CONVACC"])

    def cycles_per_byte(self, path: str) -> float:
        """NPU cycles per byte on a memory path at its peak rate."""
        road = self.paths[path]
        clock_mhz: float = getattr(self.clocks, road.clock)
        return self.clocks.npu_mhz / (clock_mhz * road.bytes_per_cycle)

    def software_cost(self, kernel: str) -> SoftwareCost:
        return self.software.get(kernel, self.software["default"])

    @property
    def external_pools(self) -> tuple[MemoryPool, ...]:
        """Flash and RAM outside the chip, which are read through a cache."""
        return tuple(pool for pool in self.pools if pool.cacheable)

    def with_pools(self, pools: tuple[MemoryPool, ...]) -> Machine:
        return replace(self, pools=pools)

    def told(self) -> str:
        generation, clock = self.generation.name, self.clocks.npu_mhz
        return (
            f"{self.name}, generation {generation}, NPU at {clock:g} MHz, {len(self.pools)} pools"
        )

    def table(self) -> Rows:
        """One row per pool."""
        return [
            {"pool": pool.name, "address": f"{pool.address:#010x}", "size_bytes": pool.size_bytes}
            for pool in self.pools
        ]

    def save(self, path: str | pathlib.Path) -> None:
        """The whole machine as JSON; `npuscope.load` reads it again."""
        import orjson

        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        document = {"schema": SCHEMA, "machine": self}
        write_whole(path, orjson.dumps(document, default=asdict, option=options))
