"""One verb over several files, as hooks and build servers hand them over.

    python -m npuscope.cli.each gate --max total_ms=20 a.tflite b.onnx

The exit code is the worst one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from npuscope.cli.main import main

_MODELS = (".tflite", ".onnx")


def each(words: Sequence[str]) -> int:
    """Words that end like a model are the files; all others go with each of them."""
    files = [word for word in words[1:] if word.endswith(_MODELS)]
    rest = [word for word in words if word not in files]
    codes = []
    for file in files:
        print(file, flush=True)
        codes.append(main([*rest, file]))
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(each(sys.argv[1:]))
