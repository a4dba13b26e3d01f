"""The live view in a real browser: choose, toggle, compare, several tabs at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import npuscope
from models import conv_net, mobilenet_like, save, to_tflite
from npuscope.live.library import Library
from npuscope.live.server import LiveServer
from npuscope.live.setting import Setting
from report.browser import Page, browser, find_browser

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium, or no pipes to it")

SHOWN = "document.querySelector('.figure-value').textContent"
ROWS = "document.querySelectorAll('#epoch-table tbody tr').length"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("models")
    models = [
        save(folder, "first.tflite", to_tflite(mobilenet_like())),
        save(folder, "<img src=x onerror=alert(1)>.tflite", to_tflite(conv_net())),
    ]
    made = LiveServer(Library(models, [], {}), Setting())
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def view(tab: Page, server: LiveServer) -> Page:
    tab.visit(server.address)
    tab.wait_for("document.body.dataset.updates === '1'")
    return tab


def act(view: Page, script: str) -> None:
    """Do something, and wait for the report that it gives."""
    before = int(view.evaluate("document.body.dataset.updates"))
    view.evaluate(f"(() => {{ {script} }})()")
    view.wait_for(f"Number(document.body.dataset.updates) > {before}")
    view.wait_for("!document.body.classList.contains('busy')")


def put(name: str, value: str, event: str = "change") -> str:
    return (
        f"const box = document.getElementById('{name}'); box.value = '{value}';"
        f"box.dispatchEvent(new Event('{event}'));"
    )


def toggle(fix: str) -> str:
    return f"document.querySelector('[data-fix$=\"{fix}\"]').click();"


def milliseconds(server: LiveServer, **options: object) -> str:
    return f"{npuscope.estimate(server.library.models[0], **options).total_ms:.3f} ms"


def test_it_opens_with_the_report(view: Page, server: LiveServer) -> None:
    assert view.problems() == []
    assert view.evaluate(SHOWN) == milliseconds(server)
    assert view.evaluate("document.title") == "first.tflite · npuscope"
    sent = [address for address in view.requests() if not address.startswith("data:")]
    assert all(address.startswith(server.address) for address in sent)


def test_another_generation_changes_time_memory_and_findings(
    view: Page, server: LiveServer
) -> None:
    findings = "document.getElementById('findings').textContent"
    before = view.evaluate(f"[{SHOWN}, {findings}]")
    act(view, put("pick-generation", "2.2"))
    after = view.evaluate(f"[{SHOWN}, {findings}]")
    assert after[0] == milliseconds(server, generation="2.2")
    assert before[0] != after[0] and before[1] != after[1]
    assert "generation 2.2" in view.evaluate("document.getElementById('facts').textContent")
    assert view.problems() == []


def test_a_clock_is_typed(view: Page, server: LiveServer) -> None:
    view.evaluate("document.getElementById('value-clocks.npu_mhz').focus()")
    act(view, put("value-clocks.npu_mhz", "500", "input"))
    assert view.evaluate(SHOWN) == milliseconds(server, npu_mhz=500)
    assert view.evaluate("document.activeElement.id") == "value-clocks.npu_mhz"
    assert view.evaluate("document.activeElement.value") == "500"
    act(view, put("value-clocks.npu_mhz", "", "input"))
    assert view.evaluate(SHOWN) == milliseconds(server)


def test_a_set_up_with_a_name_is_picked(view: Page, server: LiveServer) -> None:
    told = view.evaluate(SHOWN)
    act(view, put("pick-flash", "octo-dtr-50"))
    assert view.evaluate(SHOWN) == milliseconds(server, flash="octo-dtr-50") != told
    assert view.evaluate("document.getElementById('pick-flash').value") == "octo-dtr-50"
    act(view, put("pick-flash", ""))
    assert view.evaluate(SHOWN) == told


def test_a_fix_is_toggled(view: Page) -> None:
    rows, told = view.evaluate(ROWS), view.evaluate(SHOWN)
    act(view, toggle("drop-softmax"))
    assert view.evaluate(ROWS) < rows
    assert view.evaluate("document.querySelector('[data-fix$=\"drop-softmax\"]').checked")
    assert "--only drop-softmax" in view.evaluate("document.getElementById('command').textContent")
    assert "NA-SOFTMAX" not in view.evaluate("document.getElementById('findings').textContent")
    act(view, toggle("drop-softmax"))
    assert (view.evaluate(ROWS), view.evaluate(SHOWN)) == (rows, told)


def test_any_key_of_the_machine_is_a_what_if(view: Page) -> None:
    told = view.evaluate(SHOWN)
    act(view, put("what-if-key", "generation.control.controller_cycles"))
    assert view.evaluate(SHOWN) == told  # its own value
    act(view, put("value-generation.control.controller_cycles", "100000", "input"))
    assert view.evaluate(SHOWN) != told
    act(view, "document.querySelector('.what-if .close').click();")
    assert view.evaluate(SHOWN) == told


def test_a_mistake_is_told_and_the_report_stays(view: Page) -> None:
    told = view.evaluate(SHOWN)
    view.evaluate(f"(() => {{ {put('value-clocks.npu_mhz', 'fast', 'input')} }})()")
    view.wait_for("document.body.dataset.failed === '1'")
    words = view.evaluate("document.getElementById('state').textContent")
    assert words == "--set clocks.npu_mhz: expected a number, found 'fast'"
    assert view.evaluate(SHOWN) == told


def test_a_mistake_beside_a_kept_setting_is_told_once(view: Page) -> None:
    act(view, "document.getElementById('keep').click();")
    view.evaluate(f"(() => {{ {put('value-clocks.npu_mhz', 'fast', 'input')} }})()")
    view.wait_for("document.body.dataset.failed === '1'")
    view.wait_for("!document.body.classList.contains('busy')")
    view.evaluate("new Promise((done) => setTimeout(done, 50))")
    assert view.problems() == []  # no rejection that nobody takes


def test_an_address_without_a_report_can_be_left(view: Page, server: LiveServer) -> None:
    wrong = '%7B"setting":%7B"values":[["clocks.npu_mhz","fast"]]%7D%7D'
    view.visit(f"{server.address}?s={wrong}")
    view.wait_for("document.body.dataset.failed === '1'")
    view.evaluate("document.getElementById('anew').click()")
    view.wait_for("document.body.dataset.updates === '1'")
    assert view.evaluate(SHOWN) == milliseconds(server)


def test_on_a_phone_the_answer_comes_first(view: Page) -> None:
    view.resize(390, 844)
    view.visit(view.evaluate("location.href"))
    view.wait_for("document.body.dataset.updates === '1'")
    top = "document.querySelector('{}').getBoundingClientRect().top"
    assert view.evaluate(top.format(".figure-value")) < 844
    assert view.evaluate(top.format("#panel")) > 700  # a bar below
    act(view, "document.getElementById('settings-button').click();" + put("pick-generation", "2.2"))
    assert view.evaluate(top.format("#panel")) < 400  # and stays open for the next choice
    assert view.evaluate("document.documentElement.scrollWidth") <= 390
    view.evaluate("document.getElementById('settings-button').click()")
    assert view.evaluate(top.format("#panel")) > 700
    view.resize(1360)


def test_two_settings_side_by_side(view: Page, server: LiveServer) -> None:
    act(view, "document.getElementById('keep').click();")
    assert "no difference" in view.evaluate("document.querySelector('.compared').textContent")
    act(view, put("pick-generation", "2.2"))
    times = "[...document.querySelectorAll('.side-time')].map((t) => t.firstChild.textContent)"
    both = [milliseconds(server), milliseconds(server, generation="2.2")]
    assert view.evaluate(times) == both
    assert view.evaluate("document.querySelectorAll('#causes tbody tr').length") >= 1
    assert view.evaluate("document.querySelectorAll('.strip path').length") == 6
    act(view, "document.getElementById('swap').click();")
    assert view.evaluate(times) == both[::-1]
    act(view, "document.getElementById('part').click();")
    assert view.evaluate("document.querySelectorAll('.side').length") == 0
    assert view.problems() == []


def test_another_model_with_a_hostile_name(view: Page) -> None:
    act(view, put("pick-model", "1"))
    assert view.evaluate("document.querySelector('h1').textContent").startswith("<img")
    assert view.evaluate("document.querySelectorAll('img').length") == 0
    assert (view.problems(), view.dialogs()) == ([], 0)


def test_a_reload_and_a_second_tab_keep_what_each_shows(view: Page, server: LiveServer) -> None:
    act(view, put("pick-generation", "2.2"))
    address = view.evaluate("location.href")
    other = Page(view.pipe)
    other.visit(server.address)
    other.wait_for("document.body.dataset.updates === '1'")
    assert other.evaluate(SHOWN) == milliseconds(server)
    assert view.evaluate(SHOWN) == milliseconds(server, generation="2.2")
    other.visit(address)
    other.wait_for("document.body.dataset.updates === '1'")
    assert other.evaluate(SHOWN) == milliseconds(server, generation="2.2")


def test_back_and_forward_are_steps_of_the_settings(view: Page, server: LiveServer) -> None:
    times = [view.evaluate(SHOWN)]
    act(view, put("pick-generation", "2.2"))
    times.append(view.evaluate(SHOWN))
    view.evaluate("document.getElementById('value-clocks.npu_mhz').focus()")
    act(view, put("value-clocks.npu_mhz", "700", "input"))
    times.append(view.evaluate(SHOWN))
    assert len(set(times)) == 3
    for step, shown in (("back", 1), ("back", 0), ("forward", 1), ("forward", 2)):
        act(view, f"history.{step}();")
        assert view.evaluate(SHOWN) == times[shown], step
    box = "document.getElementById('value-clocks.npu_mhz').value"
    assert view.evaluate(box) == "700"
    act(view, "history.back();")
    assert view.evaluate(box) == ""
    assert view.problems() == []


def test_a_jump_inside_of_the_page_asks_for_nothing(view: Page) -> None:
    before = view.evaluate("document.body.dataset.updates")
    view.evaluate("document.querySelector('nav a[href=\"#graph\"]').click()")
    view.evaluate("history.back()")
    view.wait_for("location.hash === ''")
    assert view.evaluate("document.body.dataset.updates") == before
    assert not view.evaluate("document.body.classList.contains('busy')")


def test_a_chosen_epoch_stays_chosen(view: Page) -> None:
    view.evaluate("document.querySelector('#epoch-table tr[data-index=\"3\"] td').click()")
    act(view, put("value-clocks.npu_mhz", "700", "input"))
    assert view.evaluate("document.body.dataset.chosen") == "3"
    assert view.evaluate("document.querySelectorAll('#detail').length") == 1


@pytest.mark.parametrize("width", [1400, 800])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_screen(view: Page, width: int, dark: bool) -> None:
    view.resize(width)
    view.emulate(dark=dark)
    act(view, "document.getElementById('keep').click();")
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    assert view.problems() == []
    view.emulate()
    view.resize(1360)
