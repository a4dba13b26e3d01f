"""One verb over several files, as hooks and build servers hand them over.

    python -m npuscope.cli.each gate --max total_ms=20 a.tflite b.onnx

The exit code is the worst one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from npuscope.cli.main import main
from npuscope.errors import UsageError

_MODELS = (".tflite", ".onnx")


def each(words: Sequence[str]) -> int:
    """The last words that end like a model are the files; all before go with each of them."""
    first = len(words)
    while first > 1 and words[first - 1].endswith(_MODELS) and words[first - 1][0] != "-":
        first -= 1
    if first == len(words):
        # Nothing was checked, which must not look like a check that passed.
        print("npuscope: name the model files (.tflite, .onnx) last", file=sys.stderr)
        return UsageError.exit_code
    codes = []
    for file in words[first:]:
        print(file, flush=True)
        codes.append(main([*words[:first], file]))
    return max(codes)


if __name__ == "__main__":
    sys.exit(each(sys.argv[1:]))
