"""A headless Chromium for tests, spoken to over its debugging pipe; needs no further package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import LIMIT_S

try:
    import fcntl
except ImportError:  # pipes are given to a browser in another way there
    fcntl = None  # type: ignore[assignment]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",  # containers have no user namespaces
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "--window-size=1360,900",
)
_READ, _WRITE = 3, 4  # descriptors that the browser listens and answers on
_PATIENCE_S = LIMIT_S


def find_browser() -> str | None:
    if fcntl is None:
        return None
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Pipe:
    """Messages of the DevTools protocol: JSON texts that end with a zero byte."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._rest = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], _PATIENCE_S)
            data = os.read(self._from, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("the browser does not answer")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


class Page:
    """One tab."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        target = pipe.call("Target.createTarget", url="about:blank")["targetId"]
        attached = pipe.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.pipe.call(method, self.session, **params)

    def open(self, path: Path) -> None:
        """Load a file and wait until it is there."""
        self.visit(path.resolve().as_uri())

    def visit(self, address: str) -> None:
        self.pipe.events.clear()
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'")

    def wait_for(self, expression: str) -> None:
        """Until it is true in the page."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise RuntimeError(f"this never became true: {expression}")
            time.sleep(0.02)

    def evaluate(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def problems(self) -> list[str]:
        """Whatever the console would show in red: exceptions, errors, blocked loads."""
        found = []
        for event in self.pipe.events:
            kind, params = event["method"], event["params"]
            bad_log = kind == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning")
            bad_call = kind == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning")
            if bad_log or bad_call or kind == "Runtime.exceptionThrown":
                found.append(json.dumps(params)[:600])
        return found

    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        sent = [e for e in self.pipe.events if e["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def dialogs(self) -> int:
        return sum(e["method"] == "Page.javascriptDialogOpening" for e in self.pipe.events)

    def resize(self, width: int, height: int = 900) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, x: float, y: float, to_x: float) -> None:
        mouse = {"y": y, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, **mouse)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=to_x, **mouse)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=to_x, **mouse)

    def emulate(self, *, dark: bool = False, media: str = "") -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def screenshot(self, path: Path, clip: dict[str, float] | None = None) -> None:
        more = {"clip": clip, "captureBeyondViewport": True} if clip else {}
        found = self.call("Page.captureScreenshot", format="png", **more)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A fresh browser with its profile in `folder`."""
    program = find_browser()
    if program is None:
        raise RuntimeError("no Chromium here")
    ours_in, theirs_out = os.pipe()
    theirs_in, ours_out = os.pipe()
    # Copies above the fixed numbers, so that neither overwrites the other in the child.
    child = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out)]

    def place() -> None:
        os.dup2(child[0], _READ)
        os.dup2(child[1], _WRITE)

    command = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(
        command,
        pass_fds=(_READ, _WRITE),
        preexec_fn=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (theirs_in, theirs_out, *child):
        os.close(end)
    pipe = Pipe(ours_out, ours_in)
    try:
        yield Page(pipe)
    finally:
        _close(pipe, process)
        os.close(ours_in)
        os.close(ours_out)


def _close(pipe: Pipe, process: subprocess.Popen[bytes]) -> None:
    try:
        pipe.call("Browser.close")
        process.wait(timeout=LIMIT_S)
    except (RuntimeError, OSError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()
