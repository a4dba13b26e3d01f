"""Programs that contradict themselves are found before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compiler.nets import Net, compiled
from npuscope.compiler import pipeline
from npuscope.errors import InternalError
from npuscope.program.balance import check_balance
from npuscope.program.model import Epoch, Group, Program
from npuscope.program.units import Arith, Convacc, PoolUnit, Streng, Unit
from npuscope.structs import replace


def network() -> Program:
    net = Net(1)
    x = net.max_pool(net.conv(net.input((1, 12, 12, 3), (0.02, 3)), 64, (3, 3)))
    net.softmax(net.add(x, net.conv(x, 64)))
    return compiled(net.graph())


def with_unit(program: Program, kind: type[Unit], **fields: Any) -> Program:
    """The last unit of a kind with other fields."""
    epochs = list(program.epochs)
    places = [n for n, e in enumerate(epochs) if any(isinstance(u, kind) for u in e.units)]
    epoch = epochs[places[-1]]
    assert epoch.groups
    units = list(epoch.groups[0].units)
    place = max(n for n, unit in enumerate(units) if isinstance(unit, kind))
    units[place] = replace(units[place], **fields)
    group = Group(tuple(units), epoch.groups[0].links)
    epochs[places[-1]] = replace(epoch, groups=(group, *epoch.groups[1:]))
    return replace(program, epochs=tuple(epochs))


def test_a_compiled_program_is_at_one_with_itself() -> None:
    check_balance(network())


@pytest.mark.parametrize(
    ("kind", "fields", "text"),
    [
        (Convacc, {"fHeight": 5}, "expects .* words at port 0, but gets"),
        (Convacc, {"bot_crop": 4}, "expects .* words at port ., but gets"),
        (Convacc, {"kernelWidth": 2}, "expects .* words at port ., but gets"),
        (Convacc, {"top_crop": 9}, "the crop leaves nothing of the frame"),
        (Convacc, {"kernelHeight": 30}, "the kernel does not fit into the padded frame"),
        (Arith, {"fHeight": 5}, "expects .* words at port 0, but gets"),
        (PoolUnit, {"outputY": 9}, "9x6 outputs need"),
        (PoolUnit, {"inputX": 11, "outputX": 5}, "expects .* words at port 0, but gets"),
        (Streng, {"frame_tot_cnt": 3}, "expects .* words at port 0, but gets"),
    ],
)
def test_units_that_do_not_fit_together(
    kind: type[Unit], fields: dict[str, int], text: str
) -> None:
    with pytest.raises(InternalError, match=text) as caught:
        check_balance(with_unit(network(), kind, **fields))
    assert "contradicts itself" in caught.value.message
    assert "EpochBlock_" in caught.value.where


def change_call(change: Callable[[Epoch], Epoch]) -> Program:
    program = network()
    epochs = [change(epoch) if epoch.call else epoch for epoch in program.epochs]
    return replace(program, epochs=tuple(epochs))


def test_a_kernel_that_does_not_exist() -> None:
    def renamed(epoch: Epoch) -> Epoch:
        assert epoch.call
        return replace(epoch, call=replace(epoch.call, kernel="Determinant"))

    with pytest.raises(InternalError, match="unknown software kernel 'Determinant'"):
        check_balance(change_call(renamed))


def test_a_kernel_that_makes_another_shape() -> None:
    def turned(epoch: Epoch) -> Epoch:
        assert epoch.call
        args = (("permutation", (0, 3, 1, 2)), ("numerics", "litert"))
        return replace(epoch, call=replace(epoch.call, kernel="Transpose", args=args))

    with pytest.raises(
        InternalError, match=r"Transpose gives \[\(1, 64, 6, 6\)\], but its buffers"
    ):
        check_balance(change_call(turned))


def test_a_compile_ends_with_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gets a program that contradicts itself; the op is named."""
    place = pipeline.place

    def damaged(program: Program, *rest: Any) -> Program:
        return with_unit(place(program, *rest), Convacc, bot_crop=4)

    monkeypatch.setattr(pipeline, "place", damaged)
    with pytest.raises(InternalError, match="contradicts itself") as caught:
        network()
    assert "Conv2D" in caught.value.where
