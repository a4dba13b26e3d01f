"""The models of a live view, and what was built of them: kept, so that a change shows at once.

A build is kept with its work prepared: other clocks and rates time it again in milliseconds. What
the next click may ask for is built beforehand, while nobody waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

from msgspec import Struct

from npuscope.advice.compare.times import EpochTimer, without_waiting
from npuscope.advice.explain import explain
from npuscope.advice.explanation import Explanation
from npuscope.advice.fix.candidates import CUT, Candidate, FixChoice, candidates
from npuscope.advice.fix.program_bench import ProgramBench
from npuscope.advice.fix.run import apply_places
from npuscope.advice.fix.workbench import BenchNetwork, Look
from npuscope.advice.subject import Bench, Layers
from npuscope.building import (
    Build,
    Options,
    build,
    is_program,
    machine_for,
    scheduled,
    unstated_memories,
)
from npuscope.errors import NpuscopeError, UsageError
from npuscope.files.load import load_model
from npuscope.live.model_file import LiveFile, read_file, stamp_of
from npuscope.live.setting import Setting, fixed_options
from npuscope.machine.load import generations, plain_overrides
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import changes_of, with_overrides
from npuscope.profiling.model import Profile
from npuscope.profiling.run import Retimer, retimer
from npuscope.rulebook.finding import Finding
from npuscope.rulebook.registry import lint_model_file
from npuscope.sim.program_work import program_work
from npuscope.structs import replace

log = logging.getLogger(__name__)
# Of the model files behind the builds that are kept; a build takes some times its file.
_MOST_BYTES = 192 << 20
_MOST_BUILDS = 64
_PAUSE_S = 0.15  # the browser draws first
# Options by which the network is not the file's.
_BORDER = ("input_data_type", "output_data_type", "as_int8")
_MOST_AHEAD = 12  # builds made beforehand for one setting


class PreparedModel(Struct, frozen=True, eq=False, dict=True):
    """A file as it stands after its fixes, built and ready to be timed on similar machines."""

    look: Look
    timer: Retimer
    risks: tuple[Finding, ...]  # of the file alone
    found: Explanation  # on the machine without what-if values of timing
    offers: tuple[Candidate, ...]
    layers: Layers  # those that were timed alone
    refused: str = ""  # why the last fix changed nothing

    @cached_property
    def epochs(self) -> EpochTimer:
        """For comparisons; most settings are never compared."""
        build = self.look.build
        return EpochTimer(
            self.timer.work, program_work(build.program, without_waiting(build.machine))
        )


class TimedView(Struct, frozen=True):
    """What a setting takes: every state from the file as it is to the last fix."""

    setting: Setting
    machine: Machine
    states: tuple[PreparedModel, ...]
    profile: Profile

    @property
    def build(self) -> Build:
        build: Build = self.states[-1].look.build
        return replace(build, machine=self.machine)

    @property
    def totals_ms(self) -> tuple[float, ...]:
        """After every fix, on this machine."""
        return tuple(state.timer.estimate(self.machine).total_ms for state in self.states)


class LiveView(TimedView, frozen=True):
    """The same with its reasons and what may be changed."""

    found: Explanation
    offers: tuple[Candidate, ...]


class Library:
    """Answers any number of threads; a build that two of them need is made once."""

    def __init__(self, models: Sequence[Path], pools: Sequence[Path], options: Options) -> None:
        self.models, self.pools = tuple(models), tuple(pools)
        self.options = fixed_options(options)
        self._known: OrderedDict[object, tuple[Future[PreparedModel], int]] = OrderedDict()
        self._machine: dict[object, Machine] = {}
        self._files: dict[Path, LiveFile] = {}
        self._lock = threading.Lock()
        self._quiet = threading.Condition()
        self._busy = 0  # requests that somebody waits for
        self._round = 0  # of work beforehand: a new one ends those before it
        self._beforehand = threading.local()

    def timed(self, setting: Setting) -> TimedView:
        """The time alone, for a comparison; raises what the verbs raise."""
        with self._in_front():
            silicon, machine = self._machines(setting)
            states = self._states(setting, silicon)
            last = states[-1]
            # Where nothing differs, the profile that was made with the build is the one.
            profile = last.found.profile if machine == silicon else last.timer.estimate(machine)
            return TimedView(setting, machine, states, profile)

    def shown(self, setting: Setting) -> LiveView:
        """All of a setting."""
        with self._in_front():
            timed = self.timed(setting)
            last = timed.states[-1]
            explanation, offers = last.found, last.offers
            if timed.profile is not explanation.profile:
                bench = Bench(timed.machine, last.layers)
                explanation = explain(timed.build, timed.profile, last.risks, bench)
                offers = self._offers(last.look, explanation)
            return LiveView(
                setting, timed.machine, timed.states, timed.profile, explanation, offers
            )

    def mpool(self, setting: Setting) -> Path | None:
        return self.pools[setting.pools - 1] if setting.pools else None

    def _machines(self, setting: Setting) -> tuple[Machine, Machine]:
        """Without and with the values that only timing reads."""
        # Read once: files of a vendor may have something to say every time.
        key = (setting.generation, setting.epoch_controller, setting.pools)
        if key not in self._machine:
            self._machine[key] = machine_for(self._build_options(setting))
        plain = self._machine[key]
        machine_file = self.options.get("machine_file")
        values = plain_overrides(setting.parsed(), plain.name, machine_file)
        changes = changes_of(plain, values)
        mapping = {change.key: change.new for change in changes if change.remaps}
        asked: Options = {**self._build_options(setting), "overrides": setting.parsed()}
        machine = replace(with_overrides(plain, values), assumed=unstated_memories(asked))
        return with_overrides(plain, mapping), machine

    def _build_options(self, setting: Setting) -> Options:
        return {
            **self.options,
            "generation": setting.generation,
            "epoch_controller": setting.epoch_controller,
            "optimization": setting.optimization,
            "mpool": self.mpool(setting),
        }

    # --- States of a file: each is the one before with one more fix ---

    def _states(self, setting: Setting, machine: Machine) -> tuple[PreparedModel, ...]:
        path = self.models[setting.model]
        bench = ProgramBench(path, self._bench_options(setting, machine))
        stamp = path.stat()  # a file that was written again is read again
        key = (path, stamp.st_mtime_ns, stamp.st_size, setting.optimization, _Same(machine))
        states = [self._kept((key, ()), stamp.st_size, partial(self._opened, bench))]
        for count, fix in enumerate(setting.fixes, 1):
            before = states[-1]
            make = partial(self._fixed, bench, before, fix)
            states.append(self._kept((key, setting.fixes[:count]), stamp.st_size, make))
        return tuple(states)

    def _bench_options(self, setting: Setting, machine: Machine) -> Options:
        """The machine as a whole stands for all that describes it."""
        descriptions = ("machine_file", "art_profile", "mpool")
        others = {k: v for k, v in self._build_options(setting).items() if k not in descriptions}
        told = scheduled(self._build_options(setting))
        return {**others, "machine": machine, **told}  # type: ignore[typeddict-item]

    def _kept(self, key: object, size: int, make: Callable[[], PreparedModel]) -> PreparedModel:
        with self._lock:
            entry = self._known.get(key)
            future = entry[0] if entry else Future[PreparedModel]()
            self._known[key] = (future, size)
            self._known.move_to_end(key)
            # Beyond the limits what was asked for longest ago goes; the newest stays.
            total = sum(size for _, size in self._known.values())
            while len(self._known) > 1 and (len(self._known) > _MOST_BUILDS or total > _MOST_BYTES):
                total -= self._known.popitem(last=False)[1][1]
        if entry is None:
            try:
                future.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._known.pop(key, None)
                future.set_exception(error)
        elif not future.done():
            with self._aside():
                return future.result()
        return future.result()

    def _opened(self, bench: ProgramBench) -> PreparedModel:
        """The file itself, so that figures are those of the other verbs."""
        file = self._file(bench.path)
        compiled = build(file.network, bench.options)
        program = replace(compiled.program, model_file=bench.path.name, model_md5=file.md5)
        network_build = replace(compiled, program=program)
        changed = any(bench.options.get(name) for name in _BORDER)
        graph = None if changed else network_build.graph
        if graph is None:
            graph = load_model(bench.path, bench.options.get("shapes"))
        self._calm()
        document, data = file.document, file.data
        timer = retimer(network_build.program, network_build.machine, network_build.graph)
        profile = timer.estimate(network_build.machine)
        look = Look(
            document,
            data,
            network_build,
            profile,
            BenchNetwork(graph, network_build.machine, scheduled=scheduled(bench.options)),
            network_build.graph,
        )
        return self._prepared(bench, look, timer)

    def _file(self, path: Path) -> LiveFile:
        """Read once for all machines, and when it was written again."""
        file = self._files.get(path)
        if file is None or file.stamp != stamp_of(path):
            file = self._files[path] = read_file(path, self.options)
        return file

    def _fixed(self, bench: ProgramBench, before: PreparedModel, fix: str) -> PreparedModel:
        candidate = next((one for one in before.offers if fix_name(one) == fix), None)
        if candidate is None:
            return replace(before, refused="not offered for the current network")
        document = before.look.document.copy()
        misfits = apply_places(document, candidate, before.look)
        if len(misfits) == len(candidate.places):
            reasons = (*misfits, *candidate.notes, "no layer can take it")
            return replace(before, refused=reasons[0])
        self._calm()
        try:
            return self._prepared(bench, bench.look(document))
        except NpuscopeError as error:
            return replace(before, refused=f"the edited file cannot be read: {error}")

    def _prepared(
        self, bench: ProgramBench, look: Look, timer: Retimer | None = None
    ) -> PreparedModel:
        self._calm()
        network_build = look.build
        risks = lint_model_file(bench.path, network_build.machine, look.data)
        layers: Layers = {}
        explanation = explain(
            network_build, look.profile, risks, Bench(network_build.machine, layers)
        )
        self._calm()
        timer = timer or retimer(network_build.program, network_build.machine, network_build.graph)
        return PreparedModel(
            look, timer, risks, explanation, self._offers(look, explanation), layers
        )

    def _offers(self, look: Look, explanation: Explanation) -> tuple[Candidate, ...]:
        """Stand-in scales leave nothing to edit."""
        return () if self.options.get("as_int8") else offers_of(look, explanation)

    # --- What the next click may need ---

    def _calm(self) -> None:
        """Between two pieces of work that nobody waits for yet."""
        if getattr(self._beforehand, "here", False):
            with self._quiet:
                self._quiet.wait_for(lambda: not self._busy)

    @contextmanager
    def _in_front(self) -> Iterator[None]:
        with self._quiet:
            self._busy += 1
        try:
            yield
        finally:
            with self._quiet:
                self._busy -= 1
                self._quiet.notify_all()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """While waiting for what another thread builds: it must not wait for us."""
        mine = 0 if getattr(self._beforehand, "here", False) else 1
        with self._quiet:
            self._busy -= mine
            self._quiet.notify_all()
        try:
            yield
        finally:
            with self._quiet:
                self._busy += mine

    def ahead(self, view: LiveView) -> None:
        """Builds for settings one click away, in a thread, until somebody asks for another."""
        with self._quiet:
            self._round += 1
            current = self._round
        steps = list(_neighbours(view))[:_MOST_AHEAD]
        threading.Thread(target=self._build_ahead, args=(steps, current), daemon=True).start()

    def _build_ahead(self, steps: list[Setting], current: int) -> None:
        self._beforehand.here = True
        time.sleep(_PAUSE_S)
        for setting in steps:
            self._calm()
            if self._round != current:
                return
            try:
                self._states(setting, self._machines(setting)[0])
            except (NpuscopeError, OSError) as error:
                log.debug("not built in advance: %s", error)


def offers_of(look: Look, explanation: Explanation) -> tuple[Candidate, ...]:
    """Every edit there is, each once."""
    every = [one for one in candidates(look, explanation, FixChoice(everything=True)) if one.places]
    by_rules = {one.fix.id for one in every if one.rule and one.fix.id != CUT}
    # The cut at the last NPU op is the one that `fix --cut` makes; other fixes that need no
    # finding are left to the rules that found a place.
    offers = [one for one in every if one.rule or one.fix.id not in by_rules]
    cuts = any(one.fix.id == CUT and not one.rule for one in offers)
    return tuple(one for one in offers if not (cuts and one.rule and one.fix.id == CUT))


def fix_name(candidate: Candidate) -> str:
    """RULE/FIX; the rule is empty for what was not found but may be asked for."""
    return f"{candidate.rule}/{candidate.fix.id}"


def _neighbours(view: LiveView) -> Iterator[Setting]:
    setting = view.setting
    for fix in view.setting.fixes:
        yield setting.without_fix(fix)
    for offer in view.offers:
        if fix_name(offer) not in setting.fixes:
            yield setting.with_fix(fix_name(offer))
    now = view.machine.generation.name
    for name in generations():
        if name != now:
            yield replace(setting, generation=name)


class _Same:
    """A machine as a key: equal ones are one; dictionaries inside keep it from being hashed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.machine == self.machine

    def __hash__(self) -> int:
        machine = self.machine
        return hash((machine.name, machine.generation.name, machine.epoch_controller))


def check_models(models: Sequence[Path]) -> None:
    """A live view edits and compiles, so it needs models."""
    for path in models:
        if is_program(path):
            raise UsageError(
                "is a compiled program, not a model",
                where=str(path),
                hint="give the .tflite or .onnx file it was compiled from",
            )
