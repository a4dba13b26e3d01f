"""`python -m tests.differential [-n NETWORKS] [--seed FIRST]`: random networks, judged; or one."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

from differential.generate import PROFILES, network_of
from differential.judges import (
    GENERATIONS,
    JUDGES,
    Trial,
    generation_of,
    judged,
    trials,
)
from differential.reduce import reduced
from differential.verdict import Fault, Verdict
from differential.warm import warm_runtimes

_CHUNK = 20
_MEMORY = "/dev/shm"
_REDUCE_S = 30.0


@dataclass(slots=True)
class Class:
    """All faults of one cause; `smallest` is where it was seen in the fewest nodes."""

    cause: str
    seeds: list[int] = field(default_factory=list)
    smallest: tuple[Verdict, Fault] | None = None

    def add(self, verdict: Verdict, fault: Fault) -> None:
        self.seeds.append(verdict.seed)
        if self.smallest is None or verdict.nodes < self.smallest[0].nodes:
            self.smallest = verdict, fault


@dataclass(slots=True)
class Table:
    networks: Counter[str] = field(default_factory=Counter)  # by format, all and at fault
    counts: Counter[str] = field(default_factory=Counter)
    classes: dict[str, Class] = field(default_factory=dict)

    def add(self, verdict: Verdict) -> None:
        self.networks[verdict.format] += 1
        self.networks[f"{verdict.format} at fault"] += bool(verdict.faults)
        self.counts.update(verdict.counts)
        for fault in verdict.faults:
            self.classes.setdefault(fault.cause, Class(fault.cause)).add(verdict, fault)

    def told(self) -> str:
        rows = (*sorted(self.networks.items()), *sorted(self.counts.items()))
        lines = [f"{count:9} {name}" for name, count in rows]
        ordered = sorted(self.classes.values(), key=lambda one: -len(one.seeds))
        return "\n".join([*lines, "", *(f"{len(one.seeds):5} x {one.cause}" for one in ordered)])


def _work(seeds: Sequence[int], profile: str, judges: Sequence[str]) -> list[Verdict]:
    logging.disable(logging.WARNING)
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as name, warm_runtimes():
        return trials(seeds, Path(name), profile, judges)


def run(seeds: range, profile: str, judges: Sequence[str], jobs: int, most_s: float) -> Table:
    table, end = Table(), time.monotonic() + most_s
    chunks = [seeds[at : at + _CHUNK] for at in range(0, len(seeds), _CHUNK)]
    for verdict in _verdicts(chunks, profile, judges, jobs, end):
        table.add(verdict)
    return table


def _verdicts(
    chunks: Sequence[range], profile: str, judges: Sequence[str], jobs: int, end: float
) -> Iterable[Verdict]:
    """A process that dies costs its chunk, which then goes on network by network."""
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(_work, chunk, profile, judges): chunk for chunk in chunks}
        for count, future in enumerate(as_completed(waiting), 1):
            chunk = waiting[future]
            try:
                yield from future.result()
            except BrokenProcessPool:
                if len(chunk) > 1:
                    yield from _verdicts([[s] for s in chunk], profile, judges, 1, end)  # type: ignore[misc]
                else:
                    yield Verdict(chunk[0], "?", 0, "", [Fault("process", "it died")])
            print(f"\r{count} of {len(chunks)} chunks", end="", file=sys.stderr)
            if time.monotonic() > end:
                pool.shutdown(wait=False, cancel_futures=True)
                return


def save(table: Table, folder: Path, profile: str, reduce_s: float) -> None:
    """For every class a minimal file, and the line that shows the fault again."""
    shutil.rmtree(folder, ignore_errors=True)
    for one in table.classes.values():
        assert one.smallest is not None
        verdict, fault = one.smallest
        if verdict.nodes:
            network = network_of(verdict.seed, profile)
            if reduce_s:
                network = reduced(network, verdict.seed, verdict.generation, fault, reduce_s)
            place = folder / re.sub(r"\W+", "_", one.cause)[:80]
            place.mkdir(parents=True, exist_ok=True)
            file = place / f"minimal.{network.format}"
            file.write_bytes(network.written())
            again = (
                f"--file {file} --judge {fault.judge} "
                f"--generation {verdict.generation} --seed {verdict.seed}"
            )
            whole = f"--profile {profile} --seed {verdict.seed} -n 1 --judge {fault.judge}"
            lines = (
                one.cause,
                f"seen {len(one.seeds)} times: {one.seeds[:20]}",
                f"python -m tests.differential {again}",
                f"python -m tests.differential {whole}",
                fault.details,
            )
            (place / "cause.txt").write_text("\n".join(lines) + "\n")
            print(f"{one.cause} ({len(network.nodes)} nodes)\n    {file}")
    folder.mkdir(parents=True, exist_ok=True)
    seeds = {one.cause: one.seeds for one in table.classes.values()}
    (folder / "differential.json").write_text(
        json.dumps({**table.counts, "classes": seeds}, indent=1)
    )


def one_file(path: Path, judges: Sequence[str], generation: str, seed: int) -> int:
    """A minimal file, or anybody's; the seed fixes the values that go in."""
    trial = Trial(path, Verdict(seed, path.suffix[1:], 0, generation))
    with tempfile.TemporaryDirectory() as name:
        verdict = judged([trial], Path(name), [judge for judge in judges if judge in JUDGES])[0]
    for fault in verdict.faults:
        print(f"{fault.cause}\n    {fault.details}")
    return 1 if verdict.faults else 0


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("-n", "--networks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="the first one (0)")
    parser.add_argument("--profile", choices=PROFILES, default="mixed")
    parser.add_argument("--judge", nargs="*", default=[], metavar="NAME", help=", ".join(JUDGES))
    parser.add_argument("--file", type=Path, help="judge this model instead")
    parser.add_argument("--generation", choices=GENERATIONS, default=GENERATIONS[0])
    parser.add_argument("--write", type=Path, help="only write the networks into this folder")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--reduce", type=float, default=_REDUCE_S, help="seconds per class (0: no)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/differential"))
    args = parser.parse_args(words)
    if args.file:
        return one_file(args.file, args.judge, args.generation, args.seed)
    seeds = range(args.seed, args.seed + args.networks)
    if args.write:
        return write(seeds, args.profile, args.write)
    table = run(seeds, args.profile, args.judge, args.jobs, args.seconds)
    print(f"\n{table.told()}\n")
    save(table, args.output, args.profile, args.reduce)
    return 1 if table.classes else 0


def write(seeds: range, profile: str, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        network = network_of(seed, profile)
        (folder / f"{profile}{seed}_{generation_of(seed)}.{network.format}").write_bytes(
            network.written()
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
