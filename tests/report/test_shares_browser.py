"""Epochs together, and the ways from them to single epochs: table, address, keys, files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from npuscope.demo_network import demo_graph
from npuscope.graph.model import Graph
from npuscope.structs import replace
from report.browser import Page, browser, find_browser
from report.html_samples import explained, page_of

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed")

SHOWN = "[...document.querySelectorAll('#epoch-table tbody tr')].filter((row) => !row.hidden)"
GROUPS = """[...document.querySelectorAll('#shares-table tbody tr')]
  .map((row) => [...row.cells].map((cell) => cell.textContent))"""
# What is saved is caught before the browser asks where to.
CATCH = """window.saved = null;
  const keep = (text) => { window.saved = text; };
  URL.createObjectURL = (blob) => { blob.text().then(keep); return "#"; };
  HTMLAnchorElement.prototype.click = function () { window.savedName = this.download; };"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def demo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "demo.html"
    path.write_text(page_of(*explained(demo_graph())), encoding="utf-8")
    return path


def press(page: Page, key: str) -> None:
    event = f"new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}})"
    page.evaluate(f"document.body.dispatchEvent({event})")


def choose_grouping(page: Page, name: str) -> None:
    page.evaluate(
        f"(() => {{ const box = document.getElementById('grouping'); box.value = '{name}';"
        " box.dispatchEvent(new Event('change')); })()"
    )


def test_every_epoch_is_in_one_group(tab: Page, demo_file: Path) -> None:
    tab.open(demo_file)
    whole = explained(demo_graph())[1].profile
    for grouping in ("what they compute", "what limits them"):
        choose_grouping(tab, grouping)
        rows = tab.evaluate(GROUPS)
        assert sum(int(row[1]) for row in rows) == len(whole.epochs)
        assert sum(float(row[2]) for row in rows) == pytest.approx(whole.total_ms, abs=0.006)
        assert rows[-1][5] == "100.0 %"
        assert [float(row[2]) for row in rows] == sorted(
            (float(row[2]) for row in rows), reverse=True
        )


def test_a_group_narrows_the_table_until_it_is_let_go(tab: Page, demo_file: Path) -> None:
    tab.open(demo_file)
    everything = tab.evaluate(f"{SHOWN}.length")
    name, count = tab.evaluate(GROUPS)[0][:2]
    tab.evaluate("document.querySelector('#shares-table tbody th .link').click()")
    assert tab.evaluate(f"{SHOWN}.length") == int(count) < everything
    only = "document.getElementById('only')"
    assert tab.evaluate(f"{only}.textContent").startswith(f"only {name} ")
    tab.evaluate(f"{only}.click()")
    assert tab.evaluate(f"{SHOWN}.length") == everything
    assert tab.evaluate(f"{only}.hidden")


def test_an_epoch_can_be_linked_to(tab: Page, demo_file: Path) -> None:
    tab.open(demo_file)
    tab.evaluate("document.querySelector('#epoch-table tr[data-index=\"4\"] td').click()")
    hash_of = tab.evaluate("location.hash")
    number = explained(demo_graph())[1].profile.epochs[4].first
    assert hash_of == f"#epoch-{number}"
    tab.visit("about:blank")
    tab.visit(demo_file.resolve().as_uri() + hash_of)
    assert tab.evaluate("document.body.dataset.chosen") == "4"
    assert tab.problems() == []


def test_keys_lead_from_epoch_to_epoch(tab: Page, demo_file: Path) -> None:
    tab.open(demo_file)
    for key, chosen in (("j", "0"), ("j", "1"), ("k", "0"), ("Escape", "")):
        press(tab, key)
        assert tab.evaluate("document.body.dataset.chosen") == chosen
    assert tab.evaluate("location.hash") == ""


def test_letters_in_a_box_choose_nothing(tab: Page, demo_file: Path) -> None:
    tab.open(demo_file)
    tab.evaluate(
        "document.getElementById('filter').dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'j', bubbles: true}))"
    )
    assert not tab.evaluate("document.body.dataset.chosen")


def test_buffers_of_the_chosen_epoch(tab: Page, demo_file: Path) -> None:
    tab.open(demo_file)
    press(tab, "j")
    press(tab, "j")
    cells = "[...row.cells].map((cell) => cell.textContent)"
    rows = dict(tab.evaluate(f"[...document.querySelectorAll('#detail tr')].map((row) => {cells})"))
    assert "KiB" in rows["writes"] and " x " in rows["writes"]
    assert rows["alive"].split()[1].startswith("buffer")


def test_the_part_of_the_timeline_that_is_shown_is_summed(tab: Page, demo_file: Path) -> None:
    tab.open(demo_file)
    part = "document.getElementById('timeline-part').textContent"
    assert tab.evaluate(part) == ""
    tab.evaluate("document.querySelector('#timeline button[title=closer]').click()")
    text = tab.evaluate(part)
    assert " epochs, " in text and "of the inference (NPU " in text
    tab.evaluate(
        "document.querySelector('#timeline button[title=\"the whole inference\"]').click()"
    )
    assert tab.evaluate(part) == ""


def saved(page: Page) -> list[list[str]]:
    page.evaluate(CATCH)
    page.evaluate("document.getElementById('save').click()")
    page.wait_for("window.saved !== null")
    return list(csv.reader(io.StringIO(page.evaluate("window.saved"))))


def test_the_table_is_saved_as_it_is_shown(tab: Page, demo_file: Path) -> None:
    tab.open(demo_file)
    tab.evaluate("document.querySelector('#shares-table tbody th .link').click()")
    heads, *rows = saved(tab)
    assert len(rows) == tab.evaluate(f"{SHOWN}.length")
    profile = explained(demo_graph())[1].profile
    by_epoch = {str(epoch.first): epoch for epoch in profile.epochs}
    for row in rows:
        cells = dict(zip(heads, row, strict=True))
        epoch = by_epoch[cells["epoch"]]
        assert float(cells["ms"]) == pytest.approx(epoch.ms, rel=1e-6)
        assert float(cells["share"]) == pytest.approx(epoch.ms / profile.total_ms, rel=1e-5)
    assert tab.evaluate("window.savedName") == "demo.epochs.csv"


def test_a_saved_name_is_no_formula(tab: Page, tmp_path: Path) -> None:
    graph = demo_graph()
    ops = [replace(op, origin=(f"=HYPERLINK({n})",)) for n, op in enumerate(graph.ops)]
    evil = Graph(graph.name, list(graph.tensors.values()), ops, graph.inputs, graph.outputs)
    path = tmp_path / "evil.html"
    path.write_text(page_of(*explained(evil)), encoding="utf-8")
    tab.open(path)
    cells = [cell for row in saved(tab) for cell in row]
    assert any(cell.startswith("'=HYPERLINK") for cell in cells)
    assert not any(cell.startswith(("=", "+", "-", "@", "|")) for cell in cells)
