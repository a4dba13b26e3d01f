"""All files of a build: the program, and what the vendor's tools would have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuscope.bounded_file import OWN, read_bytes
from npuscope.building import Build, art_profile, scheduled
from npuscope.errors import UsageError
from npuscope.graph.model import Graph
from npuscope.loadable.build_network import firmware_folder
from npuscope.machine.model import Machine
from npuscope.machine.mpool import mpool_text
from npuscope.profiling.model import Profile
from npuscope.profiling.run import estimate
from npuscope.program.c_info import c_info_json, c_info_of
from npuscope.program.code_files import (
    Files,
    app_config_text,
    code_files,
    data_files,
    pool_images,
)
from npuscope.program.dot import dot_text
from npuscope.program.generate_report.summary import BuildCall
from npuscope.program.generate_report.writer import generate_report_text
from npuscope.program.model import Program, save
from npuscope.program.network_c.writer_library import HEADER
from npuscope.program.network_csv import network_csv_text
from npuscope.text import c_identifier, file_name
from npuscope.whole_file import as_file_error, together, write_files


def build_call(network: Build, options: Mapping[str, Any]) -> BuildCall:
    """What was asked for; a profile of the vendor's may name files too."""
    building: Any = options
    level, profile = scheduled(building)["optimization"], art_profile(building)
    stated = (profile.options.csv_file, profile.options.info_file) if profile else ("", "")
    files = (options.get("csv_file"), options.get("output_info_file"))
    csv, info = (str(own or other) for own, other in zip(files, stated, strict=True))
    return BuildCall(
        str(options.get("directory") or ""),
        options.get("name") or "network",
        csv,
        info,
        options.get("application") or "",
        network.machine.generation.default_optimization if level is None else level,
        str(options.get("mpool") or ""),
        tuple(options.get("asked") or ()),
        str(options.get("created") or ""),
    )


def write_network(network: Build, folder: Path, call: BuildCall | None = None) -> tuple[str, ...]:
    """The files of a network that was compiled here."""
    if network.graph is None:
        raise UsageError("this is already a compiled program", hint="give a .tflite or .onnx model")
    profile = estimate(network.program, network.machine, network.graph)
    with as_file_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return write_build(folder, network.program, network.machine, network.graph, profile, call)


def write_build(
    folder: Path,
    program: Program,
    machine: Machine,
    graph: Graph,
    profile: Profile,
    call: BuildCall | None = None,
) -> tuple[str, ...]:
    """All files, or none; returns notes on what could not be written."""
    call = call or BuildCall()
    notes, files = code_files(program, machine, c_identifier(call.name))
    if any(isinstance(text, str) and f'"{HEADER}"' in text for text in files.values()):
        files[HEADER] = read_bytes(firmware_folder() / "kernels" / HEADER, OWN)
    files |= table_files(program, machine, graph, profile, call)
    with together():
        save(program, folder)
        data = {n: text.encode() if isinstance(text, str) else text for n, text in files.items()}
        write_files(folder, data)
    return notes


def table_files(
    program: Program, machine: Machine, graph: Graph, profile: Profile, call: BuildCall
) -> Files:
    """Images, tables and reports, which hold for every program."""
    name = c_identifier(call.name)
    csv = file_name(call.csv) if call.csv else f"{name}.csv"
    info = file_name(call.info) if call.info else "c_info.json"
    c_info = json.dumps(c_info_json(c_info_of(program, machine)), indent=1) + "\n"
    return {
        **pool_images(program),
        **data_files(program, name),
        info if info.endswith(".json") else f"{info}.json": c_info,
        csv if csv.endswith(".csv") else f"{csv}.csv": network_csv_text(program, machine),
        f"{machine.name}.mpool": mpool_text(machine),
        f"{name}_generate_report.txt": generate_report_text(program, machine, graph, profile, call),
        f"{name}.dot": dot_text(program, profile),
        "app_config.h": app_config_text(program, graph, name, call.application),
    }
