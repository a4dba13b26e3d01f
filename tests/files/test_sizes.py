"""Sizes that a file leaves open: pinned by input or symbol, or taken and told."""

from __future__ import annotations

import pytest

from npuscope.errors import ModelError, UsageError
from npuscope.files.sizes import Dims, Pins, named_guesses, static_shape


@pytest.mark.parametrize(
    ("dims", "real", "wanted"),
    [
        (("N", 3, None, None), True, (1, 3, 224, 224)),
        ((None, None, None, None), True, (1, 3, 224, 224)),
        (("batch", "sequence"), False, (1, 128)),
        ((None, None), True, (1, 512)),
        ((2, None, 64), True, (2, 1, 64)),
        (("batch", 1, "height", "width"), True, (1, 1, 224, 224)),
    ],
)
def test_usual_sizes(dims: Dims, real: bool, wanted: tuple[int, ...]) -> None:
    notes: list[str] = []
    assert static_shape("x", dims, Pins(), notes, real=real) == wanted
    assert notes[0].endswith(f"--shape x={','.join(map(str, wanted))}")


def test_a_symbol_is_one_size_at_every_input() -> None:
    pins = Pins({"sequence": (48,)})
    inputs: dict[str, Dims] = {"ids": (1, "sequence"), "mask": (1, "past + sequence")}
    pins.check_names(inputs)
    pins.symbols["past"] = 16
    notes: list[str] = []
    shapes = [static_shape(name, dims, pins, notes) for name, dims in inputs.items()]
    assert shapes == [(1, 48), (1, 64)]
    assert notes == []


def test_a_pinned_input_gives_its_symbols_to_others() -> None:
    pins = Pins({"ids": (1, 40)})
    inputs: dict[str, Dims] = {"ids": (1, "sequence"), "mask": (1, "sequence")}
    pins.check_names(inputs)
    assert static_shape("mask", inputs["mask"], pins, []) == (1, 40)


def test_a_symbol_has_one_size() -> None:
    with pytest.raises(
        UsageError, match="'sequence' is a single size of an input, but 2 sizes were given"
    ):
        Pins({"sequence": (4, 8)}).check_names({"ids": (1, "sequence")})


def test_refusals_name_the_sizes_that_were_taken() -> None:
    pins = Pins()
    static_shape("x", (1, 3, None, None), pins, [])
    error = ModelError("a window of 300 does not fit", hint="use a smaller one")
    named_guesses(error, pins)
    assert error.hint == (
        "use a smaller one; the file has dynamic sizes, taken as --shape x=1,3,224,224: try others"
    )
