"""`python -m tests.fuzz [TARGET ...] [-n CASES] [--seed N]`: a long run on all cores, or a case."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import engine
from fuzz.engine import Outcome, Workshop, minimised
from fuzz.targets import TARGETS, prepare

_CHUNK = 25
_MEMORY = "/dev/shm"
# A worker that is stuck where no signal reaches it is ended from outside.
_GRACE_S = 10.0
_KILLED, _DIED = "killed: no answer in time", "the process died"


@dataclass(slots=True)
class Finding:
    cause: str
    first: Outcome
    seeds: list[int] = field(default_factory=list)
    minimised: str = ""


@dataclass(slots=True)
class Row:
    """What is known of a target so far."""

    cases: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: Outcome | None = None
    peak_bytes: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        self.cases += 1
        self.codes[outcome.code] += 1
        self.seconds += outcome.seconds
        self.peak_bytes = max(self.peak_bytes, outcome.peak_bytes)
        if self.slowest is None or outcome.seconds > self.slowest.seconds:
            self.slowest = outcome
        for cause in outcome.causes:
            found = self.findings.setdefault(cause, Finding(cause, outcome))
            found.seeds.append(outcome.seed)


class Worker:
    """A process that runs cases; it is replaced when one of them brings it down."""

    def __init__(self, side: Path) -> None:
        self._side = side
        self.left: deque[int] = deque()
        self.target = ""
        self._start()

    def _start(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=_work, args=(theirs, self._side), daemon=True)
        self.process.start()
        theirs.close()
        self.heard = time.monotonic()

    def give(self, target: str, seeds: Sequence[int]) -> None:
        self.target, self.left = target, deque(seeds)
        self.heard = time.monotonic()
        self.pipe.send((target, list(seeds)))

    def take(self) -> Outcome:
        """The next outcome; a process that is gone leaves one too."""
        try:
            outcome: Outcome = self.pipe.recv()
        except (EOFError, OSError):
            return self.replaced(_DIED)
        self.left.popleft()
        self.heard = time.monotonic()
        return outcome

    @property
    def is_stuck(self) -> bool:
        return (
            bool(self.left)
            and time.monotonic() - self.heard > engine.LIMIT_S * engine.WAITING + _GRACE_S
        )

    def replaced(self, why: str) -> Outcome:
        """What the case that did it leaves; the others of its chunk go on in a new process."""
        self.process.kill()
        self.process.join()
        cause = f"{why} (exit code {self.process.exitcode})" if why == _DIED else why
        seed = self.left.popleft()
        outcome = Outcome(self.target, seed, -2, time.monotonic() - self.heard, 0, "", (cause,))
        self._start()
        if self.left:
            self.give(self.target, tuple(self.left))
        return outcome


def _work(pipe: Connection, side: Path) -> None:
    """Runs in the worker: cases come in, outcomes go out."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    if os.access(_MEMORY, os.W_OK):
        tempfile.tempdir = _MEMORY  # a case is many small files for a short time
    os.chdir(tempfile.mkdtemp(prefix="fuzz-work-", dir=side.parent))
    workshop = Workshop(side, prepare)
    limited = ""
    while True:
        target, seeds = pipe.recv()
        workshop.seeds(TARGETS[target])
        for seed in seeds:
            outcome = workshop.run(workshop.case(TARGETS[target], seed))
            pipe.send(outcome)
            if limited != target:
                # Only now are the modules of the target's verbs loaded, which is not its fault.
                limited = target
                engine.limit_memory()


def run(names: Iterable[str], seeds: range, jobs: int, side: Path, most_s: float) -> dict[str, Row]:
    """Targets take turns, so that a run that is stopped early has some of each."""
    rows = {name: Row() for name in names}
    starts = range(0, len(seeds), _CHUNK)
    chunks = deque((name, seeds[at : at + _CHUNK]) for at in starts for name in rows)
    end = time.monotonic() + most_s
    workers = [Worker(side) for _ in range(jobs)]
    while chunks or any(worker.left for worker in workers):
        if time.monotonic() > end:
            chunks.clear()
        for worker in workers:
            if not worker.left and chunks:
                worker.give(*chunks.popleft())
        for pipe in wait([worker.pipe for worker in workers if worker.left], timeout=1.0):
            worker = next(one for one in workers if one.pipe is pipe)
            rows[worker.target].add(worker.take())
        for worker in workers:
            if worker.is_stuck:
                rows[worker.target].add(worker.replaced(_KILLED))
        _progress(rows)
    for worker in workers:
        worker.process.kill()
        worker.process.join()
    return rows


def _progress(rows: dict[str, Row]) -> None:
    if sys.stderr.isatty():
        done, found = (
            sum(r.cases for r in rows.values()),
            sum(len(r.findings) for r in rows.values()),
        )
        print(f"\r{done} cases, {found} findings", end="", file=sys.stderr)


def table(rows: dict[str, Row]) -> str:
    lines = [
        f"{'format':18} {'cases':>6} {'a second':>8} {'slowest':>8} {'peak MB':>8}  exit codes"
    ]
    for name, row in rows.items():
        codes = " ".join(f"{code}:{count}" for code, count in sorted(row.codes.items()))
        slowest = row.slowest.seconds if row.slowest else 0.0
        rate = row.cases / row.seconds if row.seconds else 0.0
        figures = f"{row.cases:6} {rate:8.0f} {slowest:7.2f}s {row.peak_bytes / 1e6:8.0f}"
        lines.append(f"{name:18} {figures}  {codes}")
        lines += [f"    {len(f.seeds):4} x {f.cause}" for f in row.findings.values()]
    return "\n".join(lines)


def save(rows: dict[str, Row], folder: Path, workshop: Workshop, minimise: bool) -> None:
    """Inputs of findings, smaller where that goes quickly, and all figures as JSON."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, row in rows.items():
        for finding in row.findings.values():
            _save_finding(name, finding, folder, workshop, minimise)
    (folder / "fuzz.json").write_text(json.dumps(_as_json(rows), indent=1))


def _save_finding(
    name: str, finding: Finding, folder: Path, workshop: Workshop, minimise: bool
) -> None:
    case = workshop.case(TARGETS[name], finding.first.seed)
    slug = re.sub(r"\W+", "_", finding.cause)[:80]
    place = folder / name / slug
    place.mkdir(parents=True, exist_ok=True)
    (place / "input").write_bytes(case.data)
    if minimise and finding.first.code != -2 and "Overtime" not in finding.cause:
        small = minimised(workshop, case, finding.cause, most_runs=300, most_s=6.0)
        (place / "minimised").write_bytes(small.data)
        finding.minimised = small.data[:300].decode("latin-1") if len(small.data) <= 300 else ""
    text = f"{finding.cause}\n{reproducer(name, finding)}\n{finding.first.details}\n"
    (place / "cause.txt").write_text(text)


def reproducer(name: str, finding: Finding) -> str:
    return f"python -m tests.fuzz {name} --seed {finding.first.seed}"


def _as_json(rows: dict[str, Row]) -> dict[str, object]:
    return {
        name: {
            "cases": row.cases,
            "codes": {str(code): count for code, count in sorted(row.codes.items())},
            "seconds": row.seconds,
            "slowest": engine.as_json(row.slowest) if row.slowest else None,
            "peak_bytes": row.peak_bytes,
            "findings": [
                {
                    "cause": finding.cause,
                    "count": len(finding.seeds),
                    "seeds": finding.seeds[:20],
                    "reproduce": reproducer(name, finding),
                    "command": finding.first.command,
                    "details": finding.first.details,
                    "minimised": finding.minimised,
                }
                for finding in row.findings.values()
            ],
        }
        for name, row in rows.items()
    }


def one_case(name: str, seed: int, folder: Path, workshop: Workshop) -> int:
    """Run a single case with its output shown, and keep what it read."""
    case = workshop.case(TARGETS[name], seed)
    place = folder / f"{name}-{seed}"
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    file = engine.lay_down(case, place, workshop.side)
    words = " ".join(case.command.argv(place, file, workshop.side))
    print(f"input    {file} ({len(case.data)} bytes)")
    print(f"command  {f'npuscope {words}' if words else case.command.call}")
    outcome = workshop.run(case)
    print(f"code     {outcome.code} in {outcome.seconds:.2f} s")
    for cause in outcome.causes:
        print(f"finding  {cause}")
    print(outcome.details)
    return 1 if outcome.causes else 0


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("-n", "--cases", type=int, default=200, help="cases a target (200)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (0)")
    parser.add_argument("--seed", type=int, help="one case only")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--no-minimise", action="store_true")
    args = parser.parse_args(words)
    names = args.targets or list(TARGETS)
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        parser.error(f"no target is called {unknown[0]}; there are {', '.join(TARGETS)}")
    side = args.output.resolve() / "side"
    shutil.rmtree(side, ignore_errors=True)
    workshop = Workshop(side, prepare)
    if args.seed is not None:
        return max(one_case(name, args.seed, args.output, workshop) for name in names)
    seeds = range(args.first, args.first + args.cases)
    rows = run(names, seeds, args.jobs, side, args.seconds)
    print(table(rows))
    save(rows, args.output / "found", workshop, not args.no_minimise)
    found = [(name, finding) for name, row in rows.items() for finding in row.findings.values()]
    for name, finding in found:
        print(f"{finding.cause}\n    {reproducer(name, finding)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
