"""Programs from files: ours, or a vendor compiler's network.c, c_info.json or output folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from npuscope.bounded_file import BLOBS, read_head, read_text
from npuscope.errors import FileError, UsageError
from npuscope.program.c_info.document import read_c_info
from npuscope.program.c_info.names import with_origins
from npuscope.program.c_info.to_program import program_from_c_info
from npuscope.program.csv_program import is_network_csv, program_from_network_csv
from npuscope.program.ec_blob.binary import encrypted_blobs, read_header
from npuscope.program.links import without_surplus
from npuscope.program.model import SCHEMA, Epoch, Pool, Program
from npuscope.program.network_c.read_head import is_network_c, runtime_file
from npuscope.program.network_c.reader import NetworkC, image_sizes, read_network_c
from npuscope.program.network_c.with_blobs import with_blobs
from npuscope.program.quant_json import read_quant_json
from npuscope.program.serialize import load
from npuscope.program.verify import check_foreign
from npuscope.program.weights import WeightSearch, missing_note
from npuscope.structs import replace
from npuscope.text import safe_terminal

_PROGRAM_FILE = "program.json"
_MOST_FILES = 2_000
_HEAD_BYTES = 4096
_SCHEMA = re.compile(rb'"schema":\s*"(npuscope/[\w/.-]+)"')
_HINT = "give a model, a network.c, a c_info.json, or the folder a compiler wrote"


def is_c_source(path: str | Path) -> bool:
    """A .c file, or a network.c that was set aside under another ending (network.c.old)."""
    path = Path(path)
    return path.suffix.lower() == ".c" or (path.is_file() and is_network_c(path))


def read_program(path: str | Path, weights: Sequence[str] = ()) -> Program:
    """`weights` name files of weights that lie elsewhere, each FILE or FILE@ADDRESS."""
    program = _read(Path(path), tuple(weights))
    if program.source != "npuscope":
        check_foreign(program, str(path))
    return program


def _read(path: Path, weights: tuple[str, ...]) -> Program:
    if not path.exists():
        raise FileError("no such file", where=str(path), hint=_HINT)
    if path.is_dir():
        return _from_folder(path, weights)
    if weights and path.suffix.lower() in (".json", ".csv"):
        raise _without_addresses(path)
    if is_c_source(path):
        runtime = runtime_file(read_head(path, _HEAD_BYTES).decode("utf-8", "replace"))
        if runtime:
            what = f"is {safe_terminal(runtime)} of the NPU's runtime and holds no network"
            raise FileError(what, where=str(path), hint=_HINT)
        return read_source(path, files_of(path.parent), weights)
    if path.suffix.lower() == ".json":
        schema = _own_schema(path)
        if path.name == _PROGRAM_FILE or schema == SCHEMA:
            return load(path)
        if schema:
            raise FileError(
                f"this is a result ({schema}), not a program",
                where=str(path),
                hint="compare and gate take results, and profile shows one that it saved",
            )
        return _with_quant(_from_report(path), files_of(path.parent))
    if is_network_csv(path):
        return program_from_network_csv(path)
    raise FileError("is neither a model nor a compiled program", where=str(path), hint=_HINT)


def _own_schema(path: Path) -> str:
    """JSON that our own verbs write states it at the beginning; empty for that of others."""
    schema = _SCHEMA.search(read_head(path, _HEAD_BYTES))
    return schema[1].decode() if schema else ""


def _from_folder(folder: Path, weights: tuple[str, ...]) -> Program:
    """The most complete file wins: our own program, then network.c, then c_info.json."""
    if (folder / _PROGRAM_FILE).is_file() and not weights:
        return load(folder)
    files = files_of(folder)
    sources = [f for f in files if f.suffix == ".c" and is_network_c(f)]
    if sources:
        # The first of the networks in a folder; the others are named.
        first, *others = sorted(sources, key=lambda f: (f.name != "network.c", f.name))
        program = read_source(first, files, weights)
        if not others:
            return program
        names = safe_terminal(", ".join(other.name for other in others))
        note = f"this is {safe_terminal(first.name)}; the folder also holds the network of {names}"
        return replace(program, notes=(*program.notes, note))
    reports = [f for f in files if f.name.endswith("c_info.json")]
    if weights:
        raise _without_addresses(folder)
    if reports:
        return _with_quant(_from_report(reports[0]), files)
    raise FileError("holds no compiled network", where=str(folder), hint=_HINT)


def _without_addresses(path: Path) -> UsageError:
    return UsageError(
        f"only a network.c says where weights lie, and {safe_terminal(path.name)} is none",
        where="--weights",
        hint="give the network.c",
    )


def files_of(folder: Path) -> list[Path]:
    """Files of the folder itself, in order; a folder with very many files is refused."""
    files = sorted(f for f in folder.iterdir() if f.is_file())
    if len(files) > _MOST_FILES:
        raise FileError(f"holds {len(files)} files", where=str(folder), hint="name the file itself")
    return files


def read_source(path: Path, files: list[Path], weights: tuple[str, ...]) -> Program:
    """The network of a network.c, with what lies beside it."""
    reports = _reports(path, files)
    report = _from_report(reports[0]) if reports else None
    network = _read_with_images(path, files, report, weights)
    uses_blobs = any(item.blob for item in network.items)
    headers = _headers(network, files) if uses_blobs else []
    blobs: dict[str, bytes] = {}
    encrypted: frozenset[str] = frozenset()
    for header in headers:
        with _named(header):
            text = read_text(header, BLOBS, errors="replace")
            blobs |= read_header(text)
            encrypted |= encrypted_blobs(text)
    with _named(headers[0] if headers else path):
        program = with_blobs(network, blobs, encrypted)
    if report and not network.report_fits:
        name = safe_terminal(reports[0].name)
        note = f"{name} is not read: it describes another compile, whose buffers lie elsewhere"
        program = replace(program, notes=(*program.notes, note))
    elif report:
        program = _joined(program, report)
    epochs = tuple(
        epoch
        if not epoch.groups
        else replace(epoch, groups=tuple(without_surplus(group) for group in epoch.groups))
        for epoch in program.epochs
    )
    return _with_quant(_with_use(replace(program, epochs=epochs)), files)


def has_c_info(path: Path) -> bool:
    """Whether the description that the compiler writes lies beside a network.c, or in a folder."""
    folder, stem = (path, "network") if path.is_dir() else (path.parent, path.stem)
    return bool(_reports(folder / f"{stem}.c", files_of(folder)))


def _reports(path: Path, files: list[Path]) -> list[Path]:
    """The description under the compiler's name, or else one that the vendor's other tools named
    after the network, the model and what they did."""
    names = (f"{path.stem}_c_info.json", "c_info.json")
    others = [f for f in files if f.match(f"{path.stem}_*_c_info_*.json")]
    return [f for f in files if f.name in names] or others[-1:]


def _headers(network: NetworkC, files: list[Path]) -> list[Path]:
    """The files of blobs that the source includes. Of several networks in a folder each has its
    own, and their blobs may bear the same names."""
    headers = [f for f in files if f.name.endswith("ecblobs.h")]
    included = [f for f in headers if f.name in network.includes]
    return included or headers


def _from_report(path: Path) -> Program:
    with _named(path):
        return program_from_c_info(read_c_info(path))


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors in a file are reported with its name."""
    try:
        yield
    except FileError as error:
        placed = not error.where or error.where.startswith(str(path))
        where = error.where or str(path) if placed else f"{path}, {error.where}"
        raise FileError(error.message, where=where, hint=error.hint) from error


def _read_with_images(
    path: Path, files: list[Path], report: Program | None, weights: tuple[str, ...]
) -> NetworkC:
    # Files whose name begins with that of another network in the folder hold its weights.
    others = {f.stem for f in files if f.suffix == ".c" and f != path and is_network_c(f)}
    others = {stem for stem in others if not path.stem.startswith(stem)}
    starts = tuple(f"{stem}{joint}" for stem in others for joint in "_.")
    own = tuple(f for f in files if not f.name.startswith(starts))
    search = WeightSearch(path, own, weights)
    network = read_network_c(path, search.find, report.buffers if report else ())
    program = network.program
    missing = program.missing_weights()
    if missing:
        note = missing_note(missing, image_sizes(program.buffers))
        network = replace(network, program=replace(program, notes=(*program.notes, note)))
    return network


def _joined(program: Program, report: Program) -> Program:
    """What the report knows beyond the code: claims, names, the model."""
    by_number = {epoch.number: epoch for epoch in report.epochs}
    epochs = [part for epoch in program.epochs for part in _split(epoch, report)]
    return replace(
        program,
        epochs=tuple(_with_report(epoch, by_number.get(epoch.number)) for epoch in epochs),
        model_file=report.model_file,
        model_md5=report.model_md5,
        generation=report.generation,
    )


def _split(epoch: Epoch, report: Program) -> tuple[Epoch, ...]:
    """Where a blob cannot be read the report still tells its epochs apart."""
    if epoch.groups is not None or epoch.number == epoch.last_number:
        return (epoch,)
    inside = (e for e in report.epochs if epoch.number <= e.number <= epoch.last_number)
    return tuple(inside) or (epoch,)


def _with_report(epoch: Epoch, stated: Epoch | None) -> Epoch:
    if stated is None:
        return epoch
    keeps_origin = epoch.origin or not stated.origin
    return replace(
        epoch,
        claims=stated.claims,
        operators=epoch.operators if keeps_origin else stated.operators,
        origin=epoch.origin if keeps_origin else stated.origin,
    )


def _with_use(program: Program) -> Program:
    """Marks of the pools: the highest byte that a buffer of theirs takes."""
    owners = [b for b in program.buffers if not b.view_of]
    addresses = {pool.name: pool.address for pool in program.pools}
    ends = [
        (addresses[b.pool] + b.offset, addresses[b.pool] + b.offset + b.size_bytes) for b in owners
    ]
    return replace(program, pools=tuple(_used(pool, ends) for pool in program.pools))


def _used(pool: Pool, spans: list[tuple[int, int]]) -> Pool:
    low, high = pool.address, pool.address + pool.size_bytes
    marks = [min(end, high) - low for start, end in spans if start < high and end > low]
    return replace(pool, used_bytes=max(marks, default=0))


def _with_quant(program: Program, files: list[Path]) -> Program:
    """Source layers by name, where the front-end's table lies beside."""
    tables = [f for f in files if f.name.endswith("_Q.json")]
    return with_origins(program, read_quant_json(tables[0])) if tables else program
