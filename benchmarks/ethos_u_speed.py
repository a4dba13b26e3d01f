"""Ethos-U: processor time of executing a stream, as a multiple of LiteRT's reference kernels.

    python benchmarks/ethos_u_speed.py MODEL [--machines ...] [--runs N]

A model is compiled for every machine; then a process of its own executes it: LiteRT's kernels
three times, then ours for the first time, which decodes the weights, and again with the weights
decoded. Prints one JSON row per machine: seconds of a processor (medians of N processes) and the
ratios to the faster of LiteRT's last two runs, of each process by itself, in order.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from npuscope.families.ethos_u.build import compiled, read_build
from npuscope.families.ethos_u.network import Network
from npuscope.files.tflite.tensors import TYPES
from npuscope.profiling.runtimes import litert_interpreter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path)
    parser.add_argument("--machines", default="ethos-u55-128,ethos-u85-256")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--stream", type=Path, help="one process: a file of Vela's, only timed")
    options = parser.parse_args()
    if options.stream:
        print(json.dumps(seconds(options.model, options.stream)))
        return
    for machine in options.machines.split(","):
        with tempfile.TemporaryDirectory() as name:
            stream = Path(name) / "stream_vela.tflite"
            stream.write_bytes(compiled(options.model, {"machine": machine}).data)
            command = [sys.executable, __file__, str(options.model), "--stream", str(stream)]
            rows = [json.loads(subprocess.check_output(command)) for _ in range(options.runs)]
        row = {key: round(median(one[key] for one in rows), 3) for key in rows[0]}
        for key in ("first", "again"):
            row[f"{key}_ratios"] = sorted(round(one[key] / one["litert"], 2) for one in rows)
        print(json.dumps({"model": options.model.name, "machine": machine, **row}), flush=True)


def seconds(model: Path, stream: Path) -> dict[str, float]:
    rng = np.random.default_rng(0)
    interpreter = litert_interpreter(str(model))
    for detail in interpreter.get_input_details():
        values = rng.integers(-128, 128, detail["shape"]).astype(detail["dtype"])
        interpreter.set_tensor(detail["index"], values)
    kernels = [_timed(interpreter.invoke) for _ in range(3)]
    file = read_build(stream, {}).file
    network = Network(file)
    inputs = {}
    for name, index in network.inputs.items():
        tensor = file.tensor(index)
        values = rng.integers(-128, 128, tensor.shape)
        inputs[name] = values.astype(TYPES[tensor.type].numpy)
    ours = [_timed(lambda: network.run(inputs)) for _ in range(2)]
    return {"litert": min(kernels[1:]), "first": ours[0], "again": ours[1]}


def _timed(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


if __name__ == "__main__":
    main()
