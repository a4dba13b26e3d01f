"""Planned applications on the emulated board: their networks together against each alone.

    python benchmarks/plan_emulated.py --models DIR

Two applications of two networks are planned; each network is compiled with the profile that the
plan wrote, packaged, and all images of an application are loaded on one board. The networks then
run in turns (A, B, A, B) in the RAM that they share. Outputs have to equal those of a board with
one network alone, byte for byte.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np

from npuscope.application.plan import Plan, make_plan
from npuscope.application.request import read_application
from npuscope.boards.device import Request
from npuscope.boards.emulated.boot import load, side_by_side
from npuscope.cli.main import main as npuscope
from npuscope.loadable.build import package
from npuscope.loadable.codes import PackageOptions
from npuscope.machine.load import load_machine
from npuscope.profiling.measure import random_inputs
from npuscope.report.plan_files import plan_files

APPLICATIONS = (
    ("ad01_int8.tflite", "kws_ref_model.tflite"),
    ("fdmobilenet_0.25_128_tfs_int8.tflite", "mobilenet_v1_0.25_96_tfs_int8.tflite"),
)


def planned(folder: Path, models: list[Path]) -> Plan:
    row = '[[networks]]\nname = "net{}"\nmodel = "{}"\n'
    rows = [row.format(number, model) for number, model in enumerate(models)]
    (folder / "app.toml").write_text("".join(rows), encoding="utf-8")
    plan = make_plan(read_application(folder / "app.toml"))
    for name, data in plan_files(plan).items():
        (folder / name).write_bytes(data)
    return plan


def image(folder: Path, name: str, model: Path) -> bytes:
    """Compiled with its profile, external pools relative, and packaged."""
    profile = f"{name}@{folder / 'neural_art.json'}"
    words = ["compile", str(model), "-o", str(folder / name), "--art-profile", profile]
    with contextlib.redirect_stdout(io.StringIO()):
        assert npuscope([*words, "--relocatable"]) == 0
    files = package(folder / name, PackageOptions(name=name, cpu="cortex-m33")).files
    return next(iter(files.values()))


def outputs(images: list[bytes], turns: list[int]) -> list[list[bytes]]:
    """Of each turn: the bytes of the outputs of one of the networks."""
    machine = load_machine()
    booted = load(side_by_side(images), machine.generation.name, machine.clocks)
    booted.require_all()
    results = []
    try:
        networks = booted.board.info().networks
        for turn in turns:
            network = networks[turn]
            given = random_inputs(network)
            inference = booted.board.run(Request(network.name, given))
            results.append([np.ascontiguousarray(value).tobytes() for value in inference.outputs])
    finally:
        booted.board.close()
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True)
    arguments = parser.parse_args()
    faults = 0
    for names in APPLICATIONS:
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            models = [(arguments.models / name).resolve() for name in names]
            plan = planned(folder, models)
            images = [image(folder, f"net{n}", model) for n, model in enumerate(models)]
            alone = [outputs([one], [0])[0] for one in images]
            together = outputs(images, [0, 1, 0, 1])
            equal = [together[turn] == alone[turn % 2] for turn in range(4)]
            faults += equal.count(False)
            homes = [p for p in plan.placement.places if p.block.name.endswith("activations")]
            where = ", ".join(f"{p.demand} {p.address:#x}+{p.block.size_bytes}" for p in homes)
            size = sum(len(part) for part in alone[0] + alone[1])
            print(
                f"{' + '.join(names)}: {equal.count(True)} of 4 runs equal ({size} bytes); {where}"
            )
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
