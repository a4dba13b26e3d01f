"""From a source and options to what was built: the network, its machine, its program."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, TypedDict

from npuscope.bounded_file import opened
from npuscope.collector import without_collector
from npuscope.compiler.passes.as_int8 import ASSUMED
from npuscope.errors import ModelError, NpuscopeError, UsageError
from npuscope.files.load import load_model
from npuscope.graph.model import Graph
from npuscope.machine.load import (
    DEFAULT_GENERATION,
    DEFAULT_MACHINE,
    generations,
    known_machines,
    load_machine,
    plain_overrides,
)
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import changes_of, with_overrides
from npuscope.profiling.interval import span_text, with_placeholders
from npuscope.profiling.model import Profile, Stop
from npuscope.program.model import Program
from npuscope.shown import ShownRecord, counted, significant
from npuscope.structs import replace
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.machine.vendor_options import ArtProfile

Source = str | Path | Graph
log = logging.getLogger(__name__)
_OWN_RULES = "open"  # a generation that is no compiler of the vendor's
_MOST_IN_SERIES = 4  # convolution accelerators
_OF_PROGRAMS = ("weights", "max_ca_pipe")  # the second is a mapping key of the machine
_NOT_FOR_MODELS = "this is for compiled programs, such as a network.c"


class ReadOptions(TypedDict, total=False):
    """What `lint` asks of a machine, and how the model is read; a test compares it with the option
    table."""

    machine: str | Machine
    machine_file: str | Path | None
    generation: str | None
    art_profile: str | None
    mpool: str | Path | None
    mdesc: str | Path | None
    overrides: Mapping[str, object]
    input_data_type: str | None
    output_data_type: str | None
    inputs_ch_position: str | None
    outputs_ch_position: str | None
    shapes: Mapping[str, Sequence[int]]
    as_int8: bool


class Options(ReadOptions, total=False):
    """Additional options of verbs that compile."""

    epoch_controller: bool | None
    mcu_mhz: float | None
    npu_mhz: float | None
    board: str | None
    flash: str | None
    psram: str | None
    weights: Sequence[str]  # of a compiled program, FILE or FILE@ADDRESS
    optimization: int | None
    ec_single_epoch: bool
    alternative_schedule: bool
    max_ca_pipe: int | None
    relocatable: bool
    no_secure: bool
    compiled_from: str | Path | None  # the model of a compiled program


class Build(ShownRecord, frozen=True):
    """A network with the machine it was compiled for; a foreign program may come without it."""

    graph: Graph | None
    machine: Machine
    program: Program
    stops: tuple[Stop, ...] = ()  # why the vendor's compiler makes no program of the model

    def told(self) -> str:
        return self.program.told()


def read_graph(source: Source, options: ReadOptions) -> Graph:
    """The graph with the data types at its border that the options ask for."""
    to_quantize = bool(options.get("as_int8"))
    if isinstance(source, Graph):
        graph = source
    else:
        graph = load_model(source, options.get("shapes"), to_quantize=to_quantize)
    from npuscope.compiler.passes.border_layout import with_channel_last
    from npuscope.compiler.passes.numbers import with_io_types

    if to_quantize:
        from npuscope.compiler.passes.as_int8 import as_int8

        graph = as_int8(graph)
    assumed = graph.assumed
    graph = with_channel_last(
        graph, bool(options.get("inputs_ch_position")), bool(options.get("outputs_ch_position"))
    )
    graph = with_io_types(graph, options.get("input_data_type"), options.get("output_data_type"))
    graph.assumed = assumed
    return graph


def is_as_filed(options: ReadOptions) -> bool:
    """Whether the network has the inputs and outputs of its file, as an outside runtime sees it."""
    border = ("input_data_type", "output_data_type", "inputs_ch_position", "outputs_ch_position")
    return not any(options.get(name) for name in border)


def refuse_stand_ins(options: ReadOptions, verb: str) -> None:
    """A network with placeholder scales has figures, but no results worth computing."""
    if options.get("as_int8"):
        raise UsageError(
            f"{verb} needs the network's own scales",
            where="--as-int8",
            hint="quantize the model first; estimate, explain and profile take --as-int8",
        )


def is_program(source: Source) -> bool:
    """True for a compiled program, ours or a vendor's; a missing file is treated as a model."""
    if isinstance(source, Graph) or Path(source).suffix.lower() in (".tflite", ".onnx"):
        return False
    if Path(source).is_dir() or Path(source).suffix.lower() in (".c", ".json", ".csv"):
        return True
    from npuscope.program.network_c.read_head import is_network_c

    return Path(source).is_file() and is_network_c(source)


def for_a_loader(source: Source, options: Options) -> Options:
    """The options by which a network becomes an image that is loaded: a model is compiled with
    relative external pools, a program is taken as it was compiled."""
    return options if is_program(source) else {**options, "relocatable": True}


def _compiled(path: str | Path, options: Options) -> Build:
    """A program as it was compiled, on the machine of its generation."""
    from npuscope.program.claims import with_claims
    from npuscope.program.sources import read_program

    program = read_program(path, options.get("weights") or ())
    request: Options = {**options, "generation": options.get("generation") or program.generation}
    if options.get("epoch_controller") is None:
        request["epoch_controller"] = program.epoch_controller
    silicon = _with_vendor_files(request)
    overrides = _overrides(request, placed=True)
    changes = [change.key for change in changes_of(silicon, overrides) if change.remaps]
    remapped = (*_of_compilation(options), *changes)
    if remapped:
        return _recompiled(Path(path), program, remapped, options, request)
    machine = _as_asked(silicon, request, placed=True)
    if not any(epoch.claims.max_cycles for epoch in program.epochs):
        program = with_claims(program, machine)
    return Build(None, machine, program)


def _of_compilation(options: Options) -> tuple[str, ...]:
    """Options that were given and speak of a compilation, not of what was compiled or of the
    machine that it runs on."""
    from npuscope.options.rows import IMAGE, READING, SCHEDULED

    rows = (*SCHEDULED, *READING.options, *IMAGE)
    given = [row for row in rows if row.is_given(options.get(row.name))]
    return tuple(row.long for row in given if row.name not in _OF_PROGRAMS)


def _recompiled(
    path: Path, program: Program, keys: Sequence[str], asked: Options, options: Options
) -> Build:
    """The same model compiled again, for the changed machine or with the options asked for."""
    if asked.get("weights"):
        raise UsageError(
            f"{keys[0]} compiles the model again, which brings its weights", where="--weights"
        )
    model = options.get("compiled_from") or model_beside(path, program)
    if model is None:
        raise needs_model(keys)
    fresh = build(model, options)
    keys_text = ", ".join(keys)
    ours = "" if program.source == "npuscope" else " by npuscope's compiler, not the vendor's,"
    notes = [f"recompiled{ours} from {Path(model).name}: the compiler reads {keys_text}"]
    if program.model_md5 and program.model_md5 != fresh.program.model_md5:
        notes.append(f"{Path(model).name} is not the file that the program names as its model")
    return replace(fresh, program=replace(fresh.program, notes=(*fresh.program.notes, *notes)))


def needs_model(keys: Sequence[str]) -> UsageError:
    """For mapping keys of the machine, and options by their spelling."""
    options = [key for key in keys if key.startswith("--")]
    plural = len(keys) > 1
    kind = "are mapping keys" if plural else "is a mapping key"
    if options:
        kind = "are read by the compiler" if plural else "is read by the compiler"
    return UsageError(
        f"{', '.join(keys)} {kind}: with another value the model has to be compiled again, "
        "and it was not found",
        where=options[0] if options else f"--set {keys[0]}",
        hint="give it with --model (estimate, explain) or as SOURCE, or put it beside the program",
    )


def model_beside(path: Path, program: Program) -> Path | None:
    """The model file whose fingerprint the program names, in its folder or the one above."""
    folder = path if path.is_dir() else path.parent
    if not program.model_md5:
        return None
    files = (f for place in (folder, folder.resolve().parent) for f in sorted(place.iterdir()))
    models = (f for f in files if f.suffix.lower() in (".tflite", ".onnx") and f.is_file())
    return next((f for f in models if md5(f) == program.model_md5), None)


def compiled_copy(program: Program) -> PureWindowsPath:
    """The file that the compiler was given, by the path of the computer that it ran on."""
    return PureWindowsPath(dict(program.compiler_options).get("--onnx-input", ""))


def reference_of(path: Path, program: Program) -> Path | None:
    """The model of a build beside it, else the front end's own copy that the compiler was given."""
    name = compiled_copy(program).name
    copy = (path if path.is_dir() else path.parent) / name if name else None
    return model_beside(path, program) or (copy if copy is not None and copy.is_file() else None)


def refuse_other_model(path: Path, program: Program, model: Path) -> None:
    """The digest that a build states is that of its model, or the file is the compiler's copy."""
    stated = program.model_md5 or dict(program.compiler_options).get("--model-md5", "")
    if not stated:
        from npuscope.program.generate_report.reader import read_generate_report

        report = path.parent / f"{path.stem}_generate_report.txt"
        stated = read_generate_report(report).model_hash if report.is_file() else ""
    digest, copy = md5(model), compiled_copy(program).name
    if stated.removeprefix("0x").lower() in ("", digest) or model.name == copy:
        return
    name = program.model_file or copy or path.name
    raise ModelError(
        f"the build was made from '{safe_terminal(name)}' (md5 {safe_terminal(stated)}), "
        f"not from '{safe_terminal(model.name)}' (md5 {digest})",
        where=safe_terminal(str(path)),
        hint="give the model file that it was compiled from with --model",
    )


def build(source: Source, options: Options) -> Build:
    """Read, compile, and note in the Program which file it came from."""
    with without_collector():
        return _build(source, options)


_ROOMY = 0.8  # of the RAM on chip; scales make or save a few buffers
_NEARLY_FULL = (
    "RAM on chip is nearly full, or exceeded: which activations are in external RAM follows from "
    "the scales, so the quantized network may take more time or less"
)


def _ram_share(program: Program, machine: Machine) -> float:
    """All activations' peak, over the RAM on chip."""
    ram = {pool.name: pool for pool in machine.pools if pool.writable}
    inside = sum(pool.size_bytes for pool in ram.values() if not pool.cacheable)
    used = sum(pool.used_bytes for pool in program.pools if pool.name in ram)
    return used / max(inside, 1)


def _build(source: Source, options: Options) -> Build:
    if not isinstance(source, Graph) and is_program(source):
        return _compiled(source, options)
    # What the user may have mistyped is checked before heavy modules are imported.
    if options.get("weights"):
        raise UsageError("a model brings its weights", where="--weights", hint=_NOT_FOR_MODELS)
    machine = machine_for(options)
    if not isinstance(source, Graph) and Path(source).suffix.lower() == ".txt":
        from npuscope.program.generate_report.floor import refuse_report

        refuse_report(Path(source), machine)
    start = time.perf_counter()
    graph = read_graph(source, options)
    name = safe_terminal(graph.name if isinstance(source, Graph) else Path(source).name)
    log.debug("read %s: %d ops in %.2f s", name, len(graph.ops), time.perf_counter() - start)
    from npuscope.compiler.pipeline import CompileOptions, compile_graph

    start = time.perf_counter()
    asked = scheduled(options)
    program = compile_graph(
        graph,
        machine,
        CompileOptions(
            asked["optimization"], asked["ec_single_epoch"], asked["alternative_schedule"]
        ),
    )
    text = "compiled for %s, generation %s: %d epochs in %.2f s"
    spent = time.perf_counter() - start
    log.debug(text, machine.name, machine.generation.name, len(program.executed), spent)
    if options.get("as_int8") and _ram_share(program, machine) > _ROOMY:
        program = replace(program, notes=(*program.notes, _NEARLY_FULL))
    path = None if isinstance(source, Graph) else Path(source)
    stops = _stops(graph, machine, path)
    if path is None:
        return Build(graph, machine, replace(program, model_file=graph.name), stops)
    program = replace(program, model_file=path.name, model_md5=md5(path))
    return Build(graph, machine, program, stops)


def _stops(graph: Graph, machine: Machine, path: Path | None) -> tuple[Stop, ...]:
    from npuscope.rulebook.registry import stopping

    findings = {finding.rule: finding for finding in stopping(graph, machine, path)}
    return tuple(Stop(finding.rule, finding.title) for finding in findings.values())


def predicted(network: Build) -> Profile:
    """What the timing model gives for a build, with what stops the vendor's compiler."""
    from npuscope.profiling.run import estimate

    return completed(network, estimate(network.program, network.machine, network.graph))


def completed(network: Build, profile: Profile) -> Profile:
    """A run of a build with what only its model tells: what stops the vendor's compiler, and what
    was assumed in its place, which the range has to cover."""
    assumed = network.graph.assumed if network.graph is not None else ()
    profile = replace(profile, stops=network.stops, taken=assumed)
    if network.graph is None or ASSUMED not in assumed or not profile.total_ms:
        return profile
    joins = any(op.kind == "Concat" for op in network.graph.ops)
    low, high = with_placeholders(
        profile.interval_ms, joins or profile.memory.external_ram_bytes > 0
    )
    if high is None:
        return replace(profile, interval_ms=(low, high))
    error = f"{span_text(profile.total_ms, low, high)} with scales that are not known yet"
    return replace(profile, interval_ms=(low, high), model_error=error)


_OTHER_TIME = 0.2  # share of the time from which another generation is worth a line
_READING = (
    *("as_int8", "shapes", "input_data_type", "output_data_type"),
    *("inputs_ch_position", "outputs_ch_position"),
)


def other_generations(
    network: Build, profile: Profile, options: Options, *, every: bool = False
) -> tuple[str, ...]:
    """What other generations of the vendor's compiler make of a model, where that differs: epochs
    on the CPU, whether it fits, a time that is far from this one. Without `every` those alone are
    compiled whose rules keep other ops off the NPU, which takes a millisecond to see."""
    graph, own = network.graph, network.machine
    packaged = own.name in known_machines() and not options.get("machine_file")
    if graph is None or not packaged or isinstance(options.get("machine"), Machine):
        return ()
    found: dict[str, list[str]] = {}
    request = {key: value for key, value in options.items() if key not in _READING}
    for name in generations():
        if name in (own.generation.name, _OWN_RULES):
            continue
        plain: Options = {**request, "generation": name}  # type: ignore[typeddict-item]
        machine = machine_for(plain)
        if not every and _refused(graph, machine) == _refused(graph, own):
            continue
        try:
            other = predicted(build(graph, plain))
        except NpuscopeError as error:
            words = f"refused ({error.message})"
        else:
            words = _difference(profile, other)
        if words:
            found.setdefault(words, []).append(machine.generation.title.partition(" (")[0])
    return tuple(f"with {' and '.join(titles)}: {words}" for words, titles in found.items())


def _refused(graph: Graph, machine: Machine) -> set[str]:
    from npuscope.rulebook.registry import refusals

    return {op.name for op in graph.ops if refusals(graph, op, machine)}


def _difference(here: Profile, there: Profile) -> str:
    away = [p.counts.get("SW", 0) + p.counts.get("HYBRID", 0) for p in (here, there)]
    fits = [p.fit.with_external_ram for p in (here, there)]
    far = abs(there.total_ms - here.total_ms) > _OTHER_TIME * here.total_ms
    parts = []
    if away[0] != away[1]:
        number = counted(away[1], "epoch") if away[1] else "no epoch"
        parts.append(f"{number} off the NPU instead of {away[0] or 'none'}")
    if fits[0] != fits[1]:
        parts.append("it fits" if fits[1] else "it does not fit")
    if (parts or far) and not there.is_lower_bound:
        times = (significant(profile.total_ms, 4) for profile in (there, here))
        parts.append(" instead of ".join(times) + " ms")
    return ", ".join(parts)


def machine_for(options: Options) -> Machine:
    """The machine that the options name, with the pools and values that they ask for."""
    return _as_asked(_with_vendor_files(options), options)


def _as_asked(machine: Machine, options: Options, placed: bool = False) -> Machine:
    """Single values are applied last, so that they override vendor files."""
    machine = with_overrides(machine, _overrides(options, placed))
    if isinstance(options.get("machine"), str | None):
        board = options.get("board") or ""
        machine = replace(machine, assumed=unstated_memories(options), board=board)
    if not options.get("no_secure", False) and not options.get("relocatable", False):
        return machine
    from npuscope.machine.mpool import with_non_secure_pools, with_relative_pools

    if options.get("no_secure", False):
        machine = with_non_secure_pools(machine)
    return with_relative_pools(machine) if options.get("relocatable", False) else machine


def _overrides(options: Options, placed: bool = False) -> Mapping[str, object]:
    """Clocks and set-ups that have options of their own, and single values, which come first."""
    stated: dict[str, object] = {
        "clocks.mcu_mhz": options.get("mcu_mhz"),
        "clocks.npu_mhz": options.get("npu_mhz"),
        "flash": options.get("flash"),
        "psram": options.get("psram"),
        "convacc.max_pipe": _units_in_series(options),
    }
    values = {key: value for key, value in stated.items() if value is not None}
    overrides = {**values, **(options.get("overrides") or {})}
    machine = options.get("machine") or DEFAULT_MACHINE
    if isinstance(machine, Machine):
        return {**_of_board(options, placed), **overrides}
    plain = plain_overrides(overrides, machine, options.get("machine_file"))
    return {**_of_board(options, placed), **plain}


def _units_in_series(options: Options) -> int | None:
    count = options.get("max_ca_pipe")
    if count is not None and not 1 <= count <= _MOST_IN_SERIES:
        raise UsageError(
            f"expected 1 to {_MOST_IN_SERIES} units, found {count}", where="--Omax-ca-pipe"
        )
    return count


def unstated_memories(options: Options) -> tuple[str, ...]:
    """External memories of which no option says how the board drives them."""
    values = options.get("overrides") or {}
    if options.get("board") or options.get("machine_file"):
        return ()
    if any(key.startswith("paths.") for key in values):
        return ()
    return tuple(name for name in ("flash", "psram") if not _is_stated(name, options))


def _is_stated(name: str, options: Options) -> bool:
    """A set-up has an option of its own, and is a value of the machine."""
    return options.get(name) is not None or name in (options.get("overrides") or {})


def _of_board(options: Options, placed: bool) -> Mapping[str, object]:
    """Clocks, roads and pools of the board; pools of a placed program or of a file stay, and so
    does external RAM that the board lacks where an option says how it is driven."""
    name = options.get("board")
    if name is None:
        return {}
    from npuscope.loadable.boards import board_named

    board = board_named(name)
    settings = plain_overrides(board.settings, DEFAULT_MACHINE, None)
    if placed or options.get("mpool") or options.get("art_profile"):
        return settings
    added = not board.psram_kib and _is_stated("psram", options)
    pools = {key: size for key, size in board.pools.items() if size or not added}
    return {**settings, **pools}


def _with_vendor_files(options: Options) -> Machine:
    profile = art_profile(options)
    machine = options.get("machine") or DEFAULT_MACHINE
    if not isinstance(machine, Machine):
        controller = options.get("epoch_controller")
        if controller is None:
            controller = profile.options.epoch_controller if profile else True
        machine = load_machine(
            machine,
            generation=options.get("generation") or DEFAULT_GENERATION,
            epoch_controller=controller,
            machine_file=options.get("machine_file"),
        )
    if profile is not None:
        from npuscope.machine.vendor_options import apply_art_profile

        machine = apply_art_profile(machine, profile)
    mdesc, mpool = options.get("mdesc"), options.get("mpool")
    if mdesc is not None:
        from npuscope.machine.vendor_options import apply_mdesc

        machine = apply_mdesc(machine, mdesc)
    if mpool is None:
        return machine
    from npuscope.machine.mpool import apply_mpool

    return apply_mpool(machine, mpool)


def art_profile(options: ReadOptions) -> ArtProfile | None:
    file = options.get("art_profile")
    if file is None:
        return None
    from npuscope.machine.vendor_options import read_art_profile

    return read_art_profile(file)


def scheduled(options: Options) -> Options:
    """What the compiler is told beside the machine: as asked for, else by the profile. A level of
    None is the generation's own."""
    profile = art_profile(options)
    told = profile.options if profile else None
    level = options.get("optimization")
    return {
        "optimization": told.optimization if told and level is None else level,
        "ec_single_epoch": bool(
            options.get("ec_single_epoch") or (told is not None and told.single_epoch)
        ),
        "alternative_schedule": bool(
            options.get("alternative_schedule") or (told is not None and told.alternative_schedule)
        ),
    }


def md5(path: Path) -> str:
    """The fingerprint that vendor files carry too; nothing depends on it for safety."""
    with opened(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
