"""Programs from files: ours, or a vendor compiler's network.c, c_info.json or output folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from npuscope.bounded_file import BLOBS, POOL_IMAGE, read_bytes, read_head, read_text
from npuscope.errors import FileError
from npuscope.program.c_info.document import read_c_info
from npuscope.program.c_info.names import with_origins
from npuscope.program.c_info.to_program import program_from_c_info
from npuscope.program.ec_blob.binary import read_header
from npuscope.program.model import Epoch, Pool, Program
from npuscope.program.network_c.reader import NetworkC, read_network_c
from npuscope.program.network_c.with_blobs import with_blobs
from npuscope.program.quant_json import read_quant_json
from npuscope.program.serialize import load
from npuscope.program.verify import check_foreign

_PROGRAM_FILE = "program.json"
_MOST_FILES = 2_000
_HEAD_BYTES = 4096
_SCHEMA = re.compile(rb'"schema":\s*"(npuscope/[\w/.-]+)"')
_HINT = "give a model, a network.c, a c_info.json, or the folder a compiler wrote"


def read_program(path: str | Path) -> Program:
    program = _read(Path(path))
    if program.source != "npuscope":
        check_foreign(program, str(path))
    return program


def _read(path: Path) -> Program:
    if not path.exists():
        raise FileError("no such file", where=str(path), hint=_HINT)
    if path.is_dir():
        return _from_folder(path)
    if path.suffix.lower() == ".c":
        return _from_c(path, _files(path.parent))
    if path.name == _PROGRAM_FILE:
        return load(path.parent)
    if path.suffix.lower() == ".json":
        _refuse_results(path)
        return _with_quant(program_from_c_info(read_c_info(path)), _files(path.parent))
    raise FileError("is neither a model nor a compiled program", where=str(path), hint=_HINT)


def _refuse_results(path: Path) -> None:
    """JSON that our own verbs write states its schema at the beginning."""
    told = _SCHEMA.search(read_head(path, _HEAD_BYTES))
    if told is not None:
        raise FileError(
            f"this is a result ({told[1].decode()}), not a program",
            where=str(path),
            hint="compare and gate take results, and profile shows one that it saved",
        )


def _from_folder(folder: Path) -> Program:
    """The most complete file wins: our own program, then network.c, then c_info.json."""
    if (folder / _PROGRAM_FILE).is_file():
        return load(folder)
    files = _files(folder)
    sources = [f for f in files if f.suffix == ".c" and _is_network(f)]
    if sources:
        return _from_c(min(sources, key=lambda f: (f.name != "network.c", f.name)), files)
    reports = [f for f in files if f.name.endswith("c_info.json")]
    if reports:
        return _with_quant(program_from_c_info(read_c_info(reports[0])), files)
    raise FileError("holds no compiled network", where=str(folder), hint=_HINT)


def _files(folder: Path) -> list[Path]:
    """Files of the folder itself, in order; a folder with very many files is refused."""
    found = sorted(f for f in folder.iterdir() if f.is_file())
    if len(found) > _MOST_FILES:
        raise FileError(f"holds {len(found)} files", where=str(folder), hint="name the file itself")
    return found


def _is_network(path: Path) -> bool:
    """A network.c names its pools within the first lines."""
    head = read_head(path, 1 << 16)
    return b"LL_ATON" in head and b"global pool" in head


def _from_c(path: Path, files: list[Path]) -> Program:
    names = (f"{path.stem}_c_info.json", "c_info.json")
    reports = [f for f in files if f.name in names]
    report = program_from_c_info(read_c_info(reports[0])) if reports else None
    network = _read_with_images(path, files, report)
    uses_blobs = any(item.blob for item in network.items)
    headers = [f for f in files if uses_blobs and f.name.endswith("ecblobs.h")]
    blobs: dict[str, bytes] = {}
    for header in headers:
        with _named(header):
            blobs |= read_header(read_text(header, BLOBS, errors="replace"))
    with _named(headers[0] if headers else path):
        program = with_blobs(network, blobs)
    program = _joined(program, report) if report else program
    return _with_quant(_with_use(program), files)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors in a file are reported with its name."""
    try:
        yield
    except FileError as error:
        known = not error.where or error.where.startswith(str(path))
        where = error.where or str(path) if known else f"{path}, {error.where}"
        raise FileError(error.message, where=where, hint=error.hint) from error


def _read_with_images(path: Path, files: list[Path], report: Program | None) -> NetworkC:
    """Parameter images are beside the source, named after the pool's file."""

    def find(pools: tuple[Pool, ...]) -> dict[str, bytes]:
        return {p.name: data for p in pools if (data := _image(p, path.stem, files))}

    network = read_network_c(path, find, report.buffers if report else ())
    program = network.program
    parameters = [b for b in program.buffers if b.is_param and b.size_bytes and not b.view_of]
    missing = sorted({b.pool for b in parameters if b.name not in program.constants})
    if missing:
        images = ", ".join(missing)
        note = f"the image of {images} is not in the folder: the program cannot be executed"
        network = replace(network, program=replace(program, notes=(*program.notes, note)))
    return network


def _image(pool: Pool, stem: str, files: Iterable[Path]) -> bytes | None:
    ends = (f".{pool.file_name}.raw", f".{pool.file_name}.bin")
    most = POOL_IMAGE.most_bytes
    found = [f for f in files if f.name.endswith(ends) and 0 < f.stat().st_size <= most]
    found.sort(key=lambda f: (not f.name.startswith(stem), f.name))
    return read_bytes(found[0], POOL_IMAGE) if found and pool.file_name else None


def _joined(program: Program, report: Program) -> Program:
    """What the report knows beyond the code: claims, names, the model."""
    told = {epoch.number: epoch for epoch in report.epochs}
    return replace(
        program,
        epochs=tuple(_with_report(epoch, told.get(epoch.number)) for epoch in program.epochs),
        model_file=report.model_file,
        model_md5=report.model_md5,
        generation=report.generation,
    )


def _with_report(epoch: Epoch, told: Epoch | None) -> Epoch:
    if told is None:
        return epoch
    named = epoch.origin or not told.origin
    return replace(
        epoch,
        claims=told.claims,
        operators=epoch.operators if named else told.operators,
        origin=epoch.origin if named else told.origin,
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
