"""The firmware's library for images on this machine, and buffers to call it with."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from firmware.host_npu import FIRMWARE, INCLUDES, WARNINGS, zig_cc

SOURCES = (
    *sorted((FIRMWARE / "validation").glob("library*.c")),
    *sorted((FIRMWARE / "kernels").glob("*.c")),
)
PLATFORM = """\
#include <stddef.h>
#include <stdint.h>
void npuscope_clean_data_cache(uintptr_t a, uint32_t n) { (void)a, (void)n; }
void npuscope_invalidate_data_cache(uintptr_t a, uint32_t n) { (void)a, (void)n; }
void npuscope_clean_npu_cache(uintptr_t a, uint32_t n) { (void)a, (void)n; }
void npuscope_clean_invalidate_npu_cache(uintptr_t a, uint32_t n) { (void)a, (void)n; }
void npuscope_image_asserts(const char *f, int l, const char *n, const char *e)
{ (void)f, (void)l, (void)n, (void)e; }
void npuscope_image_errs(int c, int l, const char *f) { (void)c, (void)l, (void)f; }
"""
FLOAT, UINT8, INT8, INT16, INT32 = 1, 2, 3, 5, 6
TYPES = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int16": INT16, "int32": INT32}
WORD = ctypes.c_uint32


class Info(ctypes.Structure):
    """A buffer on a 64-bit machine."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("start", WORD),
        ("end", WORD),
        ("limit", WORD),
        ("is_user", ctypes.c_uint8),
        ("is_param", ctypes.c_uint8),
        ("epoch", ctypes.c_uint16),
        ("batch", WORD),
        ("mem_shape", ctypes.c_void_p),
        ("mem_ndims", ctypes.c_uint16),
        ("chpos", ctypes.c_int),
        ("type", ctypes.c_int),
        ("Qm", ctypes.c_int8),
        ("Qn", ctypes.c_int8),
        ("Qunsigned", ctypes.c_uint8),
        ("ndims", ctypes.c_uint8),
        ("nbits", ctypes.c_uint8),
        ("per_channel", ctypes.c_uint8),
        ("shape", ctypes.POINTER(WORD)),
        ("scale", ctypes.POINTER(ctypes.c_float)),
        ("offset", ctypes.POINTER(ctypes.c_int16)),
    )


@dataclass
class Library:
    loaded: ctypes.CDLL
    dialect: int
    kept: list[object] = field(default_factory=list)

    def info(
        self,
        values: np.ndarray,
        shape: tuple[int, ...] | None = None,
        batch: int | None = None,
        scale: float = 0.0,
        zero: int = 0,
    ) -> Info:
        """A table's entry over the array's own memory, 8 bytes into its base."""
        assert values.flags.c_contiguous
        shape = shape or values.shape
        sizes = (WORD * len(shape))(*shape)
        scales, zeros = (ctypes.c_float * 1)(scale), (ctypes.c_int16 * 1)(zero)
        self.kept += [values, sizes, scales, zeros]
        return Info(
            base=values.ctypes.data - 8,
            start=8,
            end=8 + values.nbytes,
            batch=shape[-1] if batch is None else batch,
            type=TYPES[values.dtype.name],
            Qunsigned=int(values.dtype.kind == "u"),
            ndims=len(shape),
            nbits=8 * values.itemsize,
            shape=sizes,
            scale=scales if scale else None,
            offset=zeros if scale else None,
        )

    def __call__(self, name: str, *arguments: object, engines: bool = True) -> int:
        """The engines' numbers, and for later runtimes the instance, come last."""
        tail = (0, 1, *((None,) if self.dialect == 3 else ())) if engines else ()
        prefix = "__LL_ATON_LIB_" if self._is_renamed(name) else "LL_ATON_LIB_"
        return int(self.loaded[prefix + name](*arguments, *tail))

    def _is_renamed(self, name: str) -> bool:
        return self.dialect == 3 and name.startswith("DMA_Outputs_") and "Slice" not in name


def build(folder: Path, dialect: int) -> Library:
    (folder / "platform.c").write_text(PLATFORM, encoding="utf-8")
    parts = ("validation", "runtime", "loader", "image")
    flags = ("-shared", "-fPIC", "-O1", *WARNINGS, "-Wno-missing-prototypes", *INCLUDES)
    includes = [f"-I{FIRMWARE / part}" for part in parts]
    files = (*map(str, SOURCES), str(folder / "platform.c"))
    define = f"-DNPUSCOPE_DIALECT={dialect}"
    messages = zig_cc(*flags, *includes, define, *files, "-o", "library.so", folder=folder)
    assert messages == "", messages
    return Library(ctypes.CDLL(str(folder / "library.so")), dialect)


class Pad(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("source", "target", "source_end", "target_end")),
        ("axis", WORD),
        ("bytes", WORD),
        ("element", ctypes.c_uint8),
        ("mode", ctypes.c_uint8),
        ("saved_source", ctypes.c_void_p),
        ("saved_target", ctypes.c_void_p),
        ("rank", ctypes.c_size_t),
        ("end", ctypes.c_void_p),
        ("then", ctypes.c_void_p),
        ("dma_in", ctypes.c_int),
        ("dma_out", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("repeats", "in_before", "in_after")),
        *((name, ctypes.c_void_p) for name in ("out_before", "out_after", "shape", "steps")),
        ("indexes", ctypes.c_void_p),
    )


def table(*infos: Info) -> ctypes.Array:
    return (Info * len(infos))(*infos)


def values(shape: tuple[int, ...], dtype: str = "int8", seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-100, 100, shape).astype(dtype)
