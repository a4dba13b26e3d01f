"""Commands in hints can be typed as they stand: they name the file that was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuscope.cli.hints import of_unknown_verb, with_names
from npuscope.cli.main import VERBS, main

QUANTIZE = "first: `npuscope quantize MODEL -o OUT --data random`"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            ["estimate", "dir/net.onnx"],
            "first: `npuscope quantize dir/net.onnx -o net_int8.onnx --data random`",
        ),
        (
            ["estimate", "--json", "my net.tflite"],
            "first: `npuscope quantize 'my net.tflite' -o 'my net_int8.tflite' --data random`",
        ),
        (["compare", "a.tflite", "b.tflite"], QUANTIZE),
        (["estimate", "build"], QUANTIZE),
    ],
)
def test_the_only_model_is_named(words: list[str], hint: str) -> None:
    assert with_names(QUANTIZE, words) == hint


def test_other_commands_and_words_stay() -> None:
    text = "npuscope fix MODEL -o FIXED edits; export the MODEL again"
    assert with_names(text, ["quantize", "n.onnx"]) == (
        "npuscope fix n.onnx -o n_fixed.onnx edits; export the MODEL again"
    )


def test_a_file_in_the_place_of_a_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert of_unknown_verb("net.tflite", VERBS).endswith("`npuscope estimate net.tflite`")
    assert of_unknown_verb(str(tmp_path), VERBS).endswith(f"`npuscope inspect {tmp_path}`")
    assert of_unknown_verb("estimat", VERBS) == "did you mean estimate?"
    assert main(["net.tflite"]) == 2
    assert "hint: the verb comes first: `npuscope estimate net.tflite`" in capsys.readouterr().err


def test_a_word_too_long_for_a_name_is_no_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["x" * 5000]) == 2
    assert "unknown verb" in capsys.readouterr().err
