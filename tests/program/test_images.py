"""Weight images and Intel HEX."""

from __future__ import annotations

import pytest

from compiler.nets import compiled
from npuscope.demo_network import demo_graph
from npuscope.errors import TargetError
from npuscope.program.code_files import hex_text, pool_images
from npuscope.structs import replace


@pytest.fixture(scope="module")
def program():
    return compiled(demo_graph())


def test_parameters_lie_at_their_offsets(program):
    found = pool_images(program)
    image = found["atonbuf.xSPI2.raw"]
    for name, data in program.constants.items():
        buffer = program.buffer_map()[name]
        assert image[buffer.offset : buffer.offset + buffer.size_bytes] == data.tobytes()
    assert len(image) == program.pool("octoFlash").used_bytes
    assert all(not data for name, data in found.items() if name != "atonbuf.xSPI2.raw")
    assert sorted(found)[0] == "atonbuf.AXIFLEXMEM.raw"
    assert len(found) == sum(not pool.virtual for pool in program.pools)


def test_foreign_file_names_stay_in_the_folder(program):
    pools = tuple(
        replace(pool, file_name="../../x") if pool.name == "octoFlash" else pool
        for pool in program.pools
    )
    assert "atonbuf._.._.._x.raw" in pool_images(replace(program, pools=pools))


def test_two_pools_with_one_file_name(program):
    pools = tuple(replace(pool, file_name="same") for pool in program.pools)
    with pytest.raises(TargetError) as caught:
        pool_images(replace(program, pools=pools))
    place = f"pool '{pools[1].name}'"
    assert str(caught.value) == f"{place}: two pools have the file name 'atonbuf.same.raw'"


def read_hex(text):
    """Address -> byte, by the format's own rules."""
    memory, upper, ended = {}, 0, False
    for line in text.splitlines():
        assert line[0] == ":"
        record = bytes.fromhex(line[1:])
        assert sum(record) % 256 == 0
        count, place, kind, data = record[0], record[1] << 8 | record[2], record[3], record[4:-1]
        assert len(data) == count
        if kind == 4:
            upper = int.from_bytes(data, "big") << 16
        elif kind == 0:
            assert place + count <= 0x10000
            memory.update({upper + place + i: byte for i, byte in enumerate(data)})
        ended = kind == 1
    assert ended
    return memory


@pytest.mark.parametrize("address", [0, 0x71000000, 0x7100FFF9, 0xFFFFFF00])
def test_hex_round_trip(address):
    data = bytes(range(200))
    found = read_hex(hex_text(data, address))
    assert bytes(found[address + i] for i in range(200)) == data
    assert len(found) == 200


def test_hex_of_nothing():
    assert hex_text(b"", 0) == ":00000001FF\n"


def test_hex_beyond_32_bits():
    with pytest.raises(TargetError, match="do not fit into 32-bit addresses"):
        hex_text(b"ab", 0xFFFFFFFF)
