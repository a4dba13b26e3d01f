"""Does advice come true? What `explain` promises against a new estimate after following it.

    python benchmarks/advice.py MODEL|DIR [...] [--generations 4.0,2.2] [--most 60] [--json FILE]

Three kinds of advice are followed. An edit is made on a copy of the file, which is then estimated
like any other model. An option of the build and a machine key (`--set`) are given to a new
estimate. A timed gain has come true when the new one is within 10 % of it or 0.05 ms; a bound has
come true when the new gain is not larger. The networks take turns through the generations. Advice
that only people can follow (other layers, training) is counted apart.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import npuscope
from npuscope.advice.changes import Change, changes_of
from npuscope.advice.explanation import Explanation
from npuscope.advice.fix.candidates import Candidate, FixPlace
from npuscope.advice.fix.run import apply_places
from npuscope.advice.fix.trials import option_of, with_option
from npuscope.advice.fix.workbench import Workbench
from npuscope.advice.what_if import sensitivity
from npuscope.building import Options, build
from npuscope.edits import has_edit, open_document
from npuscope.errors import NpuscopeError
from npuscope.rulebook.fix import GainBasis

SHARE, LEAST_MS = 0.10, 0.05
AIM = 0.95
KEYS = 5  # machine keys of a network: those that save most
MOST_BOUNDS = 6  # untried changes of a network that are followed as well


@dataclass(frozen=True)
class Promise:
    """One advice on one network; `gain_ms` is None where it could not be followed."""

    model: str
    generation: str
    kind: str  # edit, option, key or people
    rule: str
    fix: str
    places: int
    basis: str
    promised_ms: float | None
    gain_ms: float | None = None
    first: bool = False  # what `explain` says first

    @property
    def is_timed(self) -> bool:
        return self.basis == GainBasis.TIMED

    @property
    def came_true(self) -> bool:
        if self.gain_ms is None or self.promised_ms is None:
            return False
        slack = max(LEAST_MS, SHARE * abs(self.promised_ms))
        if self.is_timed:
            return abs(self.gain_ms - self.promised_ms) <= slack
        return self.gain_ms <= self.promised_ms + slack


def promises(path: Path, generation: str) -> Iterator[Promise]:
    found = npuscope.explain(path, generation=generation)
    made = build(path, {"generation": generation})
    told = (path.name, generation)
    untried = 0
    for change in _all(found):
        option = option_of(change.fix, made.machine)
        editable = has_edit(change.fix.id, path.suffix.removeprefix("."))
        kind = "option" if option is not None else "edit" if editable else "people"
        if kind in ("edit", "option") and not change.gain.is_timed:
            untried += 1
            if untried > MOST_BOUNDS:
                continue
        gain, first = change.gain, bool(found.changes) and change.key == found.changes[0].key
        row = (kind, change.rule, change.fix.id, change.count, gain.basis.value, gain.ms)
        if kind == "people" or gain.ms is None:
            yield Promise(*told, *row, first=first)
        else:
            gain_ms = followed(change, option, path, generation, found)
            yield Promise(*told, *row, gain_ms, first)
    for key in sensitivity(made)[:KEYS]:
        after = npuscope.estimate(path, generation=generation, overrides={key.key: key.better})
        row = ("key", "what-if", key.key, 1, GainBasis.TIMED.value, key.saved_ms)
        yield Promise(*told, *row, found.profile.total_ms - after.total_ms)


def _all(found: Explanation) -> list[Change]:
    """Every change that is offered, with its timed gain where there is one."""
    tried = {change.key: change for change in found.tried}
    every = {**changes_of(found.findings), **tried}
    return sorted(every.values(), key=lambda change: -(change.gain_ms or 0.0))


def followed(
    change: Change, option: Options | None, path: Path, generation: str, found: Explanation
) -> float | None:
    """What the advice saves, from two estimates; None where it cannot be followed."""
    before = found.profile.total_ms
    try:
        if option is not None:
            options = with_option({"generation": generation}, option)
            return before - npuscope.estimate(path, **options).total_ms
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            data = _edited(change, path, generation)
            if data is None:
                return None
            copy.write_bytes(data)
            return before - npuscope.estimate(copy, generation=generation).total_ms
    except NpuscopeError:
        return None


def _edited(change: Change, path: Path, generation: str) -> bytes | None:
    bench = Workbench(path, {"generation": generation})
    look = bench.look(bench.open())
    places = tuple(FixPlace(finding.ops, fix) for finding, fix in change.places)
    document = open_document(path)
    misfits = apply_places(document, Candidate(change.rule, change.fix, places), look)
    return None if len(misfits) == len(places) else document.to_bytes()


# --- Tables ---


def by_rule(rows: list[Promise]) -> str:
    lines = [
        "| rule | fix | followed | timed | came true | bounds | held | worst miss, ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[Promise]] = {}
    for row in rows:
        if row.gain_ms is not None:
            name = "machine key" if row.kind == "key" else row.fix
            groups.setdefault((row.rule, name), []).append(row)
    for (rule, fix), group in sorted(groups.items()):
        timed = [row for row in group if row.is_timed]
        bounds = [row for row in group if not row.is_timed]
        missed = max((abs(_miss(row)) for row in group if not row.came_true), default=0.0)
        cells = (
            *(rule, fix, len(group), len(timed), sum(row.came_true for row in timed)),
            *(len(bounds), sum(row.came_true for row in bounds), f"{missed:.3f}"),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _miss(row: Promise) -> float:
    return (row.gain_ms or 0.0) - (row.promised_ms or 0.0)


def summary(rows: list[Promise], networks: int) -> str:
    followed_rows = [row for row in rows if row.gain_ms is not None]
    timed = [row for row in followed_rows if row.is_timed]
    bounds = [row for row in followed_rows if not row.is_timed]
    lost = [row for row in rows if row.is_timed and row.gain_ms is None]
    true = sum(row.came_true for row in timed)
    made = [row for row in timed if row.kind != "key"]
    first = [row for row in rows if row.first]
    people = sum(row.kind == "people" for row in rows)
    unmarked = sum(row.kind == "people" and row.is_timed for row in rows)
    return (
        f"{networks} networks; timed advice that came true: {true} of {len(timed)} "
        f"({true / max(len(timed), 1):.1%}, aim {AIM:.0%}; of edits and options "
        f"{sum(row.came_true for row in made)} of {len(made)}), "
        f"could not be followed: {len(lost)}; "
        f"first advice: {sum(row.is_timed for row in first)} timed, "
        f"{sum(row.is_timed and row.came_true for row in first)} came true, "
        f"{sum(not row.is_timed for row in first)} for people or bounds; "
        f"bounds that held: {sum(row.came_true for row in bounds)} of {len(bounds)}; "
        f"advice for people: {people}, all but {unmarked} marked as bounds or unknown"
    )


def write(path: Path, rows: list[Promise], networks: int) -> None:
    record: dict[str, Any] = {"summary": summary(rows, networks), "rows": [asdict(r) for r in rows]}
    path.write_text(json.dumps(record, indent=1) + "\n")


def models(given: list[str], most: int) -> list[Path]:
    """Files, and those of folders, spread over all of them."""
    found: list[Path] = []
    for name in given:
        path = Path(name)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        found += [p for p in files if p.suffix in (".tflite", ".onnx")]
    count = min(most or len(found), len(found))
    return [found[number * len(found) // count] for number in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+")
    parser.add_argument("--generations", default="4.0")
    parser.add_argument("--most", type=int, default=0, help="networks, spread over those given")
    parser.add_argument("--seconds", type=float, default=60, help="skip a network beyond this")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    generations, rows, done = args.generations.split(","), [], 0
    for number, path in enumerate(models(args.models, args.most)):
        generation, start = generations[number % len(generations)], time.perf_counter()
        try:
            new = []
            for row in promises(path, generation):
                new.append(row)
                if time.perf_counter() - start > args.seconds:
                    break
        except NpuscopeError as error:
            print(f"{path.name}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        rows += new
        done += 1
        if args.json:  # a long run that is stopped leaves what it has
            write(args.json, rows, done)
        for row in new:
            if row.gain_ms is not None and not row.came_true:
                print(
                    f"{row.model} {row.generation} {row.rule} {row.fix} x{row.places}: "
                    f"{row.basis} {row.promised_ms:.3f}, followed {row.gain_ms:.3f} ms",
                    flush=True,
                )
    print(by_rule(rows))
    result = summary(rows, done)
    print(f"\n{result}")
    timed = [row for row in rows if row.is_timed and row.gain_ms is not None]
    return 0 if sum(row.came_true for row in timed) >= AIM * len(timed) else 1


if __name__ == "__main__":
    sys.exit(main())
