"""What network.c calls things: units, struct fields, enum words, flags. Data for reader and writer.

A unit's record (program.units) and its C struct share field names, except where `RENAMED` says
otherwise; fields that only one side has are listed too. Order of `fields` is the order of writing
and has no meaning in C.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from msgspec import Struct

from npuscope.machine.npu_ops import SUPPORT
from npuscope.program.modes import ActivOp, AfiltMode, ArithOp, Bcast, PoolOp


class UnitLayout(Struct, frozen=True):
    """One unit type: its words in C, its place in the numbering of all units, its fields."""

    unit: str  # as in our records, and as in enum AccelUnitsType
    c_name: str  # in comments: "Unit= 10 [CONV_ACC_V2 0]"
    struct: str
    init: str
    first_number: int
    fields: tuple[str, ...]

    def number(self, unit_id: int) -> int:
        """Number of a unit among all units of the NPU."""
        return self.first_number + unit_id


_STRENG = (
    "dir raw raw_out continuous noblk noinc align_right mem_lsb sync_with_other nbits_unsigned "
    "bus_cid cacheable cache_allocate bus_pfetch cache_linesize cipher_en key_sel sync_dma "
    "addr_base offset_start offset_end offset_limit frame_count fwidth fheight batch_depth "
    "batch_offset frame_offset line_offset loop_offset frame_loop_cnt frame_tot_cnt nbits_in "
    "nbits_out"
)
_CONVACC = (
    "simd fsub accumulate accumulate_first accumulate_gen_first rounding_f saturation_f "
    "round_mode_f f_unsigned k_unsigned deepmode dss2mode kt1_mode kseten zfbias inbytes_f "
    "shift_f shift_a rounding_o saturation_o round_mode_o relu_mode_o outbytes_o shift_o raw_o "
    "fWidth fHeight kernelWidth kernelHeight nKernels batchDepth hstride vstride left_padding "
    "right_padding top_padding bot_padding left_crop right_crop top_crop bot_crop fstat fstatcnt "
    "afilt_mode afilt_tot afilt_first afilt_last kfilt_tot kfilt_first kfilt_last"
)
_ARITH = (
    "rounding_x saturation_x round_mode_x inbytes_x outbytes_x shift_x rounding_y saturation_y "
    "round_mode_y inbytes_y outbytes_y combinebc clipout shift_y rounding_o saturation_o "
    "round_mode_o relu_mode_o outbytes_o shift_o scalar dualinput operation bcast Ax_shift "
    "By_shift C_shift fWidth fHeight fChannels batchDepth clipmin clipmax A_scalar B_scalar "
    "C_scalar A_vector B_vector C_vector vec_precision"
)
_ACTIV = (
    "rounding_f saturation_f round_mode_f inbytes_f outbytes_f rounding_o saturation_o "
    "round_mode_o relu_mode_o outbytes_o signedop shift_f shift_o parameter parameter_2 nbytes "
    "ROM0_vector ROM1_vector LUT_vector ROM0_nbytes ROM1_nbytes shift_b shift_c shift_norm bwidth "
    "fsub operation"
)
_POOL = (
    "operation avgnopad inputX inputY outputX outputY poolWinX poolWinY strideX strideY topCrop "
    "bottomCrop leftCrop rightCrop topPad bottomPad leftPad rightPad batchSize shift_f shift_o "
    "dualLine nbytes rounding_f saturation_f round_mode_f inbytes_f outbytes_f rounding_o "
    "saturation_o round_mode_o relu_mode_o outbytes_o mulval pad_val_en pad_val"
)
_DECUN = "nCV nCWperCV nFormatBytes nBatches"


def _layout(
    unit: str, c_name: str, stem: str, first_number: int, fields: str, init: str = "Init"
) -> UnitLayout:
    struct = f"LL_{stem}_{init}TypeDef"
    return UnitLayout(
        unit, c_name, struct, f"LL_{stem}_{init}", first_number, tuple(fields.split())
    )


UNITS: dict[str, UnitLayout] = {
    layout.unit: layout
    for layout in (
        _layout("STRENG", "STREAM_ENG_V2", "Streng", 0, _STRENG, init="TensorInit"),
        _layout("CONVACC", "CONV_ACC_V2", "Convacc", 10, _CONVACC),
        # The name of the decompression unit in comments was never seen.
        _layout("DECUN", "DECUN_V2", "Decun", 14, _DECUN),
        _layout("ACTIV", "ACTIV_ACC_V2", "Activacc", 16, _ACTIV),
        _layout("ARITH", "ARITH_ACC_V2", "Arithacc", 18, _ARITH),
        _layout("POOL", "POOL_ACC_V2", "Poolacc", 22, _POOL),
    )
}
BY_STRUCT: dict[str, UnitLayout] = {layout.struct: layout for layout in UNITS.values()}
BY_INIT: dict[str, UnitLayout] = {layout.init: layout for layout in UNITS.values()}

# (unit, field of our record) -> field of the C struct, where the two differ.
RENAMED: dict[tuple[str, str], str] = {("DECUN", "nCV"): "nCVperCB"}
# Fields of our records that no C struct has.
ONLY_OURS: dict[str, frozenset[str]] = {"DECUN": frozenset({"nRepeats", "noHeader"})}
# Fields of C structs that our records do not hold.
ONLY_C: dict[str, frozenset[str]] = {
    "CONVACC": frozenset({"vshift"}),
    "STRENG": frozenset({"loop_offset2", "frame_loop_cnt2"}),
    "DECUN": frozenset({"nRCWlastCV", "noDualInput", "noOverWrite", "CBs_vector", "CBs_size"}),
}
# Fields that hold an address, and the one that holds three numbers.
ADDRESS_FIELDS = frozenset(
    {
        "addr_base",
        "A_vector",
        "B_vector",
        "C_vector",
        "ROM0_vector",
        "ROM1_vector",
        "LUT_vector",
    }
)
LIST_FIELDS = frozenset({"vec_precision"})
# 16-bit fields: a file may hold them as an unsigned number behind a (short) cast.
SHORT_FIELDS = frozenset({"A_scalar", "B_scalar", "C_scalar", "clipmin", "clipmax", "zfbias"})
# A stream engine stops its prefetch this far behind the end of its bytes.
LIMIT_BYTES = 64

PROCESSOR_NAME = "PROCESSOR"
PROCESSOR_NUMBER = 27
NULL_UNIT_NAME = "NULL_UNIT"
NULL_UNIT_NUMBER = 28

_ENUMS: dict[tuple[str, str], tuple[str, type[IntEnum]]] = {
    ("ARITH", "operation"): ("ARITH_", ArithOp),
    ("ARITH", "bcast"): ("ARITH_BCAST_", Bcast),
    ("POOL", "operation"): ("POOL_", PoolOp),
    ("ACTIV", "operation"): ("ACTIV_", ActivOp),
    ("CONVACC", "afilt_mode"): ("AFILT_MODE_", AfiltMode),
}
# (unit, field) -> value -> word; and word -> value, the words being unique among all enums.
ENUM_WORDS: dict[tuple[str, str], dict[int, str]] = {
    key: {int(member): prefix + member.name for member in kind}
    for key, (prefix, kind) in _ENUMS.items()
}
ENUM_VALUES: dict[str, int] = {
    word: value for words in ENUM_WORDS.values() for value, word in words.items()
}


class Flag(IntFlag):
    """EpochBlock flags; the C word is FLAG_PREFIX + name."""

    epoch_start = 1
    epoch_end = 2
    blob = 4
    last_eb = 8
    pure_hw = 16
    pure_sw = 32
    hybrid = 64
    internal = 128
    blob_encrypted = 256


FLAG_PREFIX = "EpochBlock_Flags_"
FLAG_VALUES: dict[str, int] = {f"{FLAG_PREFIX}{flag.name}": int(flag) for flag in Flag}
ITEM_FIELDS = ("start_epoch_block", "end_epoch_block", "blob_address", "wait_mask", "flags")
ITEM_DEBUG_FIELDS = (
    "epoch_num",
    "last_epoch_num",
    "in_streng_mask",
    "out_streng_mask",
    "estimated_npu_cycles",
    "estimated_tot_cycles",
)
EPOCH_ARRAY = "ll_atonn_rt_epoch_block_array"


class Dialect(Struct, frozen=True):
    """What differs between the runtimes of the compiler generations."""

    number: int  # NPUSCOPE_DIALECT of our own headers
    item_type: str
    parameters: str  # of the start and end functions of an epoch
    library_tail: str  # last argument of the library's calls, if any
    runtime: tuple[int, int, int, int]  # version of the runtime that was seen with it
    encryption_info: bool
    blob_container: int  # magic number of blobs with relocations
    address_macro: str = "ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR"  # of a place, as the CPU sees it

    @property
    def has_instance(self) -> bool:
        return bool(self.library_tail)


_OLD_ITEM, _OLD_PARAMETERS = "EpochBlock_ItemTypeDef", "const void *epoch_block"
DIALECT_2 = Dialect(2, _OLD_ITEM, _OLD_PARAMETERS, "", (1, 1, 1, 14), False, 0xECBF0030)
# Headers of six public repositories.
DIALECT_20 = Dialect(
    20,
    _OLD_ITEM,
    _OLD_PARAMETERS,
    "",
    (1, 0, 0, 16),
    False,
    0xECBF0030,
    "__LL_ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR",
)
DIALECT_21 = Dialect(21, _OLD_ITEM, _OLD_PARAMETERS, "", (1, 1, 0, 31), False, 0xECBF0030)
# Five public builds of 3.0: the functions of 2.x, the tables of what came after.
DIALECT_30 = Dialect(30, _OLD_ITEM, _OLD_PARAMETERS, "", (1, 1, 3, 8), True, 0xECBF0050)
DIALECT_3 = Dialect(
    3,
    "LL_ATON_RT_EpochBlockItem_t",
    "const LL_ATON_RT_EpochBlockItem_t *epoch_block, const NN_Instance_TypeDef *nn_instance",
    "nn_instance",
    (1, 1, 3, 262),
    True,
    0xECBF0050,
)


def dialect(generation: str) -> Dialect:
    """Generations 2.x speak the old one; those after 3.0, and ours, the new one."""
    if generation.startswith("2."):
        return {"2.0": DIALECT_20, "2.1": DIALECT_21}.get(generation, DIALECT_2)
    return DIALECT_30 if generation == "3.0" else DIALECT_3


# Words of buffer tables. Their numbers changed between runtimes, so only words are used.
DATA_TYPES: dict[tuple[str, int], str] = {
    ("float", 32): "DataType_FLOAT",
    ("float", 16): "DataType_FLOAT16",
    ("unsigned", 8): "DataType_UINT8",
    ("signed", 8): "DataType_INT8",
    ("unsigned", 16): "DataType_UINT16",
    ("signed", 16): "DataType_INT16",
    ("unsigned", 32): "DataType_UINT32",
    ("signed", 32): "DataType_INT32",
    ("unsigned", 64): "DataType_UINT64",
    ("signed", 64): "DataType_INT64",
}
DATA_TYPE_KINDS: dict[str, tuple[str, int]] = {word: kind for kind, word in DATA_TYPES.items()}


class ChannelPosition(IntEnum):
    """Where the channels lie in `mem_shape`; the C word is CHPOS_PREFIX + name."""

    UNDEFINED = 0
    First = 1
    Last = 2
    Mixed = 3


CHPOS_PREFIX = "CHPos_"
AXIS_NOTE = "axis "  # behind `per_channel`: which axis has a scale for each of its places
BUFFER_FIELDS = (
    "name",
    "addr_base",
    "offset_start",
    "offset_end",
    "offset_limit",
    "is_user_allocated",
    "is_param",
    "epoch",
    "batch",
    "mem_shape",
    "mem_ndims",
    "chpos",
    "Qm",
    "Qn",
    "Qunsigned",
    "type",
    "nbits",
    "ndims",
    "shape",
    "per_channel",
    "scale",
    "offset",
)
# A shape of four dimensions (N, C, H, W) is stored in this order of its dimensions.
SHAPE_ORDER = (0, 2, 3, 1)

# What software kernels call our ops, behind KERNEL_PREFIX; and the words of a resize.
KERNEL_PREFIX = "LL_SW_"
KERNEL_OPS: dict[str, str] = {
    KERNEL_PREFIX + word: kind
    for kind, row in SUPPORT.items()
    for word in (row.word, row.integer_word)
    if word
}
COORDINATE_WORDS: dict[str, str] = {
    "asymmetric": "ASYMMETRIC",
    "half_pixel": "HALF_PIXEL",
    "pytorch_half_pixel": "PYTORCH_HALF_PIXEL",
    "align_corners": "ALIGN_CORNERS",
    "tf_half_pixel_for_nn": "TF_HALF_PIXEL_FOR_NN",
}
NEAREST_WORDS: dict[str, str] = {
    "floor": "FLOOR",
    "ceil": "CEIL",
    "round_prefer_floor": "ROUND_PREFER_FLOOR",
    "round_prefer_ceil": "ROUND_PREFER_CEIL",
}
# Integer bits that an integer softmax keeps of the difference to the largest input.
SOFTMAX_DIFF_BITS = 5
