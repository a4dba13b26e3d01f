"""Commands of the NPU as data: names, codes and fields. U55 and U65 share one encoding, U85 has
another, in which some codes mean something else.

Sources: the interface headers of Arm's core driver (ethosu55_interface.h, ethosu65_interface.h,
ethosu85_interface.h, Apache-2.0)."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

CODE_BITS, PARAMETER_BITS, WORD_BITS = 10, 16, 32


class CommandField(Struct, frozen=True):
    """Bits of a command's payload: the parameter is bits 0 to 15, a second word follows it."""

    name: str
    low: int
    width: int
    values: tuple[str, ...] = ()  # their names by number; "" where a number has none
    signed: bool = False

    def get(self, payload: int) -> int:
        value = payload >> self.low & (1 << self.width) - 1
        return value - (1 << self.width) if self.signed and value >> self.width - 1 else value

    @property
    def mask(self) -> int:
        return (1 << self.width) - 1 << self.low


class CommandForm(Struct, frozen=True):
    name: str
    code: int
    words: int
    fields: tuple[CommandField, ...]

    def values(self, payload: int) -> dict[str, int]:
        return {field.name: field.get(payload) for field in self.fields}

    def rest(self, payload: int) -> int:
        """Bits that belong to no field."""
        for field in self.fields:
            payload &= ~field.mask
        return payload


class Encoding(Struct, frozen=True):
    """How the machines of a generation write commands."""

    name: str
    forms: tuple[CommandForm, ...]

    def by_code(self) -> dict[tuple[int, int], CommandForm]:
        return _by_code(self.name)

    def by_name(self) -> dict[str, CommandForm]:
        return _by_name(self.name)


# --- Values with names ---


def _named(text: str) -> tuple[str, ...]:
    """Names in order; `5=NAME` skips to a number."""
    names: list[str] = []
    for item in text.split():
        number, _, name = item.rpartition("=")
        names += [""] * (int(number) - len(names) if number else 0)
        names.append(name)
    return tuple(names)


_SIGNS = _named("UNSIGNED SIGNED")
_SIZES = _named("B8 B16 B32 B64")
_LAYOUTS = _named("NHWC NHCWB16")
_SCALE_MODES = _named("PER_CHANNEL GLOBAL")
_SHARED_VALUES = {
    "dilation_x": _named("NONE X2"),
    "dilation_y": _named("NONE X2"),
    "weight_order": _named("DEPTH_FIRST PART_KERNEL_FIRST"),
    "decomposition": _named("D8X8 D4X4"),
    "upscale": _named("NONE NEAREST ZEROS"),
    "region_mode": _named("EXTERNAL INTERNAL"),
    "stride_mode": _named("D1 D2 D3"),
    "type": _SIGNS,
    "precision": _SIZES,
    "format": _LAYOUTS,
    "scale_mode": _SCALE_MODES,
}
_VALUES_U55 = _SHARED_VALUES | {
    "pooling": _named("MAX AVERAGE REDUCE_SUM"),
    "elementwise": _named("MUL ADD SUB MIN MAX LRELU ABS CLZ SHR SHL"),
    "ifm_scale_mode": _named("OPA_OPB_16 OPA_32 OPB_32"),
    "round_mode": _named("DBL TRUNCATE NATURAL"),
    "acc_format": _named("I32 I40 F16"),
    "function": _named(
        "RELU 3=TANH SIGMOID 16=TABLE_0 TABLE_1 TABLE_2 TABLE_3 TABLE_4 TABLE_5 TABLE_6 TABLE_7"
    ),
    "clip_range": _named("OFM_PRECISION 2=FORCE_UINT8 FORCE_INT8 5=FORCE_INT16"),
    "operand_order": _named("B A"),
    "parallel_mode": _named("SINGLE_CORE DUAL_CORE_DEPTH"),
}
_VALUES_U85 = _SHARED_VALUES | {
    "pooling": _named("MAX AVERAGE REDUCE_SUM SUM NONE MIN ARGMAX_X ARGMAX_Y"),
    "elementwise": _named(
        "MUL ADD SUB MIN MAX LRELU ABS CLZ SHR SHL LSR DIV 16=CMP_EQ CMP_NE CMP_GE CMP_GT "
        "33=AND OR XOR NOT 42=AND_NOT"
    ),
    "resize": _named("BILINEAR REPLICATE NEAREST"),
    "storage": _named("TILE2X2 TILE3X1 CHAINED NONE"),
    "reverse": _named("NONE H W C"),
    "transpose": _named("HWC WHC HCW WCH 6=CHW CWH"),
    "acc_format": _named("I32 I48"),
    "acc_input": _named("RESET KEEP IFM2"),
    "acc_output": _named("ENABLE DISABLE"),
    "microblock": _named("U1X1 U1X2 U1X4 U2X2 U2X4 U4X4"),
    "function": _named(
        "LUT_NONE LUT_U8_U8 4=LUT_S8_S8 LUT_S8_S16 7=LUT_S8_S32 LUT_S16_S16 LUT_S16_S32 LUT_TANH "
        "LUT_SIGMOID"
    ),
    "clip_range": _named("B16 NONE"),
    "weight_format": _named("SWD FWD"),
    "sparsity": _named("NONE SPARSE_2_4"),
    "round_mode": _named(
        "DOUBLE_SYMMETRIC NATURAL DOUBLE_ASYMMETRIC SYMMETRIC TRUNCATE_TO_ZERO TRUNCATE_TO_LOWER"
    ),
    "broadcast": _named("NONE H W HW C CH CW CWH SCALAR"),
    "condition": _named("ALWAYS RF_TRUE"),
    "idx_mode": _named("DISABLED ENABLED"),
}

# --- Layouts: `name:bits` in order, `-` for reserved bits, `|` before the second word ---

_ADDRESS = "high:8 | address:32"
_SIGNED_FIELDS = ("zero_point", "bound", "offset", "scalar")

# Commands that both encodings have, with the same code and fields.
_SHARED = """
0 STOP_OP mask:16
1 IRQ_OP mask:16
3 DEPTHWISE_OP
5 POOL_OP pooling:3
6 ELEMENTWISE_OP elementwise:6
16 DMA_START_OP
19 PMU_MASK_OP enable:1
256 IFM_PAD_TOP pad:7
257 IFM_PAD_LEFT pad:7
258 IFM_PAD_RIGHT pad:8
259 IFM_PAD_BOTTOM pad:8
260 IFM_DEPTH_M1 value:16
263 IFM_UPSCALE upscale:2
265 IFM_ZERO_POINT zero_point:16
266 IFM_WIDTH0_M1 value:16
267 IFM_HEIGHT0_M1 value:16
268 IFM_HEIGHT1_M1 value:16
271 IFM_REGION region:3 -:12 custom:1
273 OFM_WIDTH_M1 value:16
274 OFM_HEIGHT_M1 value:16
275 OFM_DEPTH_M1 value:16
277 OFM_BLK_WIDTH_M1 value:7
278 OFM_BLK_HEIGHT_M1 value:7
279 OFM_BLK_DEPTH_M1 value:10
280 OFM_ZERO_POINT zero_point:16
282 OFM_WIDTH0_M1 value:16
283 OFM_HEIGHT0_M1 value:16
284 OFM_HEIGHT1_M1 value:16
287 OFM_REGION region:3 -:12 custom:1
288 KERNEL_WIDTH_M1 value:16
289 KERNEL_HEIGHT_M1 value:16
290 KERNEL_STRIDE stride_x_low:1 stride_y_low:1 weight_order:1 dilation_x:1 dilation_y:1 \
decomposition:1 stride_x_high:1 -:2 stride_y_high:1
294 ACTIVATION_MIN bound:16
295 ACTIVATION_MAX bound:16
296 WEIGHT_REGION region:3 -:12 custom:1
297 SCALE_REGION region:3 -:12 custom:1
303 BLOCKDEP value:3
306 DMA0_SIZE0 value:16
307 DMA0_SIZE1 value:16
393 IFM2_ZERO_POINT zero_point:16
394 IFM2_WIDTH0_M1 value:16
395 IFM2_HEIGHT0_M1 value:16
396 IFM2_HEIGHT1_M1 value:16
399 IFM2_REGION region:3
0 IFM_BASE0 @
1 IFM_BASE1 @
2 IFM_BASE2 @
3 IFM_BASE3 @
4 IFM_STRIDE_X @
5 IFM_STRIDE_Y @
6 IFM_STRIDE_C @
16 OFM_BASE0 @
17 OFM_BASE1 @
18 OFM_BASE2 @
19 OFM_BASE3 @
20 OFM_STRIDE_X @
21 OFM_STRIDE_Y @
22 OFM_STRIDE_C @
32 WEIGHT_BASE @
33 WEIGHT_LENGTH | value:32
34 SCALE_BASE @
35 SCALE_LENGTH | value:20
48 DMA0_SRC @
49 DMA0_DST @
50 DMA0_LEN @
128 IFM2_BASE0 @
129 IFM2_BASE1 @
130 IFM2_BASE2 @
131 IFM2_BASE3 @
132 IFM2_STRIDE_X @
133 IFM2_STRIDE_Y @
134 IFM2_STRIDE_C @
144 WEIGHT1_BASE @
145 WEIGHT1_LENGTH | value:32
"""
_ONLY_U55 = """
2 CONV_OP
17 DMA_WAIT_OP count:4
18 KERNEL_WAIT_OP count:2
261 IFM_PRECISION type:1 -:1 precision:2 -:2 format:2 ifm_scale_mode:2 -:4 round_mode:2
269 IFM_IB_END value:6
276 OFM_PRECISION type:1 precision:2 -:3 format:2 scale_mode:1 -:5 round_mode:2
291 PARALLEL_MODE parallel_mode:1
292 ACC_FORMAT acc_format:2
293 ACTIVATION function:5 -:7 clip_range:3
301 AB_START value:6
304 DMA0_SRC_REGION region:3 -:5 region_mode:1 stride_mode:2 -:4 custom:1
305 DMA0_DST_REGION region:3 -:5 region_mode:1 stride_mode:2 -:4 custom:1
384 IFM2_BROADCAST h:1 w:1 c:1 -:3 operand_order:1 constant:1
385 IFM2_SCALAR scalar:16
389 IFM2_PRECISION type:1 -:1 precision:2 -:2 format:2
397 IFM2_IB_START value:6
36 OFM_SCALE shift:6 | scale:32
37 OPA_SCALE shift:6 | scale:32
38 OPB_SCALE | scale:16
51 DMA0_SKIP0 @
52 DMA0_SKIP1 @
146 SCALE1_BASE @
147 SCALE1_LENGTH | value:20
160 USER_DEFINED0 | value:32
161 USER_DEFINED1 | value:32
162 USER_DEFINED2 | value:32
163 USER_DEFINED3 | value:32
164 USER_DEFINED4 | value:32
165 USER_DEFINED5 | value:32
166 USER_DEFINED6 | value:32
167 USER_DEFINED7 | value:32
"""
_ONLY_U85 = """
2 CONV_OP weights_ifm2:1
7 RESIZE_OP resize:2
17 DMA_WAIT_OP count:2
18 KERNEL_WAIT_OP count:1
261 IFM_PRECISION type:1 -:1 precision:2 -:2 format:2 -:6 storage:2
264 IFM_BROADCAST broadcast:4
276 OFM_PRECISION type:1 precision:2 -:3 format:2 scale_mode:1 reverse:2 transpose:3 storage:2
292 ACC_FORMAT acc_format:2 -:2 acc_input:2 acc_output:1 -:1 microblock:3
293 ACTIVATION function:5 table:3 -:4 clip_range:1
298 RESIZE_X_SCALE_N_M1 value:11
299 RESIZE_Y_SCALE_N_M1 value:11
300 RESIZE_X_OFFSET offset:12
301 RESIZE_Y_OFFSET offset:12
302 WEIGHT_FORMAT weight_format:1 -:3 sparsity:1
304 DMA0_SRC_REGION region:3 -:5 region_mode:1 stride_mode:2 idx_mode:1
305 DMA0_DST_REGION region:3 -:5 region_mode:1 -:2 idx_mode:1
308 DMA0_IDX_REGION region:3
384 IFM2_BROADCAST broadcast:4
389 IFM2_PRECISION type:1 -:1 precision:2 -:2 format:2 -:6 storage:2
36 OFM_SCALE shift:6 double_shift:5 -:2 round_mode:3 | scale:31
37 IFM_SCALE shift:6 double_shift:5 -:2 round_mode:1 | scale:31
38 IFM2_SCALE shift:6 double_shift:5 -:2 round_mode:1 | scale:31
39 OP_SCALAR | scalar:32
51 DMA0_SRC_STRIDE0 @
52 DMA0_SRC_STRIDE1 @
53 DMA0_DST_STRIDE0 @
54 DMA0_DST_STRIDE1 @
55 DMA0_IDX @
56 DMA0_IDX_MAX | value:31
57 DMA0_IDX_SKIP1 @
146 WEIGHT2_BASE @
147 WEIGHT2_LENGTH | value:32
148 WEIGHT3_BASE @
149 WEIGHT3_LENGTH | value:32
150 RESIZE_X one_step_int:4 blk_step_int:11 | one_step_mod:11 -:5 blk_step_mod:11
151 RESIZE_Y one_step_int:4 blk_step_int:11 | one_step_mod:11 -:5 blk_step_mod:11
256 BRANCH_OP condition:1 | target:32
"""


def _form(line: str, values: dict[str, tuple[str, ...]]) -> CommandForm:
    code, name, *layout = line.replace("@", _ADDRESS).split()
    fields: list[CommandField] = []
    low = 0
    for item in layout:
        if item == "|":
            low = PARAMETER_BITS
            continue
        label, _, bits = item.partition(":")
        if label != "-":
            names = values.get(label, ())
            fields.append(CommandField(label, low, int(bits), names, label in _SIGNED_FIELDS))
        low += int(bits)
    spelling = f"NPU_OP_{name[:-3]}" if name.endswith("_OP") else f"NPU_SET_{name}"
    return CommandForm(spelling, int(code), 2 if "|" in layout else 1, tuple(fields))


def _encoding(name: str, own: str, values: dict[str, tuple[str, ...]]) -> Encoding:
    lines = [line for line in (_SHARED + own).splitlines() if line]
    return Encoding(name, tuple(_form(line, values) for line in lines))


U55 = _encoding("u55", _ONLY_U55, _VALUES_U55)  # and U65
U85 = _encoding("u85", _ONLY_U85, _VALUES_U85)
ENCODINGS = {encoding.name: encoding for encoding in (U55, U85)}


@cache
def _by_code(encoding: str) -> dict[tuple[int, int], CommandForm]:
    return {(form.words, form.code): form for form in ENCODINGS[encoding].forms}


@cache
def _by_name(encoding: str) -> dict[str, CommandForm]:
    return {form.name: form for form in ENCODINGS[encoding].forms}
