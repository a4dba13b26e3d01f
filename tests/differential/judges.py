"""What every network has to stand: each judge compares two ways to the same numbers.

reference  our reference executor against LiteRT or onnxruntime
npu        the compiled Program against the reference, layer by layer on the reference's inputs
readback   the written network.c, read again and run, against the Program
file       parsed, written and parsed again: every field is equal
fix        the fixed file opens where the original did, and outputs called equal are
verbs      no verb calls itself broken, and estimates are finite

A fault is named by judge and symptom, so that the same bug counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import npuscope
from differential.generate import network_of
from differential.layers import EQUAL, Layers, output_step, steps
from differential.network import Network
from differential.overlaps import without_overlaps
from differential.probe import first_difference, outside_steps
from differential.verdict import Verdict
from file_fields import differences
from fuzz.engine import Case, Command, Target, Workshop, _time_limit, cause_of
from npuscope.advice.fix.run import Fixed
from npuscope.building import Build, Options, build
from npuscope.compiler.passes.numbers import SignedBytes, SymmetricWeights
from npuscope.compiler.passes.rewrite import ExpandTransposedConv
from npuscope.errors import InternalError, ModelError, NpuscopeError
from npuscope.files.load import load_model
from npuscope.files.onnx.file_graph import OnnxFileGraph
from npuscope.files.tflite.file_graph import TfliteFileGraph
from npuscope.graph.model import Graph, Numerics
from npuscope.machine.model import Machine
from npuscope.ops.run import run
from npuscope.ops.unknown import unknown_names
from npuscope.profiling.agreement import OwnBridge, random_sample
from npuscope.profiling.outside import OutsideRun, outside_runs
from npuscope.profiling.rounding import rounded
from npuscope.profiling.run import estimate
from npuscope.profiling.runtimes import litert_interpreter
from npuscope.program.code_files import NO_C, code_files, pool_images
from npuscope.program.model import Epoch, Program
from npuscope.program.sources import read_program
from npuscope.report.build_files import write_network as write_build
from npuscope.rulebook.fix import FunctionEffect
from npuscope.sim.memory import Memory, from_stored, to_stored
from npuscope.sim.run import _flows, execute, own_inputs, reads, written
from npuscope.whole_file import write_files

Arrays = dict[str, np.ndarray]
GENERATIONS = ("4.0", "open", "3.0", "2.2")
LIMIT_S = 60.0
ROUNDED = "rounded to symmetric weights"
SATURATES = "programs that are off where sums saturate"
# What may be refused: several pictures at once, a network without anything that is quantized, an
# edit whose result an outside runtime does not open.
REFUSALS = (
    "ModelError at compiler/lower/context.py:require_batch_one",
    "ModelError at compiler/passes/base.py:refuse_float_network",
    "ModelError at advice/fix/run.py:_fixed",
)


@dataclass(slots=True)
class Trial:
    """A network with its file, its graph as we read it, a sample, and what others make of it."""

    path: Path
    verdict: Verdict
    network: Network | None = None  # None: a file of which nothing else is known
    build: Build | None = None
    graph: Graph | None = None
    sample: Arrays = field(default_factory=dict)
    expected: Arrays = field(default_factory=dict)
    outside: list[np.ndarray] | None = None


def generation_of(seed: int) -> str:
    """Generations take turns."""
    return GENERATIONS[seed // 2 % len(GENERATIONS)]


def trial_of(network: Network, seed: int, folder: Path, generation: str = "") -> Trial:
    """The network with its file in the folder."""
    path = folder / f"{seed}.{network.format}"
    path.write_bytes(network.written())
    generation = generation or generation_of(seed)
    return Trial(path, Verdict(seed, network.format, len(network.nodes), generation), network)


def trials(
    seeds: Sequence[int], folder: Path, profile: str = "mixed", judges: Sequence[str] = ()
) -> list[Verdict]:
    """The networks of some seeds, judged; the outside runtime runs them together."""
    made = [trial_of(network_of(seed, profile), seed, folder) for seed in seeds]
    return judged(made, folder, judges)


def judged(made: list[Trial], folder: Path, judges: Sequence[str] = ()) -> list[Verdict]:
    for trial in made:
        with _faults(trial, "read"):
            _read(trial)
    _run_outside([trial for trial in made if trial.graph is not None])
    for trial in made:
        for name in judges or JUDGES:
            if trial.graph is not None:
                with _faults(trial, name):
                    JUDGES[name](trial, folder)
    return [trial.verdict for trial in made]


class _faults:
    """Errors inside become faults of the judge."""

    def __init__(self, trial: Trial, judge: str) -> None:
        self.trial, self.judge = trial, judge
        self.limit = _time_limit(LIMIT_S)

    def __enter__(self) -> None:
        self.limit.__enter__()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> bool:
        self.limit.__exit__(None, None, None)
        if error is None or isinstance(error, KeyboardInterrupt):
            return False
        symptom = cause_of(error)
        if _is_refusal(symptom):
            self.trial.verdict.counts[f"refused: {symptom.rpartition(':')[2]}"] += 1
            return True
        if isinstance(error, NpuscopeError) and not isinstance(error, InternalError):
            symptom = f"refused, {symptom}"
        self.trial.verdict.add(self.judge, symptom, str(error))
        return True


def _is_refusal(cause: str) -> bool:
    return any(reason in cause for reason in REFUSALS)


def _read(trial: Trial) -> None:
    graph = load_model(trial.path)
    unknown = unknown_names(graph)
    if unknown:
        for name in dict.fromkeys(unknown):
            notes = " ".join(note for note in graph.notes if name in note)
            trial.verdict.add("read", f"{name} is not known", notes)
        return
    trial.graph = graph
    trial.sample = random_sample(graph, np.random.default_rng(trial.verdict.seed))
    trial.expected = run(graph, trial.sample)


def _run_outside(made: list[Trial]) -> None:
    """One process a runtime, which goes on behind a network that ends it."""
    for numerics in Numerics:
        mine = [t for t in made if t.graph is not None and t.graph.numerics is numerics]
        runs = [OutsideRun(t.path, t.graph, [t.sample]) for t in mine if t.graph is not None]
        results = outside_runs(runs, any_kernels=True) if runs else []
        for trial, result in zip(mine, results, strict=True):
            trial.outside = result[0] if result is not None else None


# --- The reference executor ---


def reference(trial: Trial, folder: Path) -> None:
    """At most a step apart, or it began with a step that a later op made larger."""
    graph, verdict = trial.graph, trial.verdict
    assert graph is not None
    if trial.outside is None:
        verdict.counts["networks that the outside runtime does not run"] += 1
        return
    rows = zip(graph.outputs, trial.outside, strict=True)
    parts = [steps(theirs, trial.expected[n], output_step(graph, n)).ravel() for n, theirs in rows]
    apart = np.concatenate(parts)
    verdict.counts["elements"] += apart.size
    verdict.counts["elements that are not equal"] += int((apart > EQUAL).sum())
    if apart.max(initial=0.0) <= EQUAL:
        return
    verdict.counts["networks with a difference"] += 1
    probed = outside_steps(trial.network, graph, trial.sample, folder) if trial.network else None
    fault = first_difference(probed) if probed else None
    if fault is not None:
        verdict.add("reference", *fault)
    elif apart.max() > 1 + EQUAL and (probed is None or probed.equal):
        if graph.numerics is Numerics.LITERT and _agrees_with_all_kept(trial):
            verdict.counts["networks of which LiteRT overwrites what is still read"] += 1
        else:
            verdict.add("reference", "only the whole network differs", f"{apart.max():g} LSB")


def _agrees_with_all_kept(trial: Trial) -> bool:
    """With a place for every tensor LiteRT computes what we do: its plan of memory is at fault."""
    interpreter = litert_interpreter(str(trial.path), keep_all=True)
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], trial.sample[detail["name"]])
    interpreter.invoke()
    found = {
        d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()
    }
    assert trial.graph is not None
    return all(
        steps(found[name], trial.expected[name], output_step(trial.graph, name)).max(initial=0.0)
        <= EQUAL
        for name in trial.graph.outputs
    )


# --- The compiled program ---


def npu(trial: Trial, folder: Path) -> None:
    """Units within a step on nearly all elements, kernels of the CPU without a difference.

    A layer whose 16-bit sums saturate is off by what its generation's shifts lose, and the
    simulator says so: the same network with safe shifts must agree. Where a note says that weights
    are rounded, the reference with these weights must.
    """
    made, graph, verdict = _built(trial), trial.graph, trial.verdict
    assert graph is not None
    layers = _layers(trial, made.program, graph)
    verdict.counts.update(layers.verdict.counts)
    if layers.off and any(ROUNDED in note for note in made.program.notes):
        verdict.counts["programs that are off by rounded weights"] += 1
        graph = _with_rounded_weights(graph, made.machine)
        layers = _layers(trial, made.program, graph)
    if layers.off and all(map(layers.saturates, layers.off)):
        verdict.counts[SATURATES] += 1
        safe = {"generation.saturation_safe_shift": True}
        options: Options = {"generation": verdict.generation, "overrides": safe}
        layers = _layers(trial, build(trial.path, options).program, graph)
    verdict.faults += layers.verdict.faults
    bridge = OwnBridge(made.program, graph)
    values = bridge.inputs(trial.sample)
    outputs = execute(made.program, values).outputs
    for name, value in execute(without_overlaps(made.program), values).outputs.items():
        if not np.array_equal(value, outputs[name], equal_nan=value.dtype.kind == "f"):
            verdict.add("npu", "a buffer is overwritten that is still read", name)
    free = bridge.outputs(outputs)
    exact = all(np.array_equal(free[n], trial.expected[n], equal_nan=True) for n in graph.outputs)
    verdict.counts["programs with the reference's outputs"] += exact
    verdict.counts["programs"] += 1


def _with_rounded_weights(graph: Graph, machine: Machine) -> Graph:
    graph = graph.copy()
    for step in (ExpandTransposedConv(), SignedBytes(), SymmetricWeights()):
        step.run(graph, machine)
    return graph


def _layers(trial: Trial, program: Program, graph: Graph) -> Layers:
    """A program's layers, compared with those of the network."""
    verdict = replace(trial.verdict, faults=[], counts=Counter())
    layers = Layers(graph, trial.sample, verdict)
    bridge = OwnBridge(program, graph)
    known = bridge.forced(layers.expected)
    layers.own = own_inputs(program, known)
    for epoch in program.executed:
        for flow in _flows(epoch):
            behind = layers.sources.setdefault(flow.output, set())
            for name in flow.inputs:
                behind |= {name} if name in known else layers.sources.get(name, set())
        makers = set(epoch.origin).union(*(layers.makers.get(n, ()) for n in reads(epoch)))
        layers.makers.update({name: makers for name in written(epoch) if name not in known})
    done = {name: epoch.number for epoch in program.executed for name in written(epoch)}

    def compare(epoch: Epoch, memory: Memory) -> None:
        for name in written(epoch):
            if name in known and done[name] == epoch.number:
                layers.compare(epoch, memory.buffer(name), memory.read(name), known)
                memory.write(name, known[name])

    shares = execute(
        program, bridge.inputs(trial.sample), observe=compare, force=known
    ).saturated_share
    layers.saturated = {o for e in program.executed if shares.get(e.number) for o in e.origin}
    return layers


def _built(trial: Trial) -> Build:
    if trial.build is None:
        trial.build = build(trial.path, {"generation": trial.verdict.generation})
    return trial.build


def readback(trial: Trial, folder: Path) -> None:
    """Bytes in, bytes out: names are not kept."""
    made, place = _built(trial), folder / f"build{trial.verdict.seed}"
    if trial.verdict.seed % 8 < 2:  # the whole build
        notes = write_build(made, place)
        (place / "program.json").unlink()
    else:  # network.c, blobs and weights alone
        notes, files = code_files(made.program, made.machine, "network")
        place.mkdir()
        write_files(
            place, {**{n: _bytes(t) for n, t in files.items()}, **pool_images(made.program)}
        )
    if any(note.startswith(NO_C) for note in notes):
        trial.verdict.counts["programs without network.c"] += 1
        return
    again = read_program(place)
    ours = execute(made.program, trial.sample).outputs
    stored = [_stored(made.program, n, trial.sample[n]) for n in made.program.inputs]
    given = {n: _logical(again, n, raw) for n, raw in zip(again.inputs, stored, strict=True)}
    theirs = execute(again, given).outputs
    for name, other in zip(made.program.outputs, again.outputs, strict=True):
        ours_raw = _stored(made.program, name, ours[name])
        theirs_raw = _stored(again, other, theirs[other])
        if ours_raw.tobytes() != theirs_raw.tobytes():
            trial.verdict.add("readback", "outputs differ", f"{trial.verdict.generation}: {name}")
            return


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _stored(program: Program, name: str, value: np.ndarray) -> np.ndarray:
    return to_stored(program.buffer_map()[name], value)


def _logical(program: Program, name: str, raw: np.ndarray) -> np.ndarray:
    return from_stored(program.buffer_map()[name], raw)


# --- The file, edited and as it is ---


_DRAWS = 4  # how often the network is rounded at random


def fix(trial: Trial, folder: Path) -> None:
    fixed_path = trial.path.with_stem(f"{trial.path.stem}_fixed")
    fixed = npuscope.fix(trial.path, fixed_path, seeds=1, generation=trial.verdict.generation)
    if not fixed.applied:
        if fixed.data != trial.path.read_bytes():
            trial.verdict.add("fix", "nothing to do, but the copy is not the file")
        return
    trial.verdict.counts["fixed files"] += 1
    graph = load_model(fixed_path)
    edits = ", ".join(sorted({step.candidate.fix.id for step in fixed.applied}))
    sample = {n: _as_now(trial, graph, n) for n in graph.inputs}
    if any(value is None for value in sample.values()):
        return  # another border: `fix` says so
    result = outside_runs([OutsideRun(fixed_path, graph, [sample])], any_kernels=True)[0]  # type: ignore[list-item]
    if result is None and trial.outside is not None:
        trial.verdict.add("fix", "the outside runtime does not run the fixed file", edits)
        return
    assert trial.graph is not None
    if result is None or trial.outside is None or graph.outputs != trial.graph.outputs:
        return
    if fixed.function is not FunctionEffect.EXACT:
        return  # that a sample gives the same is not said of others
    apart = _unequal(graph, fixed, trial.outside, result[0])
    if apart:
        # LiteRT's optimised kernels round otherwise for a dense layer than for one of groups.
        before, after = run(trial.graph, trial.sample), run(graph, sample)  # type: ignore[arg-type]
        draws = [rounded(graph, sample, draw) for draw in range(_DRAWS)]  # type: ignore[arg-type]
        reach = {
            name: max(
                steps(moved[name], after[name], output_step(graph, name)).max() for moved in draws
            )
            for name in apart
        }
        if all(apart[name] <= reach[name] + EQUAL for name in apart) and not _unequal(
            graph, fixed, [*before.values()], [*after.values()]
        ):
            trial.verdict.counts["fixed files that the runtime rounds otherwise"] += 1
            return
    for name, steps_apart in apart.items():
        detail = f"{edits}: {name}, {steps_apart:g}"
        trial.verdict.add("fix", "outputs called equal differ", detail)


def _unequal(
    graph: Graph, fixed: Fixed, before: Sequence[np.ndarray], after: Sequence[np.ndarray]
) -> dict[str, float]:
    """Outputs that `fix` calls equal and that are more than a step apart, in steps."""
    equal = {effect.output for effect in fixed.effects if effect.exact}
    found = {}
    for name, old, new in zip(graph.outputs, before, after, strict=True):
        if name in equal and old.shape == new.shape and old.dtype == new.dtype:
            apart = np.abs(old.astype(float) - new.astype(float)).max(initial=0.0)
            found[name] = apart / output_step(graph, name)
    return {name: apart for name, apart in found.items() if apart > 1 + 1e-3}


def _as_now(trial: Trial, graph: Graph, name: str) -> np.ndarray | None:
    """The sample for an input whose bytes may have become signed ones."""
    value = trial.sample.get(name)
    if value is None or graph.tensors[name].dtype.numpy == value.dtype:
        return value
    return (value.astype(np.int16) - 128).astype(graph.tensors[name].dtype.numpy)


def file(trial: Trial, folder: Path) -> None:
    """Written without the original bytes at hand, and unchanged."""
    data = trial.path.read_bytes()
    if trial.verdict.format == "tflite":
        document: TfliteFileGraph | OnnxFileGraph = TfliteFileGraph.parse(data)
    else:
        document = OnnxFileGraph.parse(data, folder)
    if document.to_bytes() != data:
        trial.verdict.add("file", "an unchanged file is written with other bytes")
    for path in differences(data, document.written()):
        trial.verdict.add("file", "a field is written otherwise", path)


_VERBS = (
    "estimate {file} --json",
    "explain {file} --json",
    "lint {file} --json",
    "profile {file} --json",
    "validate {file} --json",
    "compile {file} -o {out} --json",
    "fix {file} -o {out}.SUFFIX --json",
)
_FINE, _REFUSED = (0, 1), (ModelError.exit_code,)


def verbs(trial: Trial, folder: Path) -> None:
    """An estimate of each, and one other verb in turns, as the command line runs it."""
    estimated = _estimated(trial)
    words = _VERBS[trial.verdict.seed // 2 % len(_VERBS)].replace("SUFFIX", trial.verdict.format)
    command = Command(f"{words} --generation {trial.verdict.generation}")
    keeps = words.startswith("compile")  # all but the C that a network cannot have
    target = Target("generated", lambda side: [], (), (command,), file=trial.path.name, keeps=keeps)
    case = Case(target, trial.verdict.seed, trial.path.read_bytes(), command)
    outcome = Workshop(folder / "side", lambda side: None).run(case, LIMIT_S)
    verb = words.split()[0]
    refused = not estimated or (verb == "compile" and _lacks_c(trial))
    wanted = _REFUSED if refused else _FINE
    if verb == "fix" and trial.verdict.counts["refused: _fixed"]:
        wanted = (*_FINE, *_REFUSED)  # on more samples than one the edit may be rejected before
    trial.verdict.counts[f"{verb}, exit code {outcome.code}"] += 1
    for cause in outcome.causes:
        trial.verdict.add("verbs", f"{verb}: {cause}", outcome.details)
    saturates = trial.verdict.counts[SATURATES] or not trial.verdict.counts["programs"]
    if verb == "validate" and outcome.code == 1 and not saturates:
        # Its own samples may saturate sums that the sample here does not.
        safe = Command(f"{command.words} --set generation.saturation_safe_shift=true")
        again = replace(case, command=safe)
        if Workshop(folder / "side", lambda side: None).run(again, LIMIT_S).code == 0:
            trial.verdict.counts[SATURATES] += 1
        else:
            trial.verdict.add("verbs", "validate: called wrong, and no layer is", outcome.details)
    if outcome.code not in wanted and not outcome.causes and verb != "lint":
        trial.verdict.add("verbs", f"{verb}: exit code {outcome.code}", outcome.details)


def _estimated(trial: Trial) -> bool:
    """False where the compiler refuses the network for a reason that it gives."""
    try:
        made = _built(trial)
    except ModelError as error:
        if _is_refusal(cause_of(error)):
            return False
        raise
    profile = estimate(made.program, made.machine, trial.graph)
    if not (np.isfinite(profile.total_ms) and profile.total_ms > 0):
        trial.verdict.add("verbs", f"estimate: {profile.total_ms} ms")
    return True


def _lacks_c(trial: Trial) -> bool:
    """All else is written, but a build that cannot be run is no success."""
    made = _built(trial)
    notes, _ = code_files(made.program, made.machine, "network")
    return any(note.startswith(NO_C) for note in notes)


Judge = Callable[[Trial, Path], None]
JUDGES: dict[str, Judge] = {
    "reference": reference,
    "npu": npu,
    "readback": readback,
    "file": file,
    "fix": fix,
    "verbs": verbs,
}
