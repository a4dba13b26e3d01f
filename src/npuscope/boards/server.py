"""A virtual board: any device behind the vendor's protocol, for the vendor's own clients.

One object serves one client after the other; where the bytes come from is listeners.py.
"""

from __future__ import annotations

import logging

from npuscope.boards import server_run
from npuscope.boards import server_run as server_memory
from npuscope.boards.device import Device, NetworkDesc
from npuscope.boards.server_run import (
    Gone,
    Idle,
    Interrupted,
    RefusedRequest,
    ServedMemory,
    ServerExchange,
    ServerTiming,
    Stream,
)
from npuscope.boards.wire.describe import (
    model_message,
    sync_message,
    sysinfo_message,
    unique_names,
)
from npuscope.boards.wire.framing import State, WireCommand, WireFault
from npuscope.boards.wire.messages import Req
from npuscope.boards.wire.statistics import config_lines
from npuscope.errors import DeviceError

_LOGGER = logging.getLogger(__name__)
# A message is at most an input with its heads; memory comes in far smaller chunks.
_ROOM_BYTES = 64 << 10


class VirtualBoard:
    """Serves a device; `memory` opens what is mapped to the host's memory commands."""

    def __init__(
        self,
        device: Device,
        *,
        memory: ServedMemory | None = None,
        timing: ServerTiming | None = None,
    ) -> None:
        self._device = device
        self._info = device.info()
        self._memory = memory
        self._timing = timing or ServerTiming()
        names = unique_names(network.name for network in self._info.networks)
        self._networks = dict(zip(names, self._info.networks, strict=True))
        # Made here, so that a network the wire cannot describe is refused before anyone connects.
        self._models = [model_message(network, name) for name, network in self._networks.items()]

    def serve(self, stream: Stream) -> None:
        """Talk to one client until it leaves or says nothing for long."""
        inputs = [desc for network in self._networks.values() for desc in network.inputs]
        exchange = ServerExchange(
            stream, max((desc.size_bytes for desc in inputs), default=0) + _ROOM_BYTES, self._timing
        )
        pending: Req | None = None
        while True:
            try:
                request = exchange.begin(pending) if pending else exchange.request()
                pending = None
                # One request; what the device cannot do is said to the host, not raised.
                try:
                    self._dispatch(exchange, request)
                except RefusedRequest as refusal:
                    _LOGGER.debug("request %d refused: %s", request.reqid, refusal)
                    exchange.refuse(refusal.fault, refusal.param)
                except Idle:
                    # Data or an acknowledgement stayed out: the next request starts afresh.
                    _LOGGER.debug("request %d was not completed by the host", request.reqid)
            except Interrupted as interruption:
                pending = interruption.request
            except (Gone, Idle) as reason:
                _LOGGER.debug("the connection ended: %s", reason)
                return
            except DeviceError as error:
                _LOGGER.debug("input dropped: %s", error)
                if not self._recovered(exchange):
                    return

    def _recovered(self, exchange: ServerExchange) -> bool:
        """Whether the client is still there after its broken input was let through."""
        try:
            exchange.drop_input()
        except Gone:
            return False
        return True

    def _dispatch(self, exchange: ServerExchange, request: Req) -> None:
        match request.cmd:
            case WireCommand.SYNC:
                exchange.reply(State.IDLE, sync_message(memory=self._memory is not None))
            case WireCommand.SYS_INFO:
                exchange.reply(State.IDLE, sysinfo_message(self._info))
            case WireCommand.DISCONNECT:
                _LOGGER.debug("the client disconnected")
            case WireCommand.NETWORK_INFO:
                # The network at an index; hosts count upwards until they are refused.
                index = request.param
                if index >= len(self._models):
                    raise RefusedRequest(f"no network {index}", WireFault.INVALID_PARAM)
                if exchange.takes_statistics:
                    info = self._info
                    for line in config_lines(info.device_id, info.clocks, npu_cache=info.npu_cache):
                        exchange.log(line)
                exchange.reply(State.IDLE, self._models[index])
            case WireCommand.NETWORK_RUN:
                server_run.run(exchange, request, self._device, self._network(request.name))
            case WireCommand.MEMORY_READ:
                server_memory.read(exchange, request, self._memory)
            case WireCommand.MEMORY_WRITE:
                server_memory.write(exchange, request, self._memory)
            case WireCommand.MEMORY_CHECKSUM:
                server_memory.checksum(exchange, request, self._memory)
            case _:
                raise RefusedRequest(f"command {request.cmd} is unknown", WireFault.INVALID_PARAM)

    def _network(self, name: str) -> NetworkDesc:
        """By its name on this board; without one, the first."""
        if not name and self._networks:
            return next(iter(self._networks.values()))
        network = self._networks.get(name)
        if network is None:
            raise RefusedRequest("no such network", WireFault.INVALID_PARAM)
        return network
