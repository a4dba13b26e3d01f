"""`manycore run` computes: inputs from files, outputs to files, equal to onnxruntime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import npuscope
from many_core.nets import EncoderShape, convolutions, encoder, integer_net
from npuscope.errors import FileError, UsageError
from npuscope.profiling.runtimes import onnxruntime_session

NETS = {
    "encoder": encoder(EncoderShape(layers=1)),
    "convolutions": convolutions(),
    "integer": integer_net(),
}
_HALF = 0.005  # of the largest output, where values are half floats


def compiled(folder: Path, name: str) -> Path:
    model = folder / "net.onnx"
    model.write_bytes(NETS[name])
    npuscope.manycore_compile(model, folder / "qpc", cores=2, stats_level=70)
    return model


def samples(folder: Path, name: str, count: int = 1) -> list[dict[str, np.ndarray]]:
    """Random inputs in the file's own types, and a file of each."""
    random, rows = np.random.default_rng(3), []
    for number in range(count):
        row: dict[str, np.ndarray] = {}
        for entry in onnxruntime_session(NETS[name]).get_inputs():
            if entry.type == "tensor(float)":
                row[entry.name] = random.standard_normal(entry.shape).astype(np.float32)
            else:
                row[entry.name] = random.integers(0, 2, entry.shape)
            row[entry.name].tofile(folder / f"{entry.name}{number}.raw")
        rows.append(row)
    return rows


def check(folder: Path, name: str, sample: dict[str, np.ndarray], number: int = 0) -> None:
    session = onnxruntime_session(NETS[name])
    for entry, want in zip(session.get_outputs(), session.run(None, sample), strict=True):
        path = folder / f"{entry.name}-activation-0-inf-{number}.bin"
        values = np.fromfile(path, want.dtype).reshape(want.shape)
        room = 0 if name == "integer" else _HALF * np.abs(want).max()
        assert np.abs(values.astype(np.float64) - want).max() <= room


@pytest.mark.parametrize("name", NETS)
def test_outputs_are_those_of_onnxruntime(tmp_path: Path, name: str) -> None:
    compiled(tmp_path, name)
    (sample,) = samples(tmp_path, name)
    files = [tmp_path / f"{one}0.raw" for one in sample]
    npuscope.manycore_run(tmp_path / "qpc", input_file=files, write_output_dir=tmp_path)
    check(tmp_path, name, sample)


def test_a_list_of_files_has_an_inference_a_line(tmp_path: Path) -> None:
    compiled(tmp_path, "encoder")
    rows = samples(tmp_path, "encoder", 2)
    lines = [",".join(str(tmp_path / f"{one}{n}.raw") for one in row) for n, row in enumerate(rows)]
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n")
    report = npuscope.manycore_run(
        tmp_path / "qpc",
        num_iter=4,
        aic_batch_input_file_list=tmp_path / "list.txt",
        write_output_dir=tmp_path,
        write_output_start_iter=1,
        write_output_num_samples=9,
    )
    outputs = len(onnxruntime_session(NETS["encoder"]).get_outputs())
    assert len(report.files) == 3 * outputs  # inferences 1 to 3, the lines in turn
    for number in (1, 2, 3):
        check(tmp_path, "encoder", rows[number % 2], number)


def test_json_maps_files_to_names(tmp_path: Path) -> None:
    compiled(tmp_path, "encoder")
    (sample,) = samples(tmp_path, "encoder")
    bound = [
        {"path": f"{name}0.raw", "map-to": name, "io-direction": "in", "dims": [], "elem-size": 4}
        for name in reversed(sample)
    ]
    (tmp_path / "io.json").write_text(json.dumps({"IO-files": [bound]}))
    npuscope.manycore_run(
        tmp_path / "qpc", aic_batch_json_input=tmp_path / "io.json", write_output_dir=tmp_path
    )
    check(tmp_path, "encoder", sample)
    (tmp_path / "io.json").write_text(json.dumps({"IO-files": [bound[1:]]}))
    with pytest.raises(FileError, match="has no file for input"):
        npuscope.manycore_run(tmp_path / "qpc", aic_batch_json_input=tmp_path / "io.json")


def test_without_inputs_they_are_random(tmp_path: Path) -> None:
    compiled(tmp_path, "integer")
    first, other = tmp_path / "a", tmp_path / "b"
    for folder, seed in ((first, 1), (other, 1)):
        folder.mkdir()
        npuscope.manycore_run(tmp_path / "qpc", write_output_dir=folder, seed=seed)
    names = sorted(path.name for path in first.iterdir())
    assert names and names == sorted(path.name for path in other.iterdir())
    assert all((first / n).read_bytes() == (other / n).read_bytes() for n in names)


def test_the_program_says_from_which_model_it_is(tmp_path: Path) -> None:
    model = compiled(tmp_path, "encoder")
    (sample,) = samples(tmp_path, "encoder")
    files = [tmp_path / f"{one}0.raw" for one in sample]
    model.write_bytes(encoder(EncoderShape(layers=1), seed=9))
    with pytest.raises(FileError, match="has changed since the program was compiled"):
        npuscope.manycore_run(tmp_path / "qpc", input_file=files, write_output_dir=tmp_path)
    with pytest.raises(UsageError, match="compiled from another model"):
        npuscope.manycore_run(tmp_path / "qpc", input_file=files, model=model)
    model.unlink()
    with pytest.raises(FileError, match="no longer there"):
        npuscope.manycore_run(tmp_path / "qpc", input_file=files)


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    compiled(tmp_path, "encoder")
    (sample,) = samples(tmp_path, "encoder")
    files, folder = [tmp_path / f"{one}0.raw" for one in sample], tmp_path / "qpc"
    with pytest.raises(UsageError, match="expected "):
        npuscope.manycore_run(folder, input_file=files + files)
    with pytest.raises(FileError, match="this folder does not exist"):
        npuscope.manycore_run(folder, input_file=files, write_output_dir=tmp_path / "none")
    files[0].write_bytes(b"12")
    with pytest.raises(FileError, match=r"expected .* bytes for .*, found 2"):
        npuscope.manycore_run(folder, input_file=files)
