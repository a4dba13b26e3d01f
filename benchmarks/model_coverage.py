"""Which models of a folder get an answer: verbs over every .tflite and .onnx file, by cause.

    python benchmarks/model_coverage.py FOLDER [--verbs estimate,explain] [--seconds 60]
        [--classes INDEX.tsv]

Every run is a child of its own with a time limit; modules are imported once. A network that is
refused as float is tried again with --as-int8, where the verb takes it. Prints one line per file
that got no answer, then a table of verbs by exit code, answers by class of model (a column `class`
of a table with a column `path`), and the refusals by cause and verb (names and numbers left out),
the most frequent first.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import multiprocessing
import re
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

_VERBS = ("estimate", "explain", "lint", "compile", "profile", "validate", "fix")
_AS_INT8 = "--as-int8"
_TAKE_IT = ("estimate", "explain", "profile")  # the others need the network's own scales
_FLOAT = "the network is float"
_TIMEOUT, _CRASHED = 124, 70


class Outcome(NamedTuple):
    code: int
    message: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--verbs", default="estimate", help=f"of {', '.join(_VERBS)}")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--classes", type=Path, help="a table that names the class of each path")
    args = parser.parse_args()
    import npuscope.cli.main
    import npuscope.files.onnx.reader
    import npuscope.files.tflite.reader
    import npuscope.profiling.run  # noqa: F401

    table = Table(_classes(args.classes))
    models = sorted(p for p in args.folder.rglob("*") if p.suffix in (".tflite", ".onnx", ".ort"))
    for model in models:
        name = str(model.relative_to(args.folder))
        for verb in args.verbs.split(","):
            found = _run(verb, model, args.seconds)
            table.add(name, verb, found)
            if found.code > 1:
                print(f"{found.code:4} {verb:9} {name}: {found.message}", flush=True)
    table.show(len(models))
    return 0


def _classes(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    with path.open() as lines:
        return {row["path"]: row["class"] for row in csv.DictReader(lines, delimiter="\t")}


def _run(verb: str, model: Path, seconds: float) -> Outcome:
    found = _tried(verb, model, seconds, ())
    if _AS_INT8 in found.message and verb in _TAKE_IT:
        return _tried(verb, model, seconds, (_AS_INT8,))
    return found


def _tried(verb: str, model: Path, seconds: float, more: tuple[str, ...]) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        out = ("-o", str(Path(folder) / f"out{model.suffix}")) if verb in ("compile", "fix") else ()
        words = [verb, str(model), "-q", *out, *more]
        errors = Path(folder) / "errors"
        context = multiprocessing.get_context("fork" if sys.platform != "win32" else "spawn")
        child = context.Process(target=_child, args=(words, errors))
        child.start()
        child.join(seconds)
        if child.is_alive():
            child.kill()
            child.join()
            return Outcome(_TIMEOUT, f"not done after {seconds:g} s")
        text = errors.read_text().strip() if errors.exists() else ""
    code = child.exitcode if child.exitcode is not None and child.exitcode >= 0 else _CRASHED
    lines = text.replace("\n  hint: ", " / ").splitlines()
    return Outcome(code, lines[-1].removeprefix(f"npuscope: {model}: ") if lines else "")


def _child(words: list[str], errors: Path) -> None:
    from npuscope.cli.main import main as npuscope_main

    with (
        errors.open("w") as stream,
        contextlib.redirect_stderr(stream),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        code = npuscope_main(words)
    sys.exit(code)


class Table:
    """What was found, by verb, class and cause."""

    def __init__(self, classes: dict[str, str]) -> None:
        self.classes = classes
        self.codes: Counter[tuple[str, int]] = Counter()
        self.answers: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self.causes: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, name: str, verb: str, found: Outcome) -> None:
        self.codes[verb, found.code] += 1
        answer = self.answers[self.classes.get(name, "models"), verb]
        answer[0] += found.code in (0, 1)  # 1: an answer that says no, as that of validate
        answer[1] += 1
        if found.code > 1:
            self.causes[_cause(found.message)][verb] += 1

    def show(self, models: int) -> None:
        print(f"\n{models} models")
        for (verb, code), number in sorted(self.codes.items()):
            print(f"  {verb:9} exit {code:3}: {number}")
        for (kind, verb), (answered, all_of_them) in sorted(self.answers.items()):
            print(f"  {kind:32} {verb:9} {answered} of {all_of_them}")
        for cause, verbs in sorted(self.causes.items(), key=lambda row: -row[1].total()):
            print(
                f"  {verbs.total():4}  {cause}: {', '.join(f'{v} {n}' for v, n in verbs.items())}"
            )


def _cause(message: str) -> str:
    """The message without what differs from file to file."""
    if _FLOAT in message:
        return "a float network: the verb needs its own scales"
    plain = re.sub(r"'[^']*'|\([^)]*\)", "X", message.split(" / ")[0])
    return re.sub(r"#?\d[\d.,]*", "N", plain)[-100:]


if __name__ == "__main__":
    sys.exit(main())
