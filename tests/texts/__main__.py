"""`python -m tests.texts`: texts with what commands print now, to be reviewed as a diff.

With files or folders, only those; with `--networks DIR`, the networks instead, to try commands on.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from texts.networks import NETWORKS
from texts.script import HIDDEN, renewed, texts


def write_texts(places: list[Path]) -> None:
    sys.modules[HIDDEN] = None  # type: ignore[assignment]
    chosen = {place.resolve() for place in places}
    for path in texts():
        if chosen and not chosen & {path, *path.parents}:
            continue
        before = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            after = renewed(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(path)


def write_networks(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, network in NETWORKS.items():
        (folder / name).write_bytes(network())


parser = argparse.ArgumentParser(prog="python -m tests.texts", description=__doc__)
parser.add_argument("places", nargs="*", type=Path, metavar="TEXT")
parser.add_argument("--networks", type=Path, metavar="DIR")
args = parser.parse_args()
if args.networks:
    write_networks(args.networks)
else:
    write_texts(args.places)
