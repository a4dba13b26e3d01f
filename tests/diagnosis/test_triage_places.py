"""Faults at places that are tried late, and what is listed where none of them fits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import npuscope
from models import conv_net, dense_net, save, to_tflite
from npuscope.program.model import Program, images
from npuscope.program.sources import read_program
from npuscope.sim.run import execute
from npuscope.structs import replace
from triage_cases import board_output, causes, picture, run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("places"), "m.tflite", to_tflite(conv_net(size=16, out=8)))


def on_board(program: Program, change: Callable[[bytes], bytes], values: np.ndarray) -> np.ndarray:
    """The output of a build whose images of weights are changed."""
    data, buffers = {p: change(image) for p, image in images(program).items()}, program.buffer_map()
    constants = {}
    for name, old in program.constants.items():
        home = buffers[name]
        if home.pool in data and home.pool == "octoFlash":
            part = data[home.pool][home.offset : home.offset + old.nbytes]
            constants[name] = np.frombuffer(part, np.uint8)
        else:
            constants[name] = old
    changed = replace(program, constants=constants)
    return execute(changed, {program.inputs[0]: values}).outputs[program.outputs[0]]


def triaged(folder: Path, tmp_path: Path, values: np.ndarray, out: np.ndarray) -> npuscope.Triage:
    np.save(tmp_path / "in.npy", values)
    (tmp_path / "out.raw").write_bytes(out.tobytes())
    return npuscope.triage(folder, inputs=[tmp_path / "in.npy"], outputs=[tmp_path / "out.raw"])


def test_shifted_weights_of_a_folder(model: Path, tmp_path: Path) -> None:
    """Its network.c has the coefficients in the blob, program.json among the weights."""
    folder, values = tmp_path / "net", picture(model, 3)
    npuscope.compile(model, folder)
    board = read_program(folder / "network.c")
    out = on_board(board, lambda image: b"\xff" * 64 + image[:-64], values)
    assert causes(triaged(folder, tmp_path, values, out)) == {"weights-shifted"}


def test_one_erased_sector_of_a_large_image(tmp_path: Path) -> None:
    large = save(tmp_path, "m.tflite", to_tflite(dense_net(features=512, outputs=(512, 256))))
    folder = tmp_path / "net"
    npuscope.compile(large, folder)
    values = np.random.default_rng(2).integers(-128, 128, (1, 512)).astype(np.int8)
    start = 50 * 4096
    out = on_board(
        read_program(folder / "network.c"),
        lambda image: image[:start] + b"\xff" * 4096 + image[start + 4096 :],
        values,
    )
    found = triaged(folder, tmp_path, values, out)
    assert causes(found) == {"weights-part-lost"}
    assert found.classes[0].suspects[0].fault.startswith("bytes 0x32000 to 0x33000")


def longer_rows(values: np.ndarray) -> np.ndarray:
    rows = values.reshape(values.shape[1], -1)
    wide = np.pad(rows, ((0, 0), (0, 8)))
    return wide.reshape(-1)[: values.size].reshape(values.shape)


def one_line(values: np.ndarray) -> np.ndarray:
    mixed = values.reshape(-1).copy()
    mixed[320:352] = 0
    return mixed.reshape(values.shape)


@pytest.mark.parametrize(
    ("change", "cause", "words"),
    [
        (longer_rows, "input-pitch", "8 bytes more in each row"),
        (lambda v: np.minimum(v.astype(int) + 1, 127).astype(np.int8), "input-scale", "too low"),
        (lambda v: ((v.astype(int) + 128) // 2).astype(np.int8), "input-scale", "0 to 127"),
        (one_line, "input-stale-line", "bytes 320 to 352"),
    ],
)
def test_inputs(
    change: Callable[[np.ndarray], np.ndarray],
    cause: str,
    words: str,
    model: Path,
    tmp_path: Path,
) -> None:
    values = picture(model, 4)
    found = run(model, tmp_path, values, board_output(model, change(values)))
    assert cause in causes(found)
    assert any(words in one.fault for one in found.classes[0].suspects)


def test_a_frame_that_is_torn_inside_of_a_row(model: Path, tmp_path: Path) -> None:
    before, values = picture(model, 5), picture(model, 6)
    np.save(tmp_path / "before.npy", before)
    torn = values.reshape(-1).copy()
    torn[331:] = before.reshape(-1)[331:]
    out = board_output(model, torn.reshape(values.shape))
    found = run(model, tmp_path, values, out, previous=[tmp_path / "before.npy"])
    assert "input-torn-inside" in causes(found)
    assert "from byte 331 on" in found.classes[0].suspects[0].fault


def test_what_no_search_tries_is_listed(model: Path, tmp_path: Path) -> None:
    values = picture(model, 7)
    out = np.random.default_rng(8).integers(-128, 128, board_output(model, values).shape)
    found = run(model, tmp_path, values, out.astype(np.int8))
    assert any("stale cache lines" in words for words in found.never_tried)
