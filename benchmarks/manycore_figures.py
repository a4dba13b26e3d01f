"""Published figures of the many-core machine beside ours, as the page docs/manycore_figures.md.

    python benchmarks/manycore_figures.py --page docs/manycore_figures.md --json figures.json

Networks are built in code at their real sizes, with random weights; each is compiled and simulated
as the source says. Rows of the first table were used to set the machine's values; those of the
second belong to the same run but were not fitted; those of the third are predictions.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from many_core.nets import graph_of, wide_product
from many_core.public_nets import bert, resnet50
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.opstats.model import Opstats
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.records import SectionId
from npuscope.families.many_core.rules import unevenness
from npuscope.families.many_core.sim.conditions import RunOptions, RunResult
from npuscope.families.many_core.sim.run import simulate
from npuscope.graph.model import Graph

PROFILER = "cloud-ai-sdk, NLP Profiler notebook"
TUNING = "cloud-ai-sdk, NLP tuning notebook"
VISION = "cloud-ai-sdk, ResNet-50 tuning notebook"
DECODER = "a published summary of an 8-billion decoder, 16 cores"
ITERATIONS = 25


@dataclass(frozen=True, slots=True)
class Setup:
    """A network, its batch, the cores of a copy, and how many copies run."""

    network: str
    batch: int
    cores: int
    copies: int = 1

    def __str__(self) -> str:
        copies = f" x {self.copies}" if self.copies > 1 else ""
        return f"{self.network}, batch {self.batch}, {self.cores} cores{copies}"


@dataclass(frozen=True, slots=True)
class Ran:
    program: CoreProgram
    result: RunResult
    seconds: float  # of our own time

    @property
    def exec_us(self) -> float:
        return fmean(one.exec_us - one.input_wait_us for one in self.result.iterations[1:])

    @property
    def stats(self) -> Stats:
        return self.result.stats[0]

    @property
    def tables(self) -> Opstats:
        return opstats_of(self.stats)


@cache
def network(name: str, batch: int) -> Graph:
    if name == "BERT-base":
        return graph_of(bert(12, batch, 128))
    if name == "ResNet-50":
        return graph_of(resnet50(batch))
    return graph_of(wide_product(2048, 8192))


@cache
def compiled(name: str, batch: int, cores: int) -> CoreProgram:
    options = CoreCompileOptions(cores=cores, stats_level=70, stats_batch=batch, ddr_stats=True)
    return compile_graph(network(name, batch), load_core_machine(), options)


@cache
def ran(setup: Setup) -> Ran:
    begin = time.perf_counter()
    program = compiled(setup.network, setup.batch, setup.cores)
    asked = RunOptions(ITERATIONS, start_iteration=1, activations=setup.copies)
    result = simulate(program, load_core_machine(), asked)
    return Ran(program, result, time.perf_counter() - begin)


# --- Figures of a run ---


def time_us(run: Ran, setup: Setup) -> float:
    return run.exec_us


def per_second(run: Ran, setup: Setup) -> float:
    return setup.copies * setup.batch / run.exec_us * 1e6


def ddr_mb(run: Ran, setup: Setup) -> float:
    traffic = run.stats.of(SectionId.DDR_CORE)
    return float(traffic["rd_bytes"].sum() + traffic["wr_bytes"].sum()) / 1e6


def mega_cycles(run: Ran, setup: Setup) -> float:
    threads = run.stats.of(SectionId.THREAD_INF)
    return float((threads["end_pc"] - threads["start_pc"]).max()) / 1e6


def working_cycles(run: Ran, setup: Setup) -> float:
    """Without the wait for the host's input."""
    tables = run.tables
    waited = tables.totals.max_input_wait_uc or 0
    return mega_cycles(run, setup) * (1 - waited / tables.totals.ucycles)


def as_published_us(run: Ran, setup: Setup) -> float:
    """Our cycles at the clock of the published run, and its wait for the input."""
    return working_cycles(run, setup) * 1e6 / PUBLISHED_MHZ + PUBLISHED_WAIT_US


def op_cycles(thread: int) -> Callable[[Ran, Setup], float]:
    return lambda run, setup: (run.tables.cores[0].threads[thread].busy_pcycles or 0) / 1e6


def ops(kind: str) -> Callable[[Ran, Setup], float]:
    def found(run: Ran, setup: Setup) -> float:
        rows = run.tables.cores[0].ops
        return float(sum(row.count for row in rows if row.details.split()[0] == kind))

    return found


def busy(thread: int) -> Callable[[Ran, Setup], float]:
    return lambda run, setup: 100 * run.tables.cores[0].threads[thread].utilization


def ticks(details: str) -> Callable[[Ran, Setup], float]:
    def found(run: Ran, setup: Setup) -> float:
        rows = [row for row in run.tables.cores[0].ops if row.details.startswith(details)]
        return float(sum(row.ucycles for row in rows))

    return found


def cycles_per_kb(kind: str) -> Callable[[Ran, Setup], float]:
    def found(run: Ran, setup: Setup) -> float:
        rows = [row for row in run.tables.cores[0].ops if row.details.split()[0] == kind]
        return sum(row.pcycles or 0 for row in rows) / sum(row.out_kb or 0.0 for row in rows)

    return found


def ticks_per_kb(kind: str) -> Callable[[Ran, Setup], float]:
    def found(run: Ran, setup: Setup) -> float:
        rows = [row for row in run.tables.cores[0].ops if row.details.split()[0] == kind]
        return sum(row.ucycles for row in rows) / sum(row.out_kb or 0.0 for row in rows)

    return found


def gb_per_s(run: Ran, setup: Setup) -> float:
    return ddr_mb(run, setup) * 1e3 / run.exec_us


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    setup: Setup
    seen: float
    unit: str
    source: str
    ours: Callable[[Ran, Setup], float]


PUBLISHED = Setup("BERT-base", 8, 2)
PUBLISHED_MHZ, PUBLISHED_WAIT_US = 1233.12, 1599.5  # 30,711 ticks
_KINDS = {
    "aicsoftmax": 245.9, "elementerf": 107.2, "aiclayernormd32": 75.6, "aictranspose": 57.7,
    "aicconvertweightstod32": 39.5, "aicbroadcastadd": 31.6, "aicconverttod32": 28.8,
    "elementmul": 18.2, "aicconvertfromd32": 15.8, "elementadd": 12.7, "aicaddsplat": 12.3,
    "aicmulsplat": 12.0, "aicconvolutiond32": 29.7,
}  # fmt: skip
FITTED = (
    *(
        Figure(kind, PUBLISHED, seen, "cycles/KB", PROFILER, cycles_per_kb(kind))
        for kind, seen in _KINDS.items()
    ),
    Figure("aiccopytovtcm", PUBLISHED, 0.81, "ticks/KB", PROFILER, ticks_per_kb("aiccopytovtcm")),
    Figure("aicmulticastvtcm", PUBLISHED, 0.20, "ticks/KB", PROFILER,
        ticks_per_kb("aicmulticastvtcm")),
    Figure("barrier HVX", PUBLISHED, 15492, "ticks", PROFILER, ticks("barrier HVX")),
    Figure("barrier HMX", PUBLISHED, 9593, "ticks", PROFILER, ticks("barrier HMX")),
    Figure("barrier DMAIssue", PUBLISHED, 13396, "ticks", PROFILER, ticks("barrier DMAIssue")),
    Figure("inferences", Setup("BERT-base", 1, 7, 2), 700, "per s", TUNING, per_second),
)  # fmt: skip
SAME_RUN = (
    Figure("ExecTimeUs", PUBLISHED, 22861, "us", PROFILER, time_us),
    Figure("cycles of the core", PUBLISHED, 28.56, "million", PROFILER, mega_cycles),
    Figure("inferences", PUBLISHED, 345.4, "per s", PROFILER, per_second),
    Figure("DDR traffic", PUBLISHED, 174.8, "MB", PROFILER, ddr_mb),
    Figure("HVX at work", PUBLISHED, 60.5, "%", PROFILER, busy(0)),
    Figure("HMX at work", PUBLISHED, 54.8, "%", PROFILER, busy(4)),
    Figure("cycles without the wait", PUBLISHED, 26.59, "million", PROFILER, working_cycles),
    Figure("ExecTimeUs at its clock, with its wait", PUBLISHED, 22861, "us", PROFILER,
        as_published_us),
    Figure("cycles of HVX ops", PUBLISHED, 17.05, "million", PROFILER, op_cycles(0)),
    Figure("cycles of HMX ops", PUBLISHED, 15.64, "million", PROFILER, op_cycles(4)),
    Figure("aicconvolutiond32", PUBLISHED, 1081, "ops", PROFILER, ops("aicconvolutiond32")),
    Figure("aicmulticastvtcm", PUBLISHED, 413, "ops", PROFILER, ops("aicmulticastvtcm")),
    Figure("aiccopytovtcm", PUBLISHED, 413, "ops", PROFILER, ops("aiccopytovtcm")),
)  # fmt: skip
PREDICTED = (
    Figure("ExecTimeUs", Setup("BERT-base", 8, 2, 7), 22777, "us", PROFILER, time_us),
    Figure("inferences", Setup("BERT-base", 8, 2, 7), 2312.6, "per s", PROFILER, per_second),
    Figure("round trip", Setup("BERT-base", 1, 1), 6511, "us", TUNING, time_us),
    Figure("round trip", Setup("BERT-base", 1, 3), 4584, "us", TUNING, time_us),
    Figure("round trip", Setup("BERT-base", 1, 7), 2181, "us", TUNING, time_us),
    Figure("round trip", Setup("BERT-base", 1, 14), 2113, "us", TUNING, time_us),
    Figure("inferences", Setup("BERT-base", 4, 1, 14), 2414, "per s", TUNING, per_second),
    Figure("inferences", Setup("BERT-base", 16, 4, 4), 2505, "per s", TUNING, per_second),
    Figure("inferences", Setup("BERT-base", 16, 8, 2), 2237, "per s", TUNING, per_second),
    Figure("inferences", Setup("BERT-base", 16, 12), 1291, "per s", TUNING, per_second),
    Figure("round trip", Setup("ResNet-50", 1, 7), 828, "us", VISION, time_us),
    Figure("round trip", Setup("ResNet-50", 1, 11), 780, "us", VISION, time_us),
    Figure("inferences", Setup("ResNet-50", 2, 1, 14), 4420, "per s", VISION, per_second),
    Figure("inferences", Setup("ResNet-50", 4, 2, 7), 6419, "per s", VISION, per_second),
    Figure("inferences", Setup("ResNet-50", 16, 8), 5616, "per s", VISION, per_second),
    Figure("inferences", Setup("ResNet-50", 16, 7, 2), 6091, "per s", VISION, per_second),
    Figure("aiccopytovtcm, all cores load", Setup("product", 1, 16), 2.90, "ticks/KB", DECODER,
        ticks_per_kb("aiccopytovtcm")),
    Figure("DDR-bound product", Setup("product", 1, 16), 65.0, "GB/s", "a matmul benchmark",
        gb_per_s),
)  # fmt: skip
CORES = (1, 2, 4, 7, 8, 11, 13, 14, 15, 16)
PATH_PARTS = {
    "DDR": ("DDR",), "HMX and HVX": ("HMX", "HVX"),
    "barriers and hand-overs": ("synchronisation", "transfers"),
}  # fmt: skip
UNPUBLISHED = (Setup("BERT-base", 2, 2), Setup("BERT-base", 8, 2), Setup("BERT-base", 8, 16))


@dataclass(frozen=True, slots=True)
class Line:
    what: str
    setup: str
    seen: float
    ours: float
    unit: str
    source: str

    @property
    def error(self) -> float:
        return self.ours / self.seen - 1


def lines_of(figures: tuple[Figure, ...]) -> list[Line]:
    found = []
    for one in figures:
        ours = one.ours(ran(one.setup), one.setup)
        line = Line(one.what, str(one.setup), one.seen, ours, one.unit, one.source)
        found.append(line)
        print(f"{one.setup}: {one.what} {line.ours:.4g} {one.unit}, seen {one.seen:g} "
            f"({line.error:+.1%})", file=sys.stderr, flush=True)  # fmt: skip
    return found


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def table(lines: list[Line]) -> str:
    rows = ["| figure | setup | published | ours | error | source |", "|---|---|---|---|---|---|"]
    rows += [
        f"| {one.what}, {one.unit} | {one.setup} | {shown(one.seen)} | {shown(one.ours)} "
        f"| {one.error:+.1%} | {one.source} |"
        for one in lines
    ]
    return "\n".join(rows)


def page(parts: dict[str, list[Line]]) -> str:
    errors = [abs(line.error) for line in parts["predicted"]]
    own = "\n".join(
        f"| {setup} | {ran(setup).exec_us:,.0f} | {ran(setup).exec_us / setup.batch:,.0f} "
        f"| {ddr_mb(ran(setup), setup):,.1f} |"
        for setup in UNPUBLISHED
    )
    pace = ran(PUBLISHED).program.pace.alone / 1000
    return f"""# Many cores: published figures beside ours

Made by `benchmarks/manycore_figures.py`. Networks have their real sizes and random weights; times
are those of the device without the wait for the host's input, averaged over {ITERATIONS - 1}
inferences. Published round trips have the host's part in them.

## Calibration

Values of the machine were set with these, before the simulator kept the pace of the sums that are
fitted to published runs (ops of BERT-base on 2 cores take {pace:.3f} times as long as their rates
say): they only show how much of them is left.

{table(parts["fitted"])}

## The same run, not fitted

What follows from the compiler's tiles, the rates above and the schedule. The published run waited
1,600 us for its input (2.0 of its 28.6 million cycles) at 1,233 MHz; our clock moves between the
steps that were seen, 1,100 to 1,450 MHz. That is most of the difference in time and in the shares
of the engines: the rows below them have the cycles themselves.

The published counts fit products that add up 192 channels and make up to 512: 88 ops a layer with
192 or 96 KB of weights each, and 2 for attention, make 1,081 with the last layer. If each of them
frees the place of its weights, the DMA thread has to wait for it, and its end is a barrier: 811 of
1,154 ops of HMX have one. Ours are cut alike; tiles of 768 channels leave rests of 256, and loads
often take places that become free together, so fewer ends are waited for. Biases and vectors
of LayerNorm are separate loads here; there every load is a multicast one.

{table(parts["same run"])}

## Predictions

Median error {median(errors):.0%}, {sum(e <= 0.25 for e in errors)} of {len(errors)} within 25 %.
They are not blind: the pace is that of sums which were fitted to 417 published runs of other
tables, BERT-base and ResNet-50 among them. Ours are times of the device; round trips and rates of
the sources have the host in them. The published ones are the best of a search over compiler options
(how far outputs are split over cores and engines). The product of the last two rows has weights
that stay in VTCM in the sums; the simulator, which loads them in every run, does so at DDR's peak.

{table(parts["predicted"])}

MLPerf's results are not among them: its networks are integers (ResNet-50: 19,379 queries per second
and card; BERT-large with 384 tokens: 671 samples), and how the submitters pack inputs is not known.

## Without published figures

| setup | us | us per inference | DDR, MB |
|---|---|---|---|
{own}

## Numbers of cores

ResNet-50, half floats, batch 1; the last rows are the critical path of one inference, in us.

{cores_table()}
"""


def cores_table() -> str:
    runs = {cores: ran(Setup("ResNet-50", 1, cores)) for cores in CORES}
    paths = {
        cores: {name: share * run.tables.totals.seconds * 1e6 for name, share in run.tables.path}
        for cores, run in runs.items()
    }
    rows = {
        "cores": [f"{cores}" for cores in CORES],
        "us": [f"{run.exec_us:,.0f}" for run in runs.values()],
        "work of the busiest core, times the mean": [
            f"{unevenness(run.tables):.2f}" for run in runs.values()
        ],
    } | {
        part: [f"{sum(path.get(name, 0.0) for name in names):,.0f}" for path in paths.values()]
        for part, names in PATH_PARTS.items()
    }
    lines = [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return "\n".join([lines[0], "|---" * (len(CORES) + 1) + "|", *lines[1:]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="write the page to this file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    parts = {
        "fitted": lines_of(FITTED),
        "same run": lines_of(SAME_RUN),
        "predicted": lines_of(PREDICTED),
    }
    if args.json:
        args.json.write_text(json.dumps({k: [asdict(x) for x in v] for k, v in parts.items()}))
    if args.page:
        args.page.write_text(page(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
