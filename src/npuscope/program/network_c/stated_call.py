"""The software call of an epoch, stated in a comment beside the C that does its work.

The library's kernels have no word for how a model's runtime rounds, and prepared tables hold
results, not the function behind them: whoever reads the file takes the call from here. Buffers
are named as in the tables.
"""

from __future__ import annotations

import json

import numpy as np
import orjson

from npuscope.errors import FileError
from npuscope.program.model import Call
from npuscope.program.network_c.parse_source import Comment, Function
from npuscope.records import decode, encode
from npuscope.structs import replace
from npuscope.text import as_utf8

_MARK = "call="


def call_comment(call: Call) -> str:
    """JSON of ASCII characters; a slash is escaped, so that nothing in it ends the comment."""
    inputs, outputs = (tuple(map(as_utf8, names)) for names in (call.inputs, call.outputs))
    record = encode(replace(call, inputs=inputs, outputs=outputs))
    text = json.dumps(record, separators=(",", ":"), default=np.generic.item)
    text = text.replace("/", "\\u002f")
    return f"  /* {_MARK}{text} */"


def stated_call(function: Function) -> Call | None:
    """None in files of other compilers."""
    for statement in function.statements:
        if isinstance(statement, Comment) and statement.text.startswith(_MARK):
            try:
                call: Call = decode(orjson.loads(statement.text.removeprefix(_MARK)), Call)
            except ValueError as error:
                raise FileError(
                    f"a comment states no call ({error})", where=function.name
                ) from None
            return call
    return None
