"""Each kernel of the vendor's library computes what its name says, from the struct of its call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuscope.program.sources import read_program
from program.network_c.test_library import OUTPUT, PARAMETERS, moved, operand, read

ARRAYS = """static const float s[] = { 0.5 }; static const float one[] = { 1.0 };
static const int8_t z[] = { 3 };"""


def quant(side: str, scale: str = "s") -> str:
    """`i`, `o` or `w`: a scale and the zero point 3."""
    return (
        f".{side}s.dim.num_elem = 1, .{side}s.mem.start_offset = {scale}, "
        f".{side}zp.dim.num_elem = 1, .{side}zp.mem.start_offset = z,"
    )


def call(name: str, fields: list[str], folder: Path, values: np.ndarray) -> np.ndarray:
    info = f"{ARRAYS} Some_sw_info info = {{ {' '.join(fields)} }};"
    return moved(read(info, f"ll_sw_forward_{name}(&info);", folder), values)


X = [1.0, 2.0, -1.0, 0.5]  # two positions of two channels
FLOATS = [
    ("softmax", 2, 2, "LL_SW_SOFTMAX, .axis = 1", [1 / (1 + np.e), np.e / (1 + np.e)]),
    ("pool", 1, 2, "LL_SW_MAXPOOL, .k_shape = {1, 2}, .strides = {1, 2}", [1, 2]),
    ("global_pool", 1, 2, "LL_SW_AVGPOOL", [0, 1.25]),
    ("reduce", 2, 1, "LL_SW_REDUCESUM, .axis = 1", [3, -0.5]),
    (
        "resize",
        4,
        2,
        "LL_SW_RESIZE, .mode = RESIZE_NEAREST, .nearest_mode = FLOOR, "
        ".coord_transf_mode = ASYMMETRIC",
        [1, 2, 1, 2],
    ),
]


@pytest.mark.parametrize(("name", "width", "channels", "kind", "expected"), FLOATS)
def test_floats(
    name: str, width: int, channels: int, kind: str, expected: list[float], tmp_path: Path
) -> None:
    fields = [operand("general.input", 0, 2, width=2)]
    fields += [operand("general.output", OUTPUT, channels, width=width)]
    found = call(name, [*fields, f".general.type = {kind},"], tmp_path, np.array(X, np.float32))
    assert np.allclose(found[: 4 * len(expected)].view(np.float32), expected, rtol=1e-6)


def test_sums_of_floats(tmp_path: Path) -> None:
    fields = [operand("general.input", 0, 2), operand("operand", 8, 2)]
    fields += [operand("general.output", OUTPUT, 2), ".general.type = LL_SW_ARITHADD,"]
    found = call("arith", fields, tmp_path, np.array(X, np.float32))
    assert found[:8].view(np.float32).tolist() == [0, 2.5]


def test_conversions(tmp_path: Path) -> None:
    whole, real = np.array([5, 7, 1, 4], np.int8), np.array(X, np.float32)
    for name, source, target, fields, expected in (
        ("quantizelinear", 4, 1, quant("o"), whole),
        ("dequantizelinear", 1, 4, quant("i"), real),
        ("requantizelinear", 1, 1, quant("i") + quant("o", "one"), np.array([4, 5, 2, 4], np.int8)),
    ):
        sides = [operand("general.input", 0, 2, source, 2)]
        sides += [operand("general.output", OUTPUT, 2, target, 2), fields]
        found = call(name, sides, tmp_path, real if source == 4 else np.tile(whole, 4))
        count = expected.nbytes
        assert found[:count].tobytes() == expected.tobytes(), name


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("pool_integer", "LL_SW_MAXPOOL, .k_shape = {1, 2}, .strides = {1, 2}", [5, 7]),
        ("global_pool_integer", "LL_SW_MAXPOOL", [5, 7]),
    ],
)
def test_pools_of_integers(name: str, kind: str, expected: list[int], tmp_path: Path) -> None:
    fields = [operand("general.input", 0, 2, 1, 2), operand("general.output", OUTPUT, 2, 1)]
    fields += [quant("i"), quant("o"), f".general.type = {kind},"]
    found = call(name, fields, tmp_path, np.array([5, 7, 1, 4], np.int8))
    assert found[:2].view(np.int8).tolist() == expected


@pytest.mark.parametrize("name", ["conv_integer", "qlinearconv"])
def test_convolutions_of_integers(name: str, tmp_path: Path) -> None:
    """Scales of 0.5 and zero points of 3: 1 * 1 and 2 * 1 are stored as 5 and 7."""
    fields = [operand("general.input", 0, 1, 1, 2), operand("weights", 24, 1, 1)]
    fields += [operand("general.output", OUTPUT, 1, 1, 2), quant("i"), quant("w"), quant("o")]
    fields += [".ngroup = 1, .strides = {1, 1}, .pads = {0, 0, 0, 0}, .dilations = {1, 1},"]
    info = f"{ARRAYS} Some_sw_info info = {{ {' '.join(fields)} .general.type = LL_SW_CONV, }};"
    read(info, f"ll_sw_forward_{name}(&info);", tmp_path)
    source = tmp_path / "network.c"
    source.write_text(source.read_text(encoding="utf-8") + PARAMETERS, encoding="utf-8")
    image = np.zeros(72, np.int8)
    image[24] = 5
    (tmp_path / "atonbuf.AXISRAM5.raw").write_bytes(image.tobytes())
    values = image.copy()
    values[:2] = [5, 7]
    found = moved(read_program(source), values)
    assert found[:2].view(np.int8).tolist() == [5, 7]
