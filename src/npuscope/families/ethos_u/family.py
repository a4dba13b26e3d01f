"""The family of Ethos-U machines behind the verbs that all families share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from npuscope.errors import UsageError
from npuscope.families.interface import Family, Format, Options, Rank, Report, Source
from npuscope.options.kinds import file, text, whole

if TYPE_CHECKING:
    import numpy as np

    from npuscope.advice.explanation import Explanation
    from npuscope.advice.fix.workbench import Workbench
    from npuscope.advice.tune.space import Axis
    from npuscope.advice.what_if import Sensitivity
    from npuscope.families.ethos_u.build import EthosBuild
    from npuscope.families.interface import Causes, Layers
    from npuscope.graph.model import Graph
    from npuscope.profiling.model import EpochProfile, Profile
    from npuscope.rulebook.finding import Finding

_FILES = "npuscope.families.ethos_u.files"


class EthosU(Family):
    name = "ethos-u"
    options = (
        text("system_config", "Vela's name for clock and memories around an Ethos-U"),
        text("memory_mode", "Vela's name for what the SRAM of an Ethos-U holds"),
        text("optimise", "what Vela optimises for", "", choices=("Performance", "Size")),
        whole("arena_cache_size", "bytes of SRAM that Vela may use", "BYTES"),
        file("vela", "the command of Vela, where it is not installed beside npuscope"),
        file("vela_config", "Vela's configuration file, for other system configurations"),
    )
    understands: ClassVar[frozenset[str] | None] = frozenset(
        {"model", "as_int8", "sensitivity", "full"}
    )
    quantizes = True
    instead = (
        "compile, estimate, profile, explain, fix, tune, quantize, validate and compare take them; "
        "the files that compile -o writes go to the tools of the board's maker"
    )
    rules = ("npuscope.families.ethos_u.rules", "npuscope.families.ethos_u.refusals")

    # --- Machines ---

    def machines(self) -> tuple[str, ...]:
        from npuscope.families.ethos_u.machine import machine_names

        return machine_names()

    def describe(self, machine: str) -> Report:
        from npuscope.families.ethos_u.report import machine_report

        return machine_report(machine)

    def keys(self, machine: str, text: str = "") -> Report:
        from npuscope.families.ethos_u.report import machine_keys

        return machine_keys(machine, text)

    # --- Files ---

    def formats(self) -> tuple[Format, ...]:
        take = f"{_FILES}:disassemble"
        return (
            Format(
                "vela_tflite",
                "TFLite model compiled for Ethos-U",
                f"{_FILES}:is_vela_sample",
                f"{_FILES}:inspect_vela",
                disassemble=take,
            ),
            Format(
                "executorch",
                "ExecuTorch program for Ethos-U",
                f"{_FILES}:is_executorch_sample",
                f"{_FILES}:inspect_vela",
                disassemble=take,
            ),
            Format(
                "ethos_u_stream",
                "command stream for Ethos-U",
                f"{_FILES}:is_stream",
                f"{_FILES}:inspect_stream",
                disassemble=take,
            ),
            Format(
                "ethos_u_listing",
                "text of a command stream for Ethos-U",
                f"{_FILES}:is_listing",
                f"{_FILES}:inspect_listing",
                Rank.CONTENT,
                assemble=f"{_FILES}:assemble",
            ),
        )

    def recognises(self, path: Path) -> bool:
        from npuscope.families.ethos_u.marks import program_in

        return program_in(path) is not None

    def machine_of(self, path: Path) -> str:
        from npuscope.families.ethos_u.build import compiled_for

        return compiled_for(path)

    def read(self, path: Path, options: Options) -> Profile:
        from npuscope.families.ethos_u.build import read_build

        return self.time(read_build(path, options))

    def write(self, build: EthosBuild, folder: Path, options: Options) -> tuple[str, ...]:
        from npuscope.whole_file import write_files

        stem = Path(build.name).stem
        files = {f"{stem}_vela.tflite": build.data}
        if build.debug:  # names of operators, for who reads the file
            files[f"{stem}_debug.xml"] = build.debug.encode()
        if build.written:
            files[f"{stem}.tflite"] = build.written
        write_files(folder, files)
        return ()

    # --- A network on a machine ---

    def compile(self, source: Source, options: Options) -> EthosBuild:
        from npuscope.families.ethos_u.build import compiled, read_build

        if isinstance(source, str | Path) and self.recognises(Path(source)):
            return read_build(Path(source), options)
        return compiled(source, options)

    def time(self, build: EthosBuild) -> Profile:
        from npuscope.families.ethos_u.build import timed

        return timed(build)

    def execute(self, build: EthosBuild, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from npuscope.families.ethos_u.network import executed

        return executed(build.file, build.graph, inputs)

    def layers(self, build: EthosBuild, graph: Graph, options: Options) -> Layers | None:
        from npuscope.families.ethos_u.by_layer import LayerRunner

        return LayerRunner(build, graph, options).run

    # --- What verbs make of it ---

    def bench(self, path: Path, options: Options, data: Any) -> Workbench | None:
        from npuscope.families.ethos_u.bench import EthosBench

        return EthosBench(path, options, data=data)  # type: ignore[arg-type]

    def advise(self, build: EthosBuild, profile: Profile) -> Explanation:
        from npuscope.families.ethos_u.report import explained

        return explained(build, profile)

    def explain(self, source: Source, options: Options) -> Explanation:
        """With `trials`, and no memory mode that was asked for, the others are compiled too."""
        from npuscope.families.ethos_u.build import with_other_modes

        if options.get("model"):
            raise self.lacks("explain --model")
        build = self.compile(source, options)
        profile = self.time(build)
        if options.get("trials") and build.graph is not None and not options.get("memory_mode"):
            profile = with_other_modes(profile, source, options)
        return self.advise(build, profile)

    def sensitivity(self, source: Source, options: Options) -> tuple[Sensitivity, ...]:
        from npuscope.families.ethos_u.report import sensitivities

        return sensitivities(self.compile(source, options), options)

    def part_lines(self, profile: Profile, part: EpochProfile) -> list[str]:
        from npuscope.families.ethos_u.report import kernel_lines

        return kernel_lines(profile, part)

    def axes(self, options: Options, generations: Sequence[str]) -> tuple[Axis, ...]:
        from npuscope.advice.tune.space import DEFAULT, Axis, AxisSetting
        from npuscope.families.ethos_u.build import VARIED_MODES
        from npuscope.families.ethos_u.machine import load_machine

        axes = list(super().axes(options, generations))
        if not options.get("memory_mode"):
            usual = load_machine(str(options["machine"])).memory_mode
            others = (
                AxisSetting(
                    mode,
                    {"memory_mode": mode},
                    ("--memory-mode", mode),
                    weights_in_ram=mode == "Sram_Only",
                )
                for mode in VARIED_MODES
                if mode != usual
            )
            axes.append(Axis("memory mode", (AxisSetting(DEFAULT), *others)))
        if not options.get("optimise"):
            size = AxisSetting("for size", {"optimise": "Size"}, ("--optimise", "Size"))
            axes.append(Axis("optimise", (AxisSetting(DEFAULT), size)))
        return tuple(axes)

    def causes(self, a: Profile, b: Profile) -> Causes | None:
        from npuscope.families.ethos_u.causes import causes_between

        return causes_between(a, b)

    def lint(self, source: Source, options: Options) -> tuple[Finding, ...]:
        from npuscope.building import read_graph
        from npuscope.errors import ModelError
        from npuscope.families.ethos_u.build import as_vela_reads, written_tflite
        from npuscope.rulebook.finding import gravest_first
        from npuscope.rulebook.registry import RuleKind, findings_of

        if options.get("overrides"):
            raise UsageError(
                "lint looks at the network alone: values of the machine change nothing",
                where="--set",
                hint="leave it out; estimate and explain take it",
            )
        as_int8 = bool(options.get("as_int8"))
        graph = read_graph(source, {"shapes": options.get("shapes") or {}, "as_int8": as_int8})
        if not isinstance(source, str | Path) or Path(source).suffix.lower() != ".tflite":
            try:
                graph = as_vela_reads(graph, written_tflite(graph))
            except ModelError:  # Vela never sees what has no form in TFLite
                return ()
        machine = options.get("machine") or FAMILY.machines()[0]
        return gravest_first(findings_of(self.rules[0], RuleKind.LINT, graph, machine))


FAMILY = EthosU()
