"""network.c read back: the same units and links, the same results; broken files are told."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, compiled, sample
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError
from npuscope.graph.model import Attrs, DType, Graph
from npuscope.program.calls import unknown_ops
from npuscope.program.code_files import blob_arrays, pool_images, without_blobs
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.program.network_c.reader import FindImages, NetworkC, read_network_c
from npuscope.program.network_c.with_blobs import with_blobs
from npuscope.program.network_c.writer import network_c_text
from npuscope.program.units import PoolUnit, Streng, Unit
from npuscope.program.weight_files import PoolImages
from npuscope.sim.run import execute
from npuscope.structs import replace


def moves() -> Graph:
    """Concat, resize and a slice, which drive the DMA; a Softmax on the CPU."""
    net = Net(4)
    x = net.conv(net.input((1, 8, 8, 8)), 16)
    joined = net.concat((x, net.conv(x, 16, (1, 1))), axis=3)
    turned = net.transpose(net.conv(joined, 8, (1, 1)), (0, 2, 1, 3))
    net.softmax(net.dense(net.reshape(turned, (1, 512)), 10))
    return net.graph()


NETS = {"demo": demo_graph, "moves": moves}


def written(program: Program, folder: Path, generation: str) -> Path:
    path = folder / "network.c"
    path.write_text(network_c_text(program, MACHINES[generation]), encoding="utf-8")
    return path


def images(program: Program) -> FindImages:
    """Finds the images that belong to a program."""
    files = pool_images(program)
    pools = [pool for pool in program.pools if pool.file_name and not pool.virtual]
    data = {p.name: files[f"atonbuf.{p.file_name}.raw"] for p in pools}
    return lambda pools, sizes: PoolImages(data)


def read(program: Program, folder: Path, generation: str) -> NetworkC:
    return read_network_c(written(program, folder, generation), images(program))


def held(epoch: Epoch) -> list[tuple[list[Unit], set[object]]]:
    """Units and links without their order, which means nothing."""
    groups = epoch.groups or ()
    return [(sorted(g.units, key=lambda u: (u.unit, u.id)), set(g.links)) for g in groups]


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
@pytest.mark.parametrize("name", NETS)
def test_round_trip(name: str, generation: str, tmp_path: Path) -> None:
    graph = NETS[name]()
    program = without_blobs(compiled(graph, generation))
    found = read(program, tmp_path, generation).program
    assert (found.generation, found.source) == (generation, "network.c")
    assert [e.number for e in found.executed] == [e.number for e in program.executed]
    for ours, theirs in zip(program.executed, found.executed, strict=True):
        assert held(theirs) == held(ours), ours.name
    values = sample(graph, 3)
    wanted, got = execute(program, values).outputs, execute(found, values).outputs
    assert all(np.array_equal(got[name].ravel(), wanted[name].ravel()) for name in wanted)


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_blobs_run_like_the_program(generation: str, tmp_path: Path) -> None:
    graph = demo_graph()
    program = compiled(graph, generation)
    network = read(program, tmp_path, generation)
    found = with_blobs(network, blob_arrays(program, "network"))
    assert found.epoch_controller
    assert [e.number for e in found.executed] == [e.number for e in program.executed]
    values = sample(graph, 3)
    (wanted,), (got,) = (execute(p, values).outputs.values() for p in (program, found))
    assert np.array_equal(got.ravel(), wanted.ravel())


def test_a_missing_blob_is_noted(tmp_path: Path) -> None:
    program = compiled(demo_graph(), "4.0")
    found = with_blobs(read(program, tmp_path, "4.0"), {})
    assert found.notes == ("blobs _ec_blob_network_1 are not in the folder",)
    assert unknown_ops(found) == tuple(e.name for e in found.executed if e.kind is EpochKind.HW)
    assert any(epoch.groups is None for epoch in found.epochs)


def test_an_unknown_field_that_is_set_is_named(tmp_path: Path) -> None:
    program = without_blobs(compiled(demo_graph(), "4.0"))
    path = written(program, tmp_path, "4.0")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(".simd = ", ".wormhole = 3, .simd = ", 1), encoding="utf-8")
    found = read_network_c(path, images(program)).program
    (note,) = found.notes
    assert note.endswith("CONVACC 0: wormhole = 3 is unknown")
    assert sum(e.groups is None for e in found.executed) == 1


def test_places_that_no_table_names_become_buffers(tmp_path: Path) -> None:
    program = without_blobs(compiled(demo_graph(), "4.0"))
    path = written(program, tmp_path, "4.0")
    text = path.read_text(encoding="utf-8")
    start = text.index("LL_ATON_Internal_Buffers_Info_")
    path.write_text(text[:start].rpartition("const LL_Buffer")[0], encoding="utf-8")
    found = read_network_c(path, images(program)).program
    names = found.buffer_map()
    engines = [u for e in found.executed for u in e.units if isinstance(u, Streng)]
    assert all(engine.addr_base.buffer in names for engine in engines)
    values = sample(demo_graph(), 3)
    (wanted,), (got,) = (execute(p, values).outputs.values() for p in (program, found))
    assert np.array_equal(got.ravel(), wanted.ravel())


def test_blocks_of_channels_are_those_of_the_buffer_itself(tmp_path: Path) -> None:
    """Buffers of one shape share an array of sizes, whatever blocks they have."""
    program = without_blobs(compiled(moves(), "4.0"))
    ends = {*program.inputs, *program.outputs}
    inner = next(b for b in program.buffers if b.shape == (1, 8, 8, 16) and b.name not in ends)
    buffers = [replace(b, batch=4) if b is inner else b for b in program.buffers]
    path = written(replace(program, buffers=tuple(buffers)), tmp_path, "4.0")
    text = path.read_text(encoding="utf-8")
    own, of_another = "_mem_shape[] = { 1, 4, 8, 8, 4 }", "_mem_shape[] = { 1, 2, 8, 8, 8 }"
    assert text.count(own) == 1

    def batch(changed: str) -> int:
        path.write_text(changed, encoding="utf-8")
        return read_network_c(path).program.buffer_map()[inner.name].batch

    assert batch(text) == 4
    assert batch(text.replace(own, of_another)) == 4
    # A number that cannot be one of blocks says nothing.
    assert batch(text.replace(".batch = 4,", ".batch = 999,")) == 4


def test_pools_crop_nothing() -> None:
    """The driver always crops; 0 would keep one row and one column."""
    program = compiled(demo_graph(), "4.0")
    pools = [u for e in program.executed for u in e.units if isinstance(u, PoolUnit)]
    assert pools
    assert all((u.bottomCrop, u.rightCrop) == (u.inputY - 1, u.inputX - 1) for u in pools)


def test_kinds_of_epochs(tmp_path: Path) -> None:
    program = without_blobs(compiled(moves(), "4.0"))
    found = read(program, tmp_path, "4.0").program
    assert [e.kind for e in found.executed] == [e.kind for e in program.executed]
    assert found.count(EpochKind.HYBRID) == program.count(EpochKind.HYBRID) > 0
    assert found.count(EpochKind.SW) == 1


def test_something_else(tmp_path: Path) -> None:
    path = tmp_path / "main.c"
    path.write_text("int main(void) { return 0; }")
    with pytest.raises(FileError, match="is not a network"):
        read_network_c(path)
    with pytest.raises(FileError, match="cannot be read"):
        read_network_c(tmp_path / "none.c")


def test_damage_anywhere_is_a_format_error(tmp_path: Path) -> None:
    """Cut at many places, and with bytes changed: FileError with a place, or a reading."""
    program = without_blobs(compiled(moves(), "4.0"))
    text = written(program, tmp_path, "4.0").read_text(encoding="utf-8")
    random = np.random.default_rng(0)
    path = tmp_path / "damaged.c"
    told = 0
    for offset in random.integers(0, len(text), 40):
        for damaged in (
            text[:offset],
            text[:offset] + chr(random.integers(33, 126)) + text[offset + 1 :],
        ):
            path.write_text(damaged, encoding="utf-8")
            try:
                read_network_c(path, images(program))
            except FileError as error:
                told += 1
                assert error.where
    assert told > 20


@pytest.mark.parametrize(
    ("field", "found"),
    [
        (r"(?<=\boffset=)0x\w+", "0x340p0000"),
        (r"(?<=\boffset=)0x\w+", "0x" + "f" * 17),
        (r"(?<=\bsize=)\d+", "9" * 400),
        (r"(?<=\bsize=)\d+", "\u0663"),
        (r"(?<=freq ratio=)[\d.]+", "."),
        (r"(?<=freq ratio=)[\d.]+", "1.2.3"),
    ],
)
def test_numbers_of_pool_comments(field: str, found: str, tmp_path: Path) -> None:
    path = written(compiled(moves(), "4.0"), tmp_path, "4.0")
    text = path.read_text(encoding="utf-8")
    start = re.search(r"/\* index=.*? name=(\S+) ", text)
    assert start is not None
    head, tail = text[: start.start()], text[start.start() :]
    path.write_text(head + re.sub(field, found, tail, count=1), encoding="utf-8")
    with pytest.raises(FileError) as caught:
        read_network_c(path)
    assert caught.value.message == f"the comment of pool '{start[1]}' has '{found}' for a number"
    assert (caught.value.where, caught.value.hint) == (str(path), "expected at most 16 digits")


def test_relative_pools_without_their_symbols(tmp_path: Path) -> None:
    path = written(compiled(moves(), "4.0"), tmp_path, "4.0")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("absolute_mode", "", 1), encoding="utf-8")
    with pytest.raises(FileError) as caught:
        read_network_c(path)
    assert str(caught.value) == (
        f"{path}: pools without a fixed address: 1, symbols declared for them: 0\n"
        "  hint: the file is truncated or edited, or holds the bytes of a pool and no network"
    )


def test_slopes_in_floats_of_a_prelu_of_integers(tmp_path: Path) -> None:
    """As a compiler of 2.1 writes it: the slopes have no scale."""
    net = Net(6)
    x = net.input((1, 4, 4, 8), None)
    slopes = np.linspace(-0.5, 1.2, 8, dtype=np.float32).reshape(1, 1, 8)
    net.op("PRelu", (x, net.constant(slopes)), Attrs(), net.shape(x), None, DType.FLOAT32)
    program = compiled(net.graph(), "3.0")
    text = network_c_text(program, MACHINES["3.0"])
    text = re.sub(
        r"/\* call=.*?\*/|#if defined\(NPUSCOPE_KERNELS\)\n  static.*?#else", "", text, flags=re.S
    )
    before = re.search(r"(?=Activ_sw_info (\w+) = \{)", text)
    assert before
    scales = "static const float a[] = { 0.1 }; static const float b[] = { 0.05 };"
    zeros = "static const int8_t c[] = { 3 }; static const int8_t d[] = { -4 };"
    fields = ".operand_s.mem.start_offset = NULL, .operand_zp.mem.start_offset = NULL,"
    named = zip(["is", "izp", "os", "ozp"], "acbd", strict=True)
    fields += "".join(f".{n}.mem.start_offset = {v}, .{n}.dim.num_elem = 1," for n, v in named)
    head, tail = text[: before.start()], text[before.start() :]
    body, end = tail.split("};", 1)
    for side in ("input", "output"):
        for axis, step in zip("bhwc", (128, 32, 8, 1), strict=True):
            body = re.sub(rf"(general\.{side}\.stride\.{axis} =) \d+", rf"\1 {step}", body)
    body = body.replace("Activ_sw_info", "Activ_integer_sw_info") + fields
    end = end.replace("ll_sw_forward_activ(", "ll_sw_forward_activ_integer(", 1)
    path = tmp_path / "network.c"
    path.write_text(f"{head}{scales} {zeros} {body}}};{end}", encoding="utf-8")
    found = read_network_c(path, images(program)).program
    (call,) = (epoch.call for epoch in found.epochs if epoch.call)
    buffers = found.buffer_map()
    sides = [buffers[name] for name in (*call.inputs, *call.outputs)]
    assert [side.is_float for side in sides] == [False, True, False]
    assert [side.nbits for side in sides] == [8, 32, 8]
    assert dict(call.args)["numerics"] == "qdq"  # floats between, rounded to even
