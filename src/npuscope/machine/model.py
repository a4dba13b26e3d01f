"""Machine: the hardware as data. Silicon (units, memories, clocks, costs) apart from the
compiler Generation (habits, number rules, control cost). All values come from TOML. A field is
Timed or Mapped by who reads it; one without a mark cannot be set by a user."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuscope.machine.marks import Mapped, Timed


@dataclass(frozen=True, slots=True)
class TileLimit:
    """Most parallel kernels and most channels of one convolution tile."""

    kernels: Mapped[int]
    depth: Mapped[int]
    weights: Mapped[int] = 0


@dataclass(frozen=True, slots=True)
class ConvaccLimits:
    max_kernel_width: Mapped[int]
    max_kernel_width_strided: Mapped[int]
    max_kernel_height: Mapped[int]
    max_padding: Mapped[int]
    max_stride: Mapped[int]
    line_buffer_elements: Mapped[int]
    max_pipe: Mapped[int]
    min_deep_channels: Mapped[int]
    tiles: dict[str, TileLimit]


@dataclass(frozen=True, slots=True)
class PoolLimits:
    max_window: Mapped[int]
    max_stride: Mapped[int]
    max_padding: Mapped[int]
    line_buffer_elements: Mapped[int]
    max_fused_channels: Mapped[int]


@dataclass(frozen=True, slots=True)
class ArithLimits:
    max_vector: Mapped[int]


@dataclass(frozen=True, slots=True)
class StreamLimits:
    engines_per_busif: Timed[int]
    busif_bytes: Timed[int]
    burst_beats: Mapped[tuple[int, ...]]
    link_bits: Mapped[int]
    feature_buffer_bytes: Mapped[int]

    def busif(self, engine: int) -> int:
        return engine // self.engines_per_busif


@dataclass(frozen=True, slots=True)
class Clocks:
    mcu_mhz: Timed[float]
    npu_mhz: Timed[float]
    noc_mhz: Timed[float]
    nic_mhz: Timed[float]
    xspi_mhz: Timed[float]


@dataclass(frozen=True, slots=True)
class Path:
    clock: Timed[str]
    bytes_per_cycle: Timed[float]
    access: Timed[float]  # NPU cycles of one short access in a stream


@dataclass(frozen=True, slots=True)
class Cache:
    size_bytes: Timed[int]
    line_bytes: Timed[int]
    ways: Timed[int]
    path: Timed[str]


@dataclass(frozen=True, slots=True)
class MemoryPool:
    name: Mapped[str]
    file: Mapped[str]
    address: Mapped[int]
    size_bytes: Mapped[int]
    byte_width: Mapped[int]
    freq_ratio: Mapped[float]
    path: Timed[str]
    score: Mapped[int]
    read_power_mw: Timed[float] = 0.0
    write_power_mw: Timed[float] = 0.0
    writable: Mapped[bool] = True
    cacheable: Mapped[bool] = False
    constants_preferred: Mapped[bool] = False
    relative: Mapped[bool] = False  # an image that is loaded at run time gets its address then


@dataclass(frozen=True, slots=True)
class Placement:
    bank_order: Mapped[tuple[str, ...]]
    virtual_pool: Mapped[tuple[str, ...]]
    virtual_byte_width: Mapped[int]
    virtual_freq_ratio: Mapped[float]
    virtual_score: Mapped[int]
    alignment_bytes: Mapped[int]


@dataclass(frozen=True, slots=True)
class Timing:
    """Constants of the silicon's timing law, NPU cycles."""

    epoch_start_cycles: Timed[float]
    move_start_cycles: Timed[float]
    flush_lines: Timed[float]
    flush_strided_cycles: Timed[float]
    strided_read_cycles: Timed[float]
    strided_write_cycles: Timed[float]
    pair_cycles: Timed[float]
    accumulation_turn_cycles: Timed[float]
    overlap_weights: Timed[int]
    vector_cycles: Timed[float]
    second_vector_cycles: Timed[float]
    vector_frame_cycles: Timed[float]
    broadcast_cycles: Timed[float]
    elementwise_cycles: Timed[float]
    external_read_cycles: Timed[float]
    external_write_cycles: Timed[float]


@dataclass(frozen=True, slots=True)
class SoftwareCost:
    """MCU cycles of a kernel: fixed + per_element * elements."""

    fixed: Timed[float]
    per_element: Timed[float]

    def cycles(self, elements: int) -> float:
        return self.fixed + self.per_element * elements


@dataclass(frozen=True, slots=True)
class SoftwarePhases:
    pre_cycles: Timed[float]
    core_cycles: Timed[float]


@dataclass(frozen=True, slots=True)
class Control:
    """What starting and ending an epoch costs: MCU cycles, or NPU cycles in the controller."""

    pre_fixed: Timed[float]
    pre_per_unit: Timed[float]
    pre_per_engine: Timed[float]
    pre_per_entry: Timed[float]
    post_fixed: Timed[float]
    post_per_unit: Timed[float]
    post_per_engine: Timed[float]
    controller_cycles: Timed[float]
    controller_pre_cycles: Timed[float]
    controller_post_cycles: Timed[float]


@dataclass(frozen=True, slots=True)
class Generation:
    """How the compilers of one time lower a network, and what control costs with them."""

    name: str
    title: Timed[str]
    default_optimization: Mapped[int]
    requantize: Mapped[str]
    deep_on_tie: Mapped[bool]
    shrink_tile_for_pool: Mapped[bool]
    joins_padded_pools: Mapped[bool]
    depthwise: Mapped[str]
    depthwise_odd_copy: Mapped[bool]
    depthwise_joins: Mapped[bool]
    software_columns: Mapped[bool]
    free_uint8_input: Mapped[bool]
    counts_accesses: Mapped[bool]
    saturation_safe_shift: Mapped[bool]
    per_channel_both_stages: Mapped[bool]
    quantize_across_reshape: Mapped[bool]
    prime_outputs_limit: Mapped[int]
    splits_odd_channels: Mapped[bool]
    hybrid_moves: Mapped[bool]
    cuts_reconvergence: Mapped[bool]
    vector_product_cycles: Timed[float]
    absorbs_qdq_pads: Mapped[bool]
    control: Control
    # What the front end reads of ONNX; 0 where no limit is known. Lint alone asks.
    newest_opset: Timed[int] = 0
    newest_ir_version: Timed[int] = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """One device with the compiler generation that programs it."""

    name: str
    description: str
    units: Mapped[dict[str, int]]
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

    @property
    def longest_pipe(self) -> int:
        """Convolution units that may stand in series."""
        return min(self.convacc.max_pipe, self.units["CONVACC"])

    def cycles_per_byte(self, path: str) -> float:
        """NPU cycles that one byte takes on a road at its peak."""
        road = self.paths[path]
        clock_mhz: float = getattr(self.clocks, road.clock)
        return self.clocks.npu_mhz / (clock_mhz * road.bytes_per_cycle)

    def software_cost(self, kernel: str) -> SoftwareCost:
        return self.software.get(kernel, self.software["default"])

    def with_pools(self, pools: tuple[MemoryPool, ...]) -> Machine:
        return replace(self, pools=pools)
