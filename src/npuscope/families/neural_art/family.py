"""The family of STM32N6 machines behind the verbs that all families share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from npuscope.errors import FileError, UsageError
from npuscope.families.interface import Family, Format, Options, Report, Source
from npuscope.options.rows import BUILDING
from npuscope.structs import replace

if TYPE_CHECKING:
    import numpy as np

    from npuscope.advice.compare.model import Side
    from npuscope.advice.explanation import Explanation
    from npuscope.advice.fix.program_bench import ProgramBench
    from npuscope.advice.tune.space import Axis
    from npuscope.advice.what_if import Sensitivity
    from npuscope.application.plan import Plan
    from npuscope.building import Build
    from npuscope.profiling.model import Profile
    from npuscope.profiling.validate import Validation
    from npuscope.report.compile import Compilation
    from npuscope.rulebook.finding import Finding


class NeuralArt(Family):
    name = "neural-art"
    understands: ClassVar[frozenset[str] | None] = None
    house_machines = True
    quantizes = True
    needs_program = True
    live = "npuscope.live.answers"

    # --- Machines ---

    def machines(self) -> tuple[str, ...]:
        from npuscope.machine.load import known_machines

        return known_machines()

    def describe(self, machine: str) -> Report:
        from npuscope.machine.load import load_machine, packaged, read_table
        from npuscope.report.machines import machine_report

        generations = read_table(packaged(machine))["generations"]
        titles = {key: str(table["title"]) for key, table in generations.items()}
        return machine_report(load_machine(machine), titles)

    def keys(self, machine: str, text: str = "") -> Report:
        from npuscope.report.machines import keys_report

        return keys_report(machine, text)

    # --- Files ---

    def formats(self) -> tuple[Format, ...]:
        from npuscope.families.neural_art.formats import FORMATS

        return FORMATS

    # --- A network on a machine ---

    def compile(self, source: Source, options: Options) -> Build:
        from npuscope.building import build

        return build(source, self.understood(options, BUILDING))  # type: ignore[arg-type]

    def time(self, build: Build) -> Profile:
        from npuscope.building import predicted

        return predicted(build)

    def recognises(self, path: Path) -> bool:
        from npuscope.building import is_program
        from npuscope.profiling.saved import is_saved_profile

        return is_saved_profile(path) or is_program(path)

    def machine_of(self, path: Path) -> str:
        """Programs do not say more than whose they are; a run that was kept does."""
        from npuscope.advice.compare.sides import kept_run

        run = kept_run(path)
        return run.machine.name if run is not None else ""

    def write(self, build: Build, folder: Path, options: Options) -> tuple[str, ...]:
        from npuscope.report.build_files import build_call, write_network

        return write_network(build, folder, build_call(build, options))

    def compiled(self, build: Build, files: tuple[str, ...], notes: tuple[str, ...]) -> Compilation:
        from npuscope.report.compile import Compilation

        return Compilation(build.program, files, notes, build.graph)

    def estimate(self, source: Source, options: Options) -> Profile:
        """With `generations`, which compiles again, a note says where others answer otherwise."""
        from npuscope.building import other_generations

        run = kept(source, options)
        if run is not None:
            return run
        network = self.compile(source, options)
        run = self.time(network)
        if not options.get("generations"):
            return run
        others = other_generations(network, run, self.understood(options, BUILDING))  # type: ignore[arg-type]
        return replace(run, notes=(*others, *run.notes))

    def execute(self, build: Build, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from npuscope.families.neural_art.validation import executed

        return executed(build, inputs)

    # --- What verbs make of it ---

    def profile(self, source: Source, options: Options) -> Profile:
        """Simulated, `batch` times; a run that a file keeps is read."""
        from npuscope.building import completed
        from npuscope.profiling.measure import simulated_part
        from npuscope.profiling.run import profile

        run = kept(source, options)
        if run is not None:
            return run
        network = self.compile(source, options)
        batch = options.get("batch", 1)
        run = profile(network.program, network.machine, network.graph, batch=batch)
        device = simulated_part(network.program, network.machine, batch)
        return completed(network, replace(run, device=device))

    def side(self, source: Source, options: Options) -> Side:
        from npuscope.advice.compare.sides import neural_art_side

        return neural_art_side(source, options)  # type: ignore[arg-type]

    def validate(self, source: Source, options: Options) -> Validation:
        from npuscope.families.neural_art.validation import validate_program

        return validate_program(source, options)

    def together(self, sources: Sequence[Source], options: Options) -> Plan:
        from npuscope.application.plan import plan_together

        return plan_together(sources, options)

    def sensitivity(self, source: Source, options: Options) -> tuple[Sensitivity, ...]:
        from npuscope.advice.what_if import sensitivity

        return sensitivity(self.compile(source, options))

    def axes(self, options: Options, generations: Sequence[str]) -> Sequence[Axis]:
        from npuscope.advice.tune.space import build_axes
        from npuscope.building import machine_for

        return build_axes(machine_for(options), options, generations)  # type: ignore[arg-type]

    def bench(self, path: Path, options: Options, data: Any) -> ProgramBench:
        from npuscope.advice.fix.program_bench import ProgramBench

        return ProgramBench(path, options, data=data)  # type: ignore[arg-type]

    def advise(self, build: Build, profile: Profile) -> Explanation:
        from npuscope.advice.explain import explain

        return explain(build, profile)

    def explain(self, source: Source, options: Options) -> Explanation:
        """With `trials` changes are compiled and timed; with a `batch` it is run, not estimated;
        `model` is what a program was compiled from. A run that a file keeps is explained by the
        rules if the model is given."""
        from npuscope.advice.compare.sides import is_over, with_model
        from npuscope.advice.explain import explain
        from npuscope.advice.fix.trials import trials_of
        from npuscope.building import Options as Building
        from npuscope.building import build, completed, other_generations
        from npuscope.profiling.measure import simulated_part
        from npuscope.profiling.run import profile

        plain: Building = self.understood(options, BUILDING)  # type: ignore[assignment]
        model = options.get("model")
        if is_over(source):
            return explain_kept(source, model, plain)
        network = build(source, {**plain, "compiled_from": model or plain.get("compiled_from")})
        network = with_model(network, source, model, plain)
        if options.get("batch"):
            parts, batch = (network.program, network.machine), options["batch"]
            run = profile(*parts, network.graph, batch=batch)
            run = completed(network, replace(run, device=simulated_part(*parts, batch)))
        else:
            run = self.time(network)
        others = other_generations(network, run, plain, every=bool(options.get("trials")))
        run = replace(run, notes=(*others, *run.notes))
        trials = trials_of(source, plain, network, run) if options.get("trials") else None
        return explain(network, run, file_findings(source, network.machine), trials=trials)

    def lint(self, source: Source, options: Options) -> tuple[Finding, ...]:
        from npuscope.building import machine_for, read_graph
        from npuscope.rulebook.finding import gravest_first
        from npuscope.rulebook.registry import lint_graph

        machine = machine_for(options)  # type: ignore[arg-type]
        graph = read_graph(source, options)  # type: ignore[arg-type]
        return gravest_first((*lint_graph(graph, machine), *file_findings(source, machine)))

    def generation(self, options: Options) -> str:
        from npuscope.building import machine_for

        return options.get("generation") or machine_for(options).generation.name  # type: ignore[arg-type]


FAMILY = NeuralArt()


def kept(source: Source, options: Options) -> Profile | None:
    """The run that a file keeps, as it is: options that would change it are refused."""
    from npuscope.advice.compare.sides import is_over, kept_run, refuse_late

    if not is_over(source):
        return None
    refuse_late(source, options)  # type: ignore[arg-type]
    return kept_run(source)


def explain_kept(source: Source, model: str | Path | None, options: Options) -> Explanation:
    """What left the NPU in a run that a file keeps, with the findings that it keeps; a log is
    explained by the rules if the `model`, or the build, is given that ran."""
    from npuscope.advice.compare.sides import is_log, open_log, open_side, result_schema
    from npuscope.advice.explain import explain
    from npuscope.advice.explanation import Explanation, explanation
    from npuscope.building import Build
    from npuscope.program.model import EpochKind
    from npuscope.rulebook.finding import read_findings
    from npuscope.shown import counted, significant

    if model is not None and is_log(source):
        ran = open_side(model, options)  # type: ignore[arg-type]
        side = open_log(source, options, ran)  # type: ignore[arg-type]
        if side.program is None or side.machine is None:
            raise FileError(
                "the epochs of this log are not those of the model's program",
                where=str(source),
                hint="give the folder that the vendor's compiler wrote as --model, or the "
                "options by which the program on the board was compiled",
            )
        build = Build(side.graph or ran.graph, side.machine, side.program)
        return explain(build, side.profile, file_findings(model, side.machine))
    if model is not None:
        raise UsageError("explains a log; other runs keep their findings", where="--model")
    run = kept(source, options)
    assert run is not None
    epochs, took = counted(len(run.epochs), "epoch"), significant(run.total_ms, 3)
    away = [epoch for epoch in run.epochs if epoch.kind is not EpochKind.HW]
    lost = significant(sum(epoch.ms for epoch in away), 3)
    answer = f"{len(away)} of {epochs} ran outside the NPU and took {lost} of {took} ms"
    if not away:
        answer = f"no epoch left the NPU: {epochs} in {took} ms"
    findings = read_findings(Path(source)) if result_schema(source) else ()
    if findings:
        return explanation(answer, run, findings)
    if away and is_log(source):
        answer += "; --model MODEL or --model FOLDER of the build tells why"
    elif away:
        answer += "; explain the model to learn why"
    return Explanation(answer, run, (), ())


def file_findings(source: Source, machine: object) -> tuple[Finding, ...]:
    """What only the file itself shows, before the reader normalises it."""
    from npuscope.building import is_program
    from npuscope.graph.model import Graph
    from npuscope.rulebook.registry import lint_model_file

    if isinstance(source, Graph) or is_program(source):
        return ()
    return lint_model_file(source, machine)  # type: ignore[arg-type]
