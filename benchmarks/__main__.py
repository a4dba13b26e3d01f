"""Runs one of the benchmarks: `python -m benchmarks accuracy --fetch`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main() -> None:
    names = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.exit(f"usage: python -m benchmarks NAME [OPTION ...]\nnames: {', '.join(names)}")
    del sys.argv[0]
    # Benchmarks import each other by name, as they do when they are run as files.
    sys.path.insert(0, str(FOLDER))
    runpy.run_path(str(FOLDER / f"{sys.argv[0]}.py"), run_name="__main__")


if __name__ == "__main__":
    main()
