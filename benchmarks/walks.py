"""How many files a verb runs through: its walk through the source, as data.

    python benchmarks/walks.py --json walks.json

Small networks of the tests are used. A file counts if a function of it runs; what is done at
import is done before.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

import npuscope  # noqa: E402
from models import mobilenet_like, save, to_tflite  # noqa: E402
from npuscope.cli.main import main as npuscope_main  # noqa: E402

SOURCE = Path(npuscope.__file__).parent
VERBS = {
    "estimate": ("estimate", "net.tflite"),
    "fix": ("fix", "net.tflite", "--drop-softmax"),
    "profile": ("profile", "net.tflite"),
    "manycore run": ("manycore", "run", "-t", "qpc"),
    "estimate on many cores": ("estimate", "net.tflite", "--machine", "cloudai100"),
}


def walk(words: tuple[str, ...]) -> list[str]:
    """Files in the order in which they are entered."""
    seen: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(SOURCE)):
            seen.setdefault(Path(file).relative_to(SOURCE).as_posix())

    with contextlib.redirect_stdout(io.StringIO()):
        npuscope_main(words)  # imports run code too, which is no step of the walk
        sys.setprofile(note)
        try:
            code = npuscope_main(words)
        finally:
            sys.setprofile(None)
    if code:
        raise SystemExit(f"{' '.join(words)}: exit code {code}")
    return list(seen)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the walks, file by file")
    options = parser.parse_args()
    target = options.json and options.json.resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        save(Path(), "net.tflite", to_tflite(mobilenet_like()))
        npuscope.manycore_compile("net.tflite", "qpc")
        walks = {name: walk(words) for name, words in VERBS.items()}
        os.chdir("/")
    for name, files in walks.items():
        print(f"{len(files):4} files  {name}")
    if target:
        target.write_text(json.dumps(walks, indent=1) + "\n")


if __name__ == "__main__":
    main()
