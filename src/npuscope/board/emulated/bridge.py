"""The emulated board's serial line, passed on to whoever is connected outside."""

from __future__ import annotations

from npuscope.board.link import Link
from npuscope.board.server_exchange import Stream

_CHUNK = 4096
# Each side is looked at in turn; a packet waits this long at most.
_LOOK_S = 0.001


class Bridge:
    """Bytes both ways, unchanged: the firmware itself answers."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def serve(self, stream: Stream) -> None:
        """Until the client is gone, which the stream tells."""
        while True:
            asked = stream.read(_CHUNK, _LOOK_S)
            if asked:
                self._link.write(asked)
            answered = self._link.read(_CHUNK, _LOOK_S)
            if answered:
                stream.write(answered)
