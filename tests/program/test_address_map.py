"""Physical addresses to buffers."""

from __future__ import annotations

import pytest

from npuscope.errors import FileError
from npuscope.program.addresses import AddressMap
from npuscope.program.model import Buffer, Pool
from npuscope.program.units import Ref
from npuscope.structs import replace

POOLS = (Pool("a", 0x1000, 256, 8, 1.0), Pool("b", 0x1100, 256, 8, 1.0))
BOTH = Pool("a_b", 0x1000, 512, 8, 1.0, subpools=("a", "b"))


def buffer(name: str, offset: int, first: int, last: int, size: int = 64) -> Buffer:
    return Buffer(name, size, (size,), 8, size, pool="a", offset=offset, first=first, last=last)


OLD, NEW, LOW = buffer("old", 0, 0, 9), buffer("new", 16, 5, 9), buffer("low", 128, 0, 3)


def places() -> AddressMap:
    return AddressMap((*POOLS, BOTH), (OLD, NEW, LOW))


@pytest.mark.parametrize(
    ("address", "epoch", "name", "found"),
    [
        (0x1000, 1, "", Ref("old")),
        (0x1020, 1, "", Ref("old", 32)),  # the new one is not alive yet
        (0x1020, 6, "", Ref("new", 16)),  # the youngest
        (0x1020, 6, "old", Ref("old", 32)),  # what the file says
        (0x1080, 2, "", Ref("low")),
        (0x1080, 7, "", Ref("@a", 128)),  # nobody lives there now
        (0x1080, None, "", Ref("low")),
        (0x1110, 1, "old", Ref("@b", 16)),  # a name that does not fit the address
    ],
)
def test_places(address: int, epoch: int | None, name: str, found: Ref) -> None:
    assert places().ref(address, epoch, name) == found


def test_whole_pools_own_nothing() -> None:
    found = places()
    found.ref(0x1110)
    (whole,) = found.whole_pools
    assert (whole.name, whole.size_bytes, whole.view_of) == ("@b", 256, "@b")


def test_bytes_over_two_pools_are_in_the_virtual_one() -> None:
    assert places().pool_at(0x10F0, 32).name == "a_b"
    assert places().pool_at(0x10F0, 16).name == "a"
    with pytest.raises(FileError, match="are not in any pool"):
        places().pool_at(0x11F0, 32)


def test_a_view_takes_its_name_and_answers_no_address() -> None:
    view = replace(NEW, name="view", view_of="old")
    found = AddressMap(POOLS, (OLD, view))
    assert found.knows("view") and not found.knows("new")
    assert found.ref(0x1020, 6, "view") == Ref("old", 32)


def test_an_address_without_a_pool_is_told_with_the_pools() -> None:
    with pytest.raises(FileError, match="bytes 0x10 to 0x10 are not in any pool") as caught:
        places().ref(0x10)
    assert "a 0x1000 to 0x10ff, " in caught.value.hint
