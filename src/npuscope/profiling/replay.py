"""A recorded profiler log as a device: it hands out again what a board once answered."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from math import prod
from pathlib import Path

from npuscope.boards.device import (
    Clocks,
    DeviceInfo,
    Inference,
    NetworkDesc,
    Option,
    Request,
    TensorDesc,
)
from npuscope.errors import DeviceError, FileError
from npuscope.profiling.profiler_log import ProfilerLog, read_profiler_log
from npuscope.profiling.recorded import Recorded, recorded_inferences
from npuscope.program.generate_report.lines import Entry, number, whole
from npuscope.text import safe_terminal

_TENSOR = re.compile(
    r"([IO])\[\d{1,4}/\d{1,4}\] '(.{1,200})' *: +(\w{1,20})\[([\d,]{1,100})\], \d{1,18} Bytes"
    r"(?:, QLinear\(([\d.e+-]{1,30}),(-?\d{1,9}),\w{1,20}\))?",
    re.ASCII,
)


_INTEGERS = tuple(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))
_TYPES = (*_INTEGERS, "float16", "float32", "float64", "bool")
_MOST_AXES, _MOST_ELEMENTS = 16, 1 << 32


class LogDevice:
    """Inferences come in the order of the log; it has no tensors, so outputs are empty."""

    source = "log"

    def __init__(self, log: ProfilerLog, where: str = "log", clocks: Clocks | None = None) -> None:
        self.where = where
        self.clocks = clocks or recorded_clocks(log, where)
        self.recorded = tuple(recorded_inferences(log, self.clocks, where))
        self._info = self._described(log)
        self._given: Counter[tuple[str, bool, Option]] = Counter()

    @classmethod
    def open(cls, path: str | Path) -> LogDevice:
        return cls(read_profiler_log(path), str(path))

    def _described(self, log: ProfilerLog) -> DeviceInfo:
        try:
            return _info(log, self.clocks, self.recorded)
        except FileError as error:
            error.where = self.where
            raise

    def info(self) -> DeviceInfo:
        return self._info

    def run(self, request: Request) -> Inference:
        found = self.inferences(request.options, request.network, request.per_layer)
        key = (request.network, request.per_layer, request.options)
        if self._given[key] >= len(found):
            raise self._exhausted(request, len(found))
        self._given[key] += 1
        return found[self._given[key] - 1]

    def inferences(
        self, options: Option, network: str = "", per_layer: bool = True
    ) -> tuple[Inference, ...]:
        """All of one pass. No name means any network; a bare capture knows no names."""
        return tuple(
            row.inference
            for row in self.recorded
            if (row.options, row.per_layer) == (options, per_layer)
            and (row.network == network or not network or not row.network)
        )

    def close(self) -> None:
        """Back to the first inference: nothing is held open."""
        self._given.clear()

    def _exhausted(self, request: Request, given: int) -> DeviceError:
        what = f"options {int(request.options):#x} for '{safe_terminal(request.network)}'"
        if given:
            return DeviceError(
                f"no more inferences with {what}: the log has {given}",
                where=self.where,
                hint="ask for fewer, or record a longer run (npu_profiler --batch)",
            )
        passes = Counter(f"{int(row.options):#x}" for row in self.recorded if row.per_layer)
        held = ", ".join(f"{option} ({n})" for option, n in passes.items()) or "none"
        return DeviceError(
            f"the log has no inference with {what}",
            where=self.where,
            hint=f"per-layer passes in it, with their inferences: {held}",
        )


def recorded_clocks(log: ProfilerLog, where: str = "log") -> Clocks:
    """From the board's configuration lines, else from the tool's header."""
    names = ("mcu", "noc", "npu", "nic")
    header = log.results.clocks
    stated = {name: getattr(header, f"{name}_mhz") for name in names}
    found = {name: log.clock_hz(name) or round(stated[name] * 1e6) for name in names}
    missing = [f"{name}_freq" for name in names if not found[name]]
    if missing:
        raise FileError(
            f"the log does not say {', '.join(missing)}",
            where=where,
            hint="keep the lines s:config:... of the board in the log, or give the clocks",
        )
    return Clocks(*(found[name] for name in names))


def _info(log: ProfilerLog, clocks: Clocks, recorded: tuple[Recorded, ...]) -> DeviceInfo:
    config, header = dict(log.config), _first_values(log.results.report.entries)
    code = config.get("dev_id", "").removeprefix("0x")
    able = header.get("capabilities", "").split(",")
    return DeviceInfo(
        description=header.get("device.desc", "") or "recorded board",
        protocol=header.get("protocol", "") or "profiler log",
        device_id=int(code, 16) if re.fullmatch(r"[0-9a-fA-F]{1,8}", code) else 0,
        clocks=clocks,
        npu_cache=config.get("npu_cache", "") == "1",
        capabilities=tuple(word.strip() for word in able if word.strip()),
        networks=tuple(_networks(log, recorded)),
    )


def _first_values(entries: Iterable[Entry]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entries:
        found.setdefault(entry.key, entry.value)
    return found


def _networks(log: ProfilerLog, recorded: tuple[Recorded, ...]) -> Iterator[NetworkDesc]:
    """One summary a network, in the order in which they ran; none in a bare capture."""
    # A tensor's name with a colon in it keeps its line from being `key : value`.
    lines = sorted((*log.results.report.entries, *log.messages), key=lambda entry: entry.line)
    starts = [i for i, line in enumerate(lines) if _text(line).startswith("I[1/")]
    nodes = {row.network: len(row.inference.nodes) for row in recorded if row.per_layer}
    names = dict.fromkeys(row.network for row in recorded)
    parts = [lines[a:b] for a, b in zip(starts, [*starts[1:], None], strict=False)]
    for name, part in zip_longest(names, parts[: len(names)], fillvalue=()):
        yield _network(str(name), nodes.get(str(name), 0), list(part))


def _network(name: str, nodes: int, lines: list[Entry]) -> NetworkDesc:
    values = _first_values(lines)
    tensors = [hit for line in lines if (hit := _TENSOR.match(_text(line)))]
    return NetworkDesc(
        name=name,
        inputs=tuple(_tensor(hit) for hit in tensors if hit[1] == "I"),
        outputs=tuple(_tensor(hit) for hit in tensors if hit[1] == "O"),
        nodes=nodes or whole(values.get("n_nodes", "")) or 0,
        activations_bytes=whole(values.get("activations", "")) or 0,
        compiled=values.get("compile_datetime", ""),
        runtime=values.get("runtime lib", ""),
        tools=values.get("tools", ""),
    )


def _text(line: Entry) -> str:
    return f"{line.key} : {line.value}" if line.key else line.value


def _tensor(hit: re.Match[str]) -> TensorDesc:
    shape = tuple(int(dim) for dim in hit[4].split(",") if dim)
    if hit[3] not in _TYPES or len(shape) > _MOST_AXES or prod(shape) > _MOST_ELEMENTS:
        sizes = ",".join(map(str, shape))
        raise FileError(
            f"'{safe_terminal(hit[2])}' is said to be {hit[3]}[{sizes}], which no tensor can be",
            hint=f"element types: {', '.join(_TYPES)}",
        )
    return TensorDesc(hit[2], shape, hit[3], number(hit[5] or "") or 0.0, int(hit[6] or 0))
