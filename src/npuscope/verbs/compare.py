"""`npuscope compare A [B]`: two runs by source op, and why they differ."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import UsageError
from npuscope.options.kinds import (
    Argument,
    Option,
    OptionGroup,
    OptionKind,
    Verb,
    flag,
    list_,
    text,
)
from npuscope.options.rows import HTML, OUTPUT, READING, RUN_HELP, TARGET
from npuscope.options.words import parse_overrides, parse_shapes
from npuscope.verbs.check import checked
from npuscope.verbs.families import family_options

if TYPE_CHECKING:
    from npuscope.advice.compare.model import Comparison
    from npuscope.building import Options, Source

VERB = Verb(
    "compare two runs by source op: what moved, and where the time went",
    (
        Argument("a", "A", RUN_HELP),
        Argument("b", "B", "what to compare it with (default: A again)", "?"),
    ),
    (
        OptionGroup(
            "",
            (
                *(
                    list_(
                        f"{side}_options",
                        f"an option of {side.upper()} alone: generation=2.2, "
                        "set.clocks.npu_mhz=800",
                        "KEY=VALUE",
                        flags=(f"--{side}",),
                    )
                    for side in ("a", "b")
                ),
                flag(
                    "as_built",
                    "compile the model B with the options and pools of the vendor's build A, "
                    "and list epoch by epoch where the two compilers differ",
                    of_family=True,
                ),
                text(
                    "machines",
                    "compare A on these machines in one table instead, see `machines`",
                    "NAME,...",
                    parse=lambda words: tuple(word.strip() for word in words.split(",")),
                ),
                text(
                    "noise",
                    "minimum noise of a measured row, e.g. 1%, besides the spread of samples (0)",
                    "SHARE",
                ),
                HTML,
            ),
        ),
        TARGET,
        READING,
        OUTPUT,
    ),
    run="compare_sides",
    text="npuscope.report.compare:compare_text",
    json="npuscope.report.compare:compare_json",
    busy="comparing",
    reads=("a", "b"),
    all_families=True,
)


@checked(VERB)
def compare(
    a: Source,
    b: Source | None = None,
    *,
    a_options: Options | None = None,
    b_options: Options | None = None,
    as_built: bool = False,
    machines: Iterable[str] = (),
    noise: float | str = 0.0,
    html: str | Path | None = None,
    **options: Unpack[Options],
) -> Comparison:
    """What changed from A to B by source op; without `b`, the same source with other options.

    In: models, builds, saved profiles, results in JSON, or log:FILE. Rows of a measured run that
    differ by less than its spread, or than the share `noise`, are marked as noise. With `as_built`,
    a vendor's build and its model, in either order; the model is compiled as the build was.
    With `machines`, A on each of them, which may be of different families.
    Out: rows with milliseconds of both sides and the cause; `fidelity`: how alike the epochs are;
    for `machines`, one row each.

    >>> npuscope.compare("model.tflite", b_options={"generation": "2.2"}).rows
    """
    from npuscope.advice.compare.run import compare as run_compare
    from npuscope.advice.compare.sides import open_sides
    from npuscope.advice.gate import parse_share
    from npuscope.graph.model import Graph
    from npuscope.report.result_files import write_html

    if machines:
        if b is not None or as_built or a_options or b_options:
            raise UsageError("--machines compares A alone", where="--machines")
        from npuscope.advice.compare.machines import on_machines

        name = a.name if isinstance(a, Graph) else Path(a).name
        table = on_machines(a, tuple(machines), options, name)
        if html:
            from npuscope.report.html.compare import machines_page

            write_html(html, lambda: machines_page(table))
        return table  # type: ignore[return-value]
    share = parse_share(noise, "--noise") if isinstance(noise, str) else noise
    first: Options = {**options, **(a_options or {})}
    second: Options = {**options, **(b_options or {})}
    if as_built:
        from npuscope.advice.compare.as_built import compare_as_built

        comparison = compare_as_built(a, b, first, second, share)
    else:
        comparison = run_compare(*open_sides(a, a if b is None else b, first, second), share)
    if html:
        from npuscope.report.html.compare import compare_page

        write_html(html, lambda: compare_page(comparison))
    return comparison


# --- Options of one side, as words ---

_BUILDING = (*TARGET.options, *READING.options)
_TEXTS = (
    "generation",  # what is compared most
    *(
        o.name
        for o in _BUILDING
        if o.kind in (OptionKind.TEXT, OptionKind.FILE) and o.shell and o.name != "generation"
    ),
)
_FLAGS = tuple(o.name for o in _BUILDING if o.kind in (OptionKind.FLAG, OptionKind.SWITCH))
_CLOCKS = tuple(o.name for o in _BUILDING if o.kind is OptionKind.REAL)
_SET_UPS = ("flash", "psram")  # machine values by name, like clocks
_KEYS = (*_TEXTS, *_FLAGS, *_CLOCKS, "optimization", "set.KEY", "shape.NAME")
_SWITCH = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


def compare_sides(
    a: str,
    b: str | None = None,
    *,
    a_options: Iterable[str] = (),
    b_options: Iterable[str] = (),
    as_built: bool = False,
    machines: Iterable[str] = (),
    noise: str = "0",
    html: str | None = None,
    **options: Unpack[Options],
) -> Comparison:
    if machines:
        return compare(a, b, as_built=as_built, machines=machines, html=html, **options)
    return compare(
        a,
        b,
        a_options=_side_options(options, a_options, "--a"),
        b_options=_side_options(options, b_options, "--b"),
        as_built=as_built,
        noise=noise,
        html=html,
    )


def _side_options(options: Options, texts: Iterable[str], where: str) -> Options:
    """The options of both, with those of one side put over them."""
    options = {**options}
    changes = dict(_pair(text, where) for text in texts)
    # As on the command line: an explicit set.KEY wins over a clock option.
    set_ups = {key: changes[key] for key in _SET_UPS if key in changes}
    own = {**_clocks(changes, where), **set_ups, **parse_overrides(_inside(changes, "set."))}
    options["overrides"] = {**(options.get("overrides") or {}), **own}
    shapes = parse_shapes(_inside(changes, "shape."))
    options["shapes"] = {**(options.get("shapes") or {}), **shapes}
    for key, value in changes.items():
        if key in _TEXTS:
            options[key] = value  # type: ignore[literal-required]
        elif key in _FLAGS:
            if value.lower() not in _SWITCH:
                raise UsageError(f"expected true or false, found '{value}'", where=f"{where} {key}")
            options[key] = _SWITCH[value.lower()]  # type: ignore[literal-required]
        elif key == "optimization":
            if value not in ("0", "1", "2", "3"):
                raise UsageError(f"expected 0 to 3, found '{value}'", where=f"{where} {key}")
            options["optimization"] = int(value)
        elif key not in _CLOCKS and not key.startswith(("set.", "shape.")):
            if key in family_options():
                options[key] = _typed(family_options()[key], value)  # type: ignore[literal-required]
                continue
            import difflib

            near = difflib.get_close_matches(key, list(_KEYS), n=2)
            raise UsageError(
                f"unknown key '{key}'",
                where=where,
                hint=f"did you mean {' or '.join(near)}?" if near else f"keys: {', '.join(_KEYS)}",
            )
    return options


def _typed(row: Option, value: str) -> object:
    """The value of an option that one family has."""
    if row.kind in (OptionKind.FLAG, OptionKind.SWITCH, OptionKind.BOOLEAN):
        return _SWITCH.get(value.lower(), value)
    if row.kind in (OptionKind.WHOLE, OptionKind.REAL):
        try:
            return int(value) if row.kind is OptionKind.WHOLE else float(value)
        except ValueError:
            raise UsageError(f"expected a number, found '{value}'", where=row.long) from None
    return value


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
    clocks: dict[str, object] = {}
    for name in _CLOCKS:
        if name in changes:
            try:
                clocks[f"clocks.{name}"] = float(changes[name])
            except ValueError:
                text = f"expected MHz, found '{changes[name]}'"
                raise UsageError(text, where=f"{where} {name}") from None
    return clocks
