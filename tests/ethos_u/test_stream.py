"""Words, commands and text: there and back."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_u.streams import U55_128, U65_512, U85_256, Builder
from npuscope.errors import FileError
from npuscope.families.ethos_u.commands import ENCODINGS, U55, U85
from npuscope.families.ethos_u.stream import (
    build_stream,
    command,
    decode_words,
    encode_commands,
    read_stream,
    stream_bytes,
)
from npuscope.families.ethos_u.text import assemble, command_text, disassemble


def test_a_code_means_something_else_on_u85() -> None:
    word = encode_commands([command(U55, "NPU_SET_AB_START", value=30)])
    assert [one.name for one in decode_words(word, U55)] == ["NPU_SET_AB_START"]
    assert [one.name for one in decode_words(word, U85)] == ["NPU_SET_RESIZE_Y_OFFSET"]


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=lambda one: one.name)
def test_every_command_comes_back_from_its_words_and_its_text(encoding) -> None:
    rng = np.random.default_rng(0)
    commands = []
    for form in encoding.forms:
        values = {}
        for field in form.fields:
            value = int(rng.integers(0, 1 << field.width))
            values[field.name] = value - (1 << field.width - 1) if field.signed else value
        commands.append(command(encoding, form.name, **values))
    words = encode_commands(commands)
    assert encode_commands(decode_words(words, encoding)) == words
    configuration = U85_256 if encoding is U85 else U55_128
    stream = build_stream(configuration, words)
    text = "\n".join(disassemble(stream))
    assert stream_bytes(assemble(text)) == stream_bytes(stream)


def test_a_stream_says_which_machine_it_is_for() -> None:
    machines = [
        Builder(one).op("STOP", mask=0xFFFF).stream().configuration
        for one in (U55_128, U65_512, U85_256)
    ]
    assert [one.machine for one in machines] == ["ethos-u55-128", "ethos-u65-512", "ethos-u85-256"]
    assert machines[0].architecture == "1.0.6"


def test_commands_begin_at_a_multiple_of_16_bytes() -> None:
    data = stream_bytes(Builder().op("STOP", mask=0xFFFF).stream())
    assert data.index((0xFFFF0000).to_bytes(4, "little")) % 16 == 0
    assert stream_bytes(read_stream(data)) == data


def test_text_names_values_and_leaves_zeros_out() -> None:
    precision = command(U55, "NPU_SET_IFM_PRECISION", type=1, precision=1, format=1)
    assert command_text(precision) == (
        "NPU_SET_IFM_PRECISION type=SIGNED precision=B16 format=NHCWB16 "
        "ifm_scale_mode=OPA_OPB_16 round_mode=DBL"
    )
    assert command_text(command(U55, "NPU_SET_IFM_BASE0", address=0x1200)) == (
        "NPU_SET_IFM_BASE0 address=0x1200"
    )


def test_unknown_commands_and_stray_bits_stay_as_they_are() -> None:
    words = (0x1234_01FF, 0x0100_0000 | 256 | 0xF0 << 16)
    stream = build_stream(U55_128, words)
    lines = list(disassemble(stream))
    assert lines[1] == "UNKNOWN words=1 code=511 payload=0x1234"
    assert "rest=" in lines[2]
    assert assemble("\n".join(lines)).words == words


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("NPU_SET_IFM_BASE9", "u55 has no command 'NPU_SET_IFM_BASE9'"),
        ("NPU_SET_IFM_PAD_TOP pad=128", "pad has 7 bits, not 128"),
        ("NPU_SET_IFM_PAD_TOP top=1", "NPU_SET_IFM_PAD_TOP has no field 'top'"),
        ("CONFIGURATION config=-128", "config has 32 bits, not -128"),
        ("UNKNOWN words=1 code=2000 payload=0", "code has 10 bits, not 2000"),
        ("UNKNOWN words=3 code=1 payload=0", "a command has 1 or 2 words, not 3"),
        ("UNKNOWN words=1 code=511 payload=0x10000", "payload has 16 bits, not 65536"),
        ("NPU_OP_CONV now", "'now' is not FIELD=VALUE"),
    ],
)
def test_a_wrong_line_is_named(line: str, problem: str) -> None:
    with pytest.raises(FileError) as error:
        assemble(f"; remark\n{line}")
    assert error.value.message == f"this is not a command: {problem}"
    assert error.value.where == "line 2"


def test_a_stream_that_was_cut_off_or_damaged_is_refused() -> None:
    data = stream_bytes(Builder().set("IFM_BASE0", address=5).op("CONV").op("STOP").stream())
    for end in range(len(data)):
        with pytest.raises(FileError):
            read_stream(data[:end]).commands()
    rng = np.random.default_rng(1)
    for _ in range(300):
        broken = bytearray(data)
        broken[rng.integers(4, len(data))] ^= 1 << int(rng.integers(8))
        try:
            stream = read_stream(bytes(broken))
            assert stream_bytes(stream) == broken
            assert encode_commands(stream.commands()) == stream.words
        except FileError:
            pass
