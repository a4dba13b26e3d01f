"""Headers with blobs: what the vendor's generators write, and ours."""

from __future__ import annotations

import pytest

from npuscope.errors import FileError, UsageError
from npuscope.program.ec_blob.binary import blob_name, read_header, write_header

FOREIGN = """
#include "runtime.h"  // uint64_t x[] = { 5 };
ECBLOB_CONST_SECTION
/* one
 * two */
static const uint64_t _ec_blob_1 [] =
{
  0x00000002ca057a7aUL, 0x0000000C0000007dULL /* end */
};
__attribute__((aligned(64)))
static const uint64_t _ec_blob_net_12[8] = { 1, 0x2UL, };
bool init(void) { return true; }
"""


def test_a_foreign_header() -> None:
    assert read_header(FOREIGN) == {
        "_ec_blob_1": bytes.fromhex("7a7a05ca020000007d0000000c000000"),
        "_ec_blob_net_12": bytes((1, *[0] * 7, 2, *[0] * 7)),
    }


def test_round_trip() -> None:
    blobs = {f"_ec_blob_{n}": bytes(range(8 * n)) for n in (0, 1, 7, 8, 9)}
    assert read_header(write_header(blobs)) == blobs


def test_our_header_is_padded_to_cache_lines() -> None:
    text = write_header({"_ec_blob_a_1": b"\1" * 12})
    assert "static const uint64_t _ec_blob_a_1[8] =" in text
    assert "  0x0101010101010101UL, 0x0000000001010101UL\n};" in text


@pytest.mark.parametrize(
    ("network", "name"),
    [
        ("", "_ec_blob_3"),
        ("face_detection", "_ec_blob_face_detection_3"),
        ("a b;é*/", "_ec_blob_a_b_____3"),
        ("int", "_ec_blob_int_3"),
    ],
)
def test_names_are_safe_for_c(network: str, name: str) -> None:
    assert blob_name(network, 3) == name
    assert read_header(write_header({name: b"\0" * 8})) == {name: b"\0" * 8}


def test_a_name_that_c_cannot_read_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot name an array"):
        write_header({"a]; int b[": b""})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("uint64_t a[] = { 1, x }", "expected a 64-bit number, found 'x }'"),
        ("uint64_t a[] = { 1, 2", "expected a 64-bit number, found '2'"),
        ("uint64_t a[] = { 1 2 }", "expected a 64-bit number"),
        ("uint64_t a[] = { 99999999999999999999 }", "expected a 64-bit number"),
        ("uint64_t a[] = { 0x11112222333344445 }", "expected a 64-bit number"),
        ("uint64_t a[] = { 017 }", "expected a 64-bit number"),
        ("uint64_t a[1] = { 1, 2 }", "array 'a' is declared with 1 entries and has 2"),
    ],
)
def test_damage_is_named_by_its_place(body: str, message: str) -> None:
    with pytest.raises(FileError) as caught:
        read_header(body)
    assert message in caught.value.message
    assert caught.value.where.startswith("character ")


def test_a_header_without_blobs() -> None:
    with pytest.raises(FileError, match="no array of 64-bit words"):
        read_header('#pragma once\n#include "network.h"\n')


def test_every_cut_of_a_header_is_an_error_or_fewer_blobs() -> None:
    whole = read_header(FOREIGN)
    for length in range(len(FOREIGN)):
        try:
            found = read_header(FOREIGN[:length])
        except FileError:
            continue
        assert found.items() <= whole.items()
