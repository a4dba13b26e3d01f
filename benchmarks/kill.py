"""`kill -9` at random moments: what the files of a verb look like afterwards.

    python benchmarks/kill.py --model ../shared/data/models/kws_ref_model.tflite [--seed 0]

Every verb has two ways to be called, whose results differ. Before a kill the results of one way are
there, or nothing; the run that is killed would write those of the other. A third of the kills come
at any moment of the run, a third soon after it first writes, a third while it renames. Then every
file must be the old one, the new one, or absent as before; a set must be old or new as a whole once
the next run has tidied up; files of the user's in the same folders must be as they were; and after
the next complete run nothing else may be left, neither there nor in the cache nor among temporary
files. Needs os.fork.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from npuscope.cli.main import main as npuscope
from npuscope.work_folder import tidy

# How long a run writes and renames, at most: kills are spread over these windows, which a kill at a
# random moment would nearly always miss.
WRITING_S = 0.05
RENAMING_S = 0.003
WORK = re.compile(r"\.npuscope-[a-z0-9_]{8}")
SWEEP = 'models = ["model.tflite"]\ngenerations = ["2.2", "4.0"]\n'
PLANTED = ("notes.txt", ".npuscope-mine")  # the second merely looks like one of ours
NOT_RESULTS = (*PLANTED, ".npuscope")
State = dict[str, bytes]


@dataclass(frozen=True)
class Verb:
    """What is run in a folder, in two ways, and which files are its results."""

    name: str
    kills: int
    ways: tuple[tuple[str, ...], tuple[str, ...]]
    # Names, or folders whose files count.
    results: tuple[str, ...]
    folders: tuple[str, ...]
    # Results of the same call differ (they hold times): looked at by themselves.
    look: Callable[[str, bytes], bool] | None = None


def whole_row_file(name: str, data: bytes) -> bool:
    """A sweep's results: every row but a torn last one is JSON; pages and tables have an end."""
    if name.endswith(".jsonl"):
        lines = data.split(b"\n")
        return all(json.loads(line)["schema"] for line in lines[:-1])
    ends = {".html": b"</html>", ".json": b"}", ".csv": b""}
    return data.rstrip().endswith(ends[Path(name).suffix]) and data.endswith(b"\n")


def verbs(share: float) -> list[Verb]:
    profile = "profile model.tflite --csv out/p.csv --html p.html --trace out/p.trace --save p.json"
    more = "--chrome out/p.chrome --json out/result.json"
    files = ("out/p.csv", "p.html", "out/p.trace", "p.json", "out/p.chrome", "out/result.json")
    table = (
        ("compile", 60, "compile model.tflite -o out", "--generation 2.2", ("out",)),
        ("package", 20, "package relative -o out --gen-c-file --split", "--cpu cortex-m33",
         ("out",)),
        ("fix", 45, "fix model.tflite -o out/f.tflite --json out/f.json --seeds 1",
         "--drop-softmax", ("out/f.tflite", "out/f.json")),
        ("profile", 55, f"{profile} {more}", "--generation 2.2", files),
        ("sweep", 20, "sweep sweep.toml -o out/s.jsonl --jobs 1 --html s.html --csv out/s.csv", "",
         ("out/s.jsonl", "s.html", "out/s.csv")),
    )  # fmt: skip
    return [
        Verb(
            name,
            max(1, round(kills * share)),
            (tuple(call.split()), tuple(f"{call} {other}".split())),
            results,
            (".", "out"),
            whole_row_file if name == "sweep" else None,
        )
        for name, kills, call, other, results in table
    ]


@dataclass
class Tally:
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def start(folder: Path, words: tuple[str, ...]) -> int:
    """A process of its own, which has imported everything already."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        # A session of its own: the kill must not reach this process.
        os.setsid()
        os.chdir(folder)
        quiet = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(quiet, number)
        code = npuscope(words)
    finally:
        # Not sys.exit: the fork must not run the exit handlers of this process.
        os._exit(code)


def import_all(root: Path, model: Path) -> None:
    """Do once what the verbs do, so that the processes made later need not import."""
    with contextlib.redirect_stdout(io.StringIO()):
        for words in (
            (
                "profile",
                str(model),
                "--html",
                str(root / "warm.html"),
                "--trace",
                str(root / "warm"),
            ),
            ("compile", str(model), "-o", str(root / "warm_net")),
            ("fix", str(model), "--seeds", "1"),
        ):
            npuscope(words)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def results(folder: Path, verb: Verb) -> State:
    found: State = {}
    for name in verb.results:
        path = folder / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            inside = str(file.relative_to(folder))
            ours = not any(WORK.fullmatch(part) for part in Path(inside).parts)
            if file.is_file() and ours and file.name not in NOT_RESULTS:
                found[inside] = file.read_bytes()
    return found


def leftovers(root: Path) -> list[str]:
    """Work folders anywhere, anything among temporary files, locks of stores."""
    found = [path for path in root.rglob(".npuscope-*") if WORK.fullmatch(path.name)]
    found += [*(root / "temporary").iterdir(), *root.rglob("*.lock")]
    own = [path for path in found if "zig" not in path.parts and path.name != "npuscope.lock"]
    return [str(path.relative_to(root)) for path in own]


class Trial:
    def __init__(self, root: Path, verb: Verb, model: Path, rng: random.Random) -> None:
        self.root, self.verb, self.rng, self.tally = root, verb, rng, Tally()
        self.folder = root / verb.name
        self.folder.mkdir()
        (self.folder / "out").mkdir()
        shutil.copyfile(model, self.folder / "model.tflite")
        (self.folder / "sweep.toml").write_text(SWEEP)
        self.must(("compile", "model.tflite", "--relocatable", "-o", "relative"))
        self.ends, self.durations = [], []
        for way in verb.ways:
            self.clear()
            began = time.monotonic()
            self.must(way)
            self.durations.append(time.monotonic() - began)
            self.ends.append(results(self.folder, verb))
        self.plant()

    def must(self, words: tuple[str, ...]) -> None:
        code = ended(start(self.folder, words))
        if code:
            self.tally.wrong.append(f"{self.verb.name}: a complete run ended with {code}")

    def clear(self) -> None:
        shutil.rmtree(self.folder / "out")
        (self.folder / "out").mkdir()
        for name in self.verb.results:
            (self.folder / name).unlink(missing_ok=True) if name != "out" else None

    def plant(self) -> None:
        for place in (self.folder, self.folder / "out"):
            for name in PLANTED:
                (place / name).write_text("mine")

    def run(self) -> None:
        have = 1
        for number in range(self.verb.kills):
            if number % 4 == 3:
                self.clear()
                # A folder that is not empty is only written to if it is ours.
                if self.verb.name != "compile":
                    self.plant()
            before, want = results(self.folder, self.verb), 1 - have
            self.kill(want)
            self.check(number, before, self.ends[want])
            self.must(self.verb.ways[want])
            have = want
            self.settled(number, self.ends[want])
            self.plant()

    def kill(self, want: int) -> None:
        child = start(self.folder, self.verb.ways[want])
        begun, longest_s = self.rng.choice(
            (
                (lambda: True, self.durations[want]),
                (lambda: any(self.works()), WRITING_S),
                (
                    lambda: any((work / "journal.json").exists() for work in self.works()),
                    RENAMING_S,
                ),
            )
        )
        delay = self.rng.uniform(0, longest_s)
        while not begun() and not self.is_over(child):
            # Renaming takes a few milliseconds, so the moment is polled for closely.
            time.sleep(0.0001)
        time.sleep(delay)
        if self.is_over(child):
            self.tally.seen["over before"] += 1
        os.kill(child, signal.SIGKILL)
        ended(child)

    def works(self) -> Iterator[Path]:
        for place in (self.folder / name for name in self.verb.folders):
            yield from (place / name for name in os.listdir(place) if WORK.fullmatch(name))

    @staticmethod
    def is_over(child: int) -> bool:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def check(self, number: int, before: State, new: State) -> None:
        self.each(number, before, new)
        if self.leftover_here():
            self.tally.seen["left something"] += 1
        if number % 2 or self.verb.look:
            return  # the next run alone has to do it
        for name in self.verb.folders:
            tidy(self.folder / name)
        found = results(self.folder, self.verb)
        if found not in (before, new):
            self.fault(number, "a set is neither old nor new")
        same = "old" if found == before else "new"
        self.tally.seen[f"set {same}"] += 1

    def leftover_here(self) -> bool:
        return any(not name.startswith("cache") for name in leftovers(self.root))

    def each(self, number: int, before: State, new: State) -> None:
        found = results(self.folder, self.verb)
        for name, data in found.items():
            if self.verb.look:
                fine = self.verb.look(name, data) and data.startswith(
                    before.get(name, b"") if name.endswith(".jsonl") else b""
                )
            else:
                fine = data in (before.get(name), new.get(name))
            if not fine:
                self.fault(number, f"{name} is torn")
        for name in before.keys() - found.keys():
            if name in new:
                self.fault(number, f"{name} is lost")
        self.planted(number)

    def planted(self, number: int) -> None:
        planted = [place / name for place in (self.folder, self.folder / "out") for name in PLANTED]
        missing = [path for path in planted if not path.is_file() or path.read_text() != "mine"]
        cleared = self.verb.name == "compile" and number % 4 == 3
        if missing and not cleared:
            self.fault(number, "a file of the user's is gone or changed")

    def settled(self, number: int, new: State) -> None:
        found = results(self.folder, self.verb)
        if not self.verb.look and found != new:
            self.fault(number, "the next complete run did not leave its results")
        self.planted(number)
        for name in leftovers(self.root):
            self.fault(number, f"{name} is left over")

    def fault(self, number: int, what: str) -> None:
        self.tally.wrong.append(f"{self.verb.name}, kill {number}: {what}")


def prepare(root: Path) -> None:
    """Temporary files and the cache are our own, so that what is left there shows."""
    for name in ("temporary", "cache"):
        (root / name).mkdir()
    os.environ |= {"XDG_CACHE_HOME": str(root / "cache"), "TMPDIR": str(root / "temporary")}
    tempfile.tempdir = None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True, help="a small .tflite")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the 200 kills")
    parser.add_argument("--verb", action="append", help="only these")
    args = parser.parse_args()
    model, wrong, kills = args.model.resolve(), [], 0
    with tempfile.TemporaryDirectory(prefix="kill-") as name:
        root = Path(name).resolve()
        prepare(root)
        import_all(root, model)
        print(f"{'verb':<9}{'kills':>6}{'over before':>13}{'left something':>16}"
              f"{'set old':>9}{'set new':>9}{'wrong':>7}")  # fmt: skip
        for verb in verbs(args.share):
            if args.verb and verb.name not in args.verb:
                continue
            trial = Trial(root, verb, model, random.Random(f"{args.seed} {verb.name}"))
            trial.run()
            seen = trial.tally.seen
            print(f"{verb.name:<9}{verb.kills:>6}{seen['over before']:>13}"
                  f"{seen['left something']:>16}{seen['set old']:>9}{seen['set new']:>9}"
                  f"{len(trial.tally.wrong):>7}", flush=True)  # fmt: skip
            wrong += trial.tally.wrong
            kills += verb.kills
    print(f"{kills} kills, {len(wrong)} faults", *wrong[:20], sep="\n  ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
