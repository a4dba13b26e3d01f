"""The emulated board's serial line, passed on to whoever is connected outside."""

from __future__ import annotations

from npuscope.board.emulated.board import EmulatedMachine
from npuscope.board.server_exchange import Stream

_CHUNK = 4096
_LOOK_S = 0.05


class Bridge:
    """Bytes both ways, unchanged: the firmware itself answers.

    The client lives in the host's time. While the board works, its bytes are held back; while the
    board waits, the client's silence passes for the board too, in steps. So the moments at which
    the board finds its bytes are those of the conversation, whatever the host does besides.
    """

    def __init__(self, machine: EmulatedMachine) -> None:
        self._machine = machine

    def serve(self, stream: Stream) -> None:
        """Until the client is gone, which the stream tells."""
        asked = b""
        while True:
            waits = self._machine.go_on(_LOOK_S, to_wait=True)
            fault = self._machine.fault()
            if fault is not None:
                raise fault
            self._answer(stream)
            asked = asked or stream.read(_CHUNK, _LOOK_S if waits else 0.0)
            if waits and asked:
                self._machine.say(asked)
                asked = b""
            elif waits:
                self._machine.go_on(_LOOK_S)

    def _answer(self, stream: Stream) -> None:
        while said := self._machine.heard(_CHUNK):
            stream.write(said)
