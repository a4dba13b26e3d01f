"""Names of operators: ours, and those under which the vendor's files list the same kernels."""

from __future__ import annotations

_LISTED_AS = {
    "Quantize": "QuantizeLinear",
    "Dequantize": "DequantizeLinear",
    "Mean": "GlobalAveragePool",
    "Conv2D": "Conv",
    "FullyConnected": "Gemm",
}
_KERNELS = {listed: kernel for kernel, listed in _LISTED_AS.items()}


def listed_name(kernel: str) -> str:
    return _LISTED_AS.get(kernel, kernel)


def kernel_name(listed: str) -> str:
    return _KERNELS.get(listed, listed)
