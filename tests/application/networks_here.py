"""Files of an application with two small networks."""

from __future__ import annotations

from pathlib import Path

from models import conv_net, mobilenet_like, to_tflite

EXAMPLE = Path(__file__).parents[2] / "examples" / "plan" / "app.toml"


def example(folder: Path, **changes: str) -> Path:
    """The example with its networks; `changes` are texts for texts."""
    text = EXAMPLE.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return application(folder, text)


def application(folder: Path, text: str) -> Path:
    (folder / "detector.tflite").write_bytes(to_tflite(mobilenet_like()))
    (folder / "tagger.tflite").write_bytes(to_tflite(conv_net(size=16, out=8)))
    path = folder / "app.toml"
    path.write_text(text, encoding="utf-8")
    return path
