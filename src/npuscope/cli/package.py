"""`npuscope package DIR`: a compiled network as an image that a firmware loads at run time."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_options, without_effect
from npuscope.cli.output import deliver, kept_at_interrupt, logged, refuse_overwrite, working
from npuscope.errors import UsageError
from npuscope.loadable.codes import PackageOptions
from npuscope.shown import counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.loadable.build import Package

SCHEMA = "npuscope/package/1"
_DEFAULT_INPUT = "st_ai_output"
_BRIEF, _FULL = 0, 2


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "package")


def run(args: argparse.Namespace) -> int:
    source = _source(args)
    refuse_overwrite(args, str(source))
    options = PackageOptions(
        name=args.name,
        cpu=args.cpu,
        toolchain=args.toolchain,
        split=args.split,
        secure=not args.no_secure,
        c_file=args.gen_c_file,
    )
    with logged(args) as log:
        if args.parse_only:
            lines, result = _parsed(source, options)
        else:
            lines, result = _packaged(args, source, options)
        log.write("\n".join(lines) + "\n")
    deliver(args, "\n".join(lines), result)
    return 0


def _source(args: argparse.Namespace) -> Path:
    if args.source is not None and args.input is not None:
        raise UsageError("the folder is given twice", where=f"--input {safe_terminal(args.input)}")
    return Path(args.source or args.input or _DEFAULT_INPUT)


def _parsed(source: Path, options: PackageOptions) -> tuple[list[str], dict[str, Any]]:
    from npuscope.loadable.build import parse
    from npuscope.report.loadable import boxed

    network, plan = parse(source, options)
    answer = (
        f"{safe_terminal(network.name)} can be packaged: {counted(len(plan.pools), 'pool')}, "
        f"{len(plan.parameters):,} bytes of parameters"
    )
    pools = [
        _pool(p.name, p.flags.pack(), p.flags.text, p.foff, p.dst, p.size_bytes) for p in plan.pools
    ]
    rows: list[tuple[str, ...]] = [
        (
            safe_terminal(p["name"]),
            f"{p['flags']:08x} {p['flags_text']}",
            str(p["foff"]),
            f"{p['dst']:08x}",
            str(p["size"]),
        )
        for p in pools
    ]
    table = boxed(("name", "flags", "foff", "dst", "size"), rows) if rows else []
    result = {
        "schema": SCHEMA,
        "name": network.name,
        "parse_only": True,
        "files": [],
        "params_bytes": len(plan.parameters),
        "pools": pools,
        "notes": list(network.program.notes),
    }
    return [answer, "", *table], result


def _packaged(
    args: argparse.Namespace, source: Path, options: PackageOptions
) -> tuple[list[str], dict[str, Any]]:
    from npuscope import api

    with working(args, "packaging"), kept_at_interrupt("what was compiled so far is kept"):
        made = api.package(source, args.output, options, no_clean=args.no_clean)
    paths = tuple(Path(args.output) / name for name in made.files)
    notes = (*without_effect(args, "package"), *made.notes)
    lines = _lines(made, paths, notes, args.verbosity)
    return lines, _as_json(made, paths, options, notes)


def _lines(
    made: Package, paths: tuple[Path, ...], notes: tuple[str, ...], verbosity: int
) -> list[str]:
    from npuscope.report.loadable import image_text, pool_table, size_lines

    image = made.image
    how = "runs in place (XIP) or from RAM" if not made.obstacle else "runs from RAM only"
    answer = f"{safe_terminal(str(paths[0]))}: {image.size_bytes:,} bytes, {how}"
    if verbosity == _BRIEF:
        return [answer]
    body = [*size_lines(image), "", *pool_table(image)]
    if verbosity == _FULL:
        body = image_text(safe_terminal(str(paths[0])), image).splitlines()
    written = [
        f' creating "{safe_terminal(str(path))}" (size={len(made.files[path.name]):,})'
        for path in paths
    ]
    told = [f"note     {safe_terminal(note)}" for note in notes]
    if made.obstacle:
        told.insert(0, f"no XIP   {made.obstacle}")
    # Indentation and words follow the output of the vendor's packager.
    indented = [f"   {line}".rstrip() for line in (*body, "", "Generating files...", *written)]
    return [answer, "", *indented, *([""] if told else []), *told]


def _as_json(
    made: Package, paths: tuple[Path, ...], options: PackageOptions, notes: tuple[str, ...]
) -> dict[str, Any]:
    image = made.image
    return {
        "schema": SCHEMA,
        "name": made.name,
        "files": [str(path) for path in paths],
        "file_bytes": {str(path): len(made.files[path.name]) for path in paths},
        "xip_bytes": image.xip_bytes,
        "copy_bytes": image.copy_bytes,
        "params_offset": image.header.params_offset,
        "params_bytes": image.context.params_bin_sz,
        "pools": [
            _pool(
                p.name,
                p.descriptor.flags,
                p.flags.text,
                p.descriptor.foff,
                p.descriptor.dst,
                p.descriptor.size,
            )
            for p in image.pools
        ],
        "xip": not made.obstacle,
        "xip_reason": made.obstacle,
        "external_ram_bytes": image.context.ext_ram_sz,
        "cpu": options.cpu,
        "toolchain": made.toolchain,
        "runtime": image.runtime,
        "secure": image.flags.secure,
        "split": options.split,
        "notes": list(notes),
    }


def _pool(name: str, flags: int, text: str, foff: int, dst: int, size: int) -> dict[str, Any]:
    return {
        "name": name,
        "flags": flags,
        "flags_text": text,
        "foff": foff,
        "dst": dst,
        "size": size,
    }
