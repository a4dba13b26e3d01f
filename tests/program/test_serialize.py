"""program.json: round trip, strict reading with JSON paths, images of constants."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

from compiler.nets import compiled, random_network
from npuscope.errors import FileError, InternalError
from npuscope.program.model import images, save, to_json
from npuscope.program.serialize import from_json, load
from npuscope.structs import replace
from program.sample import sample


@pytest.fixture
def program():
    return sample()


def edited(program, change):
    """The program's JSON after `change` has edited it in place."""
    record = orjson.loads(to_json(program))
    change(record)
    return orjson.dumps(record)


def test_round_trip(program):
    found = from_json(to_json(program), images(program))
    assert found == program
    assert found.constants["w"].tobytes() == program.constants["w"].tobytes()
    assert to_json(found) == to_json(program)


def test_types_survive(program):
    """Equality alone would take 1 for True and a list for a tuple."""
    found = from_json(to_json(program), images(program))
    assert repr(found).replace("<Simd.S16X8: 2>", "2") == repr(program).replace(
        "<Simd.S16X8: 2>", "2"
    ).replace("<ArithOp.AFFINE: 1>", "1").replace("<PoolOp.MAX: 1>", "1")


def test_defaults_are_left_out(program):
    record = orjson.loads(to_json(program))
    assert record["schema"] == "npuscope/program/1"
    assert "signed" not in record["buffers"][0] and record["buffers"][1]["signed"] is False
    engine = record["epochs"][0]["groups"][0]["units"][0]
    assert engine["unit"] == "STRENG" and "line_offset" not in engine
    assert record["epochs"][3]["groups"] is None and "groups" not in record["epochs"][2]


def of_0_1(program, *reasons):
    """The file as 0.1 wrote it: a refusal is a way, a rule and a sentence."""

    def change(record):
        rows = [{"way": "NPU", "rule": "NA-X", "reason": reason} for reason in reasons]
        record["epochs"][0]["trail"] = rows

    return from_json(edited(program, change), images(program)).epochs[0].trail


def test_a_refusal_is_stored_as_values_and_in_words(program):
    """Programs that read files of 0.1 know the words only."""
    (row,) = orjson.loads(to_json(program))["epochs"][0]["trail"]
    assert row == {
        "way": "deep",
        "rule": "NA-DEEP",
        "sentence": "It is deep.",
        "found": {"words": "$mode", "values": [["mode", "fsub"]]},
        "limit": 3,
        "reason": "It is deep. (fsub, limit 3)",
    }


@pytest.mark.parametrize(
    ("reason", "sentence", "found", "limit"),
    [
        ("A stride (odd). (stride (9, 9), limit 7)", "A stride (odd).", "stride (9, 9)", "7"),
        ("It is float. ('a. (b), limit $$' is float32)", "It is float.", "'a. (b), limit $$'", ""),
        ("Groups. (2 groups)", "Groups.", "2 groups", None),
        ("its values cost $op", "", "its values cost $op", None),
        ("", "", "", None),
    ],
)
def test_sentences_of_earlier_versions(program, reason, sentence, found, limit):
    (refused,) = of_0_1(program, reason)
    assert refused.reason == reason
    if limit != "":  # a name that looks like a limit is taken for one, and shown as it was
        assert (refused.sentence, str(refused.found), refused.limit) == (sentence, found, limit)


def test_the_op_of_an_earlier_sentence(program):
    (refused,) = of_0_1(program, "$op has no NPU lowering: it runs on the CPU")
    assert refused.found.value("op") == "$op"
    assert refused.reason == "$op has no NPU lowering: it runs on the CPU"


def test_image_starts_at_the_pool(program):
    ((pool, image),) = images(program).items()
    assert pool == "flash"
    assert image == bytes(32) + bytes(range(82))


def test_numpy_numbers_are_numbers(program):
    first = replace(program.buffers[0], offset=np.int64(0), last=np.int64(2))
    program = replace(program, buffers=(first, *program.buffers[1:]))
    assert from_json(to_json(program), images(program)) == program


def test_truncated_anywhere(program):
    data = to_json(program).rstrip()
    for end in range(len(data)):
        with pytest.raises(FileError):
            from_json(data[:end], images(program))


def drop(*path):
    def change(record):
        for key in path[:-1]:
            record = record[key]
        del record[path[-1]]

    return change


def put(value, *path):
    def change(record):
        for key in path[:-1]:
            record = record[key]
        record[path[-1]] = value

    return change


ENGINE = ("epochs", 0, "groups", 0, "units", 0)


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        (put(1, "surprise"), "$.surprise", "unknown key"),
        (drop("machine"), "$.machine", "this key is missing"),
        (put("2", "schema"), "$.schema", "expected schema 'npuscope/program/1', found '2'"),
        (drop("schema"), "$.schema", "expected schema 'npuscope/program/1', found none"),
        (
            put("4", "buffers", 1, "offset"),
            "$.buffers[1].offset",
            "expected a whole number, found '4'",
        ),
        (
            put(True, "buffers", 1, "nbits"),
            "$.buffers[1].nbits",
            "expected a whole number, found true",
        ),
        (
            put(1.5, "buffers", 1, "nbits"),
            "$.buffers[1].nbits",
            "expected a whole number, found 1.5",
        ),
        (
            put(1, "buffers", 1, "signed"),
            "$.buffers[1].signed",
            "expected true or false, found 1",
        ),
        (put({}, "buffers", 1, "shape"), "$.buffers[1].shape", "expected a list, found an object"),
        (
            put(None, "buffers", 1, "shape", 2),
            "$.buffers[1].shape[2]",
            "expected a whole number, found null",
        ),
        (
            put("hot", "pools", 0, "freq_ratio"),
            "$.pools[0].freq_ratio",
            "expected a number, found 'hot'",
        ),
        (
            put({"float": "x"}, "pools", 0, "freq_ratio"),
            "$.pools[0].freq_ratio",
            "expected a number, found an object",
        ),
        (
            put("HARD", "epochs", 0, "kind"),
            "$.epochs[0].kind",
            "expected one of HW, SW, HYBRID, EMPTY, found 'HARD'",
        ),
        (
            put("XENG", *ENGINE, "unit"),
            "$.epochs[0].groups[0].units[0]",
            "expected 'unit' to be one of STRENG, CONVACC, ARITH, ACTIV, POOL, DECUN",
        ),
        (
            put(3, *ENGINE, "addr_base"),
            "$.epochs[0].groups[0].units[0].addr_base",
            "expected an object, found 3",
        ),
        (
            put([1, 2], "epochs", 0, "groups", 0, "units", 3, "vec_precision"),
            "$.epochs[0].groups[0].units[3].vec_precision",
            "expected 3 entries, found 2",
        ),
        (
            put(None, "epochs", 1, "call", "args", 0, 1),
            "$.epochs[1].call.args[0][1]",
            "expected a number or text, found null",
        ),
        (
            put([[[[1]]]], "epochs", 1, "call", "args", 0, 1),
            "$.epochs[1].call.args[0][1][0][0]",
            "expected a number or text, found a list",
        ),
        (put([], "constants"), "$.constants", "expected an object"),
        (put("9", "constants", "w"), "$.constants.w", "expected a whole number, found '9'"),
        (put(83, "constants", "w"), "$.constants.w", "83 bytes, the buffer has 82"),
        (put(-1, "constants", "w"), "$.constants.w", "-1 bytes, the buffer has 82"),
        (put(1, "constants", "v"), "$.constants.v", "no buffer has this name"),
        (
            put(33, "buffers", 3, "offset"),
            "$.constants.w",
            "the image of pool 'flash' ends at byte 114, but the constant at 115",
        ),
        (put("ram", "buffers", 3, "pool"), "$.constants.w", "no image of pool 'ram' was given"),
    ],
)
def test_wrong_content_names_the_path(program, change, where, message):
    with pytest.raises(FileError) as caught:
        from_json(edited(program, change), images(program))
    assert (caught.value.where, caught.value.message) == (where, message)


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"\xff", b"[" * 5000])
def test_other_files(data):
    with pytest.raises(FileError):
        from_json(data, {})


def test_an_oversized_constant_is_our_bug(program):
    program = replace(program, constants={"w": np.zeros(83, np.int8)})
    with pytest.raises(InternalError, match="has 83 bytes, but its buffer 82"):
        images(program)


def test_save_and_load(program, tmp_path):
    file = save(program, tmp_path / "out")
    assert sorted(path.name for path in file.parent.iterdir()) == ["flash.raw", "program.json"]
    assert load(file) == load(file.parent) == program
    assert load(file).constants["w"].tobytes() == program.constants["w"].tobytes()


def test_missing_and_short_images(program, tmp_path):
    save(program, tmp_path)
    image = tmp_path / "flash.raw"
    image.write_bytes(image.read_bytes()[:-1])
    with pytest.raises(FileError, match="ends at byte 113"):
        load(tmp_path)
    image.unlink()
    with pytest.raises(FileError, match="cannot be read"):
        load(tmp_path)


def test_a_pool_name_never_leaves_the_folder(program, tmp_path):
    data = edited(program, put("../flash", "buffers", 3, "pool"))
    (tmp_path / "program.json").write_bytes(data)
    with pytest.raises(FileError) as caught:
        load(tmp_path)
    place = f"{tmp_path / 'program.json'}: $.pools"
    assert str(caught.value) == f"{place}: pool name '../flash' cannot be a file name"


def test_a_pool_that_cannot_name_a_file_is_not_saved(program, tmp_path):
    flash = next(pool for pool in program.pools if pool.name == "flash")
    pools = [replace(pool, name="%s") if pool is flash else pool for pool in program.pools]
    buffers = [replace(b, pool="%s") if b.pool == "flash" else b for b in program.buffers]
    with pytest.raises(FileError) as caught:
        save(replace(program, pools=tuple(pools), buffers=tuple(buffers)), tmp_path / "out")
    assert str(caught.value) == f"{tmp_path / 'out'}: pool name '%s' cannot be a file name"
    assert not (tmp_path / "out").exists()


def test_a_program_that_contradicts_itself_is_a_fault_of_the_file(tmp_path):
    folder = tmp_path / "program"
    save(compiled(random_network(1)), folder)
    file = folder / "program.json"
    record = orjson.loads(file.read_bytes())
    units = [u for e in record["epochs"] for g in e.get("groups") or () for u in g["units"]]
    next(u for u in units if "addr_base" in u)["addr_base"]["buffer"] = "nowhere"
    file.write_bytes(orjson.dumps(record))
    with pytest.raises(FileError, match="nowhere"):
        load(folder)


def test_another_compilers_program_may_break_what_only_execution_needs(tmp_path):
    """As where it was read from: `package` writes it beside an image."""
    program = compiled(random_network(3), "4.0")
    first, second = program.buffers[:2]
    clash = replace(
        second, pool=first.pool, offset=first.offset, first=first.first, last=first.last
    )
    broken = replace(program, buffers=(first, clash, *program.buffers[2:]))
    save(broken, tmp_path / "ours")
    with pytest.raises(FileError):
        load(tmp_path / "ours")
    save(replace(broken, source="network.c"), tmp_path / "theirs")
    assert load(tmp_path / "theirs").source == "network.c"
