"""The page of a sweep in a real browser: points, front, choices, tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from advice.sweep.samples import failed, row
from npuscope.advice.sweep.summary import summarise
from npuscope.report.html.sweep import sweep_page
from report.browser import Page, browser, find_browser

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium, or no pipes to it")

EVIL = "<img src=x onerror=document.title='evil'>.tflite"
ROWS = [
    row("1", "a.tflite", total_ms=2.0),
    row("2", "a.tflite", total_ms=3.0, pools="small", internal_ram_bytes=1024),
    row("3", "b.tflite", total_ms=12.5, internal_ram_bytes=1 << 21, external_ram_bytes=9),
    row("4", EVIL, total_ms=0.0, internal_ram_bytes=0, generation="2.2"),
    failed("5", EVIL, model="c.tflite"),
]
DOTS = "document.querySelectorAll('#trade-off-plot circle').length"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


def opened(tab: Page, folder: Path, rows: list[dict]) -> Page:
    path = folder / "page.html"
    path.write_text(sweep_page(summarise(rows), "s.jsonl"), encoding="utf-8")
    tab.open(path)
    assert tab.problems() == []
    assert set(tab.requests()) == {path.as_uri()}
    return tab


def choose(tab: Page, box: str, value: int) -> None:
    tab.evaluate(
        f"(() => {{ const box = document.getElementById('{box}'); box.value = '{value}';"
        "box.dispatchEvent(new Event('change')); })()"
    )


def test_it_draws_runs_and_their_front(tab: Page, tmp_path: Path) -> None:
    opened(tab, tmp_path, ROWS)
    assert tab.evaluate("document.title") == "s.jsonl · npuscope"
    shown = tab.evaluate("[...document.querySelectorAll('section')].map((s) => s.id)")
    assert shown == ["trade-off", "best", "fronts", "configurations", "failures", "facts"]
    assert tab.evaluate(DOTS) == 4
    # One front of all that is shown: the one that nothing beats stands for itself.
    assert tab.evaluate("document.querySelectorAll('.front').length") == 0
    assert tab.evaluate("document.querySelectorAll('.dot-external').length") == 1
    names = tab.evaluate("[...document.querySelectorAll('.front-name')].map((t) => t.textContent)")
    assert names == [EVIL]
    assert "NaN" not in tab.evaluate("document.getElementById('trade-off-plot').outerHTML")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1360
    assert tab.evaluate("document.querySelectorAll('#best tbody tr').length") == 4


def test_one_model_has_a_front_of_its_own(tab: Page, tmp_path: Path) -> None:
    opened(tab, tmp_path, ROWS)
    names = tab.evaluate(
        "[...document.querySelectorAll('#choose-model option')].map((o) => o.textContent)"
    )
    assert names == ["all", EVIL, "a.tflite", "b.tflite", "c.tflite"]
    value = tab.evaluate(
        "[...document.querySelectorAll('#choose-model option')]"
        ".find((o) => o.textContent === 'a.tflite').value"
    )
    choose(tab, "choose-model", int(value))
    assert tab.evaluate(DOTS) == 2
    said = "document.querySelector('#trade-off .legend li:last-child').textContent"
    assert tab.evaluate(said) == "2 points, 2 on the front"


def test_a_model_without_a_run_and_other_colours(tab: Page, tmp_path: Path) -> None:
    opened(tab, tmp_path, ROWS)
    choose(tab, "choose-axis", 1)
    keys = "[...document.querySelectorAll('#trade-off .legend li')].map((i) => i.textContent)"
    assert tab.evaluate(keys) == ["2.2", "4.0", "4 points, 1 on the front"]
    last = tab.evaluate("document.querySelectorAll('#choose-model option').length") - 2
    choose(tab, "choose-model", last)  # c.tflite, which failed
    assert tab.evaluate(DOTS) == 0
    assert tab.evaluate(keys) == ["no run is left"]
    assert tab.problems() == []


def test_a_filter_by_words_and_bounds(tab: Page, tmp_path: Path) -> None:
    opened(tab, tmp_path, ROWS)
    rows = "document.querySelectorAll('#points-table tbody tr').length"
    for words, dots in (("a.tflite", 2), ("tflite ms<3", 2), ("internal>1000", 1), ("nobody", 0)):
        tab.evaluate(
            "(() => { const box = document.getElementById('filter-points');"
            f"box.value = '{words}'; box.dispatchEvent(new Event('input')); }})()"
        )
        assert tab.evaluate(DOTS) == dots, words
        assert tab.evaluate(rows) == dots


def test_names_on_the_front_do_not_touch(tab: Page, tmp_path: Path) -> None:
    """75 models of like size: as many names as there is room for, none over another."""
    many = [
        row(str(n), f"model_with_a_long_name_{n}.tflite", total_ms=9 - 0.001 * n)
        | {"internal_ram_bytes": 100_000 + n}
        for n in range(75)
    ]
    opened(tab, tmp_path, many)
    said = "document.querySelector('#trade-off .legend li:last-child').textContent"
    assert tab.evaluate(said) == "75 points, 75 on the front"
    boxes = tab.evaluate(
        "[...document.querySelectorAll('.front-name')].map((t) => { const b = t.getBBox();"
        "return [b.x, b.y, b.x + b.width, b.y + b.height]; })"
    )
    assert boxes
    for number, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[number + 1 :]:
            beside = right <= other[0] or other[2] <= left
            assert beside or bottom <= other[1] or other[3] <= top


@pytest.mark.parametrize("rows", [ROWS[:1], ROWS[4:]], ids=["one run", "none done"])
def test_little_to_show(tab: Page, tmp_path: Path, rows: list[dict]) -> None:
    opened(tab, tmp_path, rows)
    assert tab.evaluate(DOTS) == sum(one["status"] == "ok" for one in rows)
    assert "NaN" not in tab.evaluate("document.body.innerHTML")
