"""All files of a build: the program, and what the vendor's tools would have written."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from npuscope.errors import TargetError
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.machine.mpool_writer import mpool_text
from npuscope.profile.model import Profile
from npuscope.program.app_header import app_config_text
from npuscope.program.c_info import c_info_json, c_info_of
from npuscope.program.dot import dot_text
from npuscope.program.ec_blob.binary import write_binary
from npuscope.program.ec_blob.header import blob_name, write_header
from npuscope.program.ec_blob.relocatable import binary_of
from npuscope.program.generate_report.writer import generate_report_text
from npuscope.program.images import pool_images
from npuscope.program.model import Program
from npuscope.program.network_c.writer import network_c_text, network_h_text
from npuscope.program.network_csv import network_csv_text
from npuscope.program.serialize import save
from npuscope.text import c_identifier, file_name


@dataclass(frozen=True, slots=True)
class BuildNames:
    """What files are called; the vendor's options of the same names set them."""

    network: str = "network"
    csv: str = ""
    info: str = ""


def write_build(
    folder: Path,
    program: Program,
    machine: Machine,
    graph: Graph,
    profile: Profile,
    names: BuildNames | None = None,
) -> tuple[str, ...]:
    """Fill a folder that is not visible to anyone yet; what could not be written is told."""
    save(program, folder)
    names = names or BuildNames()
    notes, files = code_files(program, machine, c_identifier(names.network))
    files |= table_files(program, machine, graph, profile, names)
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    return notes


Files = dict[str, str | bytes]


def code_files(program: Program, machine: Machine, name: str) -> tuple[tuple[str, ...], Files]:
    """C and blobs. What the blobs cannot hold the CPU starts; what the runtime cannot do at all
    leaves out the C."""
    try:
        blobs = blob_arrays(program, name)
        files: Files = {f"{name}_ecblobs.h": write_header(blobs)} if blobs else {}
        return (), files | _c_files(program, machine, name)
    except TargetError as error:
        note = f"no blobs were written, network.c starts epochs by the CPU: {_told(error)}"
    try:
        return (note,), _c_files(without_blobs(program), machine, name)
    except TargetError as error:
        return (f"no network.c was written: {_told(error)}",), {}


def _c_files(program: Program, machine: Machine, name: str) -> Files:
    return {
        f"{name}.c": network_c_text(program, machine, name),
        f"{name}.h": network_h_text(program, machine, name),
    }


def _told(error: TargetError) -> str:
    return f"{error.where}: {error.message}" if error.where else error.message


def table_files(
    program: Program, machine: Machine, graph: Graph, profile: Profile, names: BuildNames
) -> Files:
    """Images, tables and reports, which hold for every program."""
    name = c_identifier(names.network)
    csv = file_name(names.csv) if names.csv else f"{name}.csv"
    info = file_name(names.info) if names.info else "c_info.json"
    return {
        **pool_images(program),
        info if info.endswith(".json") else f"{info}.json": _json(program, machine),
        csv if csv.endswith(".csv") else f"{csv}.csv": network_csv_text(program, machine),
        f"{machine.name}.mpool": mpool_text(machine),
        f"{name}_generate_report.txt": generate_report_text(program, machine, graph, profile),
        f"{name}.dot": dot_text(program, profile),
        "app_config.h": app_config_text(program, graph, name),
    }


def without_blobs(program: Program) -> Program:
    epochs = tuple(replace(epoch, blob=None) for epoch in program.epochs)
    return replace(program, epoch_controller=False, epochs=epochs)


def blob_arrays(program: Program, name: str) -> dict[str, bytes]:
    """Epoch-controller code by array name; none when the CPU starts the epochs."""
    if not program.epoch_controller:
        return {}
    numbers = sorted({epoch.blob for epoch in program.executed if epoch.blob is not None})
    return {blob_name(name, n): write_binary(binary_of(program, n, name)) for n in numbers}


def _json(program: Program, machine: Machine) -> str:
    return json.dumps(c_info_json(c_info_of(program, machine)), indent=1) + "\n"
