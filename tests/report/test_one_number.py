"""One number in one place: what several outputs of one network say is the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from models import save
from npuscope.cli.main import main
from npuscope.program.model import EpochKind
from npuscope.program.sources import read_program
from texts.networks import NETWORKS

Capture = pytest.CaptureFixture[str]
NAMES = (
    "prime_channels.tflite",
    "scores.tflite",
    "mobilenet.tflite",
    "leaky.tflite",
    "pool.tflite",
    "resize.tflite",
    "slice_step.tflite",
    "float_island.tflite",
    "prelu.onnx",
    "large_image.tflite",
)
GENERATIONS = {"prime_channels.tflite": "2.1", "mobilenet.tflite": "2.2"}
BLOCK = re.compile(r'id="data">(.*?)</script>', re.DOTALL)


def run(capsys: Capture, *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def made(name: str, folder: Path) -> tuple[Path, str]:
    return save(folder, name, NETWORKS[name]()), GENERATIONS.get(name, "4.0")


def the(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, (pattern, text)
    return found[1]


@pytest.mark.parametrize("name", NAMES)
def test_screen_explanation_and_page_agree(name: str, tmp_path: Path, capsys: Capture) -> None:
    path, generation = made(name, tmp_path)
    words = (path, "--generation", generation)
    page = tmp_path / "page.html"
    screen = run(capsys, "estimate", *words, "--html", page)
    explained = run(capsys, "explain", *words, "--verbose")
    block = BLOCK.search(page.read_text(encoding="utf-8"))
    assert block is not None
    data: dict[str, Any] = json.loads(block[1])
    figures = {row["name"]: row for row in data["figures"]}
    # The answer, the machine and the verdict, word by word.
    lines = explained.splitlines()
    assert screen.splitlines()[0] == data["answer"]
    assert screen.splitlines()[1] == lines[1] == f"machine  {data['machine']}"
    assert lines[0] == data["said"]
    # Epochs and time.
    epochs = the(r"Epochs  (.*?); the slowest", screen)
    assert epochs == figures["Epochs"]["detail"]
    number = sum(int(one) for one in re.findall(r"(\d+) (?:HW|SW|HYBRID)", epochs))
    assert figures["Epochs"]["value"] == str(number)
    assert f" {number} epoch" in the(r"(model    .*)", screen)
    if number > 1:
        assert re.search(rf"\b{number} epochs", lines[0])
    assert (
        figures["Inference"]["value"].removeprefix("≥ ") == f"{the(r'total +([0-9.]+)', screen)} ms"
    )
    if data["findings"]:
        parts = the(r"time     (.*)", explained)
        assert parts == ", ".join(
            f"{kind} {the(rf'{kind} +[0-9.]+ +([0-9.]+%)', screen)} "
            f"({the(rf'{kind} +([0-9.]+)', screen)} ms)"
            for kind, _ in data["time"]
        )
    # Every fix of every finding, with its gain, its places, and what it was compiled for.
    flat = " ".join(explained.split())
    rules = [line.split()[1] for line in lines if re.match(r"(error|warning|info) ", line)]
    assert rules == [cause.split()[0] for cause in data["causes"]]
    for cause in data["causes"].values():
        for text, *_ in cause["fixes"]:
            assert f"fix {' '.join(text.split())}" in flat


@pytest.mark.parametrize("name", ["prime_channels.tflite", "mobilenet.tflite", "scores.tflite"])
def test_a_build_counts_as_its_report_with_and_without_our_record(
    name: str, tmp_path: Path, capsys: Capture
) -> None:
    path, generation = made(name, tmp_path)
    build = tmp_path / "build"
    out = run(capsys, "compile", path, "--generation", generation, "-o", build)
    report = next(build.glob("*generate_report.txt")).read_text(encoding="utf-8")
    total = the(r"Total number of epochs:? +(\d+)", report)
    assert out.startswith(f"{total} epoch")
    counts = the(r"epochs? \((.*?); ", out)
    for left in (build, build / "network.c"):
        screen = run(capsys, "estimate", left)
        assert the(r"Epochs  (.*?), \d+ blob", screen) == counts
        assert f" {total} epoch" in the(r"(model    .*)", screen)
    (build / "program.json").unlink()
    read = read_program(build)
    assert ", ".join(f"{n} {kind}" for kind, n in read.tally.items()) == counts
    assert read.source == "network.c"
    assert all(epoch.kind in EpochKind for epoch in read.epochs)
    screen = run(capsys, "profile", build / "network.c")
    assert the(r"epochs   (.*?), \d+ blob", screen) == counts
