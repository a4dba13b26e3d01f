"""Pairs find their file, the largest kernels are taken to 4 bits, and the aims are counted."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from models import conv_net, save, to_tflite
from npuscope.files.load import load_model
from npuscope.graph.model import DType

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TABLE = """file,family,stedgeai,inference_ms,weights_flash_kib
net.tflite,a,4.0.0,1.5,5.0
net.tflite,a,3.0.0,2.5,5.0
"""
PAIRS = """model,share_of_4_bit_weights,int8_ms,w4_ms,int8_flash_kib,w4_flash_kib,w4_internal_kib
Net,0.9,1.5,1.4,5.0,3.0,1.0
Older,0.9,2.5,1.4,5.0,3.0,1.0
Absent,0.9,9.5,1.4,5.0,3.0,1.0
"""


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "accuracy", raising=False)  # tests/accuracy has the name
    import four_bits

    return four_bits


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path, "net.tflite", to_tflite(conv_net()))
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "pairs.csv").write_text(PAIRS)
    return tmp_path


def test_a_line_a_pair_with_a_file_and_a_sum(
    benchmark: ModuleType,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [f"--{name}={folder / name}.csv" for name in ("table", "pairs")]
    monkeypatch.setattr(sys, "argv", ["four_bits.py", f"--models={folder}", *files])
    benchmark.main()
    *_, line, _, total = capsys.readouterr().out.splitlines()
    assert line.startswith("| net.tflite | 90% |")
    assert total.startswith("1 pairs with a file: flash within 2% in ")


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_as_many_weights_as_the_share_says(
    benchmark: ModuleType, folder: Path, share: float
) -> None:
    graph = load_model(folder / "net.tflite")
    narrow = benchmark.in_four_bits(graph, share)
    kernels = [narrow.tensors[op.inputs[1]] for op in narrow.ops if len(op.inputs) > 1]
    taken = [t for t in kernels if t.dtype is DType.INT4]
    total, largest = sum(t.elements for t in kernels), max(t.elements for t in kernels)
    assert abs(sum(t.elements for t in taken) - share * total) <= largest / 2
    assert all(t.data is not None and t.data.min() >= -8 and t.data.max() <= 7 for t in taken)
    assert not any(t.dtype is DType.INT4 for t in graph.tensors.values())
