"""`npuscope compare A [B]`: two runs by source op, and why they differ."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from npuscope.cli.options import (
    add_options,
    api_options,
    overrides,
    parse_overrides,
    parse_shapes,
)
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.errors import UsageError
from npuscope.options.kinds import Kind
from npuscope.options.rows import READING, TARGET

if TYPE_CHECKING:
    from npuscope.building import Options

_BUILDING = (*TARGET.options, *READING.options)
_TEXTS = (
    "generation",  # what is compared most
    *(
        o.name
        for o in _BUILDING
        if o.kind in (Kind.TEXT, Kind.FILE) and o.shell and o.name != "generation"
    ),
)
_FLAGS = tuple(o.name for o in _BUILDING if o.kind in (Kind.FLAG, Kind.SWITCH))
_CLOCKS = tuple(o.name for o in _BUILDING if o.kind is Kind.REAL)
_SET_UPS = ("flash", "psram")  # machine values by name, like clocks
_KEYS = (*_TEXTS, *_FLAGS, *_CLOCKS, "optimization", "set.KEY", "shape.NAME")
_SWITCH = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "compare")


def run(args: argparse.Namespace) -> int:
    second = args.second or args.first
    if args.as_built and args.second is None:
        second = None
    for source in filter(None, (args.first, second)):
        refuse_overwrite(args, source.removeprefix("log:"))
    from npuscope import api
    from npuscope.advice.compare.model import Comparison
    from npuscope.many_core.buffer_format import is_core_run
    from npuscope.report.compare import compare_json, compare_text

    if is_core_run(args.first):  # without a second it is not compared with itself
        second = args.second

    noise = 0.0 if args.noise is None else args.noise
    a, b = (side_options(args, side) for side in ("a", "b"))
    with working(args, "comparing"):
        found = api.compare(
            args.first,
            second,
            a_options=a,
            b_options=b,
            as_built=args.as_built,
            noise=noise,
            html=args.html,
        )
    if not isinstance(found, Comparison):
        from npuscope.report.core_runs import compare_lines, compare_result

        lines = compare_lines(found.a, found.b)
        deliver(args, "\n".join(lines), compare_result(found.a, found.b))
        return 0
    deliver(args, compare_text(found, every=args.verbose), compare_json(found))
    return 0


def side_options(args: argparse.Namespace, side: str) -> Options:
    """The options of both, with those of one side put over them."""
    where = f"--{side}"
    options = api_options(args)
    changes = dict(_pair(text, where) for text in getattr(args, side))
    # As on the command line: an explicit set.KEY wins over a clock option.
    named = {key: changes[key] for key in _SET_UPS if key in changes}
    own = {**_clocks(changes, where), **named, **parse_overrides(_inside(changes, "set."))}
    options["overrides"] = {**overrides(args), **own}
    options["shapes"] = parse_shapes([*args.shape, *_inside(changes, "shape.")])
    for key, value in changes.items():
        _apply(options, key, value, where)
    return options


def _pair(text: str, where: str) -> tuple[str, str]:
    key, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not key or not value:
        raise UsageError(f"expected KEY=VALUE, found '{text}'", where=where)
    # Options may be spelled as on the command line; keys of a machine keep their spelling.
    return (key if "." in key else key.replace("-", "_")), value


def _inside(changes: dict[str, str], prefix: str) -> list[str]:
    """Those with a prefix, as the option of that name takes them."""
    inner = ((key.removeprefix(prefix), v) for key, v in changes.items() if key.startswith(prefix))
    return [f"{key}={value}" for key, value in inner]


def _clocks(changes: dict[str, str], where: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in _CLOCKS:
        if name in changes:
            try:
                found[f"clocks.{name}"] = float(changes[name])
            except ValueError:
                text = f"expected MHz, found '{changes[name]}'"
                raise UsageError(text, where=f"{where} {name}") from None
    return found


def _apply(options: Options, key: str, value: str, where: str) -> None:
    if key in _TEXTS:
        options[key] = value  # type: ignore[literal-required]
    elif key in _FLAGS:
        options[key] = _switched(value, f"{where} {key}")  # type: ignore[literal-required]
    elif key == "optimization":
        options["optimization"] = _level(value, f"{where} {key}")
    elif key not in _CLOCKS and not key.startswith(("set.", "shape.")):
        raise UsageError(f"unknown key '{key}'", where=where, hint=_hint(key, _KEYS))


def _switched(value: str, where: str) -> bool:
    if value.lower() not in _SWITCH:
        raise UsageError(f"expected true or false, found '{value}'", where=where)
    return _SWITCH[value.lower()]


def _level(value: str, where: str) -> int:
    if value not in ("0", "1", "2", "3"):
        raise UsageError(f"expected 0 to 3, found '{value}'", where=where)
    return int(value)


def _hint(key: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(key, list(known), n=2)
    return f"did you mean {' or '.join(near)}?" if near else f"keys: {', '.join(known)}"
