"""A network without NPU epochs: compiled, packaged, loaded and run on two processors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from compiler.nets import sample
from firmware.bare import (
    CLEAR,
    COPY,
    M33,
    M55,
    XIP,
    BareM33,
    BareM55,
    Do,
    Install,
    Region,
    build_firmware,
)
from loadable.software_nets import all_software, low_machine, software_program
from npuscope.loadable.build import Package, package
from npuscope.loadable.codes import PackageOptions
from npuscope.program.code_files import code_files, pool_images
from npuscope.program.model import Program, save
from npuscope.sim.memory import to_stored
from npuscope.sim.run import execute

pytest.importorskip("ziglang", reason="ziglang is not installed: nothing can be packaged")
pytest.importorskip("elftools", reason="pyelftools is not installed: nothing can be packaged")

_INNER, _INNER_BYTES = 0x31000000, 0x400000
_EXTERNAL = 0x90100000
_REGIONS = (
    Region(0x34000000, 0x400000),
    Region(_INNER, _INNER_BYTES),
    Region(0x70000000, 0x2000000, writable=False),
    Region(0x90000000, 0x400000),
    Region(0xE000E000, 0x1000),
)
# File, executable RAM.
PLACES = [
    (0x71000000, 0x34100000),
    (0x70ABC120, 0x34234560),
    (0x71234560, 0x343A0040),
]


@dataclass(frozen=True, slots=True)
class Job:
    """A built network, its inputs as they lie in memory, and what must come out."""

    program: Program
    folder: Path
    inputs: dict[int, bytes]
    outputs: dict[int, bytes]


def _address(program: Program, name: str) -> int:
    buffer = program.buffer_map()[name]
    return program.pool(buffer.pool).address + buffer.offset


def _stored(program: Program, values: dict[str, np.ndarray]) -> dict[int, bytes]:
    buffers = program.buffer_map()
    return {
        _address(program, name): to_stored(buffers[name], v).tobytes() for name, v in values.items()
    }


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Job:
    machine = low_machine()
    program = software_program(machine)
    folder = tmp_path_factory.mktemp("software")
    save(program, folder)
    _, files = code_files(program, machine, "network")
    for name, content in (files | pool_images(program)).items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    feeds = sample(all_software(), seed=5)
    results = execute(program, feeds).outputs
    return Job(program, folder, _stored(program, feeds), _stored(program, results))


def made(job: Job, cpu: str, split: bool = False) -> Package:
    return package(job.folder, PackageOptions(cpu=cpu, split=split))


def install(image: bytes, file: int, ram: int, mode: int, params: bytes | None) -> Install:
    apart = {} if params is None else {"params": 0x71800000, "params_limit": len(params)}
    return Install(file, len(image), ram, 0x100000, _EXTERNAL, 0x100000, mode=mode | CLEAR, **apart)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("mode", [COPY, XIP])
@pytest.mark.parametrize("place", PLACES)
def test_cortex_m33_computes_what_the_simulator_computes(job, place, mode, split):
    files = list(made(job, "cortex-m33", split).files.values())
    image, params = files[0], files[1] if split else None
    board = BareM33(build_firmware(M33), _REGIONS)
    file, ram = place
    board.load(file, image)
    if params is not None:
        board.load(0x71800000, params)
    assert board.command(Do.MEMORIES, 1, _INNER, _INNER_BYTES).status == 0
    reply = board.install(install(image, file, ram, mode, params))
    assert reply.status == 0, reply.reason
    for address, data in job.inputs.items():
        board.load(address, data)
    reply = board.command(Do.RUN, 1)
    assert reply.status == 0, reply.reason
    for address, data in job.outputs.items():
        assert board.read(address, len(data)) == data


@pytest.mark.parametrize("mode", [COPY, XIP])
def test_cortex_m55_with_mve_computes_the_same(job, mode):
    image = next(iter(made(job, "cortex-m55").files.values()))
    board = BareM55(build_firmware(M55))
    board.load(0x71000000, image)
    board.command(Do.MEMORIES, 1, _INNER, _INNER_BYTES)
    board.install(install(image, 0x71000000, 0x21000000, mode, None))
    for address, data in job.inputs.items():
        board.load(address, data)
    board.command(Do.RUN, 1)
    for address, data in job.outputs.items():
        board.save(address, len(data))
    replies, saves = board.run()
    assert [reply.status for reply in replies] == [0, 0, 0], [r.reason for r in replies]
    assert saves == list(job.outputs.values())
