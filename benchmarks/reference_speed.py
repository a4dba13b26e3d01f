"""Reference executor against LiteRT's reference kernels: speed and exactness, network by network.

    python benchmarks/reference_speed.py --models ../shared/data/models --json speed.json

Both run on one thread in one process per network (LiteRT aborts the process on some files), in
turns; the best of all runs counts, in CPU time.
Mismatches are elements of all tensors over ten seeded inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SEEDS = 10
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> int:
    options = _arguments()
    if options.one:
        print(json.dumps(measure(options.one, options.runs, options.seeds)))
        return 0
    rows = []
    print(f"{'network':48} {'ours ms':>9} {'LiteRT ms':>9} {'ratio':>6} {'mismatches':>22}")
    for path in sorted(options.models.glob(options.only)):
        rows.append(in_child(path, options.runs))
        print(_line(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row.get("mismatches") for row in rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "models"
    parser.add_argument("--models", type=Path, default=shared, help="folder of .tflite files")
    parser.add_argument("--only", default="*.tflite", help="pattern of file names")
    parser.add_argument("--runs", type=int, default=20, help="timed runs of each side")
    parser.add_argument("--json", type=Path, help="file to write the table to")
    parser.add_argument(
        "--seeds", type=int, default=_SEEDS, help="inputs whose values are compared"
    )
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def in_child(path: Path, runs: int, seeds: int = _SEEDS) -> dict[str, Any]:
    """Threads must be limited before numpy is imported, hence in the child's environment."""
    command = [sys.executable, __file__, "--one", str(path), "--runs", str(runs)]
    command += ["--seeds", str(seeds)]
    environment = {**os.environ, **_ONE_THREAD}
    child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if child.returncode < 0:
        return {"network": path.stem, "skipped": f"the process ended by signal {-child.returncode}"}
    if child.returncode:
        return {"network": path.stem, "skipped": child.stderr.strip().splitlines()[-1]}
    row: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return row


def _line(row: dict[str, Any]) -> str:
    if "skipped" in row:
        return f"{row['network']:48} {row['skipped'][:100]}"
    exact = f"{row['mismatches']} of {row['elements']}"
    return (
        f"{row['network']:48} {row['ours_ms']:9.3f} {row['litert_ms']:9.3f} "
        f"{row['ratio']:6.2f} {exact:>22}"
    )


def measure(path: Path, runs: int, seeds: int) -> dict[str, Any]:
    from npuscope.errors import NpuscopeError
    from npuscope.files.load import load_model
    from npuscope.ops.run import plan_of, run

    try:
        graph = load_model(path)
    except NpuscopeError as error:
        return {"network": path.stem, "skipped": error.message}
    start = time.process_time()
    plan_of(graph)
    prepare_ms = 1e3 * (time.process_time() - start)
    values = seeded_input(graph.tensors[graph.inputs[0]], 0)
    interpreter = litert(path, values)
    ours_ms, litert_ms = in_turns(
        lambda: run(graph, {graph.inputs[0]: values}), interpreter.invoke, runs
    )
    mismatches, elements = compare(path, graph, seeds)
    return {
        "network": path.stem,
        "prepare_ms": prepare_ms,
        "ours_ms": ours_ms,
        "litert_ms": litert_ms,
        "ratio": ours_ms / litert_ms,
        "mismatches": mismatches,
        "elements": elements,
    }


def in_turns(
    first: Callable[[], object], second: Callable[[], object], runs: int
) -> tuple[float, float]:
    """Best times in ms; alternating, so that a busy machine hits both sides."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * runs + 2):
        start = time.process_time()
        (first, second)[number % 2]()
        if number > 1:  # the first of each warms up
            times[number % 2].append(1e3 * (time.process_time() - start))
    return min(times[0]), min(times[1])


def seeded_input(tensor: Any, seed: int) -> Any:
    import numpy as np

    rng = np.random.default_rng(seed)
    if tensor.dtype.is_float:
        return rng.normal(size=tensor.shape).astype(np.float32)
    low, high = tensor.dtype.limits
    return rng.integers(low, high, tensor.shape, tensor.dtype.numpy, endpoint=True)


def litert(path: Path, values: Any, keep_all: bool = False) -> Any:
    """An interpreter on reference kernels with its input set."""
    from npuscope.profiling.runtimes import litert_interpreter

    interpreter = litert_interpreter(str(path), keep_all=keep_all)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
    return interpreter


def compare(path: Path, graph: Any, seeds: int) -> tuple[int, int]:
    """(differing, all) elements of the tensors that both sides name."""
    import numpy as np

    from npuscope.ops.run import trace

    source = graph.tensors[graph.inputs[0]]
    interpreter = litert(path, seeded_input(source, 0), keep_all=True)
    details = {detail["name"]: detail["index"] for detail in interpreter.get_tensor_details()}
    differing = elements = 0
    for seed in range(seeds):
        values = seeded_input(source, seed)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
        interpreter.invoke()
        for name, found in trace(graph, {source.name: values}).items():
            if name in details:
                wanted = interpreter.get_tensor(details[name]).reshape(found.shape)
                differing += int(np.count_nonzero(found != wanted))
                elements += found.size
    return differing, elements


if __name__ == "__main__":
    sys.exit(main())
