"""A model compiled as a vendor's build was: the same generation, options and memory pools."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from npuscope.advice.compare.fidelity import fidelity
from npuscope.advice.compare.model import Comparison, Side
from npuscope.advice.compare.run import compare
from npuscope.advice.compare.sides import open_side
from npuscope.building import Options, Source, compiled_copy, md5, model_beside, read_graph
from npuscope.compiler.place import place
from npuscope.errors import UsageError
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine, MemoryPool
from npuscope.machine.mpool import as_reached, with_these_pools
from npuscope.machine.vendor_options import VendorOptions, parse_options, with_vendor_options
from npuscope.profiling.model import MemoryUse
from npuscope.profiling.run import estimate
from npuscope.program.model import Buffer, Pool, Program
from npuscope.structs import replace

# Options that name files and folders of the computer that the build was made on.
_FILES = ("--load-mdesc-file", "--load-cdesc-file", "--load-mpool-file", "--json-quant-file")
_USER = "_user_io_"  # pools of buffers that the application gives
_PLACES = (*_FILES, "--onnx-input", "--out-dir-prefix", "--output-info-file", "--csv-file")


class Recipe(Struct, frozen=True):
    """How a build was made, as far as its files say; `notes` tell what had to be assumed."""

    machine: Machine
    optimization: int | None
    notes: tuple[str, ...] = ()
    alternative_schedule: bool = False


def recipe_of(program: Program) -> Recipe:
    """The generation, options and pools of a compiled program."""
    notes: list[str] = []
    machine = load_machine(
        program.machine, generation=program.generation, epoch_controller=program.epoch_controller
    )
    stated = _stated(program)
    if not program.compiler_options:
        notes.append(
            "the build does not state its compiler options: those of its generation are assumed"
        )
    pools = tuple(_as_memory(pool, machine) for pool in _real(program))
    if pools:
        machine = with_these_pools(machine, pools)
    else:
        notes.append("the build does not state its memory pools: those of the machine are assumed")
    # Options come last: without virtual pools, none is made of the build's own either.
    machine = with_vendor_options(machine, stated)
    return Recipe(machine, stated.optimization, tuple(notes), stated.alternative_schedule)


def _stated(program: Program) -> VendorOptions:
    """The options as the compiler's own command line would spell them."""
    if not program.compiler_options:
        virtual = any(pool.virtual for pool in program.pools)
        return VendorOptions(virtual_pools=virtual, epoch_controller=program.epoch_controller)
    words: list[str] = []
    for name, value in program.compiler_options:
        if name in _PLACES or value == "false":
            continue
        words += [name] if value == "true" else [name, value]
    return parse_options(shlex.join(words), program.name)


def _real(program: Program) -> list[Pool]:
    """Pools that are memories: virtual ones are made of others, coefficients of units have no
    address, and what the application gives is not the compiler's to fill."""
    real = (pool for pool in program.pools if not pool.virtual and pool.address)
    return [pool for pool in real if not pool.name.startswith(_USER)]


def _as_memory(pool: Pool, machine: Machine) -> MemoryPool:
    own_pool = next((own for own in machine.pools if own.name == pool.name), None)
    memory = MemoryPool(
        name=pool.name,
        file=pool.file_name or pool.name,
        address=pool.address,
        size_bytes=pool.size_bytes,
        byte_width=pool.byte_width,
        freq_ratio=pool.freq_ratio,
        path="",
        score=0,
        read_power_mw=own_pool.read_power_mw if own_pool else 0.0,
        write_power_mw=own_pool.write_power_mw if own_pool else 0.0,
        writable=pool.writable,
        cacheable=pool.cacheable,
        constants_preferred=own_pool.constants_preferred if own_pool else False,
        relative=pool.relative,
    )
    return as_reached(memory, machine)


def compare_as_built(
    a: Source, b: Source | None, a_options: Options, b_options: Options, noise: float = 0.0
) -> Comparison:
    """A vendor's build beside its model compiled as the build was, and how alike they are. The two
    may come in either order: the build is A of the comparison."""
    if b is not None and _is_model(a) and not _is_model(b):
        a, b, a_options, b_options = b, a, b_options, a_options
    theirs = open_side(a, a_options)
    if theirs.program is None or theirs.program.source == "npuscope":
        raise UsageError(
            f"{theirs.name} is not a build of another compiler",
            where="--as-built",
            hint="give a network.c, a c_info.json or their folder, and the model",
        )
    program = theirs.program
    model = b if b is not None else _model_of(a, program)
    recipe = recipe_of(program)
    ours = as_given(open_side(model, _options(program, recipe, model, b_options)), program)
    assert ours.program is not None  # a model was compiled
    comparison = compare(theirs, ours, noise, same_model=True)
    notes = (*recipe.notes, *_model_notes(program, model))
    memory = theirs.profile.memory, ours.profile.memory
    ram = (_ram(memory[0]), _ram(memory[1]))
    weights = (memory[0].weights_bytes, memory[1].weights_bytes)
    hybrid = recipe.machine.generation.hybrid_moves
    alike = fidelity(program, ours.program, ram, weights, notes, hybrid)
    return replace(comparison, fidelity=alike)


def _is_model(source: Source) -> bool:
    return isinstance(source, Graph) or Path(source).suffix.lower() in (".tflite", ".onnx")


def as_given(ours: Side, theirs: Program) -> Side:
    """Inputs and outputs outside of the pools where the build leaves them to the application."""
    program, machine = ours.program, ours.machine
    # Builds may name such pools and not use them.
    names = {buffer.pool for buffer in theirs.buffers if buffer.pool.startswith(_USER)}
    if program is None or machine is None or not names:
        return ours
    roots = {buffer.name: buffer.view_of or buffer.name for buffer in program.buffers}
    both = (("input", program.inputs), ("output", program.outputs))
    pools = {
        roots[name]: f"{_USER}{kind}_{i}"
        for kind, border in both
        for i, name in enumerate(border)
        if f"{_USER}{kind}_{i}" in names and name in roots
    }
    placed = place(program, machine, pools)
    return replace(ours, program=placed, profile=estimate(placed, machine))


def _ram(memory: MemoryUse) -> int:
    """What the compiler fills: the application's own buffers are left out."""
    users = sum(p.activations_bytes for p in memory.pools if p.name.startswith(_USER))
    return memory.internal_ram_bytes + memory.external_ram_bytes - users


def _model_of(source: Source, program: Program) -> Path:
    path = None if isinstance(source, Graph) else Path(source)
    model = path and (model_beside(path, program) or model_named_by(program, path))
    if model is None:
        raise UsageError(
            "the model of the build was not found beside it",
            where="--as-built",
            hint="give the model as B",
        )
    return model


def model_named_by(program: Program, path: Path) -> Path | None:
    """The model that the compiler was given, by its name, in the build's folder or the one above.

    The front end hands its own copy on, and puts its version behind the name."""
    name = re.sub(r"_OE_\d+(_\d+)*$", "", compiled_copy(program).stem)
    folder = (path if path.is_dir() else path.parent).resolve()
    places = (folder, folder.parent)
    files = (place / f"{name}{ending}" for place in places for ending in (".tflite", ".onnx"))
    return next((file for file in files if file.is_file()), None) if name else None


def _options(program: Program, recipe: Recipe, model: Source, options: Options) -> Options:
    """The options with which our compiler makes what the build was made from."""
    request: Options = {**options, "machine": recipe.machine}
    if request.get("optimization") is None:
        request["optimization"] = recipe.optimization
    if not request.get("alternative_schedule"):
        request["alternative_schedule"] = recipe.alternative_schedule
    graph = read_graph(model, {"shapes": request.get("shapes") or {}})
    borders = (
        ("input_data_type", program.inputs, graph.inputs),
        ("output_data_type", program.outputs, graph.outputs),
    )
    types = {key: _other_type(program, theirs, graph, ours) for key, theirs, ours in borders}
    for key, dtype in types.items():
        if dtype and request.get(key) is None:
            request[key] = dtype  # type: ignore[literal-required]
    return request


def _other_type(
    program: Program, theirs: tuple[str, ...], graph: Graph, ours: tuple[str, ...]
) -> str:
    """The one element type at a border of the build, where the model has another; else ""."""
    buffers = program.buffer_map()
    types = {_type_of(buffers[name]) for name in theirs if name in buffers}
    present = {graph.tensors[name].dtype.value for name in ours}
    same_count = len(theirs) == len(ours) and len(types) == 1
    return types.pop() if same_count and types != present else ""


def _type_of(buffer: Buffer) -> str:
    if buffer.is_float:
        return "float32"
    return {(8, True): "int8", (8, False): "uint8"}.get((buffer.nbits, buffer.signed), "")


def _model_notes(program: Program, model: Source) -> Iterator[str]:
    if not program.model_md5 or isinstance(model, Graph):
        return
    if md5(Path(model)) != program.model_md5:
        yield f"{Path(model).name} is not the file that the build names as its model"
