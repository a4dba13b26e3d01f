"""The HTML report in a real browser: it draws, its views are linked, names run nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from many_core.nets import EncoderShape, encoder, graph_of
from many_core.samples import layout, program, stats
from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from npuscope.demo_network import demo_graph
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.report.opstats_page import opstats_page
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate
from npuscope.profiling.model import UNKNOWN_FIT, UNKNOWN_MEMORY, Profile, Provenance
from npuscope.report.html.data import profile_page
from npuscope.structs import replace
from report.browser import Page, browser, find_browser
from report.html_samples import deep_graph, explained, hostile_graph, page_of
from sample_profile import sample_profile

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium, or no pipes to it")

HEADS = "[...document.querySelectorAll('#epoch-table th button')]"
ROWS = "[...document.querySelectorAll('#epoch-table tbody tr')].filter((row) => !row.hidden)"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def demo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "demo.html"
    path.write_text(page_of(*explained(demo_graph())), encoding="utf-8")
    return path


@pytest.fixture
def demo(tab: Page, demo_file: Path) -> Page:
    tab.open(demo_file)
    return tab


def opened(tab: Page, folder: Path, text: str) -> Page:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    tab.open(path)
    return tab


def test_it_draws_everything_without_a_complaint(demo: Page) -> None:
    assert demo.evaluate("document.body.dataset.ready") == "1"
    assert demo.problems() == []
    assert demo.evaluate("document.title") == "demo · npuscope"
    shown = demo.evaluate("[...document.querySelectorAll('section')].map((s) => s.id)")
    assert shown == [
        "findings", "shares", "timeline", "memory", "roofline", "compared", "graph", "epochs",
        "facts",
    ]  # fmt: skip
    assert demo.evaluate("document.querySelectorAll('#timeline-plot path').length") > 5
    assert demo.evaluate("document.querySelectorAll('#memory-plot .block').length") > 20
    assert demo.evaluate("document.querySelectorAll('#roofline-plot circle').length") > 10
    assert demo.evaluate("document.querySelectorAll('.uplot canvas').length") == 2
    assert demo.evaluate("document.documentElement.scrollWidth") <= 1360


def test_it_asks_for_nothing_but_itself(demo: Page, demo_file: Path) -> None:
    assert set(demo.requests()) == {demo_file.as_uri()}


def test_the_table_sorts_by_any_column(demo: Page) -> None:
    times = f"{ROWS}.map((row) => Number(row.cells[2].textContent))"
    press = "{}.find((head) => head.textContent === '{}').click()"
    longest_first = demo.evaluate(times)
    assert longest_first == sorted(longest_first, reverse=True)
    assert demo.evaluate("document.querySelector('th[aria-sort=descending]').textContent") == "ms"
    demo.evaluate(press.format(HEADS, "epoch"))
    numbers = demo.evaluate(f"{ROWS}.map((row) => Number(row.dataset.index))")
    assert numbers == sorted(numbers)
    assert demo.evaluate(times) != longest_first
    demo.evaluate(press.format(HEADS, "ms"))
    assert demo.evaluate(times) == longest_first
    demo.evaluate(press.format(HEADS, "ms"))
    assert demo.evaluate(times) == longest_first[::-1]
    demo.evaluate(f"{HEADS}.find((head) => head.textContent === 'kind').click()")
    kinds = demo.evaluate(f"{ROWS}.map((row) => row.cells[1].textContent)")
    assert kinds == sorted(kinds)


def test_the_table_is_filtered(demo: Page) -> None:
    demo.evaluate(
        "(() => { const box = document.getElementById('filter'); box.value = 'softmax';"
        "box.dispatchEvent(new Event('input')); })()"
    )
    assert demo.evaluate(f"{ROWS}.length") == 1
    demo.evaluate(
        "(() => { const box = document.getElementById('filter-kind'); box.value = 'HW';"
        "box.dispatchEvent(new Event('change')); })()"
    )
    assert demo.evaluate(f"{ROWS}.length") == 0
    assert demo.evaluate("document.querySelector('#epochs output').textContent").startswith("0 of")


def centre(tab: Page, selector: str) -> tuple[float, float]:
    """In the middle of an element, which is scrolled into view."""
    x, y = tab.evaluate(
        f"(() => {{ const one = document.querySelector({selector!r});"
        "one.scrollIntoView({ block: 'center' }); const box = one.getBoundingClientRect();"
        "return [box.left + box.width / 2, box.top + box.height / 2]; })()"
    )
    return x, y


def chosen_everywhere(tab: Page) -> set[str]:
    """The epoch as each view marks it."""
    row = tab.evaluate("document.querySelector('.row-chosen').dataset.index")
    node = tab.evaluate("document.querySelector('.node-chosen').dataset.index")
    dot = tab.evaluate("document.querySelector('#roofline-plot .dot-chosen').dataset.index")
    marks = tab.evaluate("document.querySelectorAll('.choice').length")
    assert marks == 2  # timeline and memory map
    assert tab.evaluate("document.getElementById('detail').hidden") is False
    return {row, node, dot, tab.evaluate("document.body.dataset.chosen")}


def test_a_click_in_the_timeline_is_followed_everywhere(demo: Page) -> None:
    x, y = centre(demo, "#timeline-plot")
    demo.click(x, y)
    assert len(chosen_everywhere(demo)) == 1
    top = demo.evaluate("scrollY")
    demo.click(x, y)
    assert demo.evaluate("document.body.dataset.chosen") == ""
    assert demo.evaluate("scrollY") == top  # the page stays where the reader looks


@pytest.mark.parametrize(
    "selector",
    ["#graph-plot .node[data-index='3'] rect", "#epoch-table tr[data-index='3'] td"],
)
def test_a_click_elsewhere_reaches_the_timeline(demo: Page, selector: str) -> None:
    demo.click(*centre(demo, selector))
    assert chosen_everywhere(demo) == {"3"}


def test_a_finding_leads_to_its_epoch(demo: Page) -> None:
    demo.click(*centre(demo, "#findings .to-epoch"))
    wanted = demo.evaluate("document.querySelector('#findings .to-epoch').dataset.index")
    assert demo.evaluate("document.body.dataset.chosen") == wanted
    assert "NA-SOFTMAX" in demo.evaluate("document.getElementById('detail').textContent")


def test_dragging_zooms_all_views_and_back(demo: Page) -> None:
    ticks = "[...document.querySelectorAll('{} .tick text')].map((t) => t.textContent).join()"
    views = [ticks.format("#timeline-plot"), ticks.format("#memory-plot")]
    before = [demo.evaluate(view) for view in views]
    x, y = centre(demo, "#timeline-plot")
    demo.drag(x - 100, y, x + 100)
    after = [demo.evaluate(view) for view in views]
    assert after[0] != before[0] and after[1] == after[0]
    assert demo.evaluate("document.body.dataset.chosen || ''") == ""
    demo.evaluate("document.querySelector('button[title=\"the whole inference\"]').click()")
    assert [demo.evaluate(view) for view in views] == before


def test_light_dark_and_print(demo: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    try:
        demo.emulate(dark=False)
        light = demo.evaluate(ground)
        demo.emulate(dark=True)
        assert demo.evaluate(ground) != light
        demo.emulate(media="print")
        assert demo.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
        table = "getComputedStyle(document.querySelector('.scroller.table')).maxHeight"
        assert demo.evaluate(table) == "none"
    finally:
        demo.emulate()


def test_hostile_names_run_nothing(tab: Page, tmp_path: Path) -> None:
    made, found = explained(hostile_graph())
    page = opened(tab, tmp_path, page_of(made, found))
    page.evaluate(f"{ROWS}.forEach((row) => row.click())")
    assert page.evaluate("document.body.dataset.ready") == "1"
    assert page.evaluate("typeof window.broken") == "undefined"
    assert page.evaluate("document.querySelectorAll('img, main script').length") == 0
    assert (page.problems(), page.dialogs()) == ([], 0)
    assert "<img src=x" in page.evaluate("document.body.textContent")


def test_injected_script_would_be_stopped(tab: Page, demo_file: Path, tmp_path: Path) -> None:
    """The second wall: markup that got through would still not run."""
    text = demo_file.read_text(encoding="utf-8")
    attack = "<script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"
    page = opened(tab, tmp_path, text.replace("</main>", f"</main>{attack}"))
    assert page.evaluate("typeof window.broken") == "undefined"
    assert any("Content Security Policy" in problem for problem in page.problems())


def test_seven_hundred_epochs_are_drawn(tab: Page, tmp_path: Path) -> None:
    page = opened(tab, tmp_path, page_of(*explained(deep_graph(700))))
    assert page.problems() == []
    assert page.evaluate(f"{ROWS}.length") >= 700
    modules = "document.querySelectorAll('.module').length"
    assert 4 <= page.evaluate(modules) <= 60  # read at one glance
    page.evaluate("document.querySelector('button[title=\"every epoch\"]').click()")
    assert page.evaluate("document.querySelectorAll('.node').length") >= 700
    page.evaluate("document.querySelector('button[title=\"as much as fits\"]').click()")
    assert page.evaluate("document.getElementById('graph-plot').clientHeight") <= 4000
    page.evaluate("document.querySelector('button[title=\"modules only\"]').click()")
    assert page.evaluate("document.querySelectorAll('.node').length") == 0


def test_a_search_in_the_graph_leads_from_hit_to_hit(tab: Page, tmp_path: Path) -> None:
    page = opened(tab, tmp_path, page_of(*explained(deep_graph(120))))
    find = (
        "(() => {{ const box = document.getElementById('graph-search'); box.value = {!r};"
        "box.dispatchEvent(new Event('input')); }})()"
    )
    told = "document.getElementById('graph-hits').textContent"
    page.evaluate(find.format("conv:77"))
    assert page.evaluate(told) == "1 of 1"
    hit = page.evaluate("document.querySelector('.node.node-hit').dataset.index")
    assert hit == "77"
    box = "document.querySelector('#graph .scroller').getBoundingClientRect()"
    row = "document.querySelector('.node.node-hit .node-box').getBoundingClientRect()"
    assert page.evaluate(f"{row}.top >= {box}.top && {row}.bottom <= {box}.bottom")
    page.evaluate(find.format("conv:1"))  # 1, 10 to 19, 100 to 119
    assert page.evaluate(told) == "1 of 31"
    page.evaluate("document.querySelector('button[title=\"next hit\"]').click()")
    assert page.evaluate(told) == "2 of 31"
    page.evaluate(find.format("conv:(7|9)[34]"))
    assert page.evaluate(told) == "1 of 4"
    page.evaluate(find.format("conv:(7"))  # no expression: nothing is called so
    assert page.evaluate(told) == "nothing found"
    page.evaluate(find.format("nowhere"))
    assert page.evaluate(told) == "nothing found"


def test_an_epoch_chosen_elsewhere_opens_its_module(tab: Page, tmp_path: Path) -> None:
    page = opened(tab, tmp_path, page_of(*explained(deep_graph(120))))
    assert page.evaluate("document.querySelectorAll('.node').length") == 0
    page.evaluate("document.querySelector('#epoch-table tr[data-index=\"60\"] td').click()")
    assert page.evaluate("document.querySelector('.node-chosen').dataset.index") == "60"


SCOPED = "Conv:net/stage{2}/block{1}/conv{0}"  # ten layers in a block, five blocks in a stage
MODULES = "[...document.querySelectorAll('.module')].map((m) => m.getAttribute('aria-label'))"
FOCUS = "document.activeElement.getAttribute('aria-label')"


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.evaluate(
            f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', "
            f"{{key: {key!r}, bubbles: true}}))"
        )


def test_modules_hold_modules(tab: Page, tmp_path: Path) -> None:
    page = opened(tab, tmp_path, page_of(*explained(deep_graph(200, SCOPED))))
    blocks = [f"stage{n // 5}/block{n}" for n in range(20)]
    closed = [one for n in range(4) for one in (f"stage{n}", *blocks[5 * n : 5 * n + 5])]
    assert page.evaluate(MODULES) == closed  # as many levels as are read at one glance
    page.evaluate(
        "document.querySelector('[aria-label=\"stage1\"]').dispatchEvent(new Event('click'))"
    )
    assert page.evaluate(MODULES) == [one for one in closed if "stage1/" not in one]
    page.evaluate("document.querySelector('#epoch-table tr[data-index=\"77\"] td').click()")
    assert page.evaluate("document.querySelectorAll('.node').length") == 10  # of its block alone
    assert page.evaluate("document.querySelector('.node-chosen').dataset.index") == "77"


def test_the_arrow_keys_walk_through_the_modules(tab: Page, tmp_path: Path) -> None:
    page = opened(tab, tmp_path, page_of(*explained(deep_graph(200, SCOPED))))
    page.evaluate("document.querySelector('#graph-plot [tabindex=\"0\"]').focus()")
    assert page.evaluate(FOCUS) == "stage0"
    press(page, "ArrowDown")
    assert page.evaluate(FOCUS) == "stage0/block0"
    press(page, "ArrowRight", "ArrowRight")
    assert page.evaluate(FOCUS) == "epoch 2"
    press(page, "ArrowLeft", "ArrowLeft", "ArrowLeft")
    assert page.evaluate(FOCUS) == "stage0"
    press(page, "ArrowLeft")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    assert page.evaluate("document.querySelectorAll('#graph-plot [tabindex=\"0\"]').length") == 1


def test_a_chosen_epoch_leads_along_the_graph(tab: Page, tmp_path: Path) -> None:
    page = opened(tab, tmp_path, page_of(*explained(deep_graph(120))))
    page.evaluate("document.querySelector('#epoch-table tr[data-index=\"60\"] td').click()")
    links = "[...document.querySelectorAll('#detail .link')].map((one) => one.textContent)"
    assert page.evaluate(links) == ["61", "63"]  # beside 62
    page.evaluate("document.querySelectorAll('#detail .link')[1].click()")
    assert page.evaluate("document.querySelector('.node-chosen').dataset.index") == "61"
    page.evaluate("document.querySelector('.jumps a').click()")
    assert page.evaluate("location.hash") == "#graph"
    assert abs(page.evaluate("document.getElementById('graph').getBoundingClientRect().top")) < 60


def test_nothing_is_shown_of_what_is_not_known(tab: Page, tmp_path: Path) -> None:
    bare = replace(sample_profile(), fit=UNKNOWN_FIT, memory=UNKNOWN_MEMORY)
    page = opened(tab, tmp_path, profile_page(bare))
    assert page.problems() == []
    shown = page.evaluate("[...document.querySelectorAll('section')].map((s) => s.id)")
    assert {"timeline", "epochs", "facts"} <= set(shown)
    assert not {"findings", "memory", "roofline", "graph"} & set(shown)
    assert page.evaluate(
        "[...document.querySelectorAll('section')].every((s) => s.children.length > 1)"
    )


OVERLAPS = """(() => {
  const found = [];
  for (const plot of document.querySelectorAll('svg.plot')) {
    const texts = [...plot.querySelectorAll('text')].filter((text) => text.textContent);
    const boxes = texts.map((text) => text.getBoundingClientRect());
    boxes.forEach((a, n) => boxes.slice(n + 1).forEach((b, k) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 4)
        found.push([plot.id, texts[n].textContent, texts[n + 1 + k].textContent]);
    }));
  }
  return found;
})()"""


@pytest.mark.parametrize("width", [1400, 800])
def test_labels_do_not_collide(tab: Page, demo_file: Path, width: int) -> None:
    tab.resize(width)
    tab.open(demo_file)
    assert tab.evaluate(OVERLAPS) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.resize(1360)


def measured() -> Profile:
    made = sample_profile(Provenance.BOARD)
    epochs = tuple(replace(epoch, predicted_ms=1.1 * epoch.ms) for epoch in made.epochs)
    return replace(made, epochs=epochs)


def test_predictions_stand_beside_what_was_measured(tab: Page, tmp_path: Path) -> None:
    page = opened(tab, tmp_path, profile_page(measured()))
    assert page.problems() == []
    assert "predicted" in page.evaluate(f"{HEADS}.map((head) => head.textContent)")
    assert "(-9.1 %)" in page.evaluate("document.getElementById('compared').textContent")


def test_a_profile_without_epochs_is_drawn_too(tab: Page, tmp_path: Path) -> None:
    page = opened(tab, tmp_path, profile_page(replace(sample_profile(), epochs=(), total_ms=0.0)))
    assert page.problems() == []
    assert page.evaluate("document.body.dataset.ready") == "1"


def test_stats_buffers_are_drawn(tab: Page, tmp_path: Path) -> None:
    tables = opstats_of(stats(program(layout()).layout))
    page = opened(tab, tmp_path, opstats_page([tables, tables], "two buffers"))
    assert page.problems() == []
    assert page.evaluate("document.querySelectorAll('.plot rect').length") > 10
    assert page.evaluate("document.querySelectorAll('#ops tbody tr').length") > 3


@pytest.mark.parametrize("width", [1400, 800])
def test_what_to_change_in_a_run_of_many_cores_is_drawn(
    tab: Page, tmp_path: Path, width: int
) -> None:
    machine = load_core_machine()
    options = CoreCompileOptions(2, stats_level=70, ddr_stats=True)
    made = compile_graph(graph_of(encoder(EncoderShape(layers=2))), machine, options)
    tables = opstats_of(simulate(made, machine, RunOptions()).stats[0])
    tab.resize(width)
    page = opened(tab, tmp_path, opstats_page([tables], "one buffer"))
    assert page.problems() == []
    shown = page.evaluate("[...document.querySelectorAll('section')].map((s) => s.id)")
    assert shown[:5] == ["advice", "findings", "roofline", "nodes", "vtcm"]
    assert "ADV-CORE-IDLE" in page.evaluate("document.getElementById('findings').textContent")
    assert page.evaluate("document.querySelectorAll('#advice tbody tr').length") == len(
        tables.levers
    )
    assert page.evaluate("document.querySelectorAll('#nodes tbody tr').length") == len(tables.nodes)
    blocks = sum(len(row.blocks) for row in tables.vtcm)
    assert page.evaluate("document.querySelectorAll('#vtcm .block').length") == blocks > 10
    assert page.evaluate("document.querySelectorAll('#roofline .dot').length") > 1
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0


# Pages of other verbs.


@pytest.mark.parametrize(
    ("words", "sections"),
    [
        (["compare", "--b", "generation=2.2"], {"sides", "causes", "rows", "facts"}),
        (["compare", "--machines", "stm32n6,cloudai100"], {"times", "machines", "facts"}),
        (["fix", "--drop-softmax", "--seeds", "1"], {"sides", "applied", "outputs", "facts"}),
        (["gate", "--max", "total_ms=0.001"], {"checks", "facts"}),
        (["gate", "--max", "SW=0", "--baseline", "MODEL", "--generation", "2.2"],
            {"checks", "sides", "facts"}),
    ],
    ids=["compare", "machines", "fix", "gate", "gate with a baseline"],
)  # fmt: skip
@pytest.mark.parametrize("width", [1400, 800, 390])
def test_pages_of_other_verbs_are_drawn(
    tab: Page, tmp_path: Path, words: list[str], sections: set[str], width: int
) -> None:
    model = save(tmp_path, "<b>net.tflite", to_tflite(mobilenet_like()))
    target = tmp_path / "page.html"
    verb, *options = (str(model) if word == "MODEL" else word for word in words)
    main([verb, str(model), *options, "--html", str(target)])
    tab.resize(width)
    tab.open(target)
    assert tab.problems() == []
    shown = tab.evaluate("[...document.querySelectorAll('section')].map((s) => s.id)")
    assert sections <= set(shown)
    assert tab.evaluate(
        "[...document.querySelectorAll('section')].every((s) => s.children.length > 1)"
    )
    assert tab.evaluate("document.querySelectorAll('main b').length") == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.resize(1360)


def test_a_cause_is_one_group_with_its_op_and_its_spelling(tab: Page, tmp_path: Path) -> None:
    made, found = explained(demo_graph())
    softmax = next(one for one in found.findings if one.rule == "NA-SOFTMAX")
    others = [
        replace(softmax, ops=tuple(f"op{n}" for n in range(20)),
            evidence={**softmax.evidence, "op": op})
        for op in ("Maximum", "Maximum", "Erf")
    ]  # fmt: skip
    text = profile_page(found.profile, replace(found, findings=(softmax, *others), build=made))
    page = opened(tab, tmp_path, text)
    heads = "[...document.querySelectorAll('#findings summary strong')].map((s) => s.textContent)"
    title = softmax.title
    assert page.evaluate(heads) == [title, f"{title}: Maximum", f"{title}: Erf"]
    words = page.evaluate("document.getElementById('findings').textContent")
    assert "op0, op1, op2, op3 and 16 more" in words
    assert "PyTorch: " in words and "Keras: " in words
