"""Files of the family for inspect, disasm and asm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.families.ethos_u.container import VelaFile, arena_bytes
from npuscope.families.ethos_u.executorch import read_program
from npuscope.families.ethos_u.jobs import NpuKernel, NpuTransfer
from npuscope.families.ethos_u.marks import TFLITE, is_executorch, is_program
from npuscope.families.ethos_u.registers import jobs_of
from npuscope.families.ethos_u.stream import MAGIC, CommandStream, read_stream, stream_bytes
from npuscope.families.ethos_u.text import assemble as assemble_stream
from npuscope.families.ethos_u.text import disassemble as stream_lines
from npuscope.families.interface import Assembled, CodePart
from npuscope.identify.sample import FileFacts, Sample

_LISTING = ("NPU_SET_", "NPU_OP_", "CONFIGURATION ")


def is_vela_sample(sample: Sample) -> bool:
    return sample.head[4:8] == TFLITE and is_program(sample.path)


def is_executorch_sample(sample: Sample) -> bool:
    return is_executorch(sample.head) and is_program(sample.path)


def is_stream(sample: Sample) -> bool:
    return sample.head.startswith(MAGIC)


def is_listing(sample: Sample) -> bool:
    lines = (line.strip() for line in sample.text.splitlines())
    first = next((line for line in lines if line and not line.startswith(";")), "")
    return first.startswith(_LISTING)


# --- Inspection ---


def inspect_vela(sample: Sample) -> FileFacts:
    file = read_program(read_bytes(sample.path, MODEL))
    streams = [offload.stream for offload in file.offloads.values()]
    configuration = streams[0].configuration
    rest = [op.kind for op in file.model.ops if op.index not in file.offloads]
    summary: dict[str, Any] = {
        "machine": configuration.machine if configuration else "",
        "architecture": configuration.architecture if configuration else "",
        "command streams": len(streams),
        "kernels": sum(_count(stream, NpuKernel) for stream in streams),
        "transfers": sum(_count(stream, NpuTransfer) for stream in streams),
        "operators on the CPU": len(rest),
        "constant bytes": sum(len(offload.constants) for offload in file.offloads.values()),
        "arena bytes": arena_bytes(file),
    }
    values = {"cpu_operators": rest, "streams": [_stream_values(stream) for stream in streams]}
    return FileFacts(file.version, summary, values)


def inspect_stream(sample: Sample) -> FileFacts:
    stream = read_stream(read_bytes(sample.path, MODEL))
    values = _stream_values(stream)
    return FileFacts("", {key: values[key] for key in ("machine", "commands", "kernels")}, values)


def inspect_listing(sample: Sample) -> FileFacts:
    values = _stream_values(assemble_stream(sample.text))
    return FileFacts("", {key: values[key] for key in ("machine", "commands")}, values)


def _count(stream: CommandStream, kind: type[NpuKernel] | type[NpuTransfer]) -> int:
    return sum(isinstance(job, kind) for job in jobs_of(stream))


def _stream_values(stream: CommandStream) -> dict[str, Any]:
    configuration = stream.configuration
    return {
        "machine": configuration.machine if configuration else "",
        "commands": len(stream.commands()),
        "words": len(stream.words),
        "kernels": _count(stream, NpuKernel),
        "transfers": _count(stream, NpuTransfer),
    }


# --- Text ---


def disassemble(path: Path) -> dict[str, CodePart]:
    data = read_bytes(path, MODEL)
    if data.startswith(MAGIC):
        return {path.name: _part(read_stream(data))}
    file: VelaFile = read_program(data)
    return {
        f"{path.name} {offload.op.origin}": _part(offload.stream)
        for offload in file.offloads.values()
    }


def _part(stream: CommandStream) -> CodePart:
    text: Callable[[], str] = lambda: "\n".join(stream_lines(stream)) + "\n"  # noqa: E731
    return CodePart(text, lambda: _fields(stream), len(stream.words), stream)


def _fields(stream: CommandStream) -> dict[str, Any]:
    commands = [
        {"name": command.name, **(command.form.values(command.payload) if command.form else {})}
        for command in stream.commands()
    ]
    return {**_stream_values(stream), "commands": commands}


def assemble(text: str, output: str, name: str) -> Assembled:
    stream = assemble_stream(text)
    data = stream_bytes(stream)
    return Assembled(data, data, len(stream.commands()), stream)
