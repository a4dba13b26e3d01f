"""The schemas that results carry: programs rely on these words, whatever modules are called."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "npuscope"
KNOWN = (
    *(
        "asm",
        "setups",
        "tokens",
        "bisect",
        "board",
        "checklist",
        "compare",
        "compile",
        "completion",
        "deploy",
        "disasm",
        "doctor",
        "estimate",
    ),
    *("explain", "export", "findings", "fix", "folder", "gate", "inspect", "lint", "machine"),
    *(
        "machines",
        "opstats",
        "package",
        "plan",
        "profile",
        "profile/record",
        "program",
        "quantize",
        "rules",
    ),
    *("run", "serve", "sweep", "triage", "tune", "validate"),
)


def test_schemas_are_those_of_the_contract() -> None:
    texts = (path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    found = {match for text in texts for match in re.findall(r'"npuscope/([\w/]+)/1"', text)}
    assert found == set(KNOWN)
