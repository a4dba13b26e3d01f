"""Set-ups that are found, energy and language models, beside what was published.

    python benchmarks/manycore_searches.py CSV

CSV as for manycore_published.py. Energy: each family is predicted by a fit to the others.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from language_nets import LLAMA_7B, QWEN3_8B, Decoder, decoder
from manycore_published import Row, all_works, read_rows, values_of

from npuscope.families.many_core.machine import CoreMachine, load_core_machine
from npuscope.families.many_core.setups.language import TokenSizes, generation
from npuscope.families.many_core.setups.model import predict
from npuscope.families.many_core.setups.search import Objective, Wanted, search
from npuscope.families.many_core.setups.work import NetworkWork

OBJECTIVES = {
    "best-latency": Objective.LATENCY,
    "best-throughput": Objective.THROUGHPUT,
    "balanced": Objective.BALANCED,
}
Works = dict[object, NetworkWork]
_SPREAD = 1.03  # of two publications of one set-up


def setups_found(rows: list[Row], works: Works, machine: CoreMachine) -> None:
    """The published set-up among all numbers of cores with the published batch."""
    print("\nset-ups      runs  first or second  within 3 % of the best  in the interval")
    for name, objective in OBJECTIVES.items():
        ranks, near, inside = [], [], []
        rankings = {}
        for row in (row for row in rows if row.objective == name):
            key = row.network, row.setup.batch
            if key not in rankings:
                wanted = Wanted(batch=row.setup.batch)
                rankings[key] = search(works[row.network], machine, objective, wanted)
            ranking, ours = rankings[key], predict(works[row.network], machine, row.setup)
            ranks.append(ranking.rank(row.setup) or 99)
            best = ranking.best
            loss = best.inferences_per_s / ours.inferences_per_s
            near.append((ours.latency_ms / best.latency_ms if name == "best-latency" else loss)
                        <= _SPREAD)  # fmt: skip
            low, high = ours.interval
            inside.append(low <= ours.inferences_per_s / row.per_s <= high)
        shares = (np.mean([rank <= 2 for rank in ranks]), np.mean(near), np.mean(inside))
        print(f"{objective:12} {len(ranks):4}  {shares[0]:15.0%}  {shares[1]:22.0%}  "
              f"{shares[2]:15.0%}")  # fmt: skip


def energy(rows: list[Row], works: Works, machine: CoreMachine) -> None:
    """Watts = idle + a MACs/s + b DDR bytes/s + c PCIe bytes/s, by relative least squares."""
    told = [row for row in rows if row.per_j]
    terms, watts = [], []
    for row in told:
        work, ours = works[row.network], predict(works[row.network], machine, row.setup)
        real = row.per_s / ours.inferences_per_s
        crossing = (work.input_bytes + work.output_bytes) * row.per_s / 1e9
        terms.append([1, work.macs * row.per_s / 1e12, ours.ddr_gb_per_s * real, crossing])
        watts.append(row.per_s / (row.per_j or 1))
    columns, seen = np.array(terms), np.array(watts)
    errors = np.zeros(len(told))
    for family in {row.family for row in told}:
        out = np.array([row.family == family for row in told])
        scaled = columns[~out] / seen[~out, None]
        values = np.linalg.lstsq(scaled, np.ones((~out).sum()), rcond=None)[0]
        errors[out] = np.abs(columns[out] @ values / seen[out] - 1)
    values = np.linalg.lstsq(columns / seen[:, None], np.ones(len(seen)), rcond=None)[0]
    print(f"\nenergy: {len(told)} runs, left out: median {np.median(errors):.1%}, "
          f"{np.mean(errors <= 0.2):.0%} within 20 %; fitted {np.round(values, 3)}")  # fmt: skip


def language() -> None:
    """Published steps, at our clock and at the one that the source gives."""
    runs: list[tuple[Decoder, int, int, bool, int, float, float]] = [
        (LLAMA_7B, 14, 128, False, 1, 124.8, 1394.0),
        (QWEN3_8B, 16, 256, True, 1, 68.6, 1030.0),
        (QWEN3_8B, 16, 256, True, 128, 114.8, 747.0),
    ]
    print("\nlanguage model  step     published       ours  at its clock   seconds")
    with tempfile.TemporaryDirectory() as folder:
        for size, cores, context, mxfp6, tokens, seen, mhz in runs:
            path = Path(folder) / f"{size.name}.onnx"
            path.write_bytes(decoder(size))
            asked = TokenSizes(context, context, 128, 1, cores, 1, mxfp6)
            begin, times = time.perf_counter(), []
            at_source = dict.fromkeys(("core_mhz", "prefill_mhz", "decode_mhz"), mhz)
            for values in ({}, {f"clocks.{key}": value for key, value in at_source.items()}):
                both = generation(path, load_core_machine(overrides=values), asked)
                step = both.decode if tokens == 1 else both.prefill
                times.append(step.timing.device_ms)
            took = (time.perf_counter() - begin) / 2
            kind = "decode" if tokens == 1 else "prefill"
            print(f"{size.name:14}  {kind:7}  {seen:6.1f} ms  "
                  f"{times[0]:5.1f} ({times[0] / seen:.2f})"
                  f"  {times[1]:5.1f} ({times[1] / seen:.2f})  {took:7.1f}")  # fmt: skip


def main() -> int:
    machine, rows = load_core_machine(), read_rows(Path(sys.argv[1]))
    shipped = values_of(machine)
    works = {which: one.at(shipped) for which, one in all_works(rows, machine).items()}
    setups_found(rows, works, machine)
    energy(rows, works, machine)
    language()
    return 0


if __name__ == "__main__":
    sys.exit(main())
