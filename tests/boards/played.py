"""A host that only says what it has to say."""

from __future__ import annotations

from npuscope.boards.server_run import Gone


class Played:
    """A host's bytes; the line ends with them."""

    def __init__(self, data: bytes) -> None:
        self.left = data
        self.sent = bytearray()

    def read(self, n: int, timeout_s: float) -> bytes:
        if not self.left:
            raise Gone("the record is over")
        piece, self.left = self.left[:n], self.left[n:]
        return piece

    def write(self, data: bytes) -> None:
        self.sent += data
