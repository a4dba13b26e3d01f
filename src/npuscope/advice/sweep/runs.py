"""From a Spec to its runs: every combination once, ordered by model."""

from __future__ import annotations

import hashlib
import itertools
import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.advice.sweep.spec import Choice, Spec, SpecMachine, SpecModel
from npuscope.building import Options, machine_for, scheduled
from npuscope.edits import whole_bytes
from npuscope.errors import FileError, NpuscopeError
from npuscope.families.interface import Family
from npuscope.families.registry import family_of
from npuscope.files.load import model_bytes
from npuscope.machine.load import DEFAULT_MACHINE, UnknownMachine, machine_text
from npuscope.options.rows import MACHINE, READING, SCHEDULED
from npuscope.version import __version__

# --- Identity of a run: model bytes, machine, options, version ---


def run_key(model_sha256: str, machine_text: str, asked: Mapping[str, Any]) -> str:
    """The fingerprint of a run. Names of files and of choices do not count."""
    parts = (model_sha256, machine_text, canonical(asked), __version__)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def versions() -> dict[str, str]:
    """What driver and workers must have in common."""
    major, minor, _ = platform.python_version_tuple()
    return {"npuscope": __version__, "python": f"{major}.{minor}"}


ROW_SCHEMA = "npuscope/sweep-run/1"
# Options as the command line calls them, and the keys of a sweep file that mean the same.
_PLACES = {"--generation": "generations", "--machine": "machines", "--set": "set"}


class ModelFile(Struct, frozen=True):
    """A model by its content. A file that cannot be read has an error instead of hashes."""

    path: Path
    label: str
    shapes: Mapping[str, tuple[int, ...]]
    sha256: str
    md5: str
    error: NpuscopeError | None = None


class Configuration(Struct, frozen=True):
    """All that a run needs beside its model, as plain JSON."""

    names: Mapping[str, Any]  # as reports show it
    asked: Mapping[str, Any]  # of the compiler
    machine: str


class SweepRun(Struct, frozen=True):
    key: str
    model: ModelFile
    configuration: Configuration

    def head(self) -> dict[str, Any]:
        """The first columns of this run's row; the others are what comes out of it."""
        model = self.model
        return {
            "schema": ROW_SCHEMA,
            "key": self.key,
            "model": model.label,
            "model_sha256": model.sha256,
            "model_md5": model.md5,
            "shapes": {name: list(sizes) for name, sizes in model.shapes.items()},
            **self.configuration.names,
        }

    def task(self, *, with_path: bool) -> str:
        """The run as JSON for a worker; one that shares our disk reads the model itself."""
        task: dict[str, Any] = {
            "versions": versions(),
            "head": self.head(),
            "asked": self.configuration.asked,
            "machine": self.configuration.machine,
        }
        if with_path:
            task["path"] = str(self.model.path.absolute())
        return json.dumps(task)

    @property
    def name(self) -> str:
        return f"{self.model.label} ({configuration_name(self.configuration.names)})"


def machines_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """The machines of runs, each once, with their generations of compilers."""
    generations: dict[str, dict[str, None]] = {}
    for row in rows:
        generations.setdefault(str(row["machine"]), {})[str(row["generation"])] = None
    return "; ".join(
        f"{name}, generation {', '.join(known)}" if any(known) else name
        for name, known in generations.items()
    )


def configuration_name(row: Mapping[str, Any]) -> str:
    """What distinguishes this run from others of its model, in a few words."""
    parts = [f"{row['machine']} {row['generation']}".strip()]
    if row["epoch_controller"] is False:
        parts.append("no epoch controller")
    if row["optimization"] is not None:
        parts.append(f"O{row['optimization']}")
    types = (row["input_data_type"], row["output_data_type"])
    if any(types):
        parts.append("/".join(kind or "as is" for kind in types))
    axes = (f"{axis} {row[axis]}" for axis in ("pools", "clocks") if row[axis] != "default")
    return ", ".join((*parts, *axes, *filter(None, [row["set"]])))


def expand(spec: Spec) -> tuple[SweepRun, ...]:
    """All runs of a sweep; equal ones are merged."""
    configurations = tuple(_configurations(spec))
    runs: dict[str, SweepRun] = {}
    for entry in spec.models:
        model = _model_file(entry)
        shapes = {name: list(sizes) for name, sizes in model.shapes.items()}
        # A file without content is known by its name.
        content = model.sha256 or f"unreadable {canonical(model.label)}"
        for configuration in configurations:
            options = {**configuration.asked, "shapes": shapes}
            key = run_key(content, configuration.machine, options)
            runs.setdefault(key, SweepRun(key, model, configuration))
    return tuple(runs.values())


# What a build is told beside its machine, without what every row has a column for.
_COLUMNS = ("optimization", "input_data_type", "output_data_type", "shapes")
_NOT_OF_MACHINES = tuple(
    row.name for row in (*SCHEDULED, *READING.options) if row.name not in _COLUMNS
)


def single_run(entry: SpecModel, options: Mapping[str, Any], title: str) -> SweepRun:
    """One model with the options of a build, as a run with a name of its own."""
    request: Any = options
    family, machine = family_of(options.get("machine")), options.get("machine")
    borders = {key: options.get(key) for key in ("input_data_type", "output_data_type")}
    told = {**options, **(scheduled(request) if family.house_machines else {})}
    levels = {"optimization": told.get("optimization"), **borders}
    more = {name: told[name] for name in _NOT_OF_MACHINES if told.get(name)}
    names: dict[str, Any] = {"machine": machine or DEFAULT_MACHINE, "pools": "default"}
    names |= {"clocks": "default", "set": title}
    if family.house_machines:
        target = machine_for(request)
        clocks, generation = target.clocks, target.generation.name
        names |= {"generation": generation, "epoch_controller": target.epoch_controller}
        names |= {"mcu_mhz": clocks.mcu_mhz, "npu_mhz": clocks.npu_mhz}
        text = machine_text(target)
    else:
        names |= {"generation": "", "epoch_controller": None, "mcu_mhz": None, "npu_mhz": None}
        plain = {key: value for key, value in options.items() if value is not None}
        text = canonical({"family": family.name, "options": {**plain, "machine": machine}})
    asked = {**levels, **more, "findings": False}
    configuration = Configuration({**names, **levels}, asked, text)
    model = _model_file(entry)
    key = run_key(model.sha256, text, {**configuration.asked, "shapes": {**entry.shapes}})
    return SweepRun(key, model, configuration)


def _model_file(entry: SpecModel) -> ModelFile:
    try:
        data, stored = whole_bytes(entry.path), model_bytes(entry.path)
    except NpuscopeError as error:
        error.where = entry.label
        return ModelFile(entry.path, entry.label, entry.shapes, "", "", error)
    sha256 = hashlib.sha256(data).hexdigest()
    md5 = hashlib.md5(stored, usedforsecurity=False).hexdigest()
    return ModelFile(entry.path, entry.label, entry.shapes, sha256, md5)


def _configurations(spec: Spec) -> Iterator[Configuration]:
    machines = itertools.product(
        spec.machines, spec.generations, spec.epoch_controller, spec.pools, spec.clocks, spec.sets
    )
    machine_choices = [_machine(spec, *choices) for choices in machines]
    levels = itertools.product(spec.optimization, spec.input_data_type, spec.output_data_type)
    for level, input_type, output_type in levels:
        options = {
            "optimization": level,
            "input_data_type": input_type,
            "output_data_type": output_type,
        }
        for names, text in machine_choices:
            wish = {**options, "findings": spec.findings}
            yield Configuration({**names, **options}, wish, text)


def _machine(
    spec: Spec,
    machine: SpecMachine,
    generation: str,
    epoch_controller: bool | None,
    pools: Choice,
    clocks: Choice,
    what_if: Choice,
) -> tuple[dict[str, Any], str]:
    """The names of these choices, and the machine that they give."""
    overrides = {**pools.overrides, **clocks.overrides, **what_if.overrides}
    family = family_of(machine.name)
    try:
        own = {row.name: row for row in family.options}
        family.check({"machine": machine.name, **what_if.options}, {"machine": MACHINE[0], **own})
    except NpuscopeError as error:
        raise _in_spec(error, spec) from None
    if not family.house_machines:
        return _other_machine(family, machine, pools, clocks, what_if, overrides)
    options: Options = {
        "machine": machine.name,
        "machine_file": machine.file,
        "generation": generation,
        "epoch_controller": epoch_controller,
        "overrides": overrides,
        "mpool": pools.mpool,
    }
    try:
        target = machine_for(options)
    except NpuscopeError as error:
        raise _in_spec(error, spec) from None
    names = {
        "machine": machine.name,
        "generation": generation,
        "epoch_controller": target.epoch_controller,
        "pools": pools.name,
        "clocks": clocks.name,
        "set": what_if.name,
        "mcu_mhz": target.clocks.mcu_mhz,
        "npu_mhz": target.clocks.npu_mhz,
    }
    return names, machine_text(target)


def _other_machine(
    family: Family,
    machine: SpecMachine,
    pools: Choice,
    clocks: Choice,
    what_if: Choice,
    overrides: Mapping[str, object],
) -> tuple[dict[str, Any], str]:
    """Of a family without generations; the machine is then what the family compiles for."""
    options = {"machine": machine.name, "overrides": dict(overrides), **what_if.options}
    names = {
        "machine": machine.name,
        "generation": "",
        "epoch_controller": None,
        "pools": pools.name,
        "clocks": clocks.name,
        "set": what_if.name,
        "mcu_mhz": None,
        "npu_mhz": None,
    }
    return names, canonical({"family": family.name, "options": options})


def _in_spec(error: NpuscopeError, spec: Spec) -> FileError:
    """The machine says what is wrong in the words of the command line."""
    option, _, rest = error.where.partition(" ")
    where = " ".join(part for part in (_PLACES.get(option, option), rest) if part)
    hint = error.hint
    if isinstance(error, UnknownMachine):
        hint = f"known: {', '.join(error.known)}; machine_files adds others"
    return FileError(error.message, where=f"{spec.file}: {where}", hint=hint)
