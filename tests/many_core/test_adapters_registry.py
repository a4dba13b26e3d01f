"""The adapters as a whole: which one takes a file, those of others, files that are broken."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from many_core import samples
from many_core.adapter_samples import (
    ETDUMP_RUNS,
    SUMMARY,
    etdump,
    newer_events,
    older_events,
    trace_text,
)
from npuscope.errors import FileError, NpuscopeError, UsageError
from npuscope.families.many_core.adapters import registry
from npuscope.families.many_core.adapters.model import Sheet
from npuscope.families.many_core.adapters.profile import profile_of
from npuscope.families.many_core.adapters.registry import (
    ADAPTERS,
    Adapter,
    find_adapter,
    read_sheet,
)
from npuscope.families.many_core.adapters.tables import sheet_tables, sheet_trace
from npuscope.families.many_core.container import write_program
from npuscope.profiling.model import Provenance

NODE = {
    "cat": "Node", "ph": "X", "pid": 1, "tid": 1, "ts": 2, "dur": 3, "name": "conv_kernel_time",
    "args": {"op_name": "Conv", "output_size": "12", "output_type_shape": [{"float": [3]}]},
}  # fmt: skip
RUN = {**NODE, "cat": "Session", "name": "model_run", "ts": 1, "dur": 9}
FILES = {
    "qaic-text": SUMMARY.encode(),
    "qaic-trace": trace_text(newer_events()).encode(),
    "qaic-trace older": trace_text(older_events(), bare=True).encode(),
    "onnxruntime": json.dumps([NODE, RUN]).encode(),
    "etdump": etdump(ETDUMP_RUNS, prefixed=True),
    "qaic-desc": write_program(samples.program()),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_taken_by_its_adapter(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(FILES[name])
    assert find_adapter(path).name == name.split()[0]
    assert read_sheet(path).ops


def test_every_adapter_is_tried_on_an_unknown_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\x00\x01")
    with pytest.raises(FileError) as caught:
        find_adapter(path)
    assert all(adapter.title in caught.value.hint for adapter in ADAPTERS.values())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read: No such file or directory"):
        find_adapter(tmp_path / "none")


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no adapter is called 'xyz'"):
        read_sheet(tmp_path / "x", adapter="xyz")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points of an installed package."""
    found: list[EntryPoint] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: found)
    registry.all_adapters.cache_clear()
    yield found
    registry.all_adapters.cache_clear()


OTHER = Adapter(
    "other",
    "file of another tool",
    lambda source: 100 if source.head.startswith(b"other") else 0,
    lambda source, companions: Sheet("other", source.path.name, "", Provenance.LOG, ()),
)
AGAIN = Adapter("osb", "twice", OTHER.probe, OTHER.read)


def entry(name: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{name}", registry.GROUP)


def test_another_package_adds_an_adapter(
    tmp_path: Path, plugins: list[EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EntryPoint, "load", lambda self: OTHER)
    plugins.append(entry("OTHER"))
    path = tmp_path / "file"
    path.write_bytes(b"other!")
    assert read_sheet(path).adapter == "other"


def test_two_of_one_name_are_an_error(
    plugins: list[EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EntryPoint, "load", lambda self: AGAIN)
    plugins.append(entry("AGAIN"))
    with pytest.raises(UsageError, match="two adapters are called 'osb'"):
        registry.all_adapters()


def test_a_package_that_does_not_load_is_named(plugins: list[EntryPoint]) -> None:
    plugins.append(EntryPoint("bad", "no_such_module_at_all:x", registry.GROUP))
    with pytest.raises(UsageError) as caught:
        registry.all_adapters()
    assert caught.value.where == "entry point no_such_module_at_all:x"


def test_what_is_no_adapter_is_refused(
    plugins: list[EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EntryPoint, "load", lambda self: 3)
    plugins.append(entry("three"))
    with pytest.raises(UsageError, match="this is not an Adapter"):
        registry.all_adapters()


def corrupted(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    way = rng.randrange(4)
    if way == 0:
        return bytes(made[: rng.randrange(len(made))])
    for _ in range(rng.choice((1, 3, 30))):
        at = rng.randrange(len(made))
        if way == 1:
            made[at] = rng.randrange(256)
        elif way == 2:
            made[at : at + 4] = rng.choice((b"\xff" * 4, bytes(4), b"9999", b"-1e9"))
        else:
            cut = rng.randrange(at, min(len(made), at + 40) + 1)
            made[at:cut] = made[at:cut] * rng.randrange(3)
            made = made or bytearray(b" ")
    return bytes(made)


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_an_error_or_a_sheet(tmp_path: Path, name: str) -> None:
    """Whatever is read can be printed; whatever cannot be read says why."""
    rng = random.Random(name)
    path = tmp_path / "file"
    outcomes = {True: 0, False: 0}
    for _ in range(150):
        path.write_bytes(corrupted(FILES[name], rng))
        try:
            sheet = read_sheet(path, adapter=name.split()[0])
            if sheet.timed:
                sheet_tables(sheet)
                profile_of(sheet)
            if sheet.timeline is not None:
                sheet_trace(sheet)
            outcomes[True] += 1
        except NpuscopeError as error:
            assert error.message
            assert error.exit_code in (2, 3)
            outcomes[False] += 1
    assert outcomes[False] > 0
