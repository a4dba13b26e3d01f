"""The client against the virtual board, and against boards that misbehave."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from boards.pump import FakeDevice, FakeNetwork, Pump, network, virtual_board
from npuscope.boards.client import network_of
from npuscope.boards.client_exchange import Timeouts
from npuscope.boards.device import BoardClocks, CounterOption, Request, parse_descriptor
from npuscope.boards.listeners import PtyListener, TcpListener
from npuscope.boards.remote import RemoteBoard
from npuscope.boards.wire.framing import Revision, State, WireCommand, device_packets, packet
from npuscope.boards.wire.messages import (
    Ack,
    Data,
    Log,
    ModelInfo,
    Operator,
    Payload,
    Req,
    Resp,
    Sync,
    SysInfo,
    Tensor,
    TensorDesc,
    decode,
    encode,
)
from npuscope.errors import DeviceError, UsageError
from npuscope.structs import replace

SMALL = network("small", (2, 3), inputs=2, nodes=3)
FLOATS = network("floats", (50,), "float32", nodes=1)
CLOCKS = BoardClocks(800_000_000, 400_000_000, 1_000_000_000, 900_000_000)


def remote(*networks: FakeNetwork, memory: bool = False) -> tuple[RemoteBoard, FakeDevice]:
    device = FakeDevice(*networks)
    return RemoteBoard(Pump(virtual_board(device, memory=memory)).open), device


def inputs_of(one: FakeNetwork) -> tuple[np.ndarray, ...]:
    draw = np.random.default_rng(3)
    return tuple(
        draw.integers(-50, 50, tensor.shape).astype(tensor.dtype) for tensor in one.desc.inputs
    )


def test_the_board_is_described_as_it_is() -> None:
    board, device = remote(SMALL, FLOATS)
    info = board.info()
    assert info.networks == device.info().networks
    assert info.description == "STM32N6 @800/400MHz"
    assert info.protocol == "msg 3.1, pump"
    assert (info.device_id, info.clocks, info.npu_cache) == (0x486, CLOCKS, True)
    assert info.capabilities == ("IO_ONLY", "PER_LAYER", "PER_LAYER_WITH_DATA")
    assert info.attributes == (
        *("fpu", "core_icache", "core_dcache", "npu_cache=1"),
        *("mcu_freq=800MHz", "noc_freq=400MHz", "npu_freq=1000MHz", "nic_freq=900MHz"),
    )
    assert [tensor.memory for tensor in info.networks[0].inputs] == ["user", "user"]
    assert [tensor.memory for tensor in info.networks[0].outputs] == ["activations"] * 2
    assert not info.link_checked
    board.close()


def test_versions_are_told_as_the_vendors_client_does() -> None:
    model = ModelInfo(
        "net",
        rtid=0x00010104,
        runtime_version=0x0A000000,
        tool_version=0x01000000,
        runtime_desc="atonn-v1.0.0-rc0-16-g0307e413 fd22b7f9",
    )
    found = network_of(model)
    assert found.tools == "ST Neural ART (LL_ATON api) v1.0.0"
    assert found.runtime == (
        "atonn-v1.0.0-rc0-16-g0307e413 (optimized SW lib v10.0.0-fd22b7f9 GCC)"
    )
    ours = network_of(replace(model, runtime_desc="npuscope 0.9 simulated"))
    assert (ours.tools, ours.runtime) == ("npuscope 1.0.0", "npuscope 0.9 simulated")


def test_a_simulated_board_is_called_so() -> None:
    virtual = FakeNetwork(replace(SMALL.desc, runtime="LL_ATON simulated"), SMALL.compute)
    board, _ = remote(virtual)
    assert board.info().description == "STM32N6 @800/400MHz, simulated"
    board.close()


@pytest.mark.parametrize("one", [SMALL, FLOATS], ids=["small", "floats"])
@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize(
    "options", [CounterOption(0), CounterOption.EPOCH_LEN | CounterOption.NPU_CACHE]
)
def test_a_run_gives_what_the_device_gave(
    one: FakeNetwork, memory: bool, options: CounterOption
) -> None:
    board, device = remote(SMALL, FLOATS, memory=memory)
    request = Request(one.desc.name, inputs_of(one), True, options)
    got, wanted = board.run(request), device.run(request)
    assert got.nodes == wanted.nodes
    assert (got.mcu_cycles, got.duration_ms) == (wanted.mcu_cycles, wanted.duration_ms)
    for ours, theirs in zip(got.outputs, wanted.outputs, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
    assert board.info().link_checked is memory
    board.close()


def test_without_layers_there_are_no_nodes() -> None:
    board, _ = remote(SMALL)
    got = board.run(Request("small", inputs_of(SMALL), per_layer=False))
    assert got.nodes == ()
    assert len(got.outputs) == 2
    board.close()


def test_without_inputs_the_board_fills_them_with_one_value() -> None:
    board, _ = remote(SMALL)
    got = board.run(Request("small"))
    np.testing.assert_array_equal(got.outputs[0], np.zeros((2, 3), np.int8))
    board.close()


def test_a_closed_board_opens_again() -> None:
    board, _ = remote(SMALL)
    first = board.run(Request("small"))
    board.close()
    board.close()
    assert board.run(Request("small")).nodes == first.nodes
    board.close()


def test_an_unknown_network_names_those_there_are() -> None:
    board, _ = remote(SMALL, FLOATS)
    with pytest.raises(DeviceError) as caught:
        board.run(Request("large"))
    assert caught.value.message == "the board has no network 'large'"
    assert caught.value.hint == "it has: small, floats"
    board.close()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), "0 inputs given, 'small' has 2"),
        ((np.zeros((2, 3), np.int8),) * 3, "3 inputs given, 'small' has 2"),
        (
            (np.zeros((3, 2), np.int8),) * 2,
            "input 'in0' is int8[3, 2], expected int8[2, 3]",
        ),
        (
            (np.zeros((2, 3), np.int8), np.zeros((2, 3), np.float32)),
            "input 'in1' is float32[2, 3], expected int8[2, 3]",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: tuple[np.ndarray, ...], message: str) -> None:
    board, _ = remote(SMALL)
    with pytest.raises(UsageError) as caught:
        board.run(Request("small", inputs))
    assert caught.value.message == message
    board.close()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            PtyListener,
            marks=pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo terminals"),
        ),
        TcpListener,
    ],
)
def test_over_a_real_terminal_and_a_real_socket(make: Callable[[], object]) -> None:
    device = FakeDevice(SMALL, FLOATS)
    listener = make()
    serving = threading.Thread(
        target=listener.serve,  # type: ignore[attr-defined]
        args=(virtual_board(device, memory=True),),
        daemon=True,
    )
    serving.start()
    address = listener.address  # type: ignore[attr-defined]
    board = RemoteBoard.connect(parse_descriptor(address), replace(Timeouts(), quiet_s=0.01))
    request = Request("floats", inputs_of(FLOATS), True, CounterOption.EPOCH_LEN)
    for _ in range(2):
        got = board.run(request)
        assert got.nodes == device.run(request).nodes
        np.testing.assert_array_equal(got.outputs[0], device.run(request).outputs[0])
    assert board.info().protocol.startswith(f"msg 3.1, {address}")
    board.close()
    listener.close()  # type: ignore[attr-defined]
    serving.join(5.0)
    assert not serving.is_alive()


Answer = tuple[State, Payload]


class ScriptedLink:
    """A board that answers each command with a fixed list; its clock moves with silence only."""

    name = "script"
    hint = "look at the script"

    def __init__(self, script: dict[int, list[Answer]], then: bytes = b"") -> None:
        self.script = script
        self.clock = 0.0
        self.payload_bytes = 32
        self.models: tuple[ModelInfo, ...] = ()
        self.seen: list[tuple[int, Req]] = []
        self.acks = 0
        self.late = 0  # how many requests the answers to all but SYNC lie behind
        self._then = then  # repeated for ever once something was asked
        self._out = bytearray()

    def now(self) -> float:
        return self.clock

    def read(self, n: int, timeout_s: float) -> bytes:
        if not self._out and self.seen:
            self._out += self._then
        if not self._out:
            self.clock += timeout_s
            return b""
        self.clock += 5e-3
        data = bytes(self._out[:n])
        del self._out[:n]
        return data

    def write(self, data: bytes) -> None:
        assert len(data) == self.payload_bytes + 2
        message = data[3 : 3 + data[2]]
        request = decode(Req, message)
        if len(message) <= 4:  # an acknowledgement
            self.acks += 1
        elif request.cmd in self.script and b"\x28" in message:
            self.seen.append((len(data), request))
            self._answer(request)

    def _answer(self, request: Req) -> None:
        answers = self.script[request.cmd]
        if request.cmd == WireCommand.NETWORK_INFO and request.param < len(self.models):
            answers = [(State.IDLE, self.models[request.param])]
        for state, payload in answers:
            reqid = request.reqid - (self.late if request.cmd != WireCommand.SYNC else 0)
            message = encode(Resp.of(reqid, state, payload))
            self._out += device_packets(message, Revision.W2, self.payload_bytes)
            if isinstance(payload, SysInfo) and payload.com_param:
                self.payload_bytes = payload.com_param

    def deliver(self, packets: object, ask: bytes, timeout_s: float) -> int:
        return 0

    def flush(self) -> None:
        self._out.clear()

    def close(self) -> None:
        self.payload_bytes = 32


HELLO: dict[int, list[Answer]] = {
    WireCommand.SYNC: [(State.IDLE, Sync(0x0301, 1, 4))],
    WireCommand.SYS_INFO: [
        (State.IDLE, SysInfo(0x486, 800_000_000, 400_000_000, 1, (0,), (0, 10, 20, 0)))
    ],
    WireCommand.NETWORK_INFO: [(State.ERROR, Ack(4, 4))],
}


def scripted(
    changes: dict[int, list[Answer]], then: bytes = b""
) -> tuple[RemoteBoard, ScriptedLink]:
    link = ScriptedLink({**HELLO, **changes}, then)
    return RemoteBoard(lambda: link), link


def failing(board: RemoteBoard) -> DeviceError:
    with pytest.raises(DeviceError) as caught:
        board.info()
    return caught.value


def test_a_board_without_networks_and_config_lines() -> None:
    board, _ = scripted({})
    info = board.info()
    assert info.networks == ()
    assert info.clocks == BoardClocks(800_000_000, 400_000_000, 10, 20)
    with pytest.raises(DeviceError, match="the board has no network 'x'"):
        board.run(Request("x"))


def test_large_packets_are_used_once_the_board_offers_them() -> None:
    offered = SysInfo(0x486, 1, 1, 0, (4094,), (0, 1, 1, 0))
    board, link = scripted({WireCommand.SYS_INFO: [(State.IDLE, offered)]})
    board.info()
    sizes = [(request.cmd, size) for size, request in link.seen]
    assert sizes == [
        (WireCommand.SYNC, 34),
        (WireCommand.SYS_INFO, 34),
        (WireCommand.NETWORK_INFO, 4096),
    ]


@pytest.mark.parametrize("size", [1, 31, 4095, 1 << 31])
def test_an_impossible_packet_size_is_refused(size: int) -> None:
    board, _ = scripted(
        {WireCommand.SYS_INFO: [(State.IDLE, SysInfo(0x486, 1, 1, 0, (size,), (0,)))]}
    )
    # The script changes its own size too, but nothing more is sent.
    assert failing(board).message == f"the board asks for packets of {size} bytes"


@pytest.mark.parametrize(("version", "text"), [(0x0400, "4.0"), (0x0303, "3.3"), (0x0206, "2.6")])
def test_another_message_version_is_refused(version: int, text: str) -> None:
    board, _ = scripted({WireCommand.SYNC: [(State.IDLE, Sync(version, 1, 4))]})
    error = failing(board)
    assert error.message == f"the board uses message version {text}, expected 3.0 to 3.2"


def test_log_lines_are_acknowledged_and_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[Answer] = [(State.WAITING, Log(1, f"hello \x1b{i}")) for i in range(3)]
    board, link = scripted({WireCommand.SYS_INFO: [*lines, *HELLO[WireCommand.SYS_INFO]]})
    with caplog.at_level(logging.INFO, logger="npuscope"):
        board.info()
    assert link.acks == 3
    assert caplog.messages[0] == "script: hello \\x1b0"


OLD_LINE = device_packets(encode(Resp.of(99, State.WAITING, Log(1, "x"))), Revision.W2)


@pytest.mark.parametrize(
    "noise",
    [b"\x55" * 50, bytes(34), packet(b"\x08" * 32, Revision.W2), OLD_LINE],
    ids=["noise", "zeros", "packets without an end", "old log lines"],
)
def test_a_board_that_never_stops_talking_is_given_up(noise: bytes) -> None:
    board, link = scripted({WireCommand.SYNC: []}, then=noise)
    assert failing(board).message == "waited 10 s for silence, but the board keeps sending"
    assert link.clock < 100.0


def test_endless_log_lines_before_an_answer_are_given_up() -> None:
    lines: list[Answer] = [(State.WAITING, Log(1, "x"))] * 1001
    board, _ = scripted({WireCommand.SYS_INFO: lines})
    assert failing(board).message == "expected SYS_INFO, got 1000 log lines"


def test_a_silent_board_is_given_up_soon() -> None:
    board, link = scripted({WireCommand.SYNC: []})
    error = failing(board)
    expected = "no answer to SYNC (no answer within 0.5 s, expected SYNC)"
    assert error.message == expected
    assert error.where == "script"
    assert error.hint == link.hint
    assert link.clock < 10.0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((State.IDLE, Ack()), "expected SYS_INFO, got Ack"),
        ((State.DONE, HELLO[WireCommand.SYS_INFO][0][1]), "expected SYS_INFO, got it in state 3"),
        (
            (State.ERROR, Ack(7, 10)),
            "the board refused while waiting for SYS_INFO: error 10 (GENERIC, 7)",
        ),
        (
            (State.ERROR, Ack(7, 99)),
            "the board refused while waiting for SYS_INFO: error 99 (unknown, 7)",
        ),
        (
            (State.IDLE, Data(data=bytes(70000))),
            "a message of more than 65536 bytes from the board",
        ),
    ],
)
def test_a_wrong_answer_says_what_was_awaited(answer: Answer, message: str) -> None:
    board, _ = scripted({WireCommand.SYS_INFO: [answer]})
    assert failing(board).message.startswith(message)


def test_an_answer_to_an_older_request_is_not_taken() -> None:
    board, link = scripted({})
    link.late = 1
    assert failing(board).message == "expected SYS_INFO, got an answer to another request"


def test_a_network_that_is_not_initialised_is_no_end_of_the_list() -> None:
    board, _ = scripted({WireCommand.NETWORK_INFO: [(State.ERROR, Ack(4, 10))]})
    assert "while waiting for network 0: error 10" in failing(board).message


BYTES = TensorDesc("t", 0x00040440, 4, 5 << 24 | 1, (4,), flags=2)


@pytest.mark.parametrize(
    "model",
    [
        ModelInfo("n", n_inputs=1),
        ModelInfo("n", n_outputs=1, outputs=(BYTES, BYTES)),
        ModelInfo("n", n_inputs=1, inputs=(replace(BYTES, size=3),)),
        ModelInfo("n", n_inputs=1, inputs=(replace(BYTES, n_dims=2),)),
        ModelInfo("n", n_inputs=1, inputs=(replace(BYTES, format=1),)),
        ModelInfo("n", n_inputs=1, inputs=(replace(BYTES, dims=(1 << 31,) * 1),)),
    ],
)
def test_a_network_that_contradicts_itself_is_refused(model: ModelInfo) -> None:
    board, _ = scripted({WireCommand.NETWORK_INFO: [(State.IDLE, model)]})
    assert failing(board).where == "script"


def test_an_endless_list_of_networks_is_given_up() -> None:
    board, _ = scripted({WireCommand.NETWORK_INFO: [(State.IDLE, ModelInfo("n"))]})
    assert failing(board).message == "the board lists more than 256 networks"


def _output(desc: TensorDesc, data: bytes) -> Tensor:
    return Tensor(desc, Data(size_bytes=len(data), data=data))


MODEL = ModelInfo("n", n_outputs=1, outputs=(BYTES,))
LAST = replace(BYTES, flags=2 | 256)
DONE: list[Answer] = [(State.PROCESSING, Operator(counters=(1, 0, 2, 0, 3, 0)))]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "no answer within 50 s, expected epoch block 0 or the end of the inference"),
        (DONE, "no answer within 50 s, expected output 't'"),
        ([*DONE, (State.DONE, _output(BYTES, b"1234"))], "output 't' came out of order"),
        (
            [*DONE, (State.DONE, _output(LAST, b"123"))],
            "output 't' has 3 bytes, expected 4",
        ),
        (
            [*DONE, (State.DONE, _output(replace(LAST, format=0x00840440), b"1234"))],
            "output 't' is int8[4], expected another form",
        ),
        ([*DONE, (State.DONE, _output(LAST, b"1234")), *DONE], "unsolicited bytes received"),
    ],
)
def test_a_run_that_goes_wrong_says_where(answers: list[Answer], message: str) -> None:
    board, link = scripted({WireCommand.NETWORK_RUN: [(State.WAITING, Ack()), *answers]})
    link.models = (MODEL,)
    with pytest.raises(DeviceError) as caught:
        board.run(Request("n", (), per_layer=False))
    assert caught.value.message == message


def test_a_board_without_observer_runs_as_a_whole_only() -> None:
    whole: list[Answer] = [(State.WAITING, Ack()), *DONE, (State.DONE, _output(LAST, b"1234"))]
    silent: list[Answer] = [(State.IDLE, Sync(0x0301, 0, 4))]
    board, link = scripted({WireCommand.SYNC: silent, WireCommand.NETWORK_RUN: whole})
    link.models = (MODEL,)
    with pytest.raises(DeviceError, match="the board cannot report single epochs"):
        board.run(Request("n", ()))
    got = board.run(Request("n", (), per_layer=False))
    assert got.outputs[0].tobytes() == b"1234"
    assert got.mcu_cycles == (1, 2, 3)


def test_padding_behind_an_output_is_cut_off() -> None:
    padded = replace(LAST, size=6)
    whole: list[Answer] = [(State.WAITING, Ack()), *DONE]
    board, link = scripted(
        {WireCommand.NETWORK_RUN: [*whole, (State.DONE, _output(padded, b"1234\0\0"))]}
    )
    link.models = (MODEL,)
    got = board.run(Request("n", (), per_layer=False))
    assert got.outputs[0].tobytes() == b"1234"


def test_a_run_names_its_mode_and_options() -> None:
    board, link = scripted({WireCommand.NETWORK_RUN: [(State.ERROR, Ack(4, 4))]})
    link.models = (MODEL,)
    with pytest.raises(DeviceError, match="refused while waiting for the start of 'n'"):
        board.run(Request("n", (), True, CounterOption.BUSIF_RW_DATA))
    asked = [request for _, request in link.seen if request.cmd == WireCommand.NETWORK_RUN]
    assert len(asked) == 3
    assert {(request.param, request.opt, request.name) for request in asked} == {(3, 0x801, "n")}
