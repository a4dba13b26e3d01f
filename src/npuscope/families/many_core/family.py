"""The family of many-core machines behind the verbs that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from npuscope.errors import UsageError
from npuscope.families.interface import Family, Format, Options, Report, Source
from npuscope.options.kinds import text
from npuscope.options.rows import BUILDING

if TYPE_CHECKING:
    import numpy as np

    from npuscope.advice.explanation import Explanation
    from npuscope.families.many_core.inference import CoreBuild
    from npuscope.profiling.model import Profile
    from npuscope.rulebook.finding import Finding


class ManyCore(Family):
    name = "many-core"
    options = (
        text(
            "objective",
            "of the best set-up of a card: most inferences per second, the shortest time, or most "
            "with one in flight",
            "",
            choices=("throughput", "latency", "balanced"),
        ),
    )
    understands: ClassVar[frozenset[str] | None] = frozenset({"machine_file"})
    rules = ("npuscope.families.many_core.rules",)
    instead = "npuscope manycore --help, npuscope opstats --help"

    # --- Machines ---

    def machines(self) -> tuple[str, ...]:
        from npuscope.families.many_core.machine import known_core_machines

        return known_core_machines()

    def describe(self, machine: str) -> Report:
        from npuscope.families.many_core.machine import load_core_machine
        from npuscope.families.many_core.report.machine import machine_report

        return machine_report(load_core_machine(machine))

    def keys(self, machine: str, text: str = "") -> Report:
        from npuscope.families.many_core.machine import load_core_machine
        from npuscope.families.many_core.report.machine import settable
        from npuscope.report.machines import plain_keys

        rows = settable(load_core_machine(machine))
        return plain_keys(machine, [row for row in rows if text in row[0]])

    # --- Files ---

    def formats(self) -> tuple[Format, ...]:
        from npuscope.families.many_core.formats import FORMATS

        return FORMATS

    # --- A network on a machine ---

    def compile(self, source: Source, options: Options) -> CoreBuild:
        from npuscope.families.many_core.inference import compiled

        if options.get("objective"):
            raise UsageError(
                "set-ups of a card are searched for estimate and explain; this takes one program",
                where="--objective",
                hint="leave it out",
            )
        return compiled(source, options)

    def time(self, build: CoreBuild) -> Profile:
        from npuscope.families.many_core.inference import inference

        return inference(build)

    def estimate(self, source: Source, options: Options) -> Profile:
        """With an objective, of the best set-up of a whole card."""
        if not options.get("objective"):
            return super().estimate(source, options)
        from npuscope.families.many_core.searched import searched

        return searched(source, options)

    def recognises(self, path: Path) -> bool:
        if path.suffix.lower() in (".tflite", ".onnx"):
            return False
        from npuscope.families.many_core.buffer_format import is_core_run
        from npuscope.families.many_core.container import holds_program

        return is_core_run(path) or holds_program(path)

    def read(self, path: Path, options: Options) -> Profile:
        """A run, or a program as its model is timed."""
        from npuscope.families.many_core.buffer_format import is_core_run
        from npuscope.families.many_core.inference import inference, stored
        from npuscope.families.many_core.report.runs import read_core_run

        if not is_core_run(path):
            return inference(stored(path, options))
        for name in ("overrides", "objective", "machine_file", "shapes"):
            if options.get(name):
                row = {**BUILDING, **{row.name: row for row in self.options}}[name]
                raise UsageError(
                    f"{path.name} keeps a run as it was, which no option changes", where=row.long
                )
        return read_core_run(path)

    def execute(self, build: CoreBuild, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from npuscope.families.many_core.execute import execute

        return execute(build.program, inputs)

    def write(self, build: CoreBuild, folder: Path, options: Options) -> tuple[str, ...]:
        from npuscope.families.many_core.container import FILE_NAME
        from npuscope.families.many_core.inference import OPTIONS
        from npuscope.families.many_core.sources import source_segment
        from npuscope.families.many_core.specializations import write_programs
        from npuscope.structs import replace
        from npuscope.whole_file import write_files

        asked = replace(OPTIONS, cores=build.program.layout.cores)
        source = source_segment(build.path, None, asked) if build.path is not None else b""
        write_files(folder, {FILE_NAME: write_programs([build.program], source)})
        return ()

    # --- What verbs make of it ---

    def screen(self, profile: Profile) -> Report | None:
        from npuscope.families.many_core.report.estimate import core_screen
        from npuscope.families.many_core.report.setups import SetupSearch
        from npuscope.families.many_core.searched import search_screen

        if isinstance(profile.payload, SetupSearch):
            return search_screen(profile.payload)
        return core_screen(profile)

    def advise(self, build: CoreBuild, profile: Profile) -> Explanation:
        from npuscope.families.many_core.report.explain import explain_model

        return explain_model(profile)

    def explain(self, source: Source, options: Options) -> Explanation:
        from npuscope.families.many_core.report.explain import explain_run

        if options.get("objective"):
            from npuscope.families.many_core.searched import explain_search

            return explain_search(self.estimate(source, options))
        from npuscope.families.many_core.buffer_format import is_core_run

        if is_core_run(source):
            return explain_run(Path(source))
        if isinstance(source, str | Path) and self.recognises(Path(source)):
            from npuscope.families.many_core.report.explain import explain_model

            return explain_model(self.read(Path(source), options))
        return super().explain(source, options)

    def lint(self, source: Source, options: Options) -> tuple[Finding, ...]:
        from npuscope.building import ReadOptions, read_graph
        from npuscope.families.many_core.machine import load_core_machine
        from npuscope.families.many_core.rules import core_lints

        shapes: ReadOptions = {"shapes": options.get("shapes") or {}}
        machine = load_core_machine(
            str(options["machine"]),
            overrides=options.get("overrides"),
            machine_file=options.get("machine_file"),
        )
        return core_lints(read_graph(source, shapes), machine)


FAMILY = ManyCore()
