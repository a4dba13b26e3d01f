"""The board's serial port: registers on one side, bytes from and to the host on the other."""

from __future__ import annotations

from npuscope.board.emulated.memory_map import UART_RECEIVED, UART_ROOM

_CR1, _ISR, _RDR, _TDR = 0x00, 0x1C, 0x24, 0x28
_SENT = 1 << 6
_RECEIVE_INTERRUPT = 1 << 5
_ROOM_BYTES = 1 << 16
# The same state read so often in a row means that the firmware waits for the host.
_PATIENCE = 64


class Uart:
    """Bytes pass at once: the line has no speed."""

    def __init__(self) -> None:
        self._received = bytearray()
        self.to_send = bytearray()
        self._words: dict[int, int] = {}
        self._polls = 0

    @property
    def interrupts(self) -> bool:
        """The line to the processor."""
        return bool(self._received and self._words.get(_CR1, 0) & _RECEIVE_INTERRUPT)

    @property
    def is_waited_for(self) -> bool:
        return self._polls >= _PATIENCE

    @property
    def is_full(self) -> bool:
        """The host has to take what was sent before there is room for more."""
        return len(self.to_send) >= _ROOM_BYTES

    def take(self) -> bytes:
        """What was sent, for the host."""
        sent = bytes(self.to_send)
        self.to_send.clear()
        return sent

    def receive(self, data: bytes) -> None:
        self._received += data
        self._polls = 0

    def rest(self) -> None:
        """The host was asked: the firmware may look again."""
        self._polls = 0

    def read(self, offset: int) -> int:
        if offset == _ISR:
            self._polls += 1
            room = not self.is_full
            return bool(self._received) * UART_RECEIVED | room * UART_ROOM | _SENT
        if offset == _RDR:
            self._polls = 0
            return self._received.pop(0) if self._received else 0
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        if offset == _TDR:
            self._polls = 0
            self.to_send.append(value & 0xFF)
        else:
            self._words[offset] = value
