"""`manycore run` computes: inputs from files, outputs to files, equal to the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npuscope
from many_core.nets import EncoderShape, encoder, graph_of, integer_net
from npuscope.errors import FileError, UsageError
from npuscope.ops.run import run

NETS = {"encoder": encoder(EncoderShape(layers=1)), "integer": integer_net()}


def prepared(folder: Path, name: str) -> tuple[dict[str, np.ndarray], list[Path]]:
    """The model compiled, and files with random inputs."""
    model = folder / "net.onnx"
    model.write_bytes(NETS[name])
    npuscope.manycore_compile(model, folder / "qpc", cores=2, stats_level=70)
    graph, random = graph_of(NETS[name]), np.random.default_rng(3)
    values, files = {}, []
    for number, one in enumerate(graph.inputs):
        tensor = graph.tensors[one]
        if tensor.dtype.is_float:
            values[one] = random.standard_normal(tensor.shape, np.float32)
        else:
            values[one] = random.integers(-90, 90, tensor.shape).astype(tensor.dtype.numpy)
        files.append(folder / f"input{number}.raw")
        files[-1].write_bytes(values[one].tobytes())
    return values, files


@pytest.mark.parametrize("name", NETS)
def test_outputs_are_those_of_the_network(tmp_path: Path, name: str) -> None:
    values, files = prepared(tmp_path, name)
    report = npuscope.manycore_run(
        tmp_path / "qpc",
        input_file=files,
        model=tmp_path / "net.onnx",
        write_output_dir=tmp_path,
    )
    graph = graph_of(NETS[name])
    expected = run(graph, values)
    assert len(report.files) == len(graph.outputs)
    for path, output in zip(report.files, graph.outputs, strict=True):
        assert Path(path).name == f"{output}-activation-0-inf-0.bin"
        want = expected[output]
        found = np.fromfile(path, want.dtype).reshape(want.shape)
        room = 0.005 * np.abs(want).max() if graph.tensors[output].dtype.is_float else 0
        assert np.abs(found.astype(np.float64) - want).max() <= room


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    _, files = prepared(tmp_path, "encoder")
    model, folder = tmp_path / "net.onnx", tmp_path / "qpc"
    with pytest.raises(UsageError, match="computing needs the model"):
        npuscope.manycore_run(folder, input_file=files)
    with pytest.raises(UsageError, match="expected "):
        npuscope.manycore_run(folder, input_file=files + files, model=model)
    files[0].write_bytes(b"12")
    with pytest.raises(FileError, match=r"expected .* bytes for .*, found 2"):
        npuscope.manycore_run(folder, input_file=files, model=model)
    other = tmp_path / "other.onnx"
    other.write_bytes(encoder(EncoderShape(layers=1), seed=9))
    with pytest.raises(UsageError, match="compiled from another model"):
        npuscope.manycore_run(folder, input_file=files, model=other)
