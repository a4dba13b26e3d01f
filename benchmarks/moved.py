"""Which networks a change of a law or a rule moves, and whether toward what was published.

    python benchmarks/moved.py --before COMMIT [--models DIR] [--report FILE.json]

Every model of the folder is estimated at every generation, and with the options of every published
measurement, by the tree of the commit and by the tree at hand. Listed is what moved by more than
3 % in time or internal RAM, what uses another amount of external RAM, and what is estimated by only
one of the two trees; marked is what moved away from its published figure. The exit code is 1 if
there is such a network, or one that is no longer estimated. Run it before a law or a rule lands.

The result for a commit is computed once and kept in build/moved; `--save` writes the one of the
tree at hand, and `--before` takes such a file too. Each process does many models: at most
`--workers` run at once.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "moved"
GENERATIONS = ("2.0", "2.1", "2.2", "3.0", "4.0", "open")
MOVED = 0.03
# Below this, a change is noise of a rounding and nobody's concern.
SMALL_MS = 0.005
SMALL_KIB = 4.0
RAM_ROUNDING_KIB = 0.01  # of the published tables
SIZES = ("internal_ram_kib", "external_ram_kib", "weights_flash_kib")

Row = dict[str, Any]
Key = tuple[str, str]  # file, options
Published = dict[Key, Row]


def main() -> int:
    options = _arguments()
    if options.worker:
        return _work(options.models)
    published = _published(options.measured)
    jobs = _jobs(options, published)
    started = perf_counter()
    before = _rows_before(options, jobs)
    after = _rows_of(ROOT, _state(ROOT), jobs, options)
    if options.save:
        options.save.write_text(json.dumps(after, indent=1) + "\n")
    if not options.before:
        print(f"{len(after['rows'])} estimates in {perf_counter() - started:.0f} s")
        return 0
    moves = list(_moves(before["rows"], after["rows"], published))
    print(_text(moves, before, after, perf_counter() - started))
    print("\n".join(_errors(before["rows"], after["rows"], published)))
    if options.report:
        options.report.write_text(json.dumps(moves, indent=1) + "\n")
    return int(any(move["verdict"] in ("AWAY", "LOST") for move in moves))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    models = ROOT.parent / "shared" / "data" / "models"
    parser.add_argument("--before", help="a commit, or a file that --save wrote")
    parser.add_argument("--models", type=Path, default=models, help="folder of models")
    parser.add_argument(
        "--measured",
        type=Path,
        default=ROOT / "benchmarks" / "published",
        help="folder of latency.csv and boards.csv, if not the tables of the repository",
    )
    parser.add_argument("--only", default="", help="only models with this in their name")
    parser.add_argument(
        "--generations", nargs="*", default=list(GENERATIONS), metavar="NAME", help="of stm32n6"
    )
    parser.add_argument(
        "--machines", nargs="*", default=[], metavar="NAME", help="other machines as well"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes at once (2)")
    parser.add_argument("--save", type=Path, help="file for the estimates of the tree at hand")
    parser.add_argument("--report", type=Path, help="JSON file for the list of what moved")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.models.is_dir():
        parser.error(f"{options.models} is not a folder: name the models' folder with --models")
    return options


# What to estimate, and what was published.


def _published(measured: Path) -> Published:
    """By file and options: one published measurement each."""
    rows: Published = {}
    for line in _lines(measured / "latency.csv"):
        generation = ".".join(line["stedgeai"].split(".")[:2])
        rows[line["file"], f"--generation {generation}"] = line
    for line in _lines(measured / "boards.csv"):
        rows[line["file"], line["options"]] = line
    return rows


def _lines(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _jobs(options: argparse.Namespace, published: Published) -> list[Key]:
    suffixes = (".tflite", ".onnx")
    files = sorted(path.name for path in options.models.iterdir() if path.suffix in suffixes)
    files = [name for name in files if options.only in name]
    ways = [f"--generation {name}" for name in options.generations]
    ways += [f"--machine {name}" for name in options.machines]
    jobs = [(name, way) for name in files for way in ways]
    here = set(files)
    return jobs + [key for key in published if key[0] in here and key not in set(jobs)]


# One tree: a commit or the one at hand.


def _rows_before(options: argparse.Namespace, jobs: list[Key]) -> dict[str, Any]:
    if not options.before:
        return {}
    if Path(options.before).is_file():
        kept: dict[str, Any] = json.loads(Path(options.before).read_text())
        return kept
    commit = _git(ROOT, "rev-parse", "--verify", f"{options.before}^{{commit}}").strip()
    with tempfile.TemporaryDirectory(prefix="moved-") as folder:
        packed = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit, "src"], check=True, capture_output=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        return _rows_of(Path(folder), commit, jobs, options)


def _state(tree: Path) -> str:
    """The commit of the tree, or "" where its source differs from the commit."""
    if not (tree / ".git").exists() or _git(tree, "status", "--porcelain", "--", "src").strip():
        return ""
    return _git(tree, "rev-parse", "HEAD").strip()


def _git(tree: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(tree), *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _rows_of(
    tree: Path, commit: str, jobs: list[Key], options: argparse.Namespace
) -> dict[str, Any]:
    """All estimates of a tree; those of a commit that were kept are not computed again."""
    kept = KEPT / f"{commit}.json"
    rows: list[Row] = json.loads(kept.read_text())["rows"] if commit and kept.exists() else []
    sums = {name: _md5(options.models / name) for name in {name for name, _ in jobs}}
    same = (row for row in rows if sums.get(row["file"], row["md5"]) == row["md5"])
    known = {(row["file"], row["options"]): row for row in same}
    missing = [job for job in jobs if job not in known]
    if missing:
        for row in _estimated(tree, missing, options):
            known[row["file"], row["options"]] = row | {"md5": sums[row["file"]]}
    state = {"commit": commit or "changed", "rows": list(known.values())}
    if commit and missing:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(state, indent=1) + "\n")
        part.replace(kept)
    return state | {"rows": [known[job] for job in jobs]}


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _estimated(tree: Path, jobs: list[Key], options: argparse.Namespace) -> Iterator[Row]:
    """The rows of all jobs; every process takes the models of a part, largest files first."""
    names = sorted({name for name, _ in jobs}, key=lambda n: -(options.models / n).stat().st_size)
    parts = [set(names[n :: options.workers]) for n in range(options.workers)]
    # A tree must not read what another one has left in the cache.
    with ExitStack() as stack:
        environment = os.environ | {
            "PYTHONPATH": str(tree / "src"),
            "XDG_CACHE_HOME": stack.enter_context(tempfile.TemporaryDirectory(prefix="moved-")),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, __file__, "--worker", "--models", str(options.models)]
        started = []
        for part in filter(None, parts):
            todo, rows = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
            json.dump([job for job in jobs if job[0] in part], todo)
            todo.seek(0)
            process = subprocess.Popen(command, stdin=todo, stdout=rows, env=environment)
            started.append((process, rows))
        # All have to end before the first failure is reported.
        codes = [process.wait() for process, _ in started]
        if any(codes):
            sys.exit(f"estimates of {tree} failed")
        for _, rows in started:
            rows.seek(0)
            yield from map(json.loads, rows)


def _work(models: Path) -> int:
    """A worker: jobs from stdin, a line of JSON for each, with the npuscope of its path."""
    import npuscope

    estimate: Any = npuscope.estimate  # of another commit: its options may be others

    for name, way in json.load(sys.stdin):
        started = perf_counter()
        row: Row = {"file": name, "options": way}
        try:
            found = estimate(models / name, **options_of(way))
        except Exception as error:  # the other models are estimated all the same
            row["error"] = getattr(error, "message", f"{type(error).__name__}: {error}")
        else:
            row |= _facts(found)
        row["seconds"] = round(perf_counter() - started, 2)
        print(json.dumps(row), flush=True)
    return 0


def options_of(way: str) -> dict[str, Any]:
    """The options of a command line, as `npuscope.estimate` takes them."""
    words = shlex.split(way)
    options: dict[str, Any] = {}
    while words:
        name = words.pop(0).removeprefix("--")
        if words and not words[0].startswith("--"):
            word = words.pop(0)
            options[name.replace("-", "_")] = float(word) if name.endswith("-mhz") else word
        else:
            options[name.removeprefix("no-").replace("-", "_")] = not name.startswith("no-")
    return options


def _facts(found: Any) -> Row:
    row: Row = {"ms": found.total_ms}
    if hasattr(found, "interval_ms"):
        row["interval_ms"] = list(found.interval_ms)
    if hasattr(found, "memory") and hasattr(found.memory, "weights_bytes"):
        use = found.memory
        sizes = (use.internal_ram_bytes, use.external_ram_bytes, use.weights_bytes)
        row |= {name: size / 1024 for name, size in zip(SIZES, sizes, strict=True)}
    if hasattr(found, "epochs"):
        row["epochs"] = len(found.epochs)
    return row


# What moved.


def _moves(before: list[Row], after: list[Row], published: Published) -> Iterator[Row]:
    """Largest changes first; what one of the trees cannot estimate comes before them."""
    old = {(row["file"], row["options"]): row for row in before}
    both = [(old[key], row) for row in after if (key := (row["file"], row["options"])) in old]
    moves = [
        move
        for was, now in both
        if (move := _move(was, now, published.get((now["file"], now["options"]), {})))
    ]
    yield from sorted(moves, key=lambda move: -move["size"])


def _move(was: Row, now: Row, line: Row) -> Row | None:
    move: Row = {"file": now["file"], "options": now["options"], "before": was, "after": now}
    if "error" in was or "error" in now:
        if ("error" in was) == ("error" in now):
            return None
        return move | {"size": float("inf"), "verdict": "LOST" if "error" in now else "new"}
    size = _change(was["ms"], now["ms"], SMALL_MS)
    ram = [_change(was.get(n, 0.0), now.get(n, 0.0), SMALL_KIB) for n in SIZES[:2]]
    if max(size, *ram) <= MOVED:
        return None
    move |= {"size": max(size, *ram), "verdict": ""}
    if line:
        move["published"] = {"ms": float(line["inference_ms"])} | {
            name: float(line[name]) for name in SIZES if line.get(name)
        }
        move["verdict"] = _verdict(was, now, move["published"])
    return move


def _change(was: float, now: float, small: float) -> float:
    """The change as a share of the smaller value, 0 for what is too small to matter."""
    return abs(now - was) / max(min(was, now), small) if abs(now - was) > small else 0.0


def _verdict(was: Row, now: Row, published: dict[str, float]) -> str:
    """Toward or away from what was published; the time decides, and RAM where that stayed."""
    smallest = {"ms": SMALL_MS, "internal_ram_kib": SMALL_KIB, "external_ram_kib": SMALL_KIB}
    for key, small in smallest.items():
        if key not in published or _change(was[key], now[key], small) <= MOVED:
            continue
        off = [abs(row[key] - published[key]) for row in (was, now)]
        return "AWAY" if off[1] > off[0] else "toward"
    return ""


def _text(moves: list[Row], before: dict[str, Any], after: dict[str, Any], seconds: float) -> str:
    heads = ("", "network", "options", "ms", "published", "RAM, KiB", "published", "epochs")
    rows = [tuple(map(str, _cells(move))) for move in moves]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    padded = [[f"{c:{w}}" for c, w in zip(row, widths, strict=True)] for row in (heads, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in padded]
    lines.insert(1, f"|{'|'.join('-' * (width + 2) for width in widths)}|")
    counts = Counter(move["verdict"] for move in moves)
    title = (
        f"{before['commit'][:8]} -> {after['commit'][:8]}: of {len(after['rows'])} estimates "
        f"{len(moves)} moved by more than {MOVED:.0%}: {counts['AWAY']} away from what was "
        f"published, {counts['toward']} toward it, {counts['']} without a published figure; "
        f"{counts['LOST']} no longer estimated, {counts['new']} new ({seconds:.0f} s)"
    )
    return "\n".join([title, "", *lines] if moves else [title])


def _errors(before: list[Row], after: list[Row], published: Published) -> Iterator[str]:
    """By options: the mean error of the time and the rows with exact RAM, before and after."""
    groups: dict[str, list[tuple[Row, Row, Row]]] = {}
    old = {(row["file"], row["options"]): row for row in before}
    for now in after:
        key = now["file"], now["options"]
        if key not in published or key not in old:
            continue
        pair = old[key], now
        if not any("error" in row for row in pair):
            name = published[key].get("set") or key[1].removeprefix("--")
            groups.setdefault(name, []).append((*pair, published[key]))
    for name, rows in groups.items():
        errors = [
            mean(abs(row[side]["ms"] / float(row[2]["inference_ms"]) - 1) for row in rows)
            for side in (0, 1)
        ]
        exact = [
            sum(
                all(abs(row[side][n] - float(row[2][n])) < RAM_ROUNDING_KIB for n in SIZES[:2])
                for row in rows
                if row[2].get(SIZES[0]) and row[2].get(SIZES[1])
            )
            for side in (0, 1)
        ]
        yield (
            f"{name}: {len(rows)} published rows, mean error {errors[0]:.1%} -> {errors[1]:.1%}, "
            f"RAM exact in {exact[0]} -> {exact[1]}"
        )


def _cells(move: Row) -> tuple[object, ...]:
    was, now, published = move["before"], move["after"], move.get("published", {})
    # The whole options of a measurement are in its table; here the clocks tell them apart.
    values = options_of(move["options"])
    clocks = [f"{values[key]:g}" for key in ("mcu_mhz", "npu_mhz") if key in values]
    way = values.get("generation") or values.get("machine", "")
    way += f" at {'/'.join(clocks)} MHz" if clocks else ""
    way += "" if values.get("epoch_controller", True) else ", no controller"
    head = (move["verdict"], move["file"], way)
    if "error" in was or "error" in now:
        return *head, now.get("error") or f"{now['ms']:.3f}", "", "", "", ""
    time = f"{was['ms']:.3f} -> {now['ms']:.3f} ({now['ms'] / was['ms'] - 1:+.1%})"
    said = f"{published['ms']:.2f}" if published else ""
    ram = " -> ".join(_ram(row) for row in (was, now)) if _ram(was) != _ram(now) else _ram(now)
    epochs = {row.get("epochs", "") for row in (was, now)}
    counted = f"{was.get('epochs')} -> {now.get('epochs')}" if len(epochs) > 1 else epochs.pop()
    return *head, time, said, ram, _ram(published), counted


def _ram(row: Row) -> str:
    if SIZES[0] not in row:
        return ""
    outside = row.get(SIZES[1], 0.0)
    return f"{row[SIZES[0]]:.1f}" + (f" + {outside:.1f} external" if outside else "")


if __name__ == "__main__":
    sys.exit(main())
