"""Every network.c below a folder: whether it can be read, estimated and explained.

    python benchmarks/vendor_builds.py builds --once --json builds.json

A network.c is known by its content, whatever its name. `own` are the epochs that the generate
report beside it counts, as total/SW/hybrid, so that a count that differs stands out. Times above
a second or below 10 us are marked: they are rarely true.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import npuscope
from npuscope.bounded_file import read_head
from npuscope.errors import NpuscopeError
from npuscope.program.generate_report.reader import read_generate_report
from npuscope.program.sources import read_program

_HEAD_BYTES = 1 << 16
_MARKS = (b"LL_ATON_VERSION", b"global pool")
_SLOWEST_MS = 1000.0
_FASTEST_MS = 0.01
_KINDS = ("HW", "SW", "HYBRID")


def main() -> int:
    options = _arguments()
    rows = []
    for path in _networks(options.folder, options.once):
        rows.append(_row(path, options.folder))
        print(_line(rows[-1]), flush=True)
    for step in ("parses", "estimate", "explain"):
        done = sum(not row["errors"].get(step) for row in rows)
        print(f"{step}: {done} of {len(rows)}")
    for message, count in Counter(e for row in rows for e in row["errors"].values()).most_common():
        print(f"{count:4d} x {message}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(row["errors"] for row in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of builds; it is searched through")
    parser.add_argument("--once", action="store_true", help="leave out copies of the same source")
    parser.add_argument("--json", type=Path, help="file to write the table to")
    return parser.parse_args()


def _networks(folder: Path, once: bool) -> list[Path]:
    found = sorted(f for f in folder.rglob("*") if _is_network(f))
    first = {hashlib.sha256(f.read_bytes()).digest(): f for f in reversed(found)} if once else {}
    return sorted(first.values()) if once else found


def _is_network(path: Path) -> bool:
    if not path.is_file():
        return False
    if path.name == "network.c":
        return True  # empty or not: whoever has such a file wants to read it
    if ".c" not in path.suffixes:
        return False
    head = read_head(path, _HEAD_BYTES)
    return all(mark in head for mark in _MARKS)


def _row(path: Path, root: Path) -> dict[str, Any]:
    errors: dict[str, str] = {}
    program = _tried(lambda: read_program(path), "parses", errors)
    explained = _tried(lambda: npuscope.explain(path), "explain", errors)
    # An explanation holds the same profile as an estimate.
    profile = explained.profile if explained else _tried(_estimate(path), "estimate", errors)
    counts = profile.counts if profile else {}
    memory = profile.memory if profile else None
    return {
        "path": str(path.relative_to(root)),
        "generation": program.generation if program else "",
        "ms": profile.total_ms if profile else None,
        "epochs": [counts.get(kind, 0) for kind in _KINDS] if profile else None,
        "ram_bytes": memory.internal_ram_bytes + memory.external_ram_bytes if memory else None,
        "weights_bytes": memory.weights_bytes if memory else None,
        "findings": len(explained.findings) if explained else None,
        "own": _own(path),
        "notes": list(program.notes) if program else [],
        "errors": errors,
    }


def _estimate(path: Path) -> Callable[[], Any]:
    return lambda: npuscope.estimate(path)


def _tried(call: Callable[[], Any], step: str, errors: dict[str, str]) -> Any:
    """What a verb gives; the sentence that a user would read where it fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except NpuscopeError as error:
        hint = f" ({error.hint})" if error.hint else ""
        errors[step] = f"{error.message}{hint}"
    except Exception as error:  # what reaches a user as a bug; the table goes on
        errors[step] = f"BUG {type(error).__name__}: {error}"
    return None


def _own(path: Path) -> list[int | None] | None:
    """Epochs, software and hybrid ones, as the build's own report counts them."""
    for report in sorted(path.parent.glob("*report.txt")):
        try:
            found = read_generate_report(report)
        except NpuscopeError:
            continue
        if found.counts:
            return [found.counts.total, found.counts.software, found.counts.hybrid]
    return None


def _line(row: dict[str, Any]) -> str:
    time = "-" if row["ms"] is None else f"{row['ms']:.3f}"
    odd = row["ms"] is not None and not _FASTEST_MS <= row["ms"] <= _SLOWEST_MS
    cells = [
        f"{row['generation'] or '-':>5}",
        f"{time:>10}{'!' if odd else ' '}",
        f"{_slashed(row['epochs']):>10}",
        f"own {_slashed(row['own']):<9}",
        f"{'-' if row['findings'] is None else row['findings']:>3} findings",
        row["path"],
    ]
    problems = [f"{step}: {text}" for step, text in row["errors"].items()]
    return "\n      ".join([" ".join(cells), *row["notes"], *problems])


def _slashed(numbers: list[int | None] | None) -> str:
    return "/".join("?" if n is None else str(n) for n in numbers) if numbers else "-"


if __name__ == "__main__":
    raise SystemExit(main())
