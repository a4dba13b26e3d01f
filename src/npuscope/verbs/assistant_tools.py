"""Verbs as tools for an assistant: a schema for each, and the command line that a call becomes.

Nothing is decided here: a call is the verb in a process of its own, and what it prints is the
answer:
the verdict first, cut where it gets long. With `json` it is the whole result.
What an assistant may say is limited: options of the table below, and files in the folders that
the user opened. Options that start a program or talk to a board are in no list.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import npuscope.child as child
from npuscope.errors import UsageError
from npuscope.options.kinds import Argument, Option, OptionKind, Verb
from npuscope.verbs.table import record

_SETUP = (
    "machine generation epoch_controller board mcu_mhz npu_mhz flash psram mpool mdesc overrides "
    "input_data_type output_data_type shapes as_int8"
)
_SAMPLES = "data labels task preprocess layout resize limit"
READS: Mapping[str, str] = {
    "inspect": "compare",
    "estimate": f"model sensitivity {_SETUP}",
    "explain": f"model {_SETUP}",
    "lint": "machine generation overrides input_data_type output_data_type shapes as_int8",
    "compare": f"as_built machines noise {_SETUP}",
    "gate": f"most least baseline tolerance {_SETUP}",
    "validate": f"model inputs seeds float_model {_SAMPLES} {_SETUP}",
    "bisect": f"model inputs seeds {_SETUP}",
    "profile": f"full epochs {_SETUP}",
    "rules": "",
    "machines": "keys",
}
# Results go to files in the same folders; what npuscope did not write is never replaced.
WRITES: Mapping[str, str] = {
    "fix": f"output data seeds only cut drop_softmax integer_io lossy {_SETUP}",
    "quantize": f"output data calibration samples seed mean std pixel_max layout {_SETUP}",
    "compile": f"directory relocatable {_SETUP}",
}
_TYPES = {
    OptionKind.WHOLE: "integer",
    OptionKind.REAL: "number",
    OptionKind.FLAG: "boolean",
    OptionKind.SWITCH: "boolean",
    OptionKind.BOOLEAN: "boolean",
}
_LIMIT_S = 600.0
_MOST_BYTES = 4 << 20  # of an answer: more would fill an assistant's memory
_MOST_TEXT = 6000  # characters: what an assistant reads without losing its thread
_JSON = "json"
_JSON_SCHEMA = {
    "type": "boolean",
    "description": "the whole result as JSON (often more than 50 KB) instead of the short text",
    "default": False,
}


class Tools:
    """The tools for a set of folders. The first one is where relative names begin."""

    def __init__(self, folders: Sequence[Path], writes: bool) -> None:
        self._folders = [folder.resolve(strict=True) for folder in folders]
        self.names = dict(READS) | (dict(WRITES) if writes else {})

    def schema(self, name: str) -> dict[str, Any]:
        """What a call may hold, as JSON schema."""
        verb = record(name)
        properties = {argument.name: _argument_schema(argument) for argument in verb.arguments}
        properties |= {option.name: _option_schema(option) for option in self._options(name, verb)}
        return {
            "type": "object",
            "properties": properties | {_JSON: _JSON_SCHEMA},
            "required": _required(verb),
            "additionalProperties": False,
        }

    def call(self, name: str, values: Mapping[str, Any]) -> tuple[bool, str]:
        """Whether the verb ended well, and what it printed. A check that failed (1) is an answer
        too."""
        whole = bool(values.get(_JSON))
        words = self.words(name, {key: value for key, value in values.items() if key != _JSON})
        words += ["--json"] if whole else []
        try:
            ended = child.run_module(
                "npuscope", *words, timeout_s=_LIMIT_S, folder=self._folders[0]
            )
        except subprocess.TimeoutExpired:
            return False, f"{name} did not end within {_LIMIT_S:g} s"
        text = (ended.stdout or ended.stderr).decode("utf-8", "replace")
        if len(text) > _MOST_BYTES:
            size = f"{len(text) >> 20} MiB"
            return False, f"the answer of {name} is {size}; ask for less (without `full`)"
        if not whole and len(text) > _MOST_TEXT:
            end = text.rindex("\n", 0, _MOST_TEXT) + 1 if "\n" in text[:_MOST_TEXT] else _MOST_TEXT
            rest = f"({len(text) - end:,} more characters: call again with json)\n"
            text = text[:end] + rest
        return ended.returncode in (0, 1), text

    def words(self, name: str, values: Mapping[str, Any]) -> list[str]:
        """The command line of a call; a UsageError for what it must not hold."""
        if name not in self.names:
            raise UsageError(f"this server has no tool {name!r}", hint=", ".join(self.names))
        verb = record(name)
        options = {option.name: option for option in self._options(name, verb)}
        arguments = [argument.name for argument in verb.arguments]
        unknown = [key for key in values if key not in options and key not in arguments]
        if unknown:
            raise UsageError(f"{name} takes no {unknown[0]!r}", where=name)
        missing = [key for key in _required(verb) if not values.get(key)]
        if missing:
            means = next(one.means for one in verb.arguments if one.name == missing[0])
            raise UsageError(f"{name} needs '{missing[0]}': {means}", where=name)
        words = [name]
        for key, option in options.items():
            if values.get(key) is not None:
                words += self._option_words(option, values[key])
        for key in arguments:
            several = values.get(key)
            for value in several if isinstance(several, list) else [several]:
                if value is not None:
                    is_file = key in verb.reads
                    words.append(self._path(key, value) if is_file else _plain(key, value))
        return words

    def _options(self, name: str, verb: Verb) -> list[Option]:
        names = self.names[name].split()
        return [option for option in verb.options if option.name in names]

    def _option_words(self, option: Option, value: Any) -> list[str]:
        flag = option.long
        if option.kind in (OptionKind.FLAG, OptionKind.SWITCH):
            off = [f"--no-{flag.removeprefix('--')}"] if option.kind is OptionKind.SWITCH else []
            return [flag] if value else off
        if option.kind is OptionKind.FILE:
            return [f"{flag}={self._path(option.name, value)}"]
        if option.kind is OptionKind.BOOLEAN:
            return [f"{flag}={json.dumps(bool(value))}"]
        several = value if isinstance(value, list) else [value]
        return [f"{flag}={_plain(option.name, one)}" for one in several]

    def _path(self, name: str, value: Any) -> str:
        """A path in one of the folders, links followed."""
        path = Path(os.path.realpath(self._folders[0] / str(value)))
        if not any(path.is_relative_to(folder) for folder in self._folders):
            raise UsageError(
                "this file is outside of the folders that were opened",
                where=f"{name}: {value}",
                hint=f"folders: {', '.join(map(str, self._folders))}",
            )
        return str(path)


def _required(verb: Verb) -> list[str]:
    return [argument.name for argument in verb.arguments if argument.many in ("", "+")]


def _plain(name: str, value: Any) -> str:
    """A value that names no file: paths go through options that are known to be files."""
    text = str(value)
    if isinstance(value, dict | list) or text.startswith("-") or set(text) & set("/\\\0"):
        raise UsageError(f"expected a plain value, found {text[:60]!r}", where=name)
    return text


def _argument_schema(argument: Argument) -> dict[str, Any]:
    one: dict[str, Any] = {"type": "string"}
    if argument.choices:
        one["enum"] = list(argument.choices)
    several = argument.many in ("*", "+")
    return {
        **({"type": "array", "items": one} if several else one),
        "description": argument.means,
    }


def _option_schema(option: Option) -> dict[str, Any]:
    if option.kind is OptionKind.LIST:
        example = f"{option.means} ({option.value})"
        return {"type": "array", "items": {"type": "string"}, "description": example}
    schema: dict[str, Any] = {
        "type": _TYPES.get(option.kind, "string"),
        "description": option.means,
    }
    if option.choices:
        schema["enum"] = list(option.choices)
    if option.suggested:
        schema["examples"] = list(option.suggested)
    return schema
