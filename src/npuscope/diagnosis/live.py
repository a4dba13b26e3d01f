"""A board that is asked: its outputs for the inputs of a request."""

from __future__ import annotations

from npuscope.boards.device import Device
from npuscope.boards.device import Request as BoardRequest
from npuscope.diagnosis.case import TriageRequest, frames_of
from npuscope.diagnosis.fault import Feed
from npuscope.errors import DeviceError, FileError
from npuscope.program.model import Program
from npuscope.program.network_c.writer_buffers import memory_shape
from npuscope.structs import replace


def with_answers(request: TriageRequest, program: Program, device: Device) -> TriageRequest:
    """The request with what the board gives for each of its frames."""
    frames = frames_of(program, request.inputs)
    if not frames:
        raise FileError(
            "the board needs inputs to run", where="--connect", hint="give them with --inputs FILE"
        )
    networks = device.info().networks
    if not networks:
        raise DeviceError("the board has no network")
    buffers = program.buffer_map()
    rows = []
    for frame in frames:
        sent = tuple(
            Feed(buffers[name], frame.inputs[name]).stored().reshape(memory_shape(buffers[name]))
            for name in program.inputs
        )
        inference = device.run(BoardRequest(networks[0].name, sent, per_layer=False))
        rows.append(tuple(values.reshape(-1) for values in inference.outputs))
    return replace(request, answers=tuple(rows))
