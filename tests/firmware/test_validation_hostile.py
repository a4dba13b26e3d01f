"""Hostile input to the validation server in C: the answers of our own, and nothing breaks."""

from __future__ import annotations

import random
from collections.abc import Iterator

from fake_device import FakeDevice
from firmware.validation_conversations import CONVERSATIONS, Said, Showing, host_bytes, ours
from firmware.validation_host import the_server
from npuscope.boards.wire.framing import Revision, host_packets
from npuscope.boards.wire.messages import encode
from npuscope.protobuf import varint

FUZZED = 4000


def damaged(data: bytes, chance: random.Random) -> bytes:
    broken = bytearray(data)
    for _ in range(chance.randint(1, 12)):
        broken[chance.randrange(len(broken))] = chance.randrange(256)
    return bytes(broken[: chance.randint(1, len(broken))])


def random_packets(chance: random.Random) -> bytes:
    """Packets with right heads and random bodies, which reach deeper than noise does."""
    bodies = [chance.randbytes(chance.randint(1, 40)) for _ in range(chance.randint(1, 6))]
    revision = chance.choice((Revision.W1, Revision.W2))
    return b"".join(packet for body in bodies for packet in host_packets(body, revision))


def random_field(chance: random.Random) -> bytes:
    """A field of a message, mostly one that is known, of any type and sometimes too long."""
    kind = chance.choice((0, 0, 1, 2, 2, 5, chance.randrange(8)))
    tag = varint(chance.choice((1, 2, 3, 4, 5, chance.randrange(40))) << 3 | kind)
    data = chance.randbytes(chance.choice((0, 1, 5, 48, 70)))
    body = {
        0: varint(chance.choice((0, 1, 48, 255, 1 << 40))),
        1: chance.randbytes(8),
        2: varint(len(data) + chance.choice((0, 0, 0, 1, 1000))) + data,
        5: chance.randbytes(4),
    }
    return tag + body.get(kind, b"")


def odd_message(said: Said, chance: random.Random, revision: Revision) -> bytes:
    """A conversation in which one message is made of random fields."""
    bodies = [encode(message) for message in said]
    odd = b"".join(random_field(chance) for _ in range(chance.randint(1, 4)))
    bodies[chance.randrange(len(bodies))] = odd
    return b"".join(packet for body in bodies for packet in host_packets(body, revision))


def hostile_cases() -> Iterator[bytes]:
    chance = random.Random(11)
    for number in range(FUZZED):
        revision = chance.choice((Revision.W1, Revision.W2))
        said = chance.choice(list(CONVERSATIONS.values()))
        whole = host_bytes(*said, revision=revision)
        match number % 5:
            case 0:
                yield random_packets(chance)
            case 1:
                yield whole[: chance.randrange(len(whole))]
            case 2:
                yield damaged(whole, chance)
            case _:
                yield odd_message(said, chance, revision)


def test_hostile_input_gets_the_same_answers_and_breaks_nothing() -> None:
    server = the_server()
    cases = list(hostile_cases())
    for words, device in (((), FakeDevice), (("shows",), Showing)):
        found = server.played(cases, *words)
        assert len(found) == len(cases)
        different = [i for i, case in enumerate(cases) if found[i] != ours(case, device())]
        assert different == []
