"""Every network.c of ours, read back and run: are its outputs those of the Program it came from?

    python benchmarks/read_back.py FOLDER... [--generations 2.2 4.0] [--json read_back.json]

Models, the smallest first, are compiled for each generation. The Program, the build's folder
without program.json, and the bare network.c with its blobs and weights take the same random
inputs; outputs have to be equal bit by bit. Prints one line a case that is not equal, then a table
of generations.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import npuscope
from npuscope.errors import NpuscopeError
from npuscope.program.model import Program
from npuscope.program.serialize import JSON_NAME
from npuscope.program.sources import read_program
from npuscope.sim.memory import element_type
from npuscope.sim.run import execute

GENERATIONS = ("2.2", "3.0", "4.0", "open")
FORMS = ("folder", "bare")  # of what is read back
OUTCOMES = ("equal", "differs", "cannot run", "no network.c", "not compiled")
_NEEDED = ("network.c", "_ecblobs.h", ".raw")  # endings of files that hold the network itself


@dataclass(frozen=True)
class Case:
    """What one form of one build gave."""

    model: str
    generation: str
    form: str
    outcome: str
    reason: str = ""


def main() -> int:
    options = _arguments()
    cases = []
    for model in _models(options.folders, options.most_mb):
        for generation in options.generations:
            for case in _cases(model, generation, options):
                cases.append(case)
                if case.outcome not in ("equal", "not compiled") or options.all:
                    print(_line(case), flush=True)
    _print_table(cases, options.generations)
    if options.json:
        options.json.write_text(json.dumps([asdict(case) for case in cases], indent=1) + "\n")
    return 1 if any(case.outcome in ("differs", "cannot run") for case in cases) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", help="models, or folders of them")
    parser.add_argument("--generations", nargs="+", default=list(GENERATIONS))
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=FORMS)
    parser.add_argument("--most-mb", type=float, default=1e9, help="leave out larger model files")
    parser.add_argument("--no-ec", action="store_true", help="the CPU starts the epochs")
    parser.add_argument("--all", action="store_true", help="a line for equal ones too")
    parser.add_argument("--json", type=Path, help="file to write the cases to")
    return parser.parse_args()


def _models(folders: list[Path], most_mb: float) -> list[Path]:
    files = (f for folder in folders for f in ([folder] if folder.is_file() else folder.rglob("*")))
    models = [f for f in files if f.suffix in (".tflite", ".onnx")]
    return sorted(
        (f for f in models if f.stat().st_size <= most_mb * 1e6), key=lambda f: f.stat().st_size
    )


def _cases(model: Path, generation: str, options: argparse.Namespace) -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name) / "build"
        settings = {"epoch_controller": False} if options.no_ec else {}
        try:
            program = npuscope.compile(model, folder, generation=generation, **settings)
            inputs = random_inputs(program)
            expected = list(execute(program, inputs).outputs.values())
        except Exception as error:  # a crash of the compiler is not what is measured here
            yield Case(model.name, generation, "", "not compiled", _told(error))
            return
        if not (folder / "network.c").exists():
            yield Case(model.name, generation, "", "no network.c")
            return
        for form in options.forms:
            _strip(folder, form)
            outcome, reason = compared(folder / "network.c", inputs, expected)
            yield Case(model.name, generation, form, outcome, reason)


def _strip(folder: Path, form: str) -> None:
    """Leave what this form holds."""
    for file in folder.iterdir():
        if file.is_dir():
            shutil.rmtree(file)
        elif file.name == JSON_NAME or (form == "bare" and not file.name.endswith(_NEEDED)):
            file.unlink()


def random_inputs(program: Program, seed: int = 7) -> dict[str, np.ndarray]:
    """Values over the whole range of each input's type."""
    rng, buffers = np.random.default_rng(seed), program.buffer_map()
    inputs = {}
    for name in program.inputs:
        kind, shape = element_type(buffers[name]), buffers[name].shape
        if kind.kind == "f":
            inputs[name] = rng.uniform(-1, 1, shape).astype(kind)
        else:
            limits = np.iinfo(kind) if kind.itemsize < 4 else np.iinfo(np.uint8)
            inputs[name] = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    return inputs


def compared(
    network: Path, inputs: dict[str, np.ndarray], expected: list[np.ndarray]
) -> tuple[str, str]:
    """An outcome, and the reason of one that is not equal."""
    try:
        program = read_program(network)
        buffers = program.buffer_map()
        pairs = zip(program.inputs, inputs.values(), strict=True)
        values = {name: value.reshape(buffers[name].shape) for name, value in pairs}
        outputs = list(execute(program, values).outputs.values())
    except Exception as error:
        return "cannot run", _told(error)
    for number, (mine, read) in enumerate(zip(expected, outputs, strict=True)):
        if mine.tobytes() != read.tobytes():
            apart = np.abs(mine.ravel().astype(float) - read.ravel().astype(float))
            return (
                "differs",
                f"output {number}: up to {apart.max():g}, {apart.astype(bool).sum()} values",
            )
    return "equal", ""


def _told(error: Exception) -> str:
    """A sentence of ours, or what a user would see as a crash."""
    if not isinstance(error, NpuscopeError):
        return f"{type(error).__name__}: {error}"
    return f"{error.where}: {error.message}" if error.where else error.message


def _line(case: Case) -> str:
    return f"{case.outcome:<13}{case.generation:<6}{case.form:<8}{case.model}  {case.reason}"


def _print_table(cases: list[Case], generations: list[str]) -> None:
    counts = Counter((case.generation, case.form, case.outcome) for case in cases)
    print(f"{'generation':<12}{'read back':<11}" + "".join(f"{o:>14}" for o in OUTCOMES))
    for generation in generations:
        for form in (*FORMS, ""):
            row = [counts[generation, form, outcome] for outcome in OUTCOMES]
            if any(row):
                print(f"{generation:<12}{form:<11}" + "".join(f"{count:>14}" for count in row))


if __name__ == "__main__":
    raise SystemExit(main())
