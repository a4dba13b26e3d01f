"""The schema of .tflite files, as far as the reader needs it: names by number, and where the fields
of an operator's options lie.

A test compares all of it with the schema package, which takes longer to import than a small
network to read.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

_TENSOR_TYPES = """
FLOAT32 FLOAT16 INT32 UINT8 INT64 STRING BOOL INT16 COMPLEX64 INT8 FLOAT64 COMPLEX128 UINT64
RESOURCE VARIANT UINT32 UINT16 INT4 BFLOAT16
"""
_OPERATORS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1
RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM
CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM
CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT
SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT
SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND
LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE
MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5
SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM
CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND
HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL
GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM
STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM
STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS
STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG
STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER
STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER
STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE
STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT
STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR
REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
"""
TENSOR_TYPES = tuple(_TENSOR_TYPES.split())
OPERATORS = tuple(_OPERATORS.split())

# number of the union, table, then each field with its place in the vtable and its format as in
# `struct`; a star is a vector of that. What follows = is the default, else 0.
_OPTIONS = """
1 Conv2DOptions Padding:4b StrideW:6i StrideH:8i FusedActivationFunction:10b
  DilationWFactor:12i=1 DilationHFactor:14i=1 QuantizedBiasType:16b
2 DepthwiseConv2DOptions Padding:4b StrideW:6i StrideH:8i DepthMultiplier:10i
  FusedActivationFunction:12b DilationWFactor:14i=1 DilationHFactor:16i=1
3 ConcatEmbeddingsOptions NumChannels:4i NumColumnsPerChannel:6*i EmbeddingDimPerChannel:8*i
4 LSHProjectionOptions Type:4b
5 Pool2DOptions Padding:4b StrideW:6i StrideH:8i FilterWidth:10i FilterHeight:12i
  FusedActivationFunction:14b
6 SVDFOptions Rank:4i FusedActivationFunction:6b AsymmetricQuantizeInputs:8?
7 RNNOptions FusedActivationFunction:4b AsymmetricQuantizeInputs:6?
8 FullyConnectedOptions FusedActivationFunction:4b WeightsFormat:6b KeepNumDims:8?
  AsymmetricQuantizeInputs:10? QuantizedBiasType:12b
9 SoftmaxOptions Beta:4f
10 ConcatenationOptions Axis:4i FusedActivationFunction:6b
11 AddOptions FusedActivationFunction:4b PotScaleInt16:6?=True
12 L2NormOptions FusedActivationFunction:4b
13 LocalResponseNormalizationOptions Radius:4i Bias:6f Alpha:8f Beta:10f
14 LSTMOptions FusedActivationFunction:4b CellClip:6f ProjClip:8f KernelType:10b
  AsymmetricQuantizeInputs:12?
15 ResizeBilinearOptions AlignCorners:8? HalfPixelCenters:10?
16 CallOptions Subgraph:4I
17 ReshapeOptions NewShape:4*i
18 SkipGramOptions NgramSize:4i MaxSkipSize:6i IncludeAllNgrams:8?
19 SpaceToDepthOptions BlockSize:4i
20 EmbeddingLookupSparseOptions Combiner:4b
21 MulOptions FusedActivationFunction:4b
22 PadOptions
23 GatherOptions Axis:4i BatchDims:6i
24 BatchToSpaceNDOptions
25 SpaceToBatchNDOptions
26 TransposeOptions
27 ReducerOptions KeepDims:4?
28 SubOptions FusedActivationFunction:4b PotScaleInt16:6?=True
29 DivOptions FusedActivationFunction:4b
30 SqueezeOptions SqueezeDims:4*i
31 SequenceRNNOptions TimeMajor:4? FusedActivationFunction:6b AsymmetricQuantizeInputs:8?
32 StridedSliceOptions BeginMask:4i EndMask:6i EllipsisMask:8i NewAxisMask:10i
  ShrinkAxisMask:12i Offset:14?
33 ExpOptions
34 TopKV2Options
35 SplitOptions NumSplits:4i
36 LogSoftmaxOptions
37 CastOptions InDataType:4b OutDataType:6b
38 DequantizeOptions
39 MaximumMinimumOptions
40 ArgMaxOptions OutputType:4b
41 LessOptions
42 NegOptions
43 PadV2Options
44 GreaterOptions
45 GreaterEqualOptions
46 LessEqualOptions
47 SelectOptions
48 SliceOptions
49 TransposeConvOptions Padding:4b StrideW:6i StrideH:8i FusedActivationFunction:10b
  QuantizedBiasType:12b
50 SparseToDenseOptions ValidateIndices:4?
51 TileOptions
52 ExpandDimsOptions
53 EqualOptions
54 NotEqualOptions
55 ShapeOptions OutType:4b
56 PowOptions
57 ArgMinOptions OutputType:4b
58 FakeQuantOptions Min:4f Max:6f NumBits:8i NarrowRange:10?
59 PackOptions ValuesCount:4i Axis:6i
60 LogicalOrOptions
61 OneHotOptions Axis:4i
62 LogicalAndOptions
63 LogicalNotOptions
64 UnpackOptions Num:4i Axis:6i
65 FloorDivOptions
66 SquareOptions
67 ZerosLikeOptions
68 FillOptions
69 BidirectionalSequenceLSTMOptions FusedActivationFunction:4b CellClip:6f ProjClip:8f
  MergeOutputs:10? TimeMajor:12?=True AsymmetricQuantizeInputs:14?
70 BidirectionalSequenceRNNOptions TimeMajor:4? FusedActivationFunction:6b MergeOutputs:8?
  AsymmetricQuantizeInputs:10?
71 UnidirectionalSequenceLSTMOptions FusedActivationFunction:4b CellClip:6f ProjClip:8f
  TimeMajor:10? AsymmetricQuantizeInputs:12? DiagonalRecurrentTensors:14?
72 FloorModOptions
73 RangeOptions
74 ResizeNearestNeighborOptions AlignCorners:4? HalfPixelCenters:6?
75 LeakyReluOptions Alpha:4f
76 SquaredDifferenceOptions
77 MirrorPadOptions Mode:4b
78 AbsOptions
79 SplitVOptions NumSplits:4i
80 UniqueOptions IdxOutType:4b=2
81 ReverseV2Options
82 AddNOptions
83 GatherNdOptions
84 CosOptions
85 WhereOptions
86 RankOptions
87 ReverseSequenceOptions SeqDim:4i BatchDim:6i
88 MatrixDiagOptions
89 QuantizeOptions
90 MatrixSetDiagOptions
91 HardSwishOptions
92 IfOptions ThenSubgraphIndex:4i ElseSubgraphIndex:6i
93 WhileOptions CondSubgraphIndex:4i BodySubgraphIndex:6i
94 DepthToSpaceOptions BlockSize:4i
95 NonMaxSuppressionV4Options
96 NonMaxSuppressionV5Options
97 ScatterNdOptions
98 SelectV2Options
99 DensifyOptions
100 SegmentSumOptions
101 BatchMatMulOptions AdjX:4? AdjY:6? AsymmetricQuantizeInputs:8?
102 CumsumOptions Exclusive:4? Reverse:6?
103 CallOnceOptions InitSubgraphIndex:4i
104 BroadcastToOptions
105 Rfft2dOptions
106 Conv3DOptions Padding:4b StrideD:6i StrideW:8i StrideH:10i FusedActivationFunction:12b
  DilationDFactor:14i=1 DilationWFactor:16i=1 DilationHFactor:18i=1
107 HashtableOptions TableId:4i KeyDtype:6b ValueDtype:8b
108 HashtableFindOptions
109 HashtableImportOptions
110 HashtableSizeOptions
111 VarHandleOptions
112 ReadVariableOptions
113 AssignVariableOptions
114 RandomOptions Seed:4q Seed2:6q
115 BucketizeOptions Boundaries:4*f
116 GeluOptions Approximate:4?
117 DynamicUpdateSliceOptions
118 UnsortedSegmentProdOptions
119 UnsortedSegmentMaxOptions
120 UnsortedSegmentMinOptions
121 UnsortedSegmentSumOptions
122 ATan2Options
123 SignOptions
124 BitcastOptions
125 BitwiseXorOptions
126 RightShiftOptions
"""


class OptionField(Struct, frozen=True):
    """Where a field lies, and its format as in `struct`."""

    slot: int
    format: str
    is_vector: bool
    default: int | float | bool


@cache
def options_of(table: str) -> tuple[int, dict[str, OptionField]]:
    """A table's number in the union, and its fields by name."""
    number, _, *fields = _rows()[table]
    return int(number), dict(map(_field, fields))


@cache
def _rows() -> dict[str, list[str]]:
    rows = _OPTIONS.strip().replace("\n  ", " ").splitlines()
    return {words[1]: words for words in map(str.split, rows)}


def _field(text: str) -> tuple[str, OptionField]:
    name, _, rest = text.partition(":")
    place, _, default = rest.partition("=")
    slot = int(place.rstrip("*?bBhHiIqQfd"))
    value = {"True": True, "": False if place[-1] == "?" else 0}.get(default)
    return name, OptionField(
        slot, place[-1], "*" in place, int(default) if value is None else value
    )
