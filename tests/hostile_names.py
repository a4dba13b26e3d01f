"""Names that break out of whatever they are written into, if nobody stops them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

# What may stand at the start of a line only if a name brought its own line end along.
FORGED = "FORGED"
HOSTILE = {
    "quotes": "a\"b'c`d\\",
    "newlines": f"a\n{FORGED}\r\n{FORGED}\u2028{FORGED}\x0b{FORGED}",
    "terminal": "a\x1b[2J\x1b]0;title\x07b",
    "direction": "right\u202eleft\u2066x\u200bz",
    "script": "</script><script>alert(1)</script>",
    "comment": "*/ int main(void) /* --> <!--",
    "cdata": "]]><failure/>&amp;&lt;",
    "folders": "../../etc/passwd",
    "nul": "a\x00b",
    "surrogate": "a\ud800b\ufffe",
    "cell": '"a,b',
    "formula": "=cmd|' /C calc'!A0,b",
    "template": "{0} {name} %s %n [link](http://example.org)",
    "option": "-rf",
    "hidden": ".bashrc",
    "empty": "",
    "long": "n" * 100_000,
}


def hostile_onnx(data: bytes, names: Iterable[str] = HOSTILE.values()) -> bytes:
    """The same network; everything that has a name gets one of these, with a number."""
    model = onnx.ModelProto.FromString(data)
    # Protobuf strings are UTF-8, and one very long name is enough.
    kinds = [name.encode("utf-8", "replace").decode()[:5000] for name in names]
    new: dict[str, str] = {"": ""}

    def named(old: str) -> str:
        return new.setdefault(old, f"{kinds[len(new) % len(kinds)]}{len(new)}")

    graph = model.graph
    for entry in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        entry.name = named(entry.name)
    for number, node in enumerate(graph.node):
        node.name = f"{kinds[number % len(kinds)]}{number}"
        node.input[:] = map(named, node.input)
        node.output[:] = map(named, node.output)
    graph.name = model.producer_name = kinds[1]
    return model.SerializeToString()


def assert_harmless(text: str, place: str = "") -> None:
    """Nothing moves a cursor or turns text around, and no name starts a line."""
    bad = sorted({c for c in text if not c.isprintable() and c not in "\n\t"})
    assert not bad, (place, bad)
    assert not [line for line in text.split("\n") if line.startswith(FORGED)], place
