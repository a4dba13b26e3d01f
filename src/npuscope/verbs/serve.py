"""`npuscope serve MODEL...`: the report as an application in the browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import UsageError
from npuscope.families.registry import family_for
from npuscope.options.kinds import Argument, OptionGroup, Verb, flag, list_, text, whole
from npuscope.options.rows import OUTPUT, READING, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import Options

VERB = Verb(
    "interactive report in the browser: change options, toggle fixes, compare",
    (Argument("models", "MODEL", "a .tflite or .onnx model; one or more", "+"),),
    (
        OptionGroup(
            "",
            (
                whole("port", "port of this computer (default: any free one)", default=0),
                list_(
                    "pools",
                    "another .mpool file to choose from in the page",
                    "FILE",
                    of_family=True,
                ),
                flag("no_browser", "print the address only; no browser is opened", python=False),
                text("ready", "called with the address", "FUNCTION", shell=False),
            ),
        ),
        TARGET,
        READING,
        OUTPUT,
    ),
    run="view",
    text="npuscope.report.addresses:view_text",
    json="npuscope.report.addresses:view_json",
    busy="opening",
    reads=("models",),
    all_families=True,
)


@checked(VERB)
def serve(
    *models: str | Path,
    port: int = 0,
    pools: Iterable[str | Path] = (),
    ready: Callable[[str], None] | None = None,
    **options: Unpack[Options],
) -> None:
    """Interactive report in the browser: change the machine, toggle fixes, compare.

    In: models, and `pools` (.mpool files) to choose from; other options are the initial settings.
    `ready` is called with the address, which only this computer can reach. Out: nothing; Ctrl-C
    ends it.

    >>> npuscope.serve("model.tflite", ready=print)
    """
    from npuscope.live.library import check_models
    from npuscope.live.server import LiveServer

    if not 0 <= port < 0x10000:
        raise UsageError(f"expected a port from 0 to 65535, found {port}", where="--port")
    paths = [Path(model) for model in models]
    check_models(paths)
    # A mistake in what was given is told here, not in the browser.
    answers = import_module(family_for(None, options).live)
    library, first = answers.opened(paths, [Path(file) for file in pools], options)
    server = LiveServer(library, first, port, answers)
    try:
        if ready is not None:
            ready(server.address)
        server.serve_forever()
    except KeyboardInterrupt:  # a signal is the usual way to end it
        pass
    finally:
        server.server_close()


def view(
    *models: str,
    port: int,
    pools: Iterable[str] = (),
    no_browser: bool,
    json: str | None = None,
    announce: Callable[[str], None],
    **options: Unpack[Options],
) -> None:
    """With a browser, unless a script reads the address: it decides for itself what to do."""
    from tempfile import TemporaryDirectory

    from npuscope.verbs.board import stoppable

    def ready(address: str) -> None:
        before = os.umask(0o077)  # the address opens the view: files with it are this user's alone
        announce(address)
        os.umask(before)
        if json != "-" and sys.stdout.isatty() and not no_browser:
            import webbrowser

            webbrowser.open(_door(address, Path(private)))

    with stoppable(), TemporaryDirectory(prefix="npuscope-") as private:
        serve(*models, port=port, pools=pools, ready=ready, **options)


def _door(address: str, private: Path) -> str:
    """A page of this user's that leads on: every user can list what a browser is started with."""
    import html

    page = private / "open.html"
    leads = f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">'
    page.write_text(f"<!doctype html>\n{leads}\n", encoding="utf-8")
    return page.as_uri()
