"""How long a change in the live view takes: processor time of an answer, and from the click to
the drawn page in a real browser.

python benchmarks/live.py MODEL    # needs Chromium; an idle computer gives the best figures
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from npuscope.live.answers import comparison, report  # noqa: E402
from npuscope.live.library import Library  # noqa: E402
from npuscope.live.server import LiveServer  # noqa: E402
from npuscope.live.setting import Setting  # noqa: E402
from npuscope.report.html.page import as_json  # noqa: E402
from report.browser import Page, browser  # noqa: E402

_AHEAD_S = 30.0  # time for what is built beforehand


def put(name: str, value: str, event: str = "change") -> str:
    return (
        f"(() => {{ const box = document.getElementById('{name}'); box.value = '{value}';"
        f"box.dispatchEvent(new Event('{event}')); }})()"
    )


def measured(tab: Page, name: str, script: str) -> None:
    """From the click to the drawn page."""
    before = int(tab.evaluate("document.body.dataset.updates"))
    tab.evaluate(script)
    tab.wait_for(f"Number(document.body.dataset.updates) > {before}")
    print(f"{name:<44} {float(tab.evaluate('document.body.dataset.took')):7.0f} ms")


def answered(library: Library) -> None:
    """Processor time of the server alone: a busy computer does not change it."""
    quiet = Library(library.models, (), {})
    quiet.ahead = lambda shown: None  # type: ignore[method-assign]
    clock = {"values": [["clocks.npu_mhz", "800"]]}
    other = {"generation": "2.2"}
    for name, ask, what in (
        ("compiled", report, {}),
        ("kept", report, {}),
        ("another clock", report, clock),
        ("another generation, compiled", report, other),
        ("another generation, kept", report, other),
        ("compared, the first time", comparison, [{}, other]),
        ("compared", comparison, [clock, other]),
    ):
        cpu = time.thread_time()
        as_json(ask(quiet, what))
        print(f"{name:<44} {1000 * (time.thread_time() - cpu):7.0f} ms of processor time")


def main() -> None:
    library = Library([Path(name) for name in sys.argv[1:]], [], {})
    answered(library)
    server = LiveServer(library, Setting())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as tab:
        tab.visit(server.address)
        tab.wait_for("document.body.dataset.updates === '1'")
        rows = tab.evaluate("document.querySelectorAll('#epoch-table tbody tr').length")
        print(f"{library.models[0].name}: {rows} epochs")
        print(f"{'opened':<44} {float(tab.evaluate('document.body.dataset.took')):7.0f} ms")
        time.sleep(_AHEAD_S)
        clock = "value-clocks.npu_mhz"
        fix = "document.querySelector('.choices input').click()"
        measured(tab, "a clock", put(clock, "800", "input"))
        measured(tab, "the same clock again", put(clock, "", "input"))
        measured(tab, "a fix, built beforehand", fix)
        measured(tab, "the fix taken back", fix)
        measured(tab, "a generation, built beforehand", put("pick-generation", "2.2"))
        measured(tab, "back", put("pick-generation", "4.0"))
        measured(tab, "kept as A", "document.getElementById('keep').click()")
        measured(tab, "a clock, compared with A", put(clock, "700", "input"))
        measured(
            tab, "a pool, not built beforehand", put("value-pools.npuRAM5.size_kib", "300", "input")
        )
    server.shutdown()


if __name__ == "__main__":
    main()
