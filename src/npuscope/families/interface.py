"""What a family of machines is to the verbs. A verb knows these names and no family.

Nouns are named for type checkers alone: nothing above is loaded from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from npuscope.errors import UsageError
from npuscope.shown import ShownRecord, counted

if TYPE_CHECKING:
    import numpy as np

    from npuscope.advice.compare.model import Cause, Side
    from npuscope.advice.explanation import Explanation
    from npuscope.advice.tune.space import Axis
    from npuscope.advice.what_if import Sensitivity
    from npuscope.graph.model import Graph, Op
    from npuscope.options.kinds import Option
    from npuscope.profiling.model import EpochProfile, Profile
    from npuscope.profiling.validate import Validation
    from npuscope.rulebook.finding import Finding

Source = Any  # a path, or a Graph
Build = Any  # what the family's `compile` returns
Options = Mapping[str, Any]  # keywords of the verb, by name
Place = str | Callable[..., Any]  # a function, or "module:function", which is loaded when used
# Parts of a run and those of another that do the same work -> the Causes of their difference.
Causes = Callable[[Sequence["EpochProfile"], Sequence["EpochProfile"]], Iterator["Cause"]]


@cache
def function_at(place: Place) -> Callable[..., Any]:
    if callable(place):
        return place
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


class Report(Struct, frozen=True):
    """A result as it is printed, and as the object of --json."""

    TEXT: ClassVar[str] = "npuscope.families.interface:report_text"
    JSON: ClassVar[str] = "npuscope.families.interface:report_json"

    text: str
    json: dict[str, Any]


def report_text(report: Report) -> str:
    return report.text


def report_json(report: Report) -> dict[str, Any]:
    return report.json


class Compiled(Struct, frozen=True):
    """A program of a family, and the files that were written of it."""

    TEXT: ClassVar[str] = "npuscope.report.compile:compiled_text"
    JSON: ClassVar[str] = "npuscope.report.compile:compiled_json"

    program: Any
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # what a build needs to be run, and why it has not


class Rank(IntEnum):
    """The order in which kinds of files are tried."""

    HEAD = 0  # by its first bytes
    CONTENT = 1  # by what is written in it
    REST = 2  # what nothing else recognises


class Format(Struct, frozen=True):
    """A kind of file. `detect` and `inspect` take a Sample; `inspect` returns its FileFacts.

    `disassemble` takes a path and returns parts by name, each a CodePart; `assemble` takes the
    text of a part, the name of the file that is wanted and a name for the code in it, and returns
    an Assembled.
    """

    kind: str
    title: str  # for people
    detect: Place
    inspect: Place
    rank: Rank = Rank.HEAD
    disassemble: Place = ""
    assemble: Place = ""


class CodePart(Struct, frozen=True):
    """Code of a device. Of a file with many parts, text and fields of one may be asked for;
    `code` is the family's own value."""

    text: Callable[[], str]  # what `assemble` reads; lines that begin with ";" are comments
    fields: Callable[[], dict[str, Any]]  # for --json
    words: int
    code: Any = None


class Assembled(ShownRecord, frozen=True):
    """Code that was read from text: its bytes, and the file to write, which may be C."""

    data: bytes
    file: bytes
    instructions: int
    code: Any = None

    def told(self) -> str:
        return f"{counted(self.instructions, 'instruction')}, {counted(len(self.data), 'byte')}"


class LayerValues(Struct, frozen=True):
    """A tensor of the network, all of it, as the machine computes it from the reference's."""

    op: Op
    tensor: str
    values: np.ndarray


# All tensors of the reference, by name -> what each layer of the machine makes of those it reads.
Layers = Callable[[Mapping[str, "np.ndarray"]], Iterator[LayerValues]]


class Family:
    """A kind of machines. A family implements `machines`, `compile` and `time`; what else it does
    not implement it cannot do, and users read so in one sentence, from here."""

    name: ClassVar[str]
    # Rows of its own options: keywords, --help, completion, docs and checks come from them.
    options: ClassVar[tuple[Option, ...]] = ()
    # Options of other families that it understands too, by name; None: all but their own rows.
    understands: ClassVar[frozenset[str] | None] = frozenset()
    # Modules with rules, loaded for the catalogue without the rest of the family.
    rules: ClassVar[tuple[str, ...]] = ()
    # Verbs of its own, or where to find the answer to one that it lacks; for hints.
    instead: ClassVar[str] = ""
    # Machines are records of `machine/model.py`: clocks, pools and generations can be axes of a
    # sweep, and verbs that are not for all families take them.
    house_machines: ClassVar[bool] = False
    # `quantize` makes int8 networks for its machines; it compiles and times each that it tries.
    quantizes: ClassVar[bool] = False
    # Its rules look at the program, so a saved run has no findings.
    needs_program: ClassVar[bool] = False
    # The module that answers the browser of `serve`.
    live: ClassVar[str] = "npuscope.live.family_answers"

    # --- Machines ---

    def machines(self) -> tuple[str, ...]:
        """Names that `--machine` takes."""
        raise NotImplementedError

    def describe(self, machine: str) -> Report:
        """For `npuscope machines`."""
        return Report(f"{machine}: {self.name}", {"name": machine, "family": self.name})

    def keys(self, machine: str, text: str = "") -> Report:
        """Values for --set whose name or mark holds the text; as JSON {"name", "keys"}."""
        return Report(f"{machine}: 0 keys for --set", {"name": machine, "keys": []})

    # --- Files ---

    def formats(self) -> tuple[Format, ...]:
        """Kinds of files that only this family has: `inspect`, `disasm` and `asm` know them."""
        return ()

    def recognises(self, path: Path) -> bool:
        """A compiled program or a run of this family, by its first bytes or its files. Asked for
        models too, so it has to be quick."""
        return False

    def machine_of(self, path: Path) -> str:
        """The machine that it was made for, of what `recognises` said yes to; empty where only
        the family is known."""
        return ""

    def read(self, path: Path, options: Options) -> Profile:
        """What `recognises` said yes to."""
        raise self.lacks("a run that was read")

    def write(self, build: Build, folder: Path, options: Options) -> tuple[str, ...]:
        """`compile -o DIR`: files of a build, and notes on what could not be written."""
        raise self.lacks("compile")

    # --- A network on a machine ---

    def compile(self, source: Source, options: Options) -> Build:
        """A program of the family, for the machine that the options name."""
        raise NotImplementedError

    def time(self, build: Build) -> Profile:
        """One inference of what `compile` returned, with its range and known error."""
        raise NotImplementedError

    def estimate(self, source: Source, options: Options) -> Profile:
        if isinstance(source, str | Path) and self.recognises(Path(source)):
            return self.read(Path(source), options)
        return self.time(self.compile(source, options))

    def execute(self, build: Build, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values by tensor of the network, as the machine computes them: the outputs, and what
        else is known. Inputs and integers are as stored."""
        raise self.lacks("execution")

    def layers(self, build: Build, graph: Graph, options: Options) -> Layers | None:
        """For `validate` and `bisect`: its layers one by one, so that an earlier one that is wrong
        does not count again; None where layers are not known. A UsageError says why those of this
        build are not."""
        return None

    def network(self, build: Build) -> Graph | None:
        """What a build was compiled from, with the types at its border that were asked for; None
        where only the program is known."""
        graph: Graph | None = build.graph
        return graph

    def compiled(self, build: Build, files: tuple[str, ...], notes: tuple[str, ...]) -> Any:
        """What `compile` shows; its `program` is what it returns in Python."""
        return Compiled(build, files, notes)

    # --- What verbs make of it; None where the house's own way serves ---

    def profile(self, source: Source, options: Options) -> Profile:
        """A run with all its counters; the estimate, if there is no more to know."""
        return self.estimate(source, options)

    def side(self, source: Source, options: Options) -> Side | None:
        """A run with all that explains how it differs from another; None for its estimate alone."""
        return None

    def causes(self, a: Profile, b: Profile) -> Causes | None:
        """Why parts of two of its runs that do the same work differ; None where that is not
        known."""
        return None

    def screen(self, profile: Profile) -> Report | None:
        """The estimate in the family's own words; None for those of the house."""
        return None

    def validate(self, source: Source, options: Options) -> Validation | None:
        """The machine's arithmetic against the reference; None: outputs of `execute` are compared.

        Options hold `inputs`, `seeds` and `model` too."""
        return None

    def together(self, sources: Sequence[Source], options: Options) -> Any:
        """`estimate --together`: the plan of several networks in one application."""
        raise self.lacks("estimate --together")

    def sensitivity(self, source: Source, options: Options) -> tuple[Sensitivity, ...]:
        """Values of the machine that save time when they are a tenth better."""
        raise self.lacks("estimate --sensitivity")

    def part_lines(self, profile: Profile, part: EpochProfile) -> list[str]:
        """`profile --full`: all that is known of a part, below its line."""
        raise self.lacks("profile --full")

    def axes(self, options: Options, generations: Sequence[str]) -> Sequence[Axis]:
        """What `tune` may choose for a network on its machine, beside edits and input sizes; the
        first setting of each is what the user asked for. What was given is not varied."""
        if generations:
            raise self.lacks("tune --generations")
        return ()

    def bench(self, path: Path, options: Options, data: Any) -> Any:
        """The Workbench on which `fix` tries edits; None: compile, time, advise and execute do."""
        return None

    def advise(self, build: Build, profile: Profile) -> Explanation:
        """Verdict and findings on a build that was timed, with fixes: `explain` and `fix` ask."""
        raise self.lacks("explain")

    def explain(self, source: Source, options: Options) -> Explanation:
        """Verdict, findings and the changes that pay most, of a network or of what `recognises`
        knows. Options hold `model`, `batch` and `trials` too."""
        if options.get("model"):
            raise self.lacks("explain --model")
        build = self.compile(source, options)
        return self.advise(build, self.time(build))

    def lint(self, source: Source, options: Options) -> tuple[Finding, ...]:
        """Risks that the network alone shows."""
        raise self.lacks("lint")

    def generation(self, options: Options) -> str:
        """Of the compiler that rules speak of, where the family has several."""
        return ""

    # --- What it cannot do ---

    def can(self, method: str) -> bool:
        """Does this family have a method of its own where the interface only refuses?"""
        return getattr(type(self), method) is not getattr(Family, method)

    def lacks(self, verb: str) -> UsageError:
        return UsageError(
            f"{self.name} machines do not support {verb}", where="--machine", hint=self.instead
        )

    def understood(self, options: Options, rows: Mapping[str, Option]) -> dict[str, Any]:
        """Those options that its machines understand; `rows` are those of the verb by name."""
        own = {row.name for row in self.options}
        return {
            name: value
            for name, value in options.items()
            if name in own or (name in rows and self._takes(rows[name]))
        }

    def _takes(self, row: Option) -> bool:
        if not row.of_family or self.understands is None:
            return True
        return row.name in self.understands

    def check(self, options: Options, rows: Mapping[str, Option]) -> None:
        """Refuse what was given and means nothing to its machines, and unknown values of its own
        options."""
        understood = self.understood(options, rows)
        own = {row.name: row for row in self.options}
        for name, value in options.items():
            row = own.get(name) or rows.get(name)
            if value is None or (row is not None and not row.is_given(value)):
                continue
            where = f"--{name.replace('_', '-')}" if row is None else row.long
            if name not in understood:
                raise UsageError(
                    f"this option does not apply to {options.get('machine') or self.name}",
                    where=where,
                    hint="--set KEY=VALUE changes the machine; npuscope machines --keys lists "
                    "the keys",
                )
            choices = own[name].choices if name in own else ()
            if choices and value not in choices:
                names = ", ".join(map(str, choices))
                raise UsageError(f"unknown value '{value}'", where=where, hint=f"known: {names}")
