"""`validate --data`: figures by arithmetic, answers that change, mistakes of preprocessing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import npuscope
from accuracy.nearest import CLASSES, float_model, folder_of_pictures, int8_model, pictures
from npuscope.accuracy.result import TaskAccuracy
from npuscope.cli.main import main
from npuscope.errors import FileError, ModelError, UsageError


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A folder with both forms of the network, and arrays."""
    (tmp_path / "int8.tflite").write_bytes(int8_model())
    (tmp_path / "float.tflite").write_bytes(float_model())
    values, labels = pictures(60)
    np.savez(tmp_path / "data.npz", image=values, labels=labels)
    return tmp_path


def measured(folder: Path, **options: object) -> TaskAccuracy:
    data = options.pop("data", folder / "data.npz")
    result = npuscope.validate(folder / "int8.tflite", data=data, **options)  # type: ignore[arg-type]
    assert isinstance(result, TaskAccuracy)
    return result


def test_three_arithmetics_are_right_on_pictures_that_are_easy(case: Path) -> None:
    result = measured(case, float_model=case / "float.tflite")
    assert [row.name for row in result.rows] == ["float", "int8", "npu"]
    for row in result.rows:
        top = row.figures[0]
        assert (top.name, top.value) == ("top-1", 1.0)
        assert top.low == pytest.approx(60 / (60 + 1.959964**2))  # Wilson's, all right
    assert [(p.one, p.other) for p in result.pairings] == [("float", "int8"), ("int8", "npu")]
    assert result.verdict == "passed" and result.passed and not result.notes


def test_labels_that_are_wrong_lower_the_figure_by_their_share(case: Path) -> None:
    values, labels = pictures(60)
    labels[:15] = (labels[:15] + 1) % CLASSES
    np.savez(case / "wrong.npz", image=values, labels=labels)
    assert measured(case, data=case / "wrong.npz").rows[0].figures[0].value == 0.75


def test_folders_are_classes_and_pages_carry_pictures(case: Path) -> None:
    folder = folder_of_pictures(case / "pictures")
    result = measured(case, data=folder, html=case / "page.html")
    assert result.rows[-1].figures[0].value == 1.0
    assert result.samples == 24 and result.task == "classification"
    assert "img-src data:" in (case / "page.html").read_text()


def test_a_machine_that_computes_wrongly_is_found(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another accumulator: its answers are surely worse, and the layer is named."""
    from npuscope.families.neural_art.family import NeuralArt

    good = NeuralArt.execute

    def swapped(self: NeuralArt, build: object, inputs: dict[str, np.ndarray]) -> object:
        values = good(self, build, inputs)
        values["scores"] = np.roll(values["scores"], 1, -1)
        return values

    monkeypatch.setattr(NeuralArt, "execute", swapped)
    result = measured(case)
    assert result.verdict == "wrong" and not result.passed
    pair = result.pairings[-1]
    assert (pair.changed.value, pair.lost, pair.won, pair.worse) == (1.0, 60, 0, True)
    assert len(result.changed) == 20 and set(result.changed[0].answers) == {"int8", "npu"}
    assert result.layers[0].op.startswith("FULLY_CONNECTED")
    assert result.layers[0].answers_changed == result.layers[0].samples
    arguments = ["validate", str(case / "int8.tflite"), "--data", str(case / "data.npz")]
    assert main([*arguments, "--quiet"]) == 1


PLANTED = {
    "unit": ("signed", "uint8", "mean=0.485,0.456,0.406,std=0.229,0.224,0.225", "unit,bgr"),
    "signed": ("unit", "uint8", "signed,bgr", "uint8,bgr"),
}


@pytest.mark.parametrize(("right", "wrong"), [(r, w) for r in PLANTED for w in PLANTED[r]])
def test_planted_mistakes_of_pixels_are_found(case: Path, right: str, wrong: str) -> None:
    (case / "int8.tflite").write_bytes(int8_model(signed=right == "signed"))
    (case / "float.tflite").write_bytes(float_model(signed=right == "signed"))
    fine = measured(case, preprocess=right, float_model=case / "float.tflite")
    assert not fine.notes and fine.rows[0].figures[0].value == 1.0
    note = measured(case, preprocess=wrong, float_model=case / "float.tflite").notes[0]
    assert note.startswith("the answers are far better with")
    if right not in wrong:
        assert f"--preprocess {right}" in note
    if "bgr" in wrong:
        assert "RGB, not BGR" in note


ARRAYS = {
    "scaled twice": (lambda v: v / 255 / 255, "inputs times 255"),
    "not scaled": (lambda v: v.astype(np.float32), "inputs divided by 255"),
    "from -1 to 1": (lambda v: v / 127.5 - 1, "inputs from 0 to 1 instead of -1 to 1"),
    "transposed": (lambda v: v.transpose(0, 2, 1, 3) / 255, "rows and columns swapped"),
    "BGR": (lambda v: v[..., ::-1] / 255, "red and blue swapped"),
}


@pytest.mark.parametrize("mistake", ARRAYS)
def test_planted_mistakes_of_arrays_are_found(case: Path, mistake: str) -> None:
    change, words = ARRAYS[mistake]
    values, labels = pictures(60)
    np.savez(case / "bad.npz", image=change(values).astype(np.float32), labels=labels)
    assert words in measured(case, data=case / "bad.npz").notes[0]


def test_unreadable_pictures_and_missing_labels_are_counted(case: Path) -> None:
    folder = folder_of_pictures(case / "pictures")
    for name in ("kind0/000.png", "kind1/001.png"):
        (folder / name).write_bytes(b"not a picture")
    with pytest.raises(FileError, match=r"2 of 24 samples cannot be used; the first: .*image"):
        measured(case, data=folder)
    names = [f"{n:03}.png,{n % CLASSES}" for n in range(22)]
    (case / "labels.csv").write_text("\n".join(names))
    good = folder_of_pictures(case / "more")
    with pytest.raises(FileError, match=r"2 of 24 samples have no label: .*kind4.022.png"):
        measured(case, data=good, labels=case / "labels.csv")


def test_labels_beyond_the_outputs_are_refused(case: Path) -> None:
    values, labels = pictures(12)
    labels[3] = CLASSES
    np.savez(case / "far.npz", image=values, labels=labels)
    with pytest.raises(FileError, match="1 of 12 labels do not fit the outputs: #3 is of class 6"):
        measured(case, data=case / "far.npz")


def test_what_needs_data_and_what_does_not_fit(case: Path) -> None:
    with pytest.raises(UsageError, match="needs samples"):
        npuscope.validate(case / "int8.tflite", labels="labels.csv")
    with pytest.raises(UsageError, match="at least 1 sample"):
        measured(case, limit=0)
    with pytest.raises(UsageError, match="unknown preprocessing 'units'"):
        measured(case, preprocess="units")
    from models import dense_net, to_tflite

    (case / "other.tflite").write_bytes(to_tflite(dense_net()))
    with pytest.raises((FileError, ModelError)):
        measured(case, float_model=case / "other.tflite")


def test_without_labels_answers_are_compared_only(case: Path) -> None:
    np.savez(case / "plain.npz", image=pictures(12)[0])
    result = measured(case, data=case / "plain.npz")
    assert not result.labelled and result.rows[0].figures == ()
    assert result.verdict == "passed" and "no labels" in result.notes[0]


def test_json_and_text(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["validate", str(case / "int8.tflite"), "--data", str(case / "data.npz")]
    assert main([*arguments, "--json", "--limit", "30"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "npuscope/validate/1" and answer["verdict"] == "passed"
    assert answer["samples"] == answer["samples_total"] == 30
    assert answer["rows"][0]["figures"][0]["value"] == 1.0
    assert main([*arguments, "--quiet"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("passed: top-1: int8 reference 100.0%, NPU arithmetic 100.0%; 0.00%")


def test_grey_bars_and_crops_keep_proportions(tmp_path: Path) -> None:
    from npuscope.accuracy.pictures import pixels_of

    file = tmp_path / "wide.png"
    Image.new("RGB", (40, 20), (255, 0, 0)).save(file)
    letterbox = pixels_of(file, 8, 8, 3, "letterbox")
    assert (letterbox[0] == 114).all() and tuple(letterbox[4, 4]) == (255, 0, 0)
    assert (pixels_of(file, 8, 8, 3, "crop")[..., 0] == 255).all()


def test_classes_are_no_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output's shape says segmentation, the labels are one class for each sample."""
    from models import Net, save, to_tflite

    net = Net((1, 8, 8, 3))
    net.conv(4)
    model = save(tmp_path, "planes.tflite", to_tflite(net))
    np.savez(tmp_path / "data.npz", x=np.zeros((3, 8, 8, 3), np.float32))
    (tmp_path / "labels.csv").write_text("1\n2\n1\n")
    words = ["validate", str(model), "--data", str(tmp_path / "data.npz")]
    words += ["--labels", str(tmp_path / "labels.csv")]
    assert main(words) == 3
    assert "labels.csv: 3 of 3 labels are not what segmentation takes" in capsys.readouterr().err
    assert main([*words, "--task", "classification"]) == 0
