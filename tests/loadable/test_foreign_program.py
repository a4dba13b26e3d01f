"""Builds of other compilers on the emulated board: fixed addresses, weights in any wrapping."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import npuscope
from npuscope.demo_network import demo_graph
from npuscope.loadable.foreign_program import is_fixed, loadable_form
from npuscope.program.addresses import Copy, as_arguments, given_pools
from npuscope.program.code_files import data_files, hex_text
from npuscope.program.kernel_calls.build import kernel_call
from npuscope.program.model import Buffer, Call, Program
from npuscope.program.sources import read_program
from npuscope.sim.memory import Memory
from npuscope.sim.run import execute
from npuscope.structs import replace

IMAGE = "atonbuf.xSPI2.raw"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    npuscope.compile(demo_graph(), folder)
    return folder


@pytest.fixture
def vendor(compiled: Path, tmp_path: Path) -> Path:
    """As a vendor's tool leaves it: no program.json, so that everything is read from the source."""
    for name in ("network.c", "network_ecblobs.h", IMAGE):
        shutil.copy(compiled / name, tmp_path / name)
    return tmp_path


def simulated(program: Program, values: np.ndarray) -> bytes:
    (name,), (result,) = program.inputs, program.outputs
    fed = {name: values.reshape(program.buffer_map()[name].shape)}
    memory = Memory(program)
    memory.write(result, execute(program, fed).outputs[result])
    return memory.read(result).tobytes()


def test_a_build_with_fixed_addresses_runs_with_equal_outputs(vendor: Path) -> None:
    program = read_program(vendor)
    assert is_fixed(program)
    run = npuscope.run(vendor)
    (tensor,) = run.network.inputs
    values = np.random.default_rng(3).integers(-128, 128, tensor.shape).astype(tensor.dtype)
    found = npuscope.run(vendor, inputs=[values]).inferences[0].outputs[0]
    assert np.ascontiguousarray(found).tobytes() == simulated(program, values)


def test_the_image_of_a_build_predicts_what_the_build_does(vendor: Path, tmp_path: Path) -> None:
    npuscope.package(vendor, tmp_path / "build")
    predicted = npuscope.estimate(vendor / "network.c").total_ms
    found = npuscope.run(tmp_path / "build" / "network_rel.bin").total_ms
    assert found == pytest.approx(predicted, rel=1e-12)


@pytest.mark.parametrize("wrapping", ["hex", "c", "bin"])
def test_weights_are_packaged_from_whatever_holds_them(
    wrapping: str, vendor: Path, compiled: Path
) -> None:
    whole = npuscope.package(vendor).files["network_rel.bin"]
    data = (vendor / IMAGE).read_bytes()
    (vendor / IMAGE).unlink()
    if wrapping == "hex":
        (vendor / "network_data.xSPI2.hex").write_text(hex_text(data, 0x71000000))
    elif wrapping == "c":
        text = data_files(read_program(compiled), "network")["network_data_params.c"]
        (vendor / "network_data_params.c").write_text(text)
    else:
        (vendor / "network_data.bin").write_bytes(data)
    assert npuscope.package(vendor).files["network_rel.bin"] == whole


def test_our_own_fixed_builds_are_compiled_again(compiled: Path) -> None:
    """For these there is the option of the compiler."""
    assert not is_fixed(read_program(compiled))


def test_buffers_of_the_application_and_external_ram_become_one_pool(vendor: Path) -> None:
    program = read_program(vendor)
    given = given_pools([("_user_io_input_0", 100), ("_user_io_output_0", 40)])
    buffers = tuple(
        Buffer(f"io{number}", pool.size_bytes, (pool.size_bytes,), 8, 1, pool=pool.name)
        for number, pool in enumerate(given)
    )
    wider = replace(program, pools=(*program.pools, *given), buffers=(*program.buffers, *buffers))
    found = loadable_form(wider)
    relative = [pool for pool in found.pools if pool.relative]
    assert sorted(pool.writable for pool in relative) == [False, True]
    places = [found.buffer_map()[f"io{number}"] for number in range(2)]
    assert len({place.pool for place in places}) == 1
    assert [place.offset for place in places] == [0, 128]
    assert sum(pool.size_bytes for pool in relative if pool.writable) == 192


def test_copies_become_blocks_of_the_largest_elements() -> None:
    buffers = {name: Buffer(name, 64, (64,), 8, 64, pool="ram") for name in "abc"}
    copies = [
        Copy(0, 4, 0, 2, (3, 4), (8, 2), (2, 6)),
        Copy(0, 0, 8, 2, (5,), (2,), (2,), target=1),
    ]
    call = kernel_call(Call("Split", ("a",), ("b", "c"), as_arguments(copies)), buffers)
    assert call.function == "npuscope_move"
    assert {operand.type.name for operand in (*call.inputs, *call.outputs)} == {"uint16"}
    first = (0, 0, 0, 0, 0, 2, 0, 2, 3, 4, 4, 1, 1, 3)
    second = (0, 1, 0, 0, 0, 0, 4, 1, 5, 1, 1)
    assert call.numbers == (-1, 2, *first, *second)
