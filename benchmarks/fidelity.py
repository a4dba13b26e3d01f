"""How near our compiler comes to the vendor's: every build below a folder whose model is there too.

    python benchmarks/fidelity.py FOLDER [FOLDER ...]

Prints one row a build: the share of epochs equal in kind, operations and units (the score), the
counts of epochs, RAM and weights of both sides, and the means over all. Sources that differ in
comments and white space alone are counted once. Nothing is asserted: the figures go into
docs/accuracy.md.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median

from vendor_builds import code, fits, is_network

from npuscope.advice.compare.as_built import compare_as_built, model_named_by
from npuscope.advice.compare.fidelity import Fidelity
from npuscope.building import md5, model_beside
from npuscope.errors import NpuscopeError
from npuscope.program.calls import unknown_ops
from npuscope.program.model import Program
from npuscope.program.sources import read_program
from npuscope.structs import replace

_LEVELS = 5  # folders above a build in which its model may lie


def main(folders: list[str]) -> int:
    logging.disable(logging.WARNING)
    rows: list[tuple[str, Fidelity]] = []
    for folder in map(Path, folders):
        for path in sorted(_builds(folder)):
            row = _row(path, folder)
            if row is not None:
                rows.append((str(path.relative_to(folder)), row))
                _print(*rows[-1])
    _print_means([row for _, row in rows])
    return 0


def _builds(folder: Path) -> Iterator[Path]:
    seen: set[str] = set()
    for path in sorted(folder.rglob("*.c")):
        if not is_network(path):
            continue
        digest = hashlib.sha256(code(path.read_text("utf-8", "replace")).encode()).hexdigest()
        if digest not in seen:
            seen.add(digest)
            yield path


def _row(path: Path, root: Path) -> Fidelity | None:
    try:
        program = read_program(path)
        model = _model(program, path, root)
        if model is None:
            print(
                f"   -                            {path.relative_to(root)}: its model is not there"
            )
            return None
        if unknown_ops(program):
            print(
                f"   -                            {path.relative_to(root)}: its blobs are not there"
            )
            return None
        if program.model_md5 not in ("", md5(model)) or not fits(program, model):
            print(f"   -                            {path.relative_to(root)}: of another model")
            return None
        found = compare_as_built(path, model, {}, {}).fidelity
        if found is not None and not _is_same(found):
            print(f"   -                            {path.relative_to(root)}: of another model")
            return None
        return found
    except NpuscopeError as error:
        print(f"   -                            {path.relative_to(root)}: {error.message[:90]}")
        return None


def _is_same(found: Fidelity) -> bool:
    """Models are found by name: one with other weights is not the one that was built."""
    theirs, ours = found.weights_bytes
    return theirs < 2 * ours and ours < 2 * theirs


def _model(program: Program, path: Path, root: Path) -> Path | None:
    """In the folder of the build or above, or anywhere below one of these."""
    found = model_beside(path, program)
    folder = path.parent
    for _ in range(_LEVELS):
        found = found or model_named_by(program, folder) or _below(program, folder)
        if found or folder == root:
            break
        folder = folder.parent
    return found


def _below(program: Program, folder: Path) -> Path | None:
    places = (child for child in sorted(folder.rglob("*")) if child.is_dir())
    named = (model_named_by(replace(program, model_md5=""), place) for place in places)
    return next((model for model in named if model), None)


def _print(name: str, found: Fidelity) -> None:
    ram, weights = (_share(pair) for pair in (found.ram_bytes, found.weights_bytes))
    print(
        f"{100 * found.score:5.1f}%  epochs {found.theirs:4} {found.ours:4}  RAM {ram}  weights "
        f"{weights}  {name}"
    )


def _share(pair: tuple[int, int]) -> str:
    return f"{100 * (pair[1] / pair[0] - 1):+6.1f}%" if pair[0] else "      -"


def _print_means(found: list[Fidelity]) -> None:
    if not found:
        print("no build with its model was found")
        return
    scores = [row.score for row in found]
    epochs = [abs(row.ours / row.theirs - 1) for row in found if row.theirs]
    ram = [abs(row.ram_bytes[1] / row.ram_bytes[0] - 1) for row in found if row.ram_bytes[0]]
    near = sum(share <= 0.1 for share in epochs)
    close = sum(share <= 0.03 for share in ram)
    print(
        f"{len(found)} builds: score mean {100 * mean(scores):.1f}%, median "
        f"{100 * median(scores):.1f}%; epochs within 10% in {near}; RAM error mean "
        f"{100 * mean(ram):.1f}%, median {100 * median(ram):.1f}%, within 3% in {close}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
