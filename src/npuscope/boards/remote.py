"""A board behind a link, as a device."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from npuscope.boards.client import (
    capability_names,
    compare_memory,
    device_line,
    input_bytes,
    memory_checksum,
    network_of,
    receive_nodes,
    receive_output,
    send_inputs,
    start_run,
    total_phases,
)
from npuscope.boards.client_exchange import Exchange, RefusedError, Timeouts
from npuscope.boards.device import (
    BoardClocks,
    Descriptor,
    DeviceInfo,
    Inference,
    NetworkDesc,
    Request,
)
from npuscope.boards.link import BoardLink, open_link
from npuscope.boards.wire.framing import (
    CORE_BITS,
    N6_NPU_CACHE,
    Capability,
    State,
    WireCommand,
    WireFault,
)
from npuscope.boards.wire.messages import (
    ModelInfo,
    Sync,
    SysInfo,
)
from npuscope.boards.wire.statistics import config_clocks, read_config
from npuscope.errors import DeviceError
from npuscope.text import safe_terminal

_MOST_NETWORKS = 256
_LOG = logging.getLogger(__name__)

T = TypeVar("T")


class RemoteBoard:
    """A Device over a link, opened when first needed.

    Whatever goes wrong in a conversation ends it: the link is closed, opened again, brought into
    step and the work is done once more, up to `attempts` times. An inference changes nothing on
    the board, so doing it twice is harmless.
    """

    source = "board"

    def __init__(
        self, open_: Callable[[], BoardLink], timeouts: Timeouts | None = None, *, attempts: int = 3
    ) -> None:
        self._open = open_
        self._timeouts = timeouts or Timeouts()
        self._attempts = attempts
        self._exchange: Exchange | None = None
        self._info: DeviceInfo | None = None
        self._reqid = 0
        self._place = "board"
        self._sync = Sync()
        self._system = SysInfo()

    @classmethod
    def connect(cls, descriptor: Descriptor, timeouts: Timeouts | None = None) -> RemoteBoard:
        board = cls(lambda: open_link(descriptor), timeouts)
        board.info()
        return board

    def info(self) -> DeviceInfo:
        if self._info is None:
            self._info = self._retried(self._discover)
        return self._info

    def run(self, request: Request) -> Inference:
        info = self.info()
        network = self._network(info, request.network)
        if request.per_layer and "PER_LAYER" not in info.capabilities:
            raise DeviceError(
                "the board cannot report single epochs",
                where=self._place,
                hint="its firmware was built without the observer: only whole inferences are timed",
            )
        inputs = input_bytes(network, request.inputs)
        return self._retried(lambda exchange: self._run(exchange, network, request, inputs))

    def close(self) -> None:
        """A later call opens the link again."""
        if self._exchange is not None:
            # Numbers go on over reconnections: a late answer is then never taken for a new one.
            self._reqid = self._exchange.reqid
            self._exchange.link.close()
        self._exchange = None

    def _network(self, info: DeviceInfo, name: str) -> NetworkDesc:
        for network in info.networks:
            if network.name == name:
                return network
        names = ", ".join(safe_terminal(network.name) for network in info.networks) or "none"
        text = f"the board has no network '{safe_terminal(name)}'"
        raise DeviceError(text, where=self._place, hint=f"it has: {names}")

    def _retried(self, act: Callable[[Exchange], T]) -> T:
        for retries in reversed(range(self._attempts)):
            try:
                if self._exchange is None:
                    # A failure on the way in must close the link: nobody else can open a serial
                    # port meanwhile.
                    self._exchange = Exchange(self._open(), self._timeouts, self._reqid)
                    self._place = self._exchange.link.name
                    self._greet(self._exchange)
                return act(self._exchange)
            except DeviceError as error:
                error.where = error.where or self._place
                self.close()
                if not retries:
                    raise
                _LOG.info("trying again: %s", error.message)
        raise DeviceError("no attempts allowed")

    def _greet(self, exchange: Exchange) -> None:
        self._sync = exchange.synchronise()
        major, minor = divmod(self._sync.version, 256)
        if major != 3 or minor > 2:
            raise exchange.failed(
                f"the board uses message version {major}.{minor}, expected 3.0 to 3.2"
            )
        exchange.request(WireCommand.SYS_INFO)
        timeout_s = exchange.timeouts.sys_info_s
        self._system, _ = exchange.answer(SysInfo, timeout_s, "SYS_INFO", State.IDLE)
        if self._system.com_param:
            exchange.use_payload(self._system.com_param)

    def _discover(self, exchange: Exchange) -> DeviceInfo:
        networks, config = self._networks(exchange)
        extra = (*self._system.extra, 0, 0, 0)
        system = BoardClocks(self._system.mcu_hz, self._system.bus_hz, extra[1], extra[2])
        clocks = config_clocks(config) or system
        return DeviceInfo(
            description=device_line(self._system.device_id, clocks, networks),
            protocol=f"msg {self._sync.version >> 8}.{self._sync.version & 0xFF}, "
            f"{exchange.link.name}",
            device_id=self._system.device_id,
            clocks=clocks,
            npu_cache=config.get("npu_cache") == "1" or bool(self._system.cache & N6_NPU_CACHE),
            capabilities=capability_names(self._sync.capability),
            networks=networks,
            core=tuple(name for name, bit in CORE_BITS.items() if self._system.cache & bit),
            link_checked=self._checks_memory(exchange, networks),
        )

    def _networks(self, exchange: Exchange) -> tuple[tuple[NetworkDesc, ...], dict[str, str]]:
        """All networks, and what the board's `s:config` lines tell."""
        networks: list[NetworkDesc] = []
        config: dict[str, str] = {}
        while (model := self._network_info(exchange, len(networks))) is not None:
            networks.append(network_of(model))
            config |= read_config(exchange.take_lines())
            if len(networks) > _MOST_NETWORKS:
                raise exchange.failed(f"the board lists more than {_MOST_NETWORKS} networks")
        return tuple(networks), config

    def _network_info(self, exchange: Exchange, index: int) -> ModelInfo | None:
        exchange.request(WireCommand.NETWORK_INFO, param=index)
        timeout_s = exchange.timeouts.network_info_s
        try:
            model, _ = exchange.answer(ModelInfo, timeout_s, f"network {index}", State.IDLE)
        except RefusedError as error:
            if error.fault != WireFault.INVALID_PARAM:
                raise
            return None
        return model

    def _checks_memory(self, exchange: Exchange, networks: Sequence[NetworkDesc]) -> bool:
        """Can outputs be checked by the board's own checksum of its memory?"""
        outputs = [tensor for network in networks for tensor in network.outputs]
        offered = self._sync.capability & Capability.READ_WRITE
        if not offered or not outputs or not all(tensor.address for tensor in outputs):
            return False
        try:
            memory_checksum(exchange, outputs[0])
        except RefusedError:
            return False
        return True

    def _run(
        self, exchange: Exchange, network: NetworkDesc, request: Request, inputs: Sequence[bytes]
    ) -> Inference:
        exchange.take_lines()
        start_run(exchange, network, request)
        send_inputs(exchange, inputs)
        nodes, total = receive_nodes(exchange)
        outputs = [
            receive_output(exchange, tensor, last=i + 1 == len(network.outputs))
            for i, tensor in enumerate(network.outputs)
        ]
        exchange.end()
        if self._info is not None and self._info.link_checked:
            compare_memory(exchange, network, outputs)
        if request.per_layer and not nodes:
            raise exchange.failed("the board reported no epochs although asked to")
        return Inference(
            tuple(nodes), tuple(outputs), total_phases(total), float(total.duration_ms)
        )
