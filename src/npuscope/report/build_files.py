"""All files of a build: the program, and what the vendor's tools would have written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.machine.mpool_writer import mpool_text
from npuscope.profile.model import Profile
from npuscope.program.app_header import app_config_text
from npuscope.program.c_info import c_info_json, c_info_of
from npuscope.program.code_files import Files, code_files
from npuscope.program.dot import dot_text
from npuscope.program.generate_report.writer import generate_report_text
from npuscope.program.images import pool_images
from npuscope.program.model import Program
from npuscope.program.network_csv import network_csv_text
from npuscope.program.serialize import save
from npuscope.text import c_identifier, file_name
from npuscope.whole_file import write_whole


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
        write_whole(folder / name, data)
    return notes


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


def _json(program: Program, machine: Machine) -> str:
    return json.dumps(c_info_json(c_info_of(program, machine)), indent=1) + "\n"
