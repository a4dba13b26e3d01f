"""The family of STM32N6 machines behind the verbs that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from npuscope.families.interface import Family, Format, Options, Report, Source
from npuscope.options.rows import BUILDING
from npuscope.structs import replace

if TYPE_CHECKING:
    import numpy as np

    from npuscope.advice.compare.model import Side
    from npuscope.advice.explanation import Explanation
    from npuscope.advice.fix.program_bench import ProgramBench
    from npuscope.building import Build
    from npuscope.profiling.model import Profile
    from npuscope.profiling.validate import Validation
    from npuscope.report.compile import Compilation
    from npuscope.rulebook.finding import Finding


class NeuralArt(Family):
    name = "neural-art"
    understands: ClassVar[frozenset[str] | None] = None
    house_machines = True
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

    def write(self, build: Build, folder: Path, options: Options) -> tuple[str, ...]:
        from npuscope.report.build_files import build_call, write_network

        return write_network(build, folder, build_call(build, options))

    def compiled(self, build: Build, files: tuple[str, ...], notes: tuple[str, ...]) -> Compilation:
        from npuscope.report.compile import Compilation

        return Compilation(build.program, files, notes, build.graph)

    def estimate(self, source: Source, options: Options) -> Profile:
        from npuscope.building import other_generations

        network = self.compile(source, options)
        run = self.time(network)
        others = other_generations(network, run, self.understood(options, BUILDING))  # type: ignore[arg-type]
        return replace(run, notes=(*others, *run.notes))

    def execute(self, build: Build, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from npuscope.families.neural_art.validation import executed

        return executed(build, inputs)

    # --- What verbs make of it ---

    def profile(self, source: Source, options: Options) -> Profile:
        """Simulated, `batch` times."""
        from npuscope.building import completed
        from npuscope.profiling.measure import simulated_part
        from npuscope.profiling.run import profile

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

    def bench(self, path: Path, options: Options, data: Any) -> ProgramBench:
        from npuscope.advice.fix.program_bench import ProgramBench

        return ProgramBench(path, options, data=data)  # type: ignore[arg-type]

    def advise(self, build: Build, profile: Profile) -> Explanation:
        from npuscope.advice.explain import explain

        return explain(build, profile)

    def explain(self, source: Source, options: Options) -> Explanation:
        """With `trials` changes are compiled and timed; with a `batch` it is run, not estimated;
        `model` is what a program was compiled from."""
        from npuscope.advice.compare.sides import with_model
        from npuscope.advice.explain import explain
        from npuscope.advice.fix.trials import trials_of
        from npuscope.building import Options as Building
        from npuscope.building import build, completed, other_generations
        from npuscope.profiling.measure import simulated_part
        from npuscope.profiling.run import profile

        plain: Building = self.understood(options, BUILDING)  # type: ignore[assignment]
        model = options.get("model")
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


def file_findings(source: Source, machine: object) -> tuple[Finding, ...]:
    """What only the file itself shows, before the reader normalises it."""
    from npuscope.building import is_program
    from npuscope.graph.model import Graph
    from npuscope.rulebook.registry import lint_model_file

    if isinstance(source, Graph) or is_program(source):
        return ()
    return lint_model_file(source, machine)  # type: ignore[arg-type]
