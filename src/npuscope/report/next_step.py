"""The command that a message suggests as the next step: one that works for this very source."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import PurePath
from typing import TYPE_CHECKING

from npuscope.rulebook.fixes import FLAGS
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.advice.explanation import Explanation

_LEAST_OF_BORDER = 0.05  # of the time
_QUANTIZERS = {".onnx": "onnxruntime", ".tflite": "ai_edge_quantizer"}  # the module it needs

Words = Callable[[str], str]  # by verb: the model and the options that were given, as it takes them


def next_lines(explanation: Explanation, words: Words | None) -> list[str]:
    """Nothing where the source is no model file: a program is changed by compiling it again."""
    file = explanation.profile.model.file
    if explanation.editing is None or not file.lower().endswith((".onnx", ".tflite")):
        return []
    words = words or (lambda verb: shlex.quote(file))
    if explanation.editing.quantizable:
        name = PurePath(file)
        target = shlex.quote(f"{name.stem}_int8{name.suffix}")
        command = f"npuscope quantize {words('quantize')} --data random -o {target}"
        absent = find_spec(_QUANTIZERS[name.suffix.lower()]) is None
        first = ["pip install 'npuscope[quantize]'"] if absent else []
        heads = ("next     ", "then     ")
        steps = zip(heads, (*first, safe_terminal(command)), strict=False)
        return [
            *(f"{head}{step}" for head, step in steps),
            "         shows the effect of int8; for real use, give samples of your own with --data",
        ]
    return _fix(explanation, words) if explanation.editing.possible else []


def _fix(explanation: Explanation, words: Words) -> list[str]:
    """What the tool itself can change; the options that the best changes need are part of it."""
    offered = [fix for finding in explanation.findings for fix in finding.fixes]
    # What changes the application too is not suggested for a trifle.
    least = _LEAST_OF_BORDER * explanation.profile.total_ms
    worth = (c.fix.id for c in explanation.changes if (c.gain_ms or 0.0) >= least)
    flags = {FLAGS[fix] for fix in worth if fix in FLAGS}
    tried = {f.id for f in offered if f.gain.may_pay and (f.automatic or FLAGS.get(f.id) in flags)}
    if not tried:
        return []
    command = " ".join(("npuscope fix", words("fix"), *sorted(flags)))
    count = "one of these fixes" if len(tried) == 1 else f"{len(tried)} of these fixes"
    return [
        f"next     {safe_terminal(command)}",
        f"         tries {count} on a copy and measures the result",
    ]
