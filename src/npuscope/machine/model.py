"""Machine: the hardware as data. Silicon (units, memories, clocks, costs) apart from the
compiler Generation (habits, number rules, control cost). All values come from TOML."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class TileLimit:
    """Most parallel kernels and most channels of one convolution tile."""

    kernels: int
    depth: int
    weights: int = 0


@dataclass(frozen=True, slots=True)
class ConvaccLimits:
    max_kernel_width: int
    max_kernel_width_strided: int
    max_kernel_height: int
    max_padding: int
    max_stride: int
    line_buffer_elements: int
    max_pipe: int
    min_deep_channels: int
    tiles: dict[str, TileLimit]


@dataclass(frozen=True, slots=True)
class PoolLimits:
    max_window: int
    max_stride: int
    max_padding: int
    line_buffer_elements: int
    max_fused_channels: int


@dataclass(frozen=True, slots=True)
class ArithLimits:
    max_vector: int


@dataclass(frozen=True, slots=True)
class StreamLimits:
    engines_per_busif: int
    busif_bytes: int
    burst_beats: tuple[int, ...]
    link_bits: int
    feature_buffer_bytes: int

    def busif(self, engine: int) -> int:
        return engine // self.engines_per_busif


@dataclass(frozen=True, slots=True)
class Clocks:
    mcu_mhz: float
    npu_mhz: float
    noc_mhz: float
    nic_mhz: float
    xspi_mhz: float


@dataclass(frozen=True, slots=True)
class Path:
    clock: str
    bytes_per_cycle: float
    access: float  # NPU cycles of one short access in a stream


@dataclass(frozen=True, slots=True)
class Cache:
    size_bytes: int
    line_bytes: int
    ways: int
    path: str


@dataclass(frozen=True, slots=True)
class MemoryPool:
    name: str
    file: str
    address: int
    size_bytes: int
    byte_width: int
    freq_ratio: float
    path: str
    score: int
    read_power_mw: float = 0.0
    write_power_mw: float = 0.0
    writable: bool = True
    cacheable: bool = False
    constants_preferred: bool = False
    relative: bool = False  # an image that is loaded at run time gets its address then


@dataclass(frozen=True, slots=True)
class Placement:
    bank_order: tuple[str, ...]
    virtual_pool: tuple[str, ...]
    virtual_byte_width: int
    virtual_freq_ratio: float
    virtual_score: int
    alignment_bytes: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Constants of the silicon's timing law, NPU cycles."""

    epoch_start_cycles: float
    move_start_cycles: float
    flush_lines: float
    flush_strided_cycles: float
    strided_read_cycles: float
    strided_write_cycles: float
    pair_cycles: float
    accumulation_turn_cycles: float
    overlap_weights: int
    vector_cycles: float
    second_vector_cycles: float
    vector_frame_cycles: float
    broadcast_cycles: float
    elementwise_cycles: float
    external_read_cycles: float
    external_write_cycles: float


@dataclass(frozen=True, slots=True)
class SoftwareCost:
    """MCU cycles of a kernel: fixed + per_element * elements."""

    fixed: float
    per_element: float

    def cycles(self, elements: int) -> float:
        return self.fixed + self.per_element * elements


@dataclass(frozen=True, slots=True)
class SoftwarePhases:
    pre_cycles: float
    core_cycles: float


@dataclass(frozen=True, slots=True)
class Control:
    """What starting and ending an epoch costs: MCU cycles, or NPU cycles in the controller."""

    pre_fixed: float
    pre_per_unit: float
    pre_per_engine: float
    pre_per_entry: float
    post_fixed: float
    post_per_unit: float
    post_per_engine: float
    controller_cycles: float
    controller_pre_cycles: float
    controller_post_cycles: float


@dataclass(frozen=True, slots=True)
class Generation:
    """How the compilers of one time lower a network, and what control costs with them."""

    name: str
    title: str
    default_optimization: int
    requantize: str
    deep_on_tie: bool
    shrink_tile_for_pool: bool
    joins_padded_pools: bool
    depthwise: str
    depthwise_odd_copy: bool
    depthwise_joins: bool
    software_columns: bool
    free_uint8_input: bool
    counts_accesses: bool
    saturation_safe_shift: bool
    per_channel_both_stages: bool
    quantize_across_reshape: bool
    prime_outputs_limit: int
    splits_odd_channels: bool
    hybrid_moves: bool
    cuts_reconvergence: bool
    vector_product_cycles: float
    absorbs_qdq_pads: bool
    control: Control


@dataclass(frozen=True, slots=True)
class Machine:
    """One device with the compiler generation that programs it."""

    name: str
    description: str
    units: dict[str, int]
    stream: StreamLimits
    convacc: ConvaccLimits
    arith: ArithLimits
    pool: PoolLimits
    clocks: Clocks
    paths: dict[str, Path]
    cache: Cache
    pools: tuple[MemoryPool, ...]
    placement: Placement
    timing: Timing
    software: dict[str, SoftwareCost]
    software_phases: SoftwarePhases
    generation: Generation
    epoch_controller: bool = True

    def memory(self, name: str) -> MemoryPool:
        return next(pool for pool in self.pools if pool.name == name)

    def cycles_per_byte(self, path: str) -> float:
        """NPU cycles that one byte takes on a road at its peak."""
        road = self.paths[path]
        clock_mhz: float = getattr(self.clocks, road.clock)
        return self.clocks.npu_mhz / (clock_mhz * road.bytes_per_cycle)

    def software_cost(self, kernel: str) -> SoftwareCost:
        return self.software.get(kernel, self.software["default"])

    def with_pools(self, pools: tuple[MemoryPool, ...]) -> Machine:
        return replace(self, pools=pools)
