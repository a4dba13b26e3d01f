"""Ethos-U: edits of `fix`, verified end to end.

    python benchmarks/ethos_u_fixes.py MODEL... [--machines NAME,NAME] [--plain] [-o ROWS]

Every network is fixed, and the file that comes out is compiled by Vela again and
executed on random inputs; LiteRT's reference kernels compute the same on that file. Prints one JSON
row per network and machine: the edits, milliseconds before and after, how far `fix` says that
results move, and the comparison of ethos_u.py on the edited file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ethos_u import compared
from npuscope import fix
from npuscope.errors import NpuscopeError
from npuscope.report.fix import effect_words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--machines", default="ethos-u55-128,ethos-u85-256")
    parser.add_argument("--plain", action="store_true", help="no cuts, borders as they are")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with open(options.output, "a") if options.output else sys.stdout as target:
        for path in options.models:
            for machine in options.machines.split(","):
                print(json.dumps(_verified(path, machine, options.plain)), file=target, flush=True)


def _verified(path: Path, machine: str, plain: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"model": path.name, "machine": machine}
    with tempfile.TemporaryDirectory() as name:
        fixed = Path(name) / path.name
        try:
            result = fix(path, fixed, machine=machine, everything=not plain)
            row["edits"] = [step.candidate.fix.id for step in result.applied]
            row["before_ms"], row["after_ms"] = result.before.total_ms, result.after.total_ms
            if result.applied:
                row["outputs"] = effect_words(result.effects)
                row |= compared(fixed, machine)
        except NpuscopeError as error:
            row["refused"] = str(error)[:300]
        except (RuntimeError, ValueError) as error:
            row["litert"] = f"{type(error).__name__}: {str(error)[:200]}"
    return row


if __name__ == "__main__":
    main()
