"""The accuracy benchmark runs on any folder and table, and says what it could not predict."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import npuscope
from compiler.nets import Net
from models import conv_net, save, to_tflite
from npuscope.building import build
from npuscope.graph.model import DType, Graph, Op, Quant, Tensor
from npuscope.machine.load import load_machine
from npuscope.ops.images import ResizeAttrs, ResizeMode
from processes import LIMIT_S

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "accuracy.py"
HEAD = (
    "file,model,family,graph,stedgeai,inference_ms,"
    "internal_ram_kib,external_ram_kib,weights_flash_kib"
)
TABLE = f"""{HEAD}
good.tflite,Good,a,rebuilt,4.0.0,1.5,10.0,0.0,5.0
good.tflite,Good,b,rebuilt,4.0.0,2.5,,,
good.tflite,Good,b,rebuilt,4.0.0,,10.0,0.0,5.0
absent.tflite,Absent,a,rebuilt,4.0.0,1.5,10.0,0.0,5.0
broken.tflite,Broken,a,rebuilt,4.0.0,1.5,10.0,0.0,5.0
good.tflite,Good,a,rebuilt,3.0.0,1.5,10.0,0.0,5.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("accuracy")
    save(folder, "good.tflite", to_tflite(conv_net()))
    (folder / "broken.tflite").write_bytes(b"\x1c\0\0\0TFL3" + b"\xff" * 40)
    (folder / "table.csv").write_text(TABLE)
    return folder


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--models", str(folder)]
    command += ["--table", str(folder / "table.csv"), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def rows_of(folder: Path, *more: str) -> dict[str, list[dict[str, object]]]:
    done = run(folder, "--json", str(folder / "rows.json"), *more)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[dict[str, object]]] = json.loads((folder / "rows.json").read_text())
    return found


def test_rows_that_cannot_be_predicted_carry_the_reason(folder: Path) -> None:
    rows = rows_of(folder)["4.0.0"]
    assert ["skipped" in row for row in rows] == [False, False, True, True, True]
    assert rows[2]["skipped"] == "ValueError: could not convert string to float: ''"
    assert rows[3]["skipped"] == "no such file"


def test_an_unpublished_size_is_not_an_error_of_size(folder: Path) -> None:
    assert "| external_ram_kib  | 1 of 1 " in run(folder).stdout


def test_versions_stand_in_sections_of_their_own(folder: Path) -> None:
    assert [len(rows) for rows in rows_of(folder, "--version", "4.0.0", "3.0.0").values()] == [5, 1]


def test_a_version_without_rows_gives_empty_tables(folder: Path) -> None:
    assert "0 of 0 rows are predicted" in run(folder, "--version", "2.2.0").stdout


def test_an_unknown_version_needs_a_generation(folder: Path) -> None:
    done = run(folder, "--version", "9.9")
    assert done.returncode == 2
    assert "no generation is known for 9.9: give --generation" in done.stderr
    assert run(folder, "--version", "9.9", "--generation", "4.0").returncode == 0


def test_the_page_keeps_its_prose_and_names_no_folder(folder: Path) -> None:
    page = folder / "page.md"
    assert run(folder, "--write-docs", str(page)).returncode == 0
    text = page.read_text()
    assert "**In sample**" in text and "Known weak spots" in text
    assert "54 of 54" not in text and "| absent.tflite" in text
    assert str(folder) not in text


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.delitem(sys.modules, "accuracy", raising=False)  # tests/accuracy has the name
    import accuracy

    return accuracy


def upsampled() -> Graph:
    image = Tensor("x", (1, 4, 4, 8), DType.INT8, Quant((0.1,), (-128,)))
    larger = Tensor("y", (1, 8, 8, 8), DType.INT8, Quant((0.1,), (-128,)))
    resize = Op("Resize", "up", ("x",), ("y",), ResizeAttrs((8, 8), (2.0, 2.0)))
    return Graph("net", [image, larger], [resize], ["x"], ["y"])


@pytest.mark.parametrize(
    ("version", "file", "mode"),
    [
        ("4.0.0", "st_yolo_x_nano_192_0.33_0.25_int8.tflite", ResizeMode.LINEAR),
        ("2.2.0", "st_yolo_x_nano_192_0.33_0.25_int8.tflite", ResizeMode.NEAREST),
        ("4.0.0", "yolov8n_192_quant_pc_uf_od_coco-person.tflite", ResizeMode.NEAREST),
    ],
)
def test_what_was_measured_is_known_by_the_table_of_files(
    benchmark: ModuleType, version: str, file: str, mode: ResizeMode
) -> None:
    graph = upsampled()
    measured = benchmark.as_measured({"stedgeai": version, "file": file}, graph)
    assert [op.attrs_as(ResizeAttrs).mode for op in measured.ops] == [mode]
    assert graph.ops[0].attrs_as(ResizeAttrs).mode is ResizeMode.NEAREST


def test_a_row_counts_as_the_command_line_predicts_it(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where another export was measured, the prediction for that one is a column of its own."""
    net = Net()
    features = net.conv(net.input((1, 16, 16, 8), (0.05, 0)), 8, (3, 3))
    attrs, quant = ResizeAttrs((32, 32), (2.0, 2.0)), net.quant(features)
    net.op("Resize", (features,), attrs, (1, 32, 32, 8), quant)
    graph = net.graph()
    monkeypatch.setattr(benchmark, "build", lambda _, options: build(graph, options))
    known = {"file": "up.tflite", "other_export": "4.0.0"}
    monkeypatch.setattr(benchmark, "_known_files", lambda: [known])
    line = {"file": "up.tflite", "stedgeai": "4.0.0", "inference_ms": "1.0"}
    row = benchmark._row(line, tmp_path, "--generation 4.0")
    assert row["ms"] == npuscope.estimate(graph, generation="4.0").total_ms
    assert row["other_export_ms"] > row["ms"]
    assert f"{row['other_export_ms']:.2f}" in row["other_export"]
    assert not benchmark._is_evidence(row)


def test_a_file_of_another_content_is_not_predicted(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    known = {"file": "good.tflite", "sha256": "0" * 64, "other_export": ""}
    monkeypatch.setattr(benchmark, "_known_files", lambda: [known])
    line = {"file": "good.tflite", "stedgeai": "4.0.0", "inference_ms": "1.0"}
    row = benchmark._row(line, folder, "--generation 4.0")
    assert "its sha256 is not that of the table" in row["skipped"]


def test_public_files_are_fetched_and_checked(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    lines = ["file,size_bytes,sha256,url,not_public,other_export"]
    for name, content, stated in (("a", b"aa", b"aa"), ("b", b"bb", b"other"), ("c", b"c", b"c")):
        (source / name).write_bytes(content)
        url = "" if name == "c" else (source / name).as_uri()
        lines.append(f"{name},{len(content)},{sha256(stated).hexdigest()},{url},,")
    (tmp_path / "models.csv").write_text("\n".join(lines) + "\n")
    benchmark.fetch(tmp_path / "models", tmp_path / "models.csv")
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["a"]
    assert "not kept: its sha256" in capsys.readouterr().err


def test_tables_name_the_same_files(benchmark: ModuleType) -> None:
    tables = {name: benchmark._lines(benchmark.PUBLISHED / f"{name}.csv") for name in
              ("latency", "boards", "models")}  # fmt: skip
    files = {line["file"] for name in ("latency", "boards") for line in tables[name]}
    # Beside those, public files that only tests need.
    assert files <= {line["file"] for line in tables["models"]}
    assert all(len(line["sha256"]) == 64 for line in tables["models"])
    assert all(line["url"] or line["not_public"] for line in tables["models"])
    for line in tables["boards"]:
        assert benchmark.options_of(line["options"])["generation"] in ("2.2", "4.0")


def test_the_narrowest_pair_of_widths_holds_enough_families(benchmark: ModuleType) -> None:
    scores = np.array([[-0.01 * n, 0.01 * n] for n in range(1, 21)])
    families = [str(n) for n in range(20)]
    faster, slower = benchmark._narrowest(scores, families)
    assert faster == 0.0
    # 90 % of 20 families, corrected by one more that is to come: 19 of them.
    assert slower == pytest.approx(0.19, abs=0.002)
    few = benchmark._narrowest(scores[:3], families[:3])
    assert few[1] == pytest.approx(0.04, abs=0.002)  # three families: all of them, and a third more
    # Many rows of one family weigh no more than one row of it.
    often = np.concatenate([scores, np.repeat(scores[:1], 50, axis=0)])
    assert benchmark._narrowest(often, families + ["0"] * 50) == (faster, slower)


def test_a_fit_stays_in_what_boards_measured(benchmark: ModuleType) -> None:
    keys = (("software.SoftmaxRows.per_element",), ("timing.product_cycles",))
    machine = load_machine()
    scaled = benchmark._scaled(machine, {0: 1.6, 1: 1.6}, keys)
    assert scaled.software["SoftmaxRows"].per_element == 65.0
    assert scaled.timing.product_cycles == pytest.approx(1.6 * machine.timing.product_cycles)
