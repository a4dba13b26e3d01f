"""Public dumps of a board against the simulation: every value of every network.

    python benchmarks/board_values.py FOLDER

FOLDER holds `Models/baseline` and `Output/Output_Baseline/CubeMX xcubeai` of the public repository
Magnus3327/stm32n6-edge-ai-benchmarks: eight networks, ten inputs each, compiled by generation 2.2.
`c` is the board, `m` the vendor's reference on the PC. Each dump also goes through `triage`, which
is not told the generation.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import npuscope
from npuscope.building import build
from npuscope.sim.run import execute

GENERATIONS = ("2.2", "3.0", "4.0")
# Folders whose name is not that of their model.
NAMES = {"Conv2d_poll": "conv2d_pool"}


def main() -> None:
    root = Path(sys.argv[1])
    totals = dict.fromkeys(GENERATIONS, 0)
    values = reference = 0
    for folder in sorted((root / "Output/Output_Baseline/CubeMX xcubeai").iterdir()):
        name = NAMES.get(folder.name, folder.name.lower())
        model = root / f"Models/baseline/baseline_{name}_int8.tflite"
        inputs = np.load(folder / "network_val_c_inputs_1.npy")
        board = np.load(folder / "network_val_c_outputs_1.npy").reshape(len(inputs), -1)
        vendor = np.load(folder / "network_val_m_outputs_1.npy").reshape(len(inputs), -1)
        row = []
        for generation in GENERATIONS:
            program = build(model, {"generation": generation}).program
            runs = (
                execute(program, {program.inputs[0]: sample[None]}).outputs for sample in inputs
            )
            ours = np.stack([run[program.outputs[0]].reshape(-1) for run in runs])
            totals[generation] += int((ours == board).sum())
            row.append(f"{generation}: {(ours == board).sum()}")
        values += board.size
        reference += int((vendor == board).sum())
        result = npuscope.triage(
            model,
            inputs=[folder / "network_val_c_inputs_1.npy"],
            outputs=[folder / "network_val_c_outputs_1.npy"],
        )
        print(
            f"{folder.name:<18} {board.size:>4} values, equal at {', '.join(row)}; {result.answer}"
        )
    shares = ", ".join(f"{generation} {count}" for generation, count in totals.items())
    print(f"all: {values} values, equal at {shares}; vendor's reference on the PC {reference}")


if __name__ == "__main__":
    main()
