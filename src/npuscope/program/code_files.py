"""The C side of a build: network.c, its header, and epoch-controller blobs."""

from __future__ import annotations

from dataclasses import replace

from npuscope.errors import TargetError
from npuscope.machine.model import Machine
from npuscope.program.ec_blob.binary import write_binary
from npuscope.program.ec_blob.header import blob_name, write_header
from npuscope.program.ec_blob.relocatable import binary_of
from npuscope.program.model import Program
from npuscope.program.network_c.writer import network_c_text, network_h_text

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


def without_blobs(program: Program) -> Program:
    epochs = tuple(replace(epoch, blob=None) for epoch in program.epochs)
    return replace(program, epoch_controller=False, epochs=epochs)


def blob_arrays(program: Program, name: str) -> dict[str, bytes]:
    """Epoch-controller code by array name; none when the CPU starts the epochs."""
    if not program.epoch_controller:
        return {}
    numbers = sorted({epoch.blob for epoch in program.executed if epoch.blob is not None})
    return {blob_name(name, n): write_binary(binary_of(program, n, name)) for n in numbers}
