"""Published runs of the Cloud AI 100 beside what `setups/model.py` says of them.

    python benchmarks/manycore_published.py CSV [--fit] [--apart FAMILIES] [--setups]

CSV has one published run per row: model, batch, cores, instances, options, inferences per second.
Networks are built in code (published_nets.py). Prints the table of families as the shipped
constants have it, and with --fit the one where each family is predicted by constants fitted
without it.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import pickle
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from published_nets import Published, network

from npuscope.families.many_core.machine import CoreMachine, load_core_machine
from npuscope.families.many_core.setups.model import (
    CardSetup,
    SetupLimit,
    SetupWork,
    setup_work,
    timed,
)
from npuscope.families.many_core.setups.work import NetworkWork, network_work
from npuscope.structs import replace

# Sizes of vocabularies in the models' public configurations, where the table has another one.
VOCABULARIES = {
    "DeepPavlov/rubert-base-cased-conversational": 119547,
    "DeepPavlov/rubert-base-cased-sentence": 119547,
    "Maltehb/danish-bert-botxo": 32000,
    "allenai/scibert_scivocab_uncased": 31090,
    "beomi/kcbert-base": 30000,
    "bert-base-cased": 28996,
    "bert-base-chinese": 21128,
    "bert-base-german-cased": 30000,
    "bert-base-multilingual-uncased": 105879,
    "cl-tohoku/bert-base-japanese": 32000,
    "cl-tohoku/bert-base-japanese-char": 4000,
    "cl-tohoku/bert-base-japanese-whole-word-masking": 32000,
    "dbmdz/bert-base-italian-xxl-cased": 31102,
    "distilbert-base-german-cased": 31102,
    "emilyalsentzer/Bio_ClinicalBERT": 28996,
    "hfl/chinese-bert-wwm-ext": 21128,
    "hfl/chinese-electra-180g-base-discriminator": 21128,
    "hfl/chinese-roberta-wwm-ext": 21128,
    "kit-nlp/bert-base-japanese-sentiment-cyberbullying": 32000,
    "klue/bert-base": 32000,
    "m3hrdadfi/bert-fa-base-uncased-wikinli": 100000,
}
HEADS = {"fill-mask": "words", "default": "hidden", "feature-extraction": "hidden"}


class Row(NamedTuple):
    """A published run."""

    model: str
    family: str
    network: Published
    setup: CardSetup
    per_s: float
    ms: float
    per_j: float | None
    objective: str
    table: str

    @property
    def consistent_ms(self) -> bool:
        """Whether time and rate tell the same, to a third: else the time is wrong."""
        flying = self.setup.batch * self.setup.copies * self.setup.in_flight
        return abs(self.per_s * self.ms / 1e3 / flying - 1) <= 1 / 3

    def __str__(self) -> str:
        return f"{self.model}, {self.network.head or 'image'}, {self.setup}"


def read_rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return [_row(fields) for fields in csv.DictReader(file)]


def _row(fields: dict[str, str]) -> Row:
    model, distilled = fields["model"], "distilbert" in fields["model"]
    family = "distilbert" if distilled else fields["family"]
    which = Published(model, 1, int(fields["size"]))
    if fields["kind"] == "nlp":
        head = HEADS.get(fields["task"], "answers")
        words = VOCABULARIES.get(model, int(fields["vocabulary"])) if head == "words" else 30522
        which = Published(
            family, 1, int(fields["size"]), 6 if distilled else int(fields["layers"]),
            int(fields["hidden"]), int(fields["heads"]), int(fields["intermediate"]), words, head,
        )  # fmt: skip
    setup = CardSetup(
        int(fields["cores"]), int(fields["instances"]), int(fields["batch"]),
        int(fields["set_size"]), "depth-first" in fields["options"],
    )  # fmt: skip
    joules = fields["inferences_per_j"]
    return Row(
        model, family, which, setup, float(fields["inferences_per_s"]),
        float(fields["latency_ms"]), float(joules) if joules else None, fields["objective"],
        fields["source"],
    )  # fmt: skip


# --- The work of each network, and how it depends on the rates of HVX ---

RATES = ("sigmoid", "inserttensor", "aicbatchnorm")
LINEAR = ("depthwise_cycles_per_kb", "depthwise_cycles_per_tap_kb", "pool_cycles_per_tap_kb",
          "layout_share")  # fmt: skip
HOST = ("fixed_us", "copy_gb_per_s", "crowding")
COSTS = ("product_share", "store_cycles_per_kb", "overlap", "load_overlap", "tile_cycles",
         "join_cycles", "gather_cycles", "exchange_share", "mix_share", "spill_share")  # fmt: skip
NAMES = ("effective_gb_per_s", *COSTS, *HOST, *LINEAR, *RATES)
# Where fits begin, and what they are held near: guesses from before any of these rows was seen.
PRIORS = {
    "effective_gb_per_s": 120.0, "product_share": 1.05, "store_cycles_per_kb": 33.0, "overlap": 1.6,
    "load_overlap": 2.0, "mix_share": 4.0,
    "tile_cycles": 100.0,
    "join_cycles": 1000.0, "gather_cycles": 1200.0, "exchange_share": 1.0,
    "spill_share": 0.5, "fixed_us": 200.0, "copy_gb_per_s": 5.0, "crowding": 0.3,
    "depthwise_cycles_per_kb": 30.0, "depthwise_cycles_per_tap_kb": 10.0,
    "pool_cycles_per_tap_kb": 10.0, "layout_share": 0.5, "sigmoid": 107.2,
    "inserttensor": 40.0, "aicbatchnorm": 30.9,
}  # fmt: skip
# Known from elsewhere: the profiled BERT run has 15.64 million cycles of HMX; DDR's peak.
HELD = {"effective_gb_per_s": 12.0, "product_share": 5.0, "store_cycles_per_kb": 5.0}


def values_of(machine: CoreMachine) -> np.ndarray:
    setups, host = machine.setups, machine.host
    return np.array([
        machine.ddr.effective_gb_per_s,
        *(getattr(setups, name) for name in COSTS), *(getattr(host, name) for name in HOST),
        *(getattr(setups, name) for name in LINEAR),
        *(machine.pcycles_per_kb[name] for name in RATES),
    ])  # fmt: skip


def machine_with(machine: CoreMachine, values: np.ndarray) -> CoreMachine:
    told = dict(zip(NAMES, map(float, values), strict=True))
    return replace(
        machine,
        ddr=replace(machine.ddr, effective_gb_per_s=told["effective_gb_per_s"]),
        setups=replace(machine.setups, **{name: told[name] for name in (*COSTS, *LINEAR)}),
        host=replace(machine.host, **{name: told[name] for name in HOST}),
        pcycles_per_kb={**machine.pcycles_per_kb, **{name: told[name] for name in RATES}},
    )


class Fitted(NamedTuple):
    """A network's work; its cycles of HVX are `fixed + slopes @ rates`."""

    work: NetworkWork
    fixed: float
    slopes: np.ndarray

    def at(self, values: np.ndarray) -> NetworkWork:
        return replace(self.work, cycles=self.work.cycles * self.slowness(values))

    def slowness(self, values: np.ndarray) -> float:
        """Cycles of HVX with these rates, as a multiple of those of `work`."""
        cycles = self.fixed + self.slopes @ values[-len(self.slopes) :]
        return float(cycles / self.work.cycles.sum())


def fitted(which: Published, machine: CoreMachine) -> Fitted:
    graph, values = network(which), values_of(machine)
    count = len(LINEAR) + len(RATES)
    totals = []
    for number in range(count + 1):
        changed = values.copy()
        changed[len(values) - count :] = 0.0
        if number:
            changed[len(values) - count + number - 1] = 1.0
        totals.append(network_work(graph, machine_with(machine, changed)).cycles.sum())
    return Fitted(network_work(graph, machine), totals[0], np.array(totals[1:]) - totals[0])


def all_works(rows: Iterable[Row], machine: CoreMachine) -> dict[Published, Fitted]:
    """Kept in the folder for temporary files as long as neither code nor machine changes."""
    import npuscope.families.many_core as package

    folder = Path(package.__file__).parent
    sources = [folder / "setups/work.py", folder / "cloudai100.toml",
               Path(__file__).with_name("published_nets.py"), Path(__file__)]  # fmt: skip
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    cache = Path(tempfile.gettempdir()) / f"npuscope_published_{digest}.pickle"
    if cache.exists():
        return {which: Fitted(*one) for which, one in pickle.loads(cache.read_bytes()).items()}
    works = {which: fitted(which, machine) for which in dict.fromkeys(r.network for r in rows)}
    cache.write_bytes(pickle.dumps({which: tuple(one) for which, one in works.items()}))
    return works


# --- Fitting: damped least squares on the logarithms, each family with the same weight ---


class Fitter:
    def __init__(self, works: dict[Published, Fitted], machine: CoreMachine) -> None:
        self.works, self.machine = works, machine
        self.begin = np.log([PRIORS[name] for name in NAMES])
        self.setups: dict[tuple[Published, CardSetup], SetupWork] = {}

    def errors(self, rows: list[Row], values: np.ndarray) -> np.ndarray:
        """Logarithms of predicted over published rate."""
        machine = machine_with(self.machine, values)
        nets = {row.network for row in rows}
        slowness = {which: self.works[which].slowness(values) for which in nets}
        rates = []
        for row in rows:
            work = self.setup_work(row)
            work = replace(work, vectors=work.vectors * slowness[row.network])
            rates.append(timed(work, machine, row.setup).inferences_per_s / row.per_s)
        return np.log(rates)

    def left_out(self, rows: list[Row]) -> np.ndarray:
        """Errors of all rows, each family with the constants that the others give."""
        logs = np.zeros(len(rows))
        for family in {row.family for row in rows}:
            own = np.array([row.family == family for row in rows])
            values = self.fit([row for row in rows if row.family != family])
            logs[own] = self.errors([row for row in rows if row.family == family], values)
        return logs

    def setup_work(self, row: Row) -> SetupWork:
        """No fitted constant is in it but the rates of HVX, so that each is summed up once."""
        key = row.network, row.setup
        if key not in self.setups:
            work = self.works[row.network].work
            self.setups[key] = setup_work(work, self.machine, row.setup)
        return self.setups[key]

    def fit(self, rows: list[Row], rounds: int = 10) -> np.ndarray:
        rows = alike_once(rows)
        counts = defaultdict(int)
        for row in rows:
            counts[row.family] += 1
        weights = np.array([10 / counts[row.family] ** 0.5 for row in rows])
        ties = np.array([HELD.get(name, 0.15) for name in NAMES])

        def residuals(logs: np.ndarray) -> np.ndarray:
            plain = weights * self.errors(rows, np.exp(logs))
            # Errors far out count as their root; values stay near where they began.
            soft = np.sign(plain) * np.sqrt(2 * (np.sqrt(1 + plain**2) - 1))
            return np.concatenate([soft, ties * (logs - self.begin)])

        logs, damping = self.begin.copy(), 1.0
        now = residuals(logs)
        for _ in range(rounds):
            slopes = np.stack([(residuals(logs + step) - now) / 1e-3
                               for step in 1e-3 * np.eye(len(logs))], axis=1)  # fmt: skip
            for _ in range(6):
                normal = slopes.T @ slopes + damping * np.eye(len(logs))
                trial = logs - np.clip(np.linalg.solve(normal, slopes.T @ now), -0.7, 0.7)
                after = residuals(trial)
                if after @ after < now @ now:
                    logs, now, damping = trial, after, damping / 4
                    break
                damping *= 4
        return np.exp(logs)


def alike_once(rows: list[Row]) -> list[Row]:
    """Runs of one network in one set-up as one, with the geometric mean of their rates."""
    groups = defaultdict(list)
    for row in rows:
        groups[row.network, row.setup].append(row)
    return [
        group[0]._replace(per_s=float(np.exp(np.mean([np.log(row.per_s) for row in group]))))
        for group in groups.values()
    ]


# --- Tables ---


def table(title: str, errors: dict[str, np.ndarray]) -> None:
    """By family; the last line is the mean over families, which is what counts."""
    print(f"\n{title}\n{'family':18} runs  median   bias  within 25 %")
    lines = []
    for family, logs in sorted(errors.items()):
        off = np.abs(np.expm1(logs))
        lines.append((np.median(off), np.mean(off <= 0.25)))
        print(f"{family:18} {len(logs):4}  {lines[-1][0]:6.1%}  {np.exp(np.median(logs)):5.2f}  "
              f"{lines[-1][1]:6.0%}")  # fmt: skip
    medians, within = (float(np.mean(column)) for column in zip(*lines, strict=True))
    print(f"{'mean over families':18}       {medians:6.1%}         {within:6.0%}")


def interval(errors: dict[str, np.ndarray]) -> tuple[float, float]:
    """Factors of the time between which 80 % lie, each family with the same weight."""
    logs = np.concatenate(list(errors.values()))
    weights = np.concatenate([np.full(len(one), 1 / len(one)) for one in errors.values()])
    order = np.argsort(logs)
    share = np.cumsum(weights[order]) / weights.sum()
    low, high = (float(np.interp(at, share, logs[order])) for at in (0.1, 0.9))
    return float(np.exp(low)), float(np.exp(high))


def ranges(
    errors: dict[str, np.ndarray],
    works: dict[Published, Fitted],
    rows: list[Row],
    machine: CoreMachine,
) -> None:
    """What 80 % of the families of each printed range need, and what that range holds."""
    convolving = {row.family for row in rows if works[row.network].work.convolves}
    costs = machine.setups
    for name, families, (low, high) in (
        ("others", errors.keys() - convolving, costs.interval),
        ("convolutions", errors.keys() & convolving, costs.convolving_interval),
    ):
        some = {family: errors[family] for family in families}
        if some:
            inside = [np.mean((np.exp(e) >= low) & (np.exp(e) <= high)) for e in some.values()]
            print("{}: 80 % of the times lie between {:.2f} and {:.2f} of ours; printed is {} to "
                  "{}, which holds {:.0%}".format(
                      name, *interval(some), low, high, np.mean(inside)))  # fmt: skip


def by_family(rows: list[Row], errors: Callable[[list[Row]], np.ndarray]) -> dict[str, np.ndarray]:
    families = sorted({row.family for row in rows})
    return {name: errors([row for row in rows if row.family == name]) for name in families}


# --- Energy: watts of a card by what is at work ---

POWER = ("idle_w", "w_per_hmx", "w_per_hvx", "w_per_ddr_gb", "w_per_link_gb")


def activity(row: Row, work: SetupWork, machine: CoreMachine) -> list[float]:
    """What each constant of POWER is multiplied with, at the published rate."""
    ran, setup = timed(work, machine, row.setup), row.setup
    runs = row.per_s / setup.batch
    busy = [runs * setup.all_cores * ran.parts_ms[one] / 1e3
            for one in (SetupLimit.HMX, SetupLimit.HVX)]  # fmt: skip
    link = runs * (work.input_bytes + work.output_bytes) / 1e9
    return [1.0, *busy, runs * ran.ddr_bytes / 1e9, link]


def fitted_watts(rows: np.ndarray, watts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Least relative deviations, each family with the same weight; none is below 0."""
    now = weights / watts
    for _ in range(40):
        kept = list(range(rows.shape[1]))
        while True:
            part = np.linalg.lstsq(rows[:, kept] * now[:, None], watts * now, rcond=None)[0]
            if part.min() >= 0:
                break
            kept.pop(int(np.argmin(part)))
        values = np.zeros(rows.shape[1])
        values[kept] = part
        off = np.abs(rows @ values / watts - 1)
        now = weights / watts / np.sqrt(np.maximum(off, 0.03))
    return values


def energy(rows: list[Row], fitter: Fitter) -> None:
    """The table of families, each with the constants that the others give."""
    rows = [row for row in rows if row.per_j]
    family = np.array([row.family for row in rows])
    active = np.array([activity(row, fitter.setup_work(row), fitter.machine) for row in rows])
    watts = np.array([row.per_s / (row.per_j or 1) for row in rows])
    weights = np.array([1 / np.sqrt((family == name).sum()) for name in family])
    logs = np.zeros(len(rows))
    for name in sorted(set(family)):
        own = family == name
        values = fitted_watts(active[~own], watts[~own], weights[~own])
        logs[own] = np.log(active[own] @ values / watts[own])
    left_out = {str(name): logs[family == name] for name in sorted(set(family))}
    table("watts, each family predicted by constants fitted without it", left_out)
    print("80 % lie between {:.2f} and {:.2f} of ours".format(
        *np.exp(-np.quantile(logs, (0.9, 0.1)))))  # fmt: skip
    for name, value in zip(POWER, fitted_watts(active, watts, weights), strict=True):
        print(f"  {name} = {value:.3g}")
    power = fitter.machine.power
    shipped = np.log(active @ [getattr(power, name) for name in POWER] / watts)
    table("watts, shipped constants", {n: shipped[family == n] for n in left_out})


def twice_published(rows: list[Row]) -> None:
    pairs = defaultdict(list)
    for row in rows:
        pairs[row.model, row.network, row.setup].append(row)
    spreads = [abs(a.per_s / b.per_s - 1) for a, b, *_ in (p for p in pairs.values() if len(p) > 1)]
    print(f"\n{len(spreads)} set-ups of one model are published twice: median "
          f"{np.median(spreads):.1%} apart, largest {max(spreads):.0%}: "
          "no model can be nearer than that")  # fmt: skip


def worst_ten(rows: list[Row], logs: np.ndarray) -> None:
    print("\nworst ten")
    for place in np.argsort(-np.abs(logs))[:10]:
        row, factor = rows[place], np.exp(logs[place])
        print(
            f"  {factor:.2f}x  {row}: published {row.per_s:,.0f}/s, ours {factor * row.per_s:,.0f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("csv", type=Path)
    parser.add_argument("--fit", action="store_true", help="fit, and predict each family left out")
    parser.add_argument("--apart", default="", help="families that no fit sees, by commas")
    args = parser.parse_args()
    machine, rows = load_core_machine(), read_rows(args.csv)
    works = all_works(rows, machine)
    fitter, apart = Fitter(works, machine), set(filter(None, args.apart.split(",")))
    used = [row for row in rows if row.family not in apart]
    if args.fit:
        logs = fitter.left_out(used)
        left_out = by_family(used, lambda some: logs[[used.index(row) for row in some]])
        table("each family predicted by constants fitted without it", left_out)
        ranges(left_out, works, used, machine)
        energy(used, fitter)
        worst_ten(used, logs)
        values = fitter.fit(used)
        table("fitted to all of these", by_family(used, lambda some: fitter.errors(some, values)))
        print("\n".join(f"  {n} = {v:.4g}" for n, v in zip(NAMES, values, strict=True)))
    shipped = values_of(machine)
    if apart:
        kept = [row for row in rows if row.family in apart]
        table("kept apart", by_family(kept, lambda some: fitter.errors(some, shipped)))
    errors = by_family(rows, lambda some: fitter.errors(some, shipped))
    table("shipped constants", errors)
    ranges(errors, works, rows, machine)
    twice_published(rows)
    wrong = [row for row in rows if not row.consistent_ms]
    print(f"\n{len(wrong)} rows whose time contradicts their rate; their time is not used")
    worst_ten(rows, fitter.errors(rows, shipped))
    return 0


if __name__ == "__main__":
    sys.exit(main())
