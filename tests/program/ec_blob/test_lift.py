"""Register writes to unit configurations, on epochs written by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from npuscope.errors import FileError
from npuscope.program.addresses import AddressMap
from npuscope.program.ec_blob.assembly import assemble
from npuscope.program.ec_blob.lift import Lifted, lift
from npuscope.program.model import Buffer, Pool
from npuscope.program.modes import ArithOp, Bcast
from npuscope.program.units import NO_CROP, Arith, Convacc, Link, Port, Ref, Streng
from program.ec_blob.epoch_text import CONVOLUTION, COPY

RAM = Pool("ram", 0x34200000, 1 << 16, 8, 1.0)
BUFFER = Buffer("x", 4096, (1, 4096), 8, 4096, pool="ram", last=9)


def lifted(*texts: str) -> Lifted:
    return lift([assemble(text).instructions for text in texts], AddressMap([RAM], [BUFFER]))


def test_a_copy() -> None:
    found = lifted(COPY)
    (group,) = found.groups[4]
    assert group.links == (Link(Port("STRENG", 0), Port("STRENG", 9)),)
    assert group.units == (
        Streng(
            id=9,
            dir=1,
            addr_base=Ref("@ram", 0x1000),
            fwidth=8,
            fheight=4,
            batch_depth=4,
            batch_offset=16,
            line_offset=256,
            frame_tot_cnt=1,
        ),
        Streng(
            id=0,
            dir=0,
            raw=1,
            addr_base=Ref("x", 16),
            frame_count=64,
            frame_offset=64,
            frame_tot_cnt=2,
        ),
    )


def test_a_convolution_with_coefficients() -> None:
    found = lifted(CONVOLUTION)
    (group,) = found.groups[7]
    conv, arith, _ = group.units
    assert isinstance(conv, Convacc)
    assert isinstance(arith, Arith)
    assert (conv.id, conv.fWidth, conv.fHeight, conv.nKernels, conv.batchDepth) == (
        1,
        112,
        112,
        8,
        3,
    )
    pads = conv.left_padding, conv.right_padding, conv.top_padding, conv.bot_padding
    assert pads == (1, 1, 2, 0)
    assert (conv.fsub, conv.right_crop, conv.shift_o, conv.accumulate) == (-1, NO_CROP, 7, 0)
    assert (arith.operation, arith.bcast, arith.combinebc) == (ArithOp.AFFINE, Bcast.CHAN, 1)
    assert (arith.fWidth, arith.batchDepth, arith.fChannels) == (8, 4, 8)
    assert found.constants[arith.A_vector.buffer].tolist() == [7, 8, 0, 0, 0, 0, 0, 0]
    assert found.constants[arith.C_vector.buffer].tolist()[:2] == [0x18000, -2]
    assert group.links[1] == Link(Port("CONVACC", 1), Port("ARITH", 2, 0), True, 2, True, 1)


def test_coefficients_lie_in_a_pool_of_their_own() -> None:
    found = lifted(CONVOLUTION, COPY)
    spans = sorted((b.offset, b.offset + b.size_bytes) for b in found.buffers)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert found.pool.size_bytes >= spans[-1][1]
    assert {buffer.name for buffer in found.buffers} == set(found.constants)
    assert all(buffer.pool == found.pool.name for buffer in found.buffers)


def test_a_reset_keeps_the_coefficients_and_clears_the_rest() -> None:
    reset = "write ARITH2.CTRL 0x40000000\n"
    again = CONVOLUTION.replace("label 7", "label 8")
    again = "\n".join(line for line in again.split("\n") if "0xffff0008" not in line)
    again = again.replace("burstwriteinc ARITH2.@256\n", "").replace(
        "SHIFT\n  0xa0000", "SHIFT\n  0"
    )
    found = lifted(CONVOLUTION.replace("irq 0", reset), again)
    before, after = (found.groups[n][0].units[1] for n in (7, 8))
    assert isinstance(before, Arith)
    assert isinstance(after, Arith)
    assert (before.shift_o, after.shift_o) == (20, 0)
    assert after.A_vector == before.A_vector


def test_an_epoch_that_only_has_a_label_has_no_groups() -> None:
    assert lifted("label 3\nirq 0").groups == {3: ()}


def test_two_starts_under_one_label_are_two_groups() -> None:
    body = COPY.partition("label 4")[2].replace("irq 0", "")
    assert len(lifted(f"label 4\n{body}\n{body}\nirq 0").groups[4]) == 2


def test_waiting_for_two_outputs_is_one_group() -> None:
    again = "poll STRENG9.CTRL[31] 0 100\n"
    assert len(lifted(COPY.replace(again, again * 2)).groups[4]) == 1


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("label 4\n", ""), "units are started before any label"),
        (("0x34201000", "0x1000"), "are not in any pool"),
        (("poll STRENG9", "poll ARITH0"), "units are started, but nothing waits for them"),
        (("0x1          ;", "0x30001     ;"), "STRENG 9 port 0 is linked to sources [0, 1]"),
        (
            ("STRENG9.CTRL[0] 1", "RECBUF.CTRL[0] 1"),
            "RECBUF 0 is started, but this unit is unknown",
        ),
    ],
)
def test_what_makes_no_sense_is_named(edit: tuple[str, str], message: str) -> None:
    assert edit[0] in COPY
    with pytest.raises(FileError) as caught:
        lifted(COPY.replace(*edit))
    assert message in caught.value.message
    assert caught.value.where.startswith("word ")


def test_vectors_longer_than_the_memory_are_refused() -> None:
    with pytest.raises(FileError, match="invalid vector length 67108864"):
        lifted(CONVOLUTION.replace("0x3 0x1f 0x3f", "0x0 0x0 0x3ffffff"))


def test_a_blob_cannot_make_much_memory_of_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuscope.program.ec_blob.tables._MAX_BYTES", 1 << 16)
    start = "writefield ARITH2.CTRL[0] 0\nwritefield ARITH2.CTRL[0] 1\npoll STRENG3.CTRL[31] 0 1\n"
    rounds = "".join(f"write ARITH2.@256 {n}\n{start}" for n in range(70))
    text = CONVOLUTION.replace("0x3 0x1f 0x3f", "0x0 0x0 0x1ff").replace("irq 0", rounds)
    with pytest.raises(FileError, match="bytes of coefficients"):
        lifted(text)


def test_an_activation_table() -> None:
    rows = np.arange(24, dtype=np.int16).reshape(8, 3)
    words = " ".join(f"{a | b << 16} {c}" for a, b, c in rows.tolist())
    found = lifted(
        f"""
        label 1
        write ACTIV1.CTRL 0x00541a4c
        write ACTIV1.FUNC 0x00100000
        write ACTIV1.@256 0xc0
        burstwriteinc ACTIV1.@512
          {words}
        write STRENG1.CTRL 0x80008
        write STRENG1.ADDR 0x34200000
        write STRSWITCH.DSTSTRENG1 0x23
        writefield ACTIV1.CTRL[0] 1
        writefield STRENG1.CTRL[0] 1
        poll STRENG1.CTRL[31] 0 100
        """
    )
    activ = found.groups[1][0].units[0]
    assert found.constants[activ.ROM0_vector.buffer].tolist() == [0xC0]
    assert np.array_equal(found.constants[activ.ROM1_vector.buffer], rows)
    assert (activ.ROM0_nbytes, activ.ROM1_nbytes) == (1, 48)


def test_the_second_window_of_a_coefficient_memory() -> None:
    upper = "write ARITH2.TRANSLATEADDR 0\nburstwriteinc ARITH2.@768\n  0x1234 0x5\n"
    text = CONVOLUTION.replace("0x3 0x1f 0x3f", "0x0 0x0 0x1ff")
    found = lifted(text.replace("write STRENG3.CTRL", upper + "write STRENG3.CTRL", 1))
    arith = found.groups[7][0].units[1]
    assert isinstance(arith, Arith)
    entries = found.constants[arith.A_vector.buffer]
    assert (len(entries), entries[0], entries[384]) == (512, 7, 0x1234)
