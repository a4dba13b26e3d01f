"""Hints whose commands name the user's own file: they can be typed as they stand."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import PurePath

MODELS = (".tflite", ".onnx")
_COMMAND = re.compile(r"(npuscope [a-z]+) MODEL\b(?: -o (OUT|FIXED)\b)?")
_ENDINGS = {"OUT": "_int8", "FIXED": "_fixed"}


def with_names(hint: str, argv: Sequence[str]) -> str:
    """MODEL stands for the model that was given, if it was one; OUT for a name beside it."""
    models = [word for word in argv if not word.startswith("-") and word.lower().endswith(MODELS)]
    if len(models) != 1:
        return hint
    path = PurePath(models[0])

    def named(command: re.Match[str]) -> str:
        verb, output = command.groups()
        words = f"{verb} {shlex.quote(models[0])}"
        if output is None:
            return words
        return f"{words} -o {shlex.quote(f'{path.stem}{_ENDINGS[output]}{path.suffix}')}"

    return _COMMAND.sub(named, hint)


def of_unknown_verb(word: str, verbs: Sequence[str]) -> str:
    """What was meant by the first word: a verb, or a model that stands where a verb must."""
    # Path.exists raises for a word that is too long for a name.
    if word.lower().endswith(MODELS) or os.path.exists(word):
        verb = "estimate" if word.lower().endswith(MODELS) else "inspect"
        return f"the verb comes first: `npuscope {verb} {shlex.quote(word)}`"
    near = get_close_matches(word, verbs, n=2)
    return f"did you mean {' or '.join(near)}?" if near else f"verbs: {', '.join(verbs)}"
