"""Functions of the vendor's public runtime headers: the op that each is read as, if any, and the
generations whose headers have it. A function without an op is refused by its name and epoch."""

from __future__ import annotations

from msgspec import Struct

KERNEL = "ll_sw_forward_"
LIBRARY = "LL_ATON_LIB_"
_ALL = "2.0 to 4.0"


class VendorFunction(Struct, frozen=True):
    ops: str = ""
    generations: str = _ALL


# By the name behind `ll_sw_forward_`.
KERNEL_FUNCTIONS: dict[str, VendorFunction] = {
    "quantizelinear": VendorFunction("Quantize"),
    "dequantizelinear": VendorFunction("Dequantize"),
    "requantizelinear": VendorFunction("Quantize"),
    "softmax": VendorFunction("Softmax"),
    "softmax_integer": VendorFunction("Softmax"),
    "activ": VendorFunction("Clip, PRelu, functions of one value"),
    "activ_integer": VendorFunction("Clip, PRelu, functions of one value"),
    "arith": VendorFunction("Add, Sub, Mul, Div, other ops of two values"),
    "eltwise_integer": VendorFunction("Add, Sub, Mul, Div, other ops of two values"),
    "pool": VendorFunction("AveragePool, MaxPool"),
    "pool_integer": VendorFunction("AveragePool, MaxPool"),
    "global_pool": VendorFunction("Mean, ReduceMax"),
    "global_pool_integer": VendorFunction("Mean, ReduceMax"),
    "reduce": VendorFunction("ReduceSum, other reductions"),
    "resize": VendorFunction("Resize"),
    "resize_integer": VendorFunction("Resize"),
    "conv": VendorFunction("Conv2D"),
    "conv_integer": VendorFunction("Conv2D"),
    "qlinearconv": VendorFunction("Conv2D", "2.0 to 3.0"),
    "bn": VendorFunction("BatchNorm"),
    "sign": VendorFunction("Sign"),
    "gather": VendorFunction("Gather"),
    "argmax": VendorFunction(),
    "argmax_integer": VendorFunction(generations="3.0, 4.0"),
    "argmin": VendorFunction(),
    "argmin_integer": VendorFunction(generations="3.0, 4.0"),
    "concat": VendorFunction(),
    "gather_integer": VendorFunction(generations="4.0"),
    "gemm": VendorFunction(),
    "gemm_integer": VendorFunction(),
    "instance_normalization": VendorFunction(),
    "lpnormalization": VendorFunction(),
    "lrn": VendorFunction(),
    "matmul": VendorFunction(),
    "qlinearmatmul": VendorFunction(),
    "tile": VendorFunction(),
    "tile_integer": VendorFunction(generations="4.0"),
}
# By the name behind `LL_ATON_LIB_`.
LIBRARY_FUNCTIONS: dict[str, VendorFunction] = {
    "Concat": VendorFunction("Concat"),
    "DMA_Transpose": VendorFunction("Transpose"),
    "Transpose": VendorFunction("Transpose"),
    "Slice": VendorFunction("Slice"),
    "DMA_Outputs_Slice_SplitLike": VendorFunction("Slice"),
    "Split": VendorFunction("Split"),
    "DMA_Outputs_Flat_Copy": VendorFunction("Split"),
    "Cast": VendorFunction("Cast"),
    "DMA_DepthToSpace": VendorFunction("DepthToSpace"),
    "DMA_SpaceToDepth": VendorFunction("SpaceToDepth"),
    "SW_DepthToSpace": VendorFunction("DepthToSpace"),
    "SW_SpaceToDepth": VendorFunction("SpaceToDepth"),
    "Pad": VendorFunction("Pad", "2.0 to 2.2"),
    "Pad_Standard": VendorFunction("Pad", "3.0, 4.0"),
    "Pad_4Loop": VendorFunction(generations="3.0, 4.0"),
    "ConvInteger": VendorFunction(),
    "DMA_ImageToRow": VendorFunction(),
    "DMA_RowToImage": VendorFunction(),
    "DMA_Outputs_Channel_Split_Aton": VendorFunction(),
    "DMA_Outputs_Channel_Split_Batched": VendorFunction(),
    "DMA_Pad_Memset": VendorFunction(generations="2.0 to 3.0"),
    "DMA_Pad_Filling": VendorFunction(generations="2.0 to 3.0"),
    "DMA_Pad_4Loop_Filling": VendorFunction(generations="3.0"),
    "Softmax": VendorFunction(),
    "Async_Memcpy": VendorFunction(generations="3.0"),
}
