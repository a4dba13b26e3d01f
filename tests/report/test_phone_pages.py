"""Pages on a phone: nothing scrolls sideways, letters can be read, and none covers another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from accuracy.nearest import CLASSES, float_model, int8_model, pictures
from advice.sweep.samples import row
from application.networks_here import example
from models import mobilenet_like, save, to_tflite
from npuscope.advice.sweep.summary import summarise
from npuscope.cli.main import main
from npuscope.demo_network import demo_graph
from npuscope.report.html.sweep import sweep_page
from report.browser import Page, browser, find_browser
from report.html_samples import explained, page_of

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium, or no pipes to it")
WIDTH = 390
# Texts of pictures that are too small, and pairs of which one covers the other.
SMALL = """[...document.querySelectorAll('svg text')]
  .filter((text) => text.textContent && text.getBoundingClientRect().height < 9)
  .map((text) => text.textContent)"""
COVERED = """[...document.querySelectorAll('svg')].flatMap((plot) => {
  const texts = [...plot.querySelectorAll('text')].filter((text) => text.textContent);
  const boxes = texts.map((text) => text.getBoundingClientRect());
  return boxes.flatMap((a, n) => boxes.slice(n + 1).flatMap((b, k) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    return wide > 1 && high > 4 ? [[texts[n].textContent, texts[n + 1 + k].textContent]] : [];
  }));
})"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        page.resize(WIDTH, 844)
        yield page


def report(folder: Path, page: Path) -> None:
    page.write_text(page_of(*explained(demo_graph())), encoding="utf-8")


def plan(folder: Path, page: Path) -> None:
    main(["plan", str(example(folder)), "--html", str(page)])


def accuracy(folder: Path, page: Path) -> None:
    int8, float32 = save(folder, "int8.tflite", int8_model()), folder / "float.tflite"
    float32.write_bytes(float_model())
    values, labels = pictures(12)
    labels[:4] = (labels[:4] + 1) % CLASSES
    np.savez(folder / "data.npz", image=values, labels=labels)
    words = ["--data", str(folder / "data.npz"), "--float", str(float32), "--html", str(page)]
    main(["validate", str(int8), *words])


def sweep(folder: Path, page: Path) -> None:
    long = "mobilenet_v2_1.0_224_quantized_per_channel_int8.tflite"
    times = {"a.tflite": 2.0, "b.tflite": 2.1, long: 40.0}
    rows = [
        row(f"{name}{pools}", name, total_ms=ms * factor, pools=pools, internal_ram_bytes=size)
        for name, ms in times.items()
        for pools, factor, size in (("small", 1.5, 1 << 16), ("no external RAM", 1.0, 1 << 20))
    ]
    page.write_text(sweep_page(summarise(rows), "runs.jsonl"), encoding="utf-8")


def tune(folder: Path, page: Path) -> None:
    model = save(folder, "net.tflite", to_tflite(mobilenet_like()))
    words = ["--evaluations", "6", "--jobs", "1", "--html", str(page)]
    main(["tune", str(model), "--max", "ms=2,ram=512KiB", *words])


@pytest.mark.parametrize("write", [report, plan, accuracy, sweep, tune])
def test_a_page_fits_a_phone(
    tab: Page, tmp_path: Path, write: Callable[[Path, Path], None]
) -> None:
    page = tmp_path / "page.html"
    write(tmp_path, page)
    tab.open(page)
    assert tab.problems() == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= WIDTH
    assert tab.evaluate(SMALL) == []
    assert tab.evaluate(COVERED) == []
