"""What a family of machines is to the verbs. A verb knows these names and no family.

Nouns are named for type checkers alone: nothing above is loaded from here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from npuscope.errors import UsageError

if TYPE_CHECKING:
    from npuscope.advice.compare.model import Side
    from npuscope.advice.explanation import Explanation
    from npuscope.profiling.model import Profile
    from npuscope.rulebook.finding import Finding

Source = Any  # a path, or a Graph
Options = Mapping[str, Any]  # keywords of the verb, by name
_FLAGS = ("as_int8", "ec_single_epoch", "relocatable", "no_secure", "sensitivity")


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


class Family:
    """A kind of machines. A family implements `machines`, `compile` and `time`; what else it does
    not implement it cannot do, and users read so in one sentence, from here."""

    name: ClassVar[str]
    # Options that verbs of all families share and this one understands; None: every option.
    options: ClassVar[frozenset[str] | None] = frozenset({"machine", "overrides", "shapes"})
    # Modules with rules, loaded for the catalogue without the rest of the family.
    rules: ClassVar[tuple[str, ...]] = ()
    # Verbs of its own, or where to find the answer to one that it lacks; for hints.
    instead: ClassVar[str] = ""

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

    # --- A network on a machine ---

    def compile(self, source: Source, options: Options) -> Any:
        """A program of the family, for the machine that the options name."""
        raise NotImplementedError

    def time(self, build: Any) -> Profile:
        """One inference of what `compile` made, with its range and known error."""
        raise NotImplementedError

    def recognises(self, path: Path) -> bool:
        """A compiled program or a run of this family, by its first bytes or its files."""
        return False

    def read(self, path: Path, options: Options) -> Profile:
        """What `recognises` said yes to."""
        raise self.lacks("a run that was read")

    def estimate(self, source: Source, options: Options) -> Profile:
        if isinstance(source, str | Path) and self.recognises(Path(source)):
            return self.read(Path(source), options)
        return self.time(self.compile(source, options))

    # --- What verbs make of it ---

    def side(self, source: Source, options: Options) -> Side | None:
        """A run with all that explains how it differs from another; None for its estimate alone."""
        return None

    def screen(self, profile: Profile) -> Report | None:
        """The estimate in the family's own words; None for those of the house."""
        return None

    def explain(self, source: Source, options: Options) -> Explanation:
        """Verdict, findings and the changes that pay most."""
        raise self.lacks("explain")

    def lint(self, source: Source, options: Options) -> tuple[Finding, ...]:
        """Risks that the network alone shows."""
        raise self.lacks("lint")

    def generation(self, options: Options) -> str:
        """Of the compiler that rules speak of, where the family has several."""
        return ""

    # --- What it cannot do ---

    def lacks(self, verb: str) -> UsageError:
        return UsageError(
            f"{verb} is not made for {self.name} machines", where="--machine", hint=self.instead
        )

    def check(self, options: Options) -> None:
        """Refuse what was given and means nothing to its machines."""
        for name, value in options.items():
            absent = value is None or value in ((), {}) or (value is False and name in _FLAGS)
            if not absent and self.options is not None and name not in self.options:
                machine = options.get("machine")
                raise UsageError(
                    f"this option is not made for {machine}",
                    where=f"--{name.replace('_', '-')}",
                    hint="--set KEY=VALUE changes the machine; npuscope machines --keys lists "
                    "the keys",
                )
