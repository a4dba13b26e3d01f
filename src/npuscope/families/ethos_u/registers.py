"""The registers that commands set, and the jobs that find them so. A register holds until it is set
again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npuscope.errors import FileError
from npuscope.families.ethos_u.commands import U85, CommandForm
from npuscope.families.ethos_u.jobs import (
    ElementOperand,
    FeatureMap,
    Job,
    KernelWindow,
    MemorySpan,
    NpuActivation,
    NpuKernel,
    NpuRounding,
    NpuTransfer,
    NpuWait,
    ResizeSteps,
    Scale,
    Storage,
)
from npuscope.families.ethos_u.stream import CommandStream

_ROUNDING_U55 = {
    "DBL": NpuRounding.DOUBLE,
    "TRUNCATE": NpuRounding.TO_ZERO,
    "NATURAL": NpuRounding.NATURAL,
}


class Registers:
    """The NPU's registers, by the names of the commands that set them."""

    def __init__(self, stream: CommandStream) -> None:
        self.is_u85 = stream.encoding is U85
        self.forms = {
            form.name.removeprefix("NPU_SET_"): form
            for form in stream.encoding.forms
            if form.name.startswith("NPU_SET_")
        }
        self.payloads: dict[str, int] = {}

    def get(self, name: str, field: str = "value") -> int:
        form = self.forms.get(name)
        payload = self.payloads.get(name, 0)
        fields = form.fields if form else ()
        return next((one.get(payload) for one in fields if one.name == field), 0)

    def word(self, name: str, field: str) -> str:
        form = self.forms.get(name)
        for one in form.fields if form else ():
            if one.name == field:
                number = one.get(self.payloads.get(name, 0))
                if number >= len(one.values) or not one.values[number]:
                    raise FileError(f"{field} {number} has no meaning", where=name)
                return one.values[number]
        return ""

    def address(self, name: str) -> int:
        return self.get(name, "address") | self.get(name, "high") << 32

    def stride(self, name: str) -> int:
        """Feature maps may be read or written backwards."""
        value = self.address(name)
        return value - (1 << _ADDRESS_BITS) if value >> _ADDRESS_BITS - 1 else value


def jobs_of(stream: CommandStream) -> Iterator[Job]:
    """In the order of the stream, up to its STOP."""
    registers = Registers(stream)
    number = place = 0
    for command in stream.commands():
        here, place = place, place + 4 * command.words
        form = command.form
        if form is None:
            raise FileError(
                f"{command.name} is not a command of the {stream.encoding.name}",
                where=f"byte {here} of the commands",
            )
        if form.name.startswith("NPU_SET_"):
            registers.payloads[form.name.removeprefix("NPU_SET_")] = command.payload
            continue
        kind = form.name.removeprefix("NPU_OP_")
        if kind in ("CONV", "DEPTHWISE", "POOL", "ELEMENTWISE", "RESIZE"):
            yield _kernel(registers, (number, here), kind, form, command.payload)
            number += 1
        elif kind == "DMA_START":
            yield _transfer(registers, number, here)
            number += 1
        elif kind in ("DMA_WAIT", "KERNEL_WAIT"):
            yield NpuWait(kind.removesuffix("_WAIT"), command.get("count"), here)
        elif kind == "BRANCH":
            raise FileError("a stream with branches is not supported", where=form.name)
        elif kind == "STOP":
            return


# --- One job from the registers ---

_ADDRESS_BITS = 40
_STRIDE_MODES = {"D1": 0, "D2": 1, "D3": 2}
_MICRO_BLOCKS = {
    "U1X1": (1, 1),
    "U1X2": (1, 2),
    "U1X4": (1, 4),
    "U2X2": (2, 2),
    "U2X4": (2, 4),
    "U4X4": (4, 4),
}


def _feature_map(registers: Registers, name: str) -> FeatureMap:
    get, address, word = registers.get, registers.address, registers.word
    precision = f"{name}_PRECISION"
    sign = "i" if word(precision, "type") == "SIGNED" else "u"
    size = 1 << get(precision, "precision")
    storage = word(precision, "storage") or Storage.MEMORY
    bases = tuple(address(f"{name}_BASE{tile}") for tile in range(4))
    return FeatureMap(
        get(f"{name}_REGION", "region"),
        (bases[0], bases[1], bases[2], bases[3]),
        registers.stride(f"{name}_STRIDE_Y"),
        registers.stride(f"{name}_STRIDE_X"),
        registers.stride(f"{name}_STRIDE_C"),
        get(f"{name}_HEIGHT0_M1") + 1,
        get(f"{name}_HEIGHT1_M1") + 1,
        get(f"{name}_WIDTH0_M1") + 1,
        word(precision, "format") == "NHCWB16",
        f"{sign}{size}",
        get(f"{name}_ZERO_POINT", "zero_point"),
        Storage(storage),
    )


def _scale(registers: Registers, name: str, rounding: NpuRounding) -> Scale:
    get = registers.get
    if registers.is_u85:
        rounding = NpuRounding(registers.word(name, "round_mode"))
    return Scale(get(name, "scale"), get(name, "shift"), rounding, get(name, "double_shift"))


def _window(registers: Registers, kind: str) -> KernelWindow:
    get = registers.get
    stride, dilation = [], []
    for axis in "yx":
        if kind == "RESIZE":  # its window is all of its input
            stride.append(1)
            dilation.append(1)
            continue
        low = get("KERNEL_STRIDE", f"stride_{axis}_low")
        stride.append(1 + low + 2 * get("KERNEL_STRIDE", f"stride_{axis}_high"))
        dilation.append(1 + get("KERNEL_STRIDE", f"dilation_{axis}"))
    reach = get("KERNEL_HEIGHT_M1"), get("KERNEL_WIDTH_M1")
    return KernelWindow(
        (reach[0] // dilation[0] + 1, reach[1] // dilation[1] + 1),
        (stride[0], stride[1]),
        (dilation[0], dilation[1]),
        (
            get("IFM_PAD_TOP", "pad"),
            get("IFM_PAD_LEFT", "pad"),
            get("IFM_PAD_BOTTOM", "pad"),
            get("IFM_PAD_RIGHT", "pad"),
        ),
        registers.word("KERNEL_STRIDE", "weight_order") == "PART_KERNEL_FIRST",
    )


def _spans(registers: Registers, names: tuple[str, ...], region: str) -> tuple[MemorySpan, ...]:
    number = registers.get(region, "region")
    spans = (
        MemorySpan(number, registers.address(f"{name}_BASE"), registers.get(f"{name}_LENGTH"))
        for name in names
        if f"{name}_BASE" in registers.forms
    )
    return tuple(span for span in spans if span.length)


def _activation(registers: Registers, ofm: FeatureMap) -> NpuActivation:
    low = registers.get("ACTIVATION_MIN", "bound")
    high = registers.get("ACTIVATION_MAX", "bound")
    if not ofm.dtype.startswith("i"):
        low, high = low & 0xFFFF, high & 0xFFFF
    clip = registers.word("ACTIVATION", "clip_range")
    function = registers.word("ACTIVATION", "function")
    forced = {"FORCE_UINT8": "u1", "FORCE_INT8": "i1", "FORCE_INT16": "i2"}.get(clip, "")
    table = registers.get("ACTIVATION", "table")
    if function.startswith("TABLE_"):
        function, table = "TABLE", int(function[-1])
    return NpuActivation(function, low, high, clip != "NONE", table, forced)


def _operands(registers: Registers) -> tuple[ElementOperand, ElementOperand]:
    get = registers.get
    if not registers.is_u85:
        constant = get("IFM2_BROADCAST", "constant")
        scalar = get("IFM2_SCALAR", "scalar")
        if registers.word("IFM2_PRECISION", "type") == "UNSIGNED":
            scalar &= 0xFFFF
        axes = (get("IFM2_BROADCAST", axis) == 1 for axis in "hwc")
        h, w, c = axes
        return ElementOperand(), ElementOperand((h, w, c), scalar if constant else None)
    scalar = get("OP_SCALAR", "scalar")
    first, second = (get(f"{name}_BROADCAST", "broadcast") for name in ("IFM", "IFM2"))
    return _operand_u85(first, scalar), _operand_u85(second, scalar)


def _operand_u85(mode: int, scalar: int) -> ElementOperand:
    return ElementOperand(
        (bool(mode & 1), bool(mode & 2), bool(mode & 4)), scalar if mode & 8 else None
    )


def _mode(form: CommandForm, values: Mapping[str, Any]) -> str:
    """Which pooling, elementwise function or resize; empty for other commands."""
    mode = ""
    for field in form.fields:
        if field.name in ("pooling", "elementwise", "resize"):
            names, value = field.values, values[field.name]
            if value >= len(names) or not names[value]:
                raise FileError(f"{field.name} {value} has no meaning", where=form.name)
            mode = names[value]
    return mode


def _kernel(
    registers: Registers, place: tuple[int, int], kind: str, form: CommandForm, payload: int
) -> NpuKernel:
    get, word = registers.get, registers.word
    values: dict[str, Any] = form.values(payload)
    mode = _mode(form, values)
    ofm = _feature_map(registers, "OFM")
    ofm_rounding = ifm_rounding = NpuRounding.DOUBLE
    if not registers.is_u85:
        ofm_rounding = _ROUNDING_U55[word("OFM_PRECISION", "round_mode")]
        ifm_rounding = _ROUNDING_U55[word("IFM_PRECISION", "round_mode")]
    names = ("IFM_SCALE", "IFM2_SCALE") if registers.is_u85 else ("OPA_SCALE", "OPB_SCALE")
    weights = ("WEIGHT", "WEIGHT1", "WEIGHT2", "WEIGHT3")
    has_weights = kind in ("CONV", "DEPTHWISE")
    per_channel = word("OFM_PRECISION", "scale_mode") == "PER_CHANNEL"
    return NpuKernel(
        number=place[0],
        place=place[1],
        kind=kind,
        mode=mode,
        ifm=_feature_map(registers, "IFM"),
        ifm2=_feature_map(registers, "IFM2"),
        ofm=ofm,
        ifm_depth=get("IFM_DEPTH_M1") + 1,
        shape=(get("OFM_HEIGHT_M1") + 1, get("OFM_WIDTH_M1") + 1, get("OFM_DEPTH_M1") + 1),
        block=(
            get("OFM_BLK_HEIGHT_M1") + 1,
            get("OFM_BLK_WIDTH_M1") + 1,
            get("OFM_BLK_DEPTH_M1") + 1,
        ),
        window=_window(registers, kind),
        upscale=word("IFM_UPSCALE", "upscale"),
        weights=_spans(registers, weights, "WEIGHT_REGION") if has_weights else (),
        scales=_spans(registers, ("SCALE", "SCALE1"), "SCALE_REGION") if has_weights else (),
        fast_weights=word("WEIGHT_FORMAT", "weight_format") == "FWD",
        sparse_weights=word("WEIGHT_FORMAT", "sparsity") == "SPARSE_2_4",
        weights_are_ifm2=bool(values.get("weights_ifm2", 0)),
        per_channel=per_channel,
        ofm_scale=_scale(registers, "OFM_SCALE", ofm_rounding),
        ifm_scale=_scale(registers, names[0], ifm_rounding),
        ifm2_scale=_scale(registers, names[1], ifm_rounding),
        ifm_scale_mode=word("IFM_PRECISION", "ifm_scale_mode"),
        activation=_activation(registers, ofm),
        operands=_operands(registers),
        swapped=word("IFM2_BROADCAST", "operand_order") == "A",
        accumulator=word("ACC_FORMAT", "acc_format"),
        keeps_accumulator=word("ACC_FORMAT", "acc_input") == "KEEP",
        adds_ifm2=word("ACC_FORMAT", "acc_input") == "IFM2",
        micro_block=_MICRO_BLOCKS.get(word("ACC_FORMAT", "microblock"), (1, 1)),
        reverse=word("OFM_PRECISION", "reverse"),
        transpose=word("OFM_PRECISION", "transpose"),
        resize=_resize_steps(registers),
        blockdep=get("BLOCKDEP"),
        is_u85=registers.is_u85,
    )


def _resize_steps(registers: Registers) -> ResizeSteps:
    get = registers.get

    def both(name: str, field: str) -> tuple[int, int]:
        return get(name.format("Y"), field), get(name.format("X"), field)

    numerator = both("RESIZE_{}_SCALE_N_M1", "value")
    return ResizeSteps(
        (numerator[0] + 1, numerator[1] + 1),
        both("RESIZE_{}_OFFSET", "offset"),
        both("RESIZE_{}", "one_step_int"),
        both("RESIZE_{}", "one_step_mod"),
    )


def _transfer(registers: Registers, number: int, place: int) -> NpuTransfer:
    get, address, word = registers.get, registers.address, registers.word
    length = address("DMA0_LEN")
    source = MemorySpan(get("DMA0_SRC_REGION", "region"), address("DMA0_SRC"), length)
    target = MemorySpan(get("DMA0_DST_REGION", "region"), address("DMA0_DST"), length)
    to_table = word("DMA0_DST_REGION", "region_mode") == "INTERNAL"
    axes = _STRIDE_MODES[word("DMA0_SRC_REGION", "stride_mode")]
    sizes = (
        get("DMA0_SIZE0") if axes > 0 else 1,
        get("DMA0_SIZE1") if axes > 1 else 1,
    )
    gathers = word("DMA0_SRC_REGION", "idx_mode") == "ENABLED"
    scatters = word("DMA0_DST_REGION", "idx_mode") == "ENABLED"
    indices = None
    if gathers or scatters:
        region = get("DMA0_IDX_REGION", "region")
        indices = MemorySpan(region, address("DMA0_IDX"), get("DMA0_IDX_MAX"))
    names = ("SRC_STRIDE0", "SRC_STRIDE1", "DST_STRIDE0", "DST_STRIDE1")
    if not registers.is_u85:  # U65 skips bytes between rows
        names = ("SKIP0", "SKIP1", "SKIP0", "SKIP1")
    strides = [address(f"DMA0_{name}") for name in names]
    if not registers.is_u85:
        strides = [length + strides[0], 0, length + strides[1], 0]
    return NpuTransfer(
        number,
        source,
        target,
        to_table,
        sizes,
        (strides[0], strides[1]),
        (strides[2], strides[3]),
        indices,
        scatters,
        place,
    )
