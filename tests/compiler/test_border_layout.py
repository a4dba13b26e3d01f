"""`--inputs-ch-position chlast`: the copy at the border goes, the values stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import conv_net, save, to_onnx, to_tflite
from npuscope.building import ReadOptions, read_graph
from npuscope.cli.main import main
from npuscope.ops.run import run

LAST: ReadOptions = {"inputs_ch_position": "chlast", "outputs_ch_position": "chlast"}


def test_the_transpose_at_the_input_goes(tmp_path: Path) -> None:
    file = save(tmp_path, "net.onnx", to_onnx(conv_net()))
    first, last = read_graph(file, {}), read_graph(file, LAST)
    n, channels, *pixels = first.tensor(first.inputs[0]).shape
    assert last.tensor(last.inputs[0]).shape == (n, *pixels, channels)
    values = np.random.default_rng(1).integers(-128, 128, (n, channels, *pixels), np.int8)
    (before,) = run(first, {first.inputs[0]: values}).values()
    (after,) = run(last, {last.inputs[0]: np.moveaxis(values, 1, -1)}).values()
    assert before.size == after.size
    assert np.array_equal(np.sort(before, None), np.sort(after, None))


def test_a_network_that_is_channel_last_already_stays(tmp_path: Path) -> None:
    file = save(tmp_path, "net.tflite", to_tflite(conv_net()))
    assert len(read_graph(file, LAST).ops) == len(read_graph(file, {}).ops)


def test_verbs_take_the_spelling_of_the_advice(tmp_path: Path) -> None:
    file = str(save(tmp_path, "net.onnx", to_onnx(conv_net())))
    assert main(["estimate", file, "--inputs-ch-position", "chlast", "-q"]) == 0
    assert main(["estimate", file, "--inputs-ch-position", "chfirst", "-q"]) == 2
