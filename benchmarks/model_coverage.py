"""Which models of a folder get an answer: verbs over every .tflite and .onnx file, by cause.

    python benchmarks/model_coverage.py FOLDER [--verbs estimate,explain] [--seconds 60]

Every run is a process of its own with a time limit. A network that is refused as float is tried
again with --as-int8. Prints one line per file that got no answer, then the counts by verb and exit
code, and the refusals by cause (names and numbers left out), the most frequent first.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

_VERBS = ("estimate", "explain", "lint", "compile", "profile", "validate", "fix")
_AS_INT8 = "--as-int8"
_TIMEOUT = 124


class Outcome(NamedTuple):
    code: int
    message: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--verbs", default="estimate", help=f"of {', '.join(_VERBS)}")
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    models = sorted(p for p in args.folder.rglob("*") if p.suffix in (".tflite", ".onnx", ".ort"))
    counts: Counter[tuple[str, int]] = Counter()
    causes: Counter[str] = Counter()
    for model in models:
        for verb in args.verbs.split(","):
            found = _run(verb, model, args.seconds)
            counts[verb, found.code] += 1
            if found.code:
                causes[f"{verb}: {_cause(found.message)}"] += 1
                print(f"{found.code:4} {verb:9} {model.relative_to(args.folder)}: {found.message}")
    _print_counts(len(models), counts, causes)
    return 0


def _run(verb: str, model: Path, seconds: float) -> Outcome:
    found = _tried(verb, model, seconds, ())
    return _tried(verb, model, seconds, (_AS_INT8,)) if _AS_INT8 in found.message else found


def _tried(verb: str, model: Path, seconds: float, more: tuple[str, ...]) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        out = ("-o", str(Path(folder) / f"out{model.suffix}")) if verb in ("compile", "fix") else ()
        words = [sys.executable, "-m", "npuscope", verb, str(model), "-q", *out, *more]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return Outcome(_TIMEOUT, f"not done after {seconds:g} s")
    text = done.stderr.strip().replace("\n  hint: ", " / ").splitlines()
    return Outcome(done.returncode, text[-1].removeprefix(f"npuscope: {model}: ") if text else "")


def _cause(message: str) -> str:
    """The message without what differs from file to file."""
    plain = re.sub(r"'[^']*'|\([^)]*\)", "X", message.split(" / ")[0])
    return re.sub(r"#?\d[\d.,]*", "N", plain)[-100:]


def _print_counts(models: int, counts: Counter[tuple[str, int]], causes: Counter[str]) -> None:
    print(f"\n{models} models")
    for (verb, code), number in sorted(counts.items()):
        print(f"  {verb:9} exit {code:3}: {number}")
    for cause, number in causes.most_common():
        print(f"  {number:4}  {cause}")


if __name__ == "__main__":
    sys.exit(main())
