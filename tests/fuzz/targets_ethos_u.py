"""Files of Ethos-U: containers, command streams and their text; containers of the Edge TPU."""

from __future__ import annotations

from pathlib import Path

from ethos_u.networks import CONFIGURATIONS, Convolution, executorch_program, vela_file
from fuzz.engine import Command, Target
from fuzz.mutate import BINARY, TEXT
from identify.edge_tpu import edge_tpu_file
from npuscope.families.ethos_u.files import disassemble
from npuscope.families.ethos_u.stream import stream_bytes

_READ = ("inspect {file}", "inspect {file} --json", "disasm {file}", "disasm {file} --json")
_RUN = ("estimate {file}", "explain {file}", "validate {file}")
_AGAINST = (
    "validate {file} --model {side}/conv.tflite",
    "validate {file} --model {side}/net.tflite",
)


def _commands(*rows: str) -> tuple[Command, ...]:
    return tuple(Command(words, 10) for words in rows)


def _containers(side: Path) -> list[bytes]:
    return [vela_file(Convolution(one), side).read_bytes() for one in CONFIGURATIONS]


def _listings(side: Path) -> list[bytes]:
    (part,) = disassemble(vela_file(Convolution(CONFIGURATIONS[0]), side)).values()
    return [part.text().encode()]


ETHOS_U: tuple[Target, ...] = (
    Target("vela_tflite", _containers, BINARY, _commands(*_READ, *_RUN, *_AGAINST),
           "net_vela.tflite"),
    Target("executorch", lambda side: [executorch_program(Convolution(CONFIGURATIONS[0]))],
           BINARY, _commands(*_READ, "estimate {file}"), "net.pte"),
    Target("ethos_u_stream",
           lambda side: [stream_bytes(Convolution(one).stream()) for one in CONFIGURATIONS],
           BINARY, _commands(*_READ), "stream.bin"),
    Target("edgetpu_tflite", lambda side: [edge_tpu_file()], BINARY,
           _commands("inspect {file}", "inspect {file} --json", "estimate {file}"),
           "net_edgetpu.tflite"),
    Target("ethos_u_listing", _listings, TEXT,
           _commands("asm {file} -o {out}.bin", "inspect {file}"), "stream.txt"),
)  # fmt: skip
