"""Clients on served boards: ours passes every check, and one that fails would be told."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from models import dense_net, mobilenet_like, save, to_tflite

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "board_clients.py"
# A stand-in with the face of a vendor's package: it reads one network's outputs wrongly.
STAND_IN = """
import enum

from npuscope.boards.device import CounterOption, Request, parse_descriptor
from npuscope.boards.remote import RemoteBoard


class AiRunner:
    class Mode(enum.IntFlag):
        IO_ONLY = 1
        PER_LAYER = 2
        PER_LAYER_WITH_DATA = 4
        PERF_ONLY = 8

    is_connected = True

    def connect(self, address):
        self._board = RemoteBoard.connect(parse_descriptor(address))
        self._networks = {n.name: n for n in self._board.info().networks}
        self.names = list(self._networks)

    def get_info(self, name):
        return {"n_nodes": self._networks[name].nodes}

    def invoke(self, inputs, name, mode, disable_pb, option):
        layers = bool(mode & (self.Mode.PER_LAYER | self.Mode.PER_LAYER_WITH_DATA))
        found = self._board.run(Request(name, tuple(inputs), layers, CounterOption(option)))
        outputs = [values + (name == "dense") for values in found.outputs]
        return outputs, {"c_nodes": [{} for _ in found.nodes]}

    def disconnect(self):
        self._board.close()
"""


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("board_clients", SCRIPT)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, found)
    spec.loader.exec_module(found)
    # The tests of the verb serve the other boards.
    monkeypatch.setattr(found, "BOARDS", {"simulated": ()})
    monkeypatch.setattr(found, "LINES", {"tcp": ("--tcp", "0")})
    return found


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    mobile = save(tmp_path, "mobile.tflite", to_tflite(mobilenet_like()))
    dense = save(tmp_path, "dense.tflite", to_tflite(dense_net()))
    return ["--source", str(mobile), "--source", str(dense)]


def rows(text: str) -> dict[str, str]:
    """The last word of each line by the others."""
    pairs = (line.rpartition(" ") for line in text.splitlines())
    return {name.strip(): cell for name, _, cell in pairs}


def test_our_client_passes(
    clients: ModuleType, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert clients.main(words) == 0
    found = rows(capsys.readouterr().out)
    checks = [*clients.MODES, *(f"counters {option:#04x}" for option in clients.COUNTED)]
    # Two clients; two networks each, and the first one once more.
    assert [found[check] for check in checks] == ["6/6"] * len(checks)
    assert found["lists all networks"] == "2/2"
    assert found["all"] == "68/68"


def test_a_client_that_fails_is_told(
    clients: ModuleType, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "stm_ai_runner"
    folder.mkdir()
    (folder / "__init__.py").write_text(STAND_IN, encoding="utf-8")
    assert clients.main([str(folder), *words]) == 1
    told = capsys.readouterr().out
    found = rows(told)
    assert (found["IO_ONLY"], found["PERF_ONLY"], found["counters 0x01"]) == ("4/6", "6/6", "-")
    assert "simulated tcp: IO_ONLY, dense: other outputs\n" in told


def test_a_node_without_a_line_is_told(clients: ModuleType) -> None:
    class Silent:
        def run(self, *words: object) -> tuple[list[object], int, list[list[str]]]:
            whole = [*clients.EVERY_NODE, "npu_cycles"]
            return [], 2, [whole, whole[:-1]]

    counted = clients._counted(Silent(), "net", [], 1, clients.COUNTED[1])
    assert counted == "node 1 has no npu_cycles"
