"""One HTML file: fixed markup, our scripts and styles by hash, and the data as JSON.

Nothing foreign is ever written as markup. Names from files travel inside the JSON block and
reach the page as text nodes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from npuscope.text import safe_terminal, without_middle

_STYLES = ("uplot/uPlot.min.css", "report.css")
_LIBRARY = "uplot/uPlot.iife.min.js"
_SCRIPTS = (
    "base.js",
    "axis.js",
    "summary.js",
    "timeline.js",
    "memory.js",
    "series.js",
    "roofline.js",
    "compared.js",
    "graph_layout.js",
    "graph.js",
    "findings.js",
    "shares.js",
    "table.js",
    "opstats.js",
    "opstats_advice.js",
    "points.js",
    "sweep.js",
    "compare.js",
    "changes.js",
    "accuracy.js",
    "plan.js",
    "live.js",
    "live_parts.js",
    "main.js",
)
_LONGEST = 240  # longer names are not read and make the file larger
_SENTENCES = ("answer", "said", "cause")  # of ours, around foreign names: they are read whole
_SENTENCE = 1000
_ASKING = "; connect-src 'self'"
_SHOWING = "; img-src data:"
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="npuscope">
<title>npuscope report</title>
{styles}
</head>
<body>
<main id="report"><noscript>This report draws itself with a script that it carries; \
it loads nothing else.</noscript></main>
<script type="application/json" id="data">{data}</script>
{scripts}
</body>
</html>
"""


def page(data: Mapping[str, Any], *, asks: bool = False, pictures: bool = False) -> str:
    """The whole file. `data` is made of plain values; its `view` says how it is drawn. A page
    that `asks` may send questions to the server it came from; `pictures` are bytes of PNG files."""
    styles = "".join(_asset(name) for name in _STYLES)
    # Our scripts share one scope and leave nothing behind in the page's.
    parts = "\n".join(_asset(name) for name in _SCRIPTS)
    # One function around all: names of our scripts cannot collide with those of the library.
    scripts = [_asset(_LIBRARY), f'(() => {{\n"use strict";\n{parts}}})();\n']
    # Only what this file carries may run; nothing may be loaded or sent.
    allowed = " ".join(f"'{_digest(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src '{_digest(styles)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return _PAGE.format(
        policy=policy + (_ASKING if asks else "") + (_SHOWING if pictures else ""),
        styles=f"<style>{styles}</style>",
        data=as_json(data),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


@cache
def _asset(name: str) -> str:
    return resources.files("npuscope.report.html").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def as_json(data: Mapping[str, Any]) -> str:
    """JSON that cannot end its script block: no `<`, and no line separators of JavaScript."""
    text = json.dumps(_clean(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # U+2028 and U+2029 end a line in JavaScript, but not in JSON.
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _clean(value: Any, longest: int = _LONGEST) -> Any:
    """Texts that show what they are, numbers that JSON has; rounded, for finer digits are noise."""
    if isinstance(value, str):
        return without_middle(safe_terminal(value), longest)
    if isinstance(value, bytes):
        return f"data:image/png;base64,{base64.b64encode(value).decode('ascii')}"
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        rounded = float(f"{value:.7g}")
        return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
    if isinstance(value, Mapping):
        return {
            _clean(str(key)): _clean(entry, _SENTENCE if key in _SENTENCES else _LONGEST)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_clean(entry) for entry in value]
    return value
