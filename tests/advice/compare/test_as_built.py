"""A model compiled as a build was: our own network.c, read as a vendor's, is made again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import npuscope
from advice.compared import network, side
from models import mobilenet_like, save, to_tflite
from npuscope.advice.compare.as_built import as_given, model_named_by, recipe_of
from npuscope.advice.compare.fidelity import STEPS, fidelity, views
from npuscope.advice.compare.sides import open_side
from npuscope.cli.main import main
from npuscope.errors import UsageError
from npuscope.program.addresses import given_pools
from npuscope.program.model import EpochKind, Program
from npuscope.program.sources import read_program
from npuscope.structs import replace

WITHOUT_OURS = ("program.json", ".npuscope")
NO_MEMORY = ((0, 0), (0, 0))


@pytest.fixture(scope="module", params=["4.0", "2.2"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a vendor's compiler leaves, and the model above it."""
    folder = tmp_path_factory.mktemp("as_built")
    model = str(save(folder, "net.tflite", to_tflite(mobilenet_like())))
    words = ["compile", model, "-o", str(folder / "ours"), "-q", "--generation", request.param]
    assert main(words) == 0
    shutil.copytree(folder / "ours", folder / "build")
    for name in WITHOUT_OURS:
        (folder / "build" / name).unlink(missing_ok=True)
    return folder


def test_what_we_wrote_is_made_again(built: Path) -> None:
    found = npuscope.compare(built / "build" / "network.c", built / "net.tflite", as_built=True)
    assert found.fidelity is not None
    assert found.fidelity.score == 1.0
    assert [found.fidelity.equal(step) for step in STEPS] == [found.fidelity.theirs] * len(STEPS)
    assert found.fidelity.ram_bytes[0] == found.fidelity.ram_bytes[1]


def test_build_and_model_come_in_either_order(built: Path) -> None:
    found = npuscope.compare(built / "net.tflite", built / "build" / "network.c", as_built=True)
    assert found.fidelity is not None
    assert found.fidelity.score == 1.0


def test_the_recipe_has_generation_and_pools(built: Path) -> None:
    program = read_program(built / "build" / "network.c")
    recipe = recipe_of(program)
    assert recipe.machine.generation.name == program.generation
    real = {pool.name: pool.address for pool in program.pools if not pool.virtual and pool.address}
    assert {pool.name: pool.address for pool in recipe.machine.pools} == real


def test_what_the_application_gives_is_not_placed(built: Path) -> None:
    """The build's input lies in a pool that the application brings along: so does ours then."""
    program = read_program(built / "build" / "network.c")
    name = program.inputs[0]
    whole = program.buffer_map()[name]
    given = given_pools([("_user_io_input_0", whole.size_bytes)])
    theirs = replace(
        program,
        pools=(*program.pools, *given),
        buffers=tuple(
            b.placed("_user_io_input_0", 0) if name in (b.name, b.view_of) else b
            for b in program.buffers
        ),
    )
    assert "_user_io_input_0" not in {pool.name for pool in recipe_of(theirs).machine.pools}
    ours = as_given(open_side(built / "net.tflite", {}), theirs).program
    assert ours is not None
    home = ours.buffer_map()[ours.inputs[0]].pool
    assert home == "_user_io_input_0"
    assert as_given(open_side(built / "net.tflite", {}), program).program is not None


def test_the_command_prints_the_score_first(built: Path, capsys: Any) -> None:
    words = ["compare", str(built / "build"), str(built / "net.tflite"), "--as-built"]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("fidelity 100.0%: ")
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["fidelity"]
    assert told["score"] == 1.0
    assert told["differences"] == []


def test_our_own_program_is_refused(built: Path) -> None:
    with pytest.raises(UsageError, match="not a build of another compiler"):
        npuscope.compare(built / "ours", built / "net.tflite", as_built=True)


def test_the_model_is_found_by_the_name_that_the_build_states(built: Path) -> None:
    program = read_program(built / "build" / "network.c")
    named = replace(
        program, compiler_options=(("--onnx-input", "C:/models/net_OE_3_3_1.onnx"),), model_md5=""
    )
    assert model_named_by(named, built / "build" / "network.c") == built / "net.tflite"
    other = replace(named, compiler_options=(("--onnx-input", "/models/other.onnx"),))
    assert model_named_by(other, built / "build" / "network.c") is None


def test_a_missing_model_is_asked_for(tmp_path: Path, built: Path) -> None:
    shutil.copytree(built / "build", tmp_path / "alone")
    with pytest.raises(UsageError, match="model of the build was not found"):
        npuscope.compare(tmp_path / "alone" / "network.c", as_built=True)


def program_of_network() -> Program:
    program = side(network()).program
    assert program is not None
    return program


def test_an_epoch_that_only_one_side_has_is_told() -> None:
    program = program_of_network()
    gone = replace(program, epochs=(*program.executed[:3], *program.executed[4:]))
    found = fidelity(program, gone, *NO_MEMORY)
    alone = [pair for pair in found.pairs if pair.ours is None]
    assert len(alone) == 1
    assert alone[0].theirs == views(program)[3]
    assert found.score == (found.theirs - 1) / found.theirs


def test_the_first_step_that_differs_is_named() -> None:
    program = program_of_network()
    moved = tuple(
        replace(epoch, kind=EpochKind.SW, operators=("Softmax",)) if n == 2 else epoch
        for n, epoch in enumerate(program.epochs)
    )
    found = fidelity(program, replace(program, epochs=moved), *NO_MEMORY)
    assert {pair.differs for pair in found.pairs} == {"", "kind"}
    fewer = tuple(
        replace(epoch, groups=tuple(replace(g, units=g.units[:-1]) for g in epoch.groups or ()))
        if n == 2
        else epoch
        for n, epoch in enumerate(program.epochs)
    )
    found = fidelity(program, replace(program, epochs=fewer), *NO_MEMORY)
    assert {pair.differs for pair in found.pairs} - {""} <= {"ops", "units"}
    assert found.equal("kind") == found.theirs
    assert found.equal("units") == found.theirs - 1
