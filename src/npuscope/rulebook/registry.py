"""The registry of all rules: the record, the decorators that fill it, and the queries.

A rule is a function. Its decorator says what the user reads (id, title, cause, fixes), its
docstring is the sentence. Lowering asks the refuse rules, op by op; `lint` asks those on the
network and on the file; the advice package declares its own rules here and asks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Required, TypedDict, TypeVar, Unpack

from msgspec import Struct

from npuscope.errors import InternalError
from npuscope.graph.model import Graph, Numerics, Op, Tensor
from npuscope.machine.load import VARIANTS, generations
from npuscope.machine.model import Machine
from npuscope.program.model import Argument, Evidence, Refused, evidence
from npuscope.rulebook.conditions import fitting
from npuscope.rulebook.finding import Confidence, Finding, Fix, Hit, Severity, gravest_first
from npuscope.rulebook.fix import FixTemplate
from npuscope.rulebook.queries import live_ops
from npuscope.shown import Rows, ShownRecord
from npuscope.structs import Apart, replace

# The order in which rules are listed, and findings of one severity reported.
THEMES = (
    "floats",
    "numbers",
    "shapes",
    "channels",
    "conv",
    "pool",
    "moves",
    "layout",
    "elementwise",
    "blocks",
    "onnx_file",
)


class RuleKind(StrEnum):
    REFUSE = "refuse"  # keeps an op off the NPU; checked by lowering
    LINT = "lint"  # a risk that the model file alone shows
    ADVISE = "advise"  # what slows a run down


class Refusal(Struct, frozen=True):
    """Why a rule says no: what it found against its limit."""

    found: Evidence
    limit: Argument | None = None


def refusal(words: str, limit: Argument | None = None, **values: Argument) -> Refusal:
    """`words` name the values in them: "stride $stride"."""
    return Refusal(evidence(words, **values), limit)


def wrong_type(tensor: Tensor) -> Refusal:
    return refusal("'$tensor' is $type", tensor=tensor.name, type=tensor.dtype.value)


Check = Callable[[Graph, Op, Machine], Refusal | None]
Tell = Callable[[Graph, Op], Hit | None]
Look = Callable[..., Iterable[Hit]]
LookT = TypeVar("LookT", bound=Look)


class Rule(ShownRecord, Apart, frozen=True):
    """One rule, whatever its kind.

    `twins` are rules on a compiled network that say the same as this one says of the model file.
    `check` is asked for an op of the kinds `ops`; `look` for a network, a file or a run.
    """

    apart = ("check", "look")

    id: str
    kind: RuleKind
    title: str
    severity: Severity
    confidence: Confidence
    cause: str
    fixes: tuple[FixTemplate, ...] = ()
    since: str = ""
    until: str = ""
    twins: tuple[str, ...] = ()
    sentence: str = ""
    ops: tuple[str, ...] = ()
    way: str = "NPU"  # what it refuses: the NPU alone, or also NPU and CPU together
    turn: int = 0  # among the refusals of one op the lowest is reported first, and decides
    on_file: bool = False
    stops: bool = False  # the vendor's compiler ends without a program
    family: str = ""  # of machines; empty for the first
    check: Check | None = None
    look: Look | None = None

    def told(self) -> str:
        return f"{self.id} {self.severity.value}: {self.title}"

    def table(self) -> Rows:
        return [{"rule": self.id, "severity": self.severity.value, "cause": self.cause}]

    @property
    def docs(self) -> str:
        return f"docs/rules/{self.id}.md"

    def applies_to(self, generation: str) -> bool:
        """An unknown generation is assumed to have every habit."""
        order = generations()
        generation = VARIANTS.get(generation, generation)
        if generation not in order:
            return True
        first, last = (VARIANTS.get(bound, bound) for bound in (self.since, self.until))
        begin = order.index(first) if first else 0
        end = order.index(last) if last else len(order)
        return begin <= order.index(generation) <= end

    def refused(self, graph: Graph, op: Op, machine: Machine) -> Refused | None:
        answer = self.check(graph, op, machine) if self.check else None
        if answer is None:
            return None
        return Refused(self.way, self.id, self.sentence, answer.found, answer.limit)

    def findings(self, machine: Machine, *subject: object) -> Iterator[Finding]:
        """What the rule finds in a network, a file or a run."""
        if self.look is not None and self.applies_to(machine.generation.name):
            first = subject[0]
            graph = first if isinstance(first, Graph) else getattr(first, "graph", None)
            yield from (make_finding(self, hit, graph) for hit in self.look(*subject))


def make_finding(rule: Rule, hit: Hit, graph: Graph | None = None) -> Finding:
    """The finding of a rule, with those of its fixes that are true at this place."""
    return Finding(
        rule=rule.id,
        severity=hit.severity or rule.severity,
        title=rule.title,
        epoch=hit.epoch,
        ops=hit.ops,
        evidence={"value": hit.value, "limit": hit.limit, **hit.evidence},
        cause=rule.cause,
        fixes=tuple(_fixes(rule, hit, graph)),
        confidence=rule.confidence,
        since=rule.since,
        until=rule.until,
        docs=rule.docs,
    )


def _fixes(rule: Rule, hit: Hit, graph: Graph | None) -> Iterator[Fix]:
    """One whose parameters nobody gives is left out, too."""
    for template in rule.fixes:
        values = fitting(template.id, graph, hit.ops) if graph is not None else {}
        if template.id in hit.unfit or values is None:
            continue
        values = {**values, **hit.fixes.get(template.id, {})}
        if set(template.parameters) <= set(values):
            words = template.in_tflite if graph and graph.numerics is Numerics.LITERT else template
            yield words.fix(values, hit.gains.get(template.id))


# --- Declaring rules ---

# By module, since one may be imported before another for the sake of a helper function.
_DECLARED: dict[str, dict[str, Rule]] = {}


def declare(module: str, rule: Rule) -> None:
    """A rule of a module; the decorators below make it of a function."""
    if any(rule.id in rules_of_module for rules_of_module in _DECLARED.values()):
        raise InternalError(f"rule '{rule.id}' is declared twice")
    _DECLARED.setdefault(module, {})[rule.id] = rule


def refuse(
    rule_id: str,
    title: str,
    *,
    ops: Sequence[str],
    cause: str,
    fixes: tuple[FixTemplate, ...],
    severity: Severity = Severity.WARNING,
    confidence: Confidence = Confidence.DOCUMENTED,
    since: str = "",
    until: str = "",
    way: str = "NPU",
    turn: int = 0,
) -> Callable[[Check], Check]:
    """May an op of these kinds run on the NPU? Work that leaves it is a warning."""

    def register(check: Check) -> Check:
        rule = Rule(
            rule_id,
            RuleKind.REFUSE,
            title,
            severity,
            confidence,
            cause,
            fixes,
            since,
            until,
            sentence=_sentence(check),
            ops=tuple(ops),
            way=way,
            turn=turn,
            check=check,
        )
        declare(check.__module__, rule)
        return check

    return register


def foretells(
    refusal: str,
    rule_id: str,
    *,
    title: str = "",
    ops: Sequence[str] = (),
    cause: str = "",
    fixes: tuple[FixTemplate, ...] = (),
    severity: Severity | None = None,
    confidence: Confidence | None = None,
    also: tuple[str, ...] = (),
) -> Callable[[Tell], Tell]:
    """A lint rule that says of the model file what a refuse rule above it says of an op.

    The refuse rule finds the ops; the function returns what was found, or None where lint has
    nothing to report. Values that are not given are those of the refuse rule; `also` are further
    twins.
    """

    def register(tell: Tell) -> Tell:
        first = _DECLARED[tell.__module__][refusal]
        rule = replace(
            first,
            id=rule_id,
            kind=RuleKind.LINT,
            title=title or first.title,
            severity=severity or first.severity,
            confidence=confidence or first.confidence,
            cause=cause or first.cause,
            fixes=fixes or first.fixes,
            twins=(refusal, *also),
            sentence=_sentence(tell),
            ops=tuple(ops) or first.ops,
            check=None,
        )
        declare(tell.__module__, replace(rule, look=_foreseen(first, tell, rule.ops)))
        return tell

    return register


def _foreseen(refusal: Rule, tell: Tell, kinds: tuple[str, ...]) -> Look:
    def look(graph: Graph, machine: Machine) -> Iterator[Hit]:
        for op in live_ops(graph):
            if op.kind in kinds and refusal.check and refusal.check(graph, op, machine):
                hit = tell(graph, op)
                if hit is not None:
                    yield hit

    return look


class Statements(TypedDict, total=False):
    """What a rule states besides id and title: fields of Rule."""

    severity: Required[Severity]
    confidence: Required[Confidence]
    cause: Required[str]
    fixes: Required[tuple[FixTemplate, ...]]
    since: str
    until: str
    twins: tuple[str, ...]
    stops: bool
    family: str


def lint(rule_id: str, title: str, **statements: Unpack[Statements]) -> Callable[[LookT], LookT]:
    """A risk in a network: `look(graph, machine)` yields hits."""
    return _looking(RuleKind.LINT, rule_id, title, statements)


def lint_file(
    rule_id: str, title: str, **statements: Unpack[Statements]
) -> Callable[[LookT], LookT]:
    """A risk in an ONNX file: `look(file, machine)` yields hits."""
    return _looking(RuleKind.LINT, rule_id, title, statements, on_file=True)


def advise(rule_id: str, title: str, **statements: Unpack[Statements]) -> Callable[[LookT], LookT]:
    """What slows a run down: `look(subject)` yields hits."""
    return _looking(RuleKind.ADVISE, rule_id, title, statements)


def _looking(
    kind: RuleKind, rule_id: str, title: str, statements: Statements, *, on_file: bool = False
) -> Callable[[LookT], LookT]:
    def register(look: LookT) -> LookT:
        text = _sentence(look)
        rule = Rule(rule_id, kind, title, sentence=text, on_file=on_file, look=look, **statements)
        declare(look.__module__, rule)
        return look

    return register


def _sentence(function: Callable[..., object]) -> str:
    return " ".join((function.__doc__ or "").split())


# --- Asking rules ---


def themed(package: str, themes: Iterable[str]) -> dict[str, Rule]:
    """Rules of a package's modules by id, in the order of the themes."""
    return {id_: rule for t in themes for id_, rule in rules_in(f"{package}.{t}").items()}


def rules_in(module: str) -> dict[str, Rule]:
    """Rules that one module declares, by id."""
    return {rule.id: rule for rule in _DECLARED[import_module(module).__name__].values()}


def findings_of(
    module: str, kind: RuleKind, *subject: object, graph: Graph | None = None
) -> list[Finding]:
    """What the rules of one module and kind find in a subject of theirs; of their fixes those
    that are true in the graph, where it is known."""
    matching = [rule for rule in rules_in(module).values() if rule.kind is kind and rule.look]
    if graph is not None and matching:
        rules()  # conditions of fixes are declared beside them
    return [
        make_finding(rule, hit, graph)
        for rule in matching
        if rule.look is not None
        for hit in rule.look(*subject)
    ]


@cache
def rules() -> dict[str, Rule]:
    """Rules on networks and files, by id; npuscope.advice.catalogue knows those on runs too."""
    return themed("npuscope.rulebook", THEMES)


def rule(rule_id: str) -> Rule | None:
    return rules().get(rule_id)


@cache
def _refusing() -> dict[str, tuple[Rule, ...]]:
    """Refuse rules by the kind of op: lowering asks for every op of a network."""
    ordered = sorted((rule for rule in rules().values() if rule.check), key=lambda rule: rule.turn)
    kinds = dict.fromkeys(kind for rule in ordered for kind in rule.ops)
    return {kind: tuple(rule for rule in ordered if kind in rule.ops) for kind in kinds}


def refusals(graph: Graph, op: Op, machine: Machine) -> tuple[Refused, ...]:
    """All reasons why the op cannot run on the NPU alone; empty when it can."""
    answers = (rule.refused(graph, op, machine) for rule in _refusing().get(op.kind, ()))
    return tuple(refused for refused in answers if refused is not None)


def lints() -> dict[str, Rule]:
    """Rules on a network."""
    return {name: r for name, r in rules().items() if r.kind is RuleKind.LINT and not r.on_file}


def lint_graph(graph: Graph, machine: Machine) -> tuple[Finding, ...]:
    """What all rules find in a network, the worst first."""
    network_rules = lints().values()
    return gravest_first(
        f for rule in network_rules for f in rule.findings(machine, graph, machine)
    )


def file_lints() -> dict[str, Rule]:
    """Rules on a file."""
    return {name: rule for name, rule in rules().items() if rule.on_file}


def lint_model_file(
    path: str | Path,
    machine: Machine,
    data: bytes | None = None,
    *,
    among: Iterable[Rule] | None = None,
) -> tuple[Finding, ...]:
    """What the rules on files find, or those `among` them; nothing for formats other than ONNX."""
    from npuscope.files.onnx.listed import read_onnx_file

    if Path(path).suffix.lower() != ".onnx":
        return ()
    rows = file_lints().values() if among is None else tuple(among)
    file = read_onnx_file(path, data) if rows else None
    if file is None:
        return ()
    return tuple(finding for rule in rows for finding in rule.findings(machine, file, machine))


def stopping(graph: Graph, machine: Machine, path: str | Path | None = None) -> tuple[Finding, ...]:
    """What makes the vendor's compiler of the machine's generation end without a program."""
    rows = [r for r in rules().values() if r.stops and r.applies_to(machine.generation.name)]
    on_graph = (f for r in rows if not r.on_file for f in r.findings(machine, graph, machine))
    on_file = [row for row in rows if row.on_file]
    return (*on_graph, *(lint_model_file(path, machine, among=on_file) if path else ()))
