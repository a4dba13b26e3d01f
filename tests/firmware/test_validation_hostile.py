"""Hostile input to the validation server in C: the answers of our own, and nothing breaks."""

from __future__ import annotations

import random
from collections.abc import Iterator

from fake_device import FakeDevice
from firmware.validation_conversations import CONVERSATIONS, Showing, host_bytes, ours
from firmware.validation_host import the_server
from npuscope.board.wire.framing import Revision, host_packets

FUZZED = 2000


def damaged(data: bytes, chance: random.Random) -> bytes:
    broken = bytearray(data)
    for _ in range(chance.randint(1, 12)):
        broken[chance.randrange(len(broken))] = chance.randrange(256)
    return bytes(broken[: chance.randint(1, len(broken))])


def random_packets(chance: random.Random) -> bytes:
    """Packets with right heads and random bodies, which reach deeper than noise does."""
    found = b""
    for _ in range(chance.randint(1, 6)):
        size = chance.randint(1, 40)
        body = chance.randbytes(size)
        found += host_bytes_of(body, chance.choice((Revision.W1, Revision.W2)))
    return found


def host_bytes_of(body: bytes, revision: Revision) -> bytes:
    return b"".join(host_packets(body, revision))


def hostile_cases() -> Iterator[bytes]:
    chance = random.Random(11)
    kinds = list(CONVERSATIONS)
    for number in range(FUZZED):
        revision = chance.choice((Revision.W1, Revision.W2))
        whole = host_bytes(*CONVERSATIONS[kinds[number % len(kinds)]], revision=revision)
        if number % 4 == 0:
            yield random_packets(chance)
        elif number % 4 == 1:
            yield whole[: chance.randrange(len(whole))]
        else:
            yield damaged(whole, chance)


def test_hostile_input_gets_the_same_answers_and_breaks_nothing() -> None:
    server = the_server()
    cases = list(hostile_cases())
    for words, device in (((), FakeDevice), (("shows",), Showing)):
        found = server.played(cases, *words)
        assert len(found) == len(cases)
        different = [i for i, case in enumerate(cases) if found[i] != ours(case, device())]
        assert different == []
