"""Rules on the CPU's data cache: lines that are thrown away before the NPU could read them, and
buffers that share lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from npuscope.application.check.c_source import Array, Body
from npuscope.application.check.model import LINE, AppFinding, AppSeverity
from npuscope.text import safe_terminal

_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_INVALIDATES = ("SCB_InvalidateDCache_by_Addr", "mcu_cache_invalidate_range")
_CLEANS = (
    "SCB_CleanDCache_by_Addr", "SCB_CleanInvalidateDCache_by_Addr", "mcu_cache_clean_range",
    "mcu_cache_clean_invalidate_range",
)  # fmt: skip
_WHOLE = (
    "SCB_CleanDCache", "SCB_CleanInvalidateDCache", "mcu_cache_clean_invalidate", "mcu_cache_clean",
    "SCB_DisableDCache",
)  # fmt: skip
_COPIES = ("memcpy", "memset", "memmove", "strcpy")
# Calls of libraries that move pixels with the CPU, by their usual names, and what is called a
# target there; where a function is defined in the application, what it does counts instead.
_WRITING = re.compile(
    r"crop|resize|copy|convert|rotate|bilinear|ipl_|fill|pack|quanti|normali", re.I
)
_TARGETS = re.compile(r"out|dst|dest|target", re.IGNORECASE)
# Work of others than the CPU: graphics, cameras, DMA, the network itself.
_OTHERS = re.compile(r"^(nema_|HAL_|LL_|CAM_|CMW_|BSP_|DMA|hal_|GFX|stai_|ai_|bqueue|tx_|x[A-Z])")
_DEEP = 4


class _Call(Struct, frozen=True):
    at: int
    name: str
    arguments: tuple[str, ...]


def cache_findings(
    board: str, functions: Sequence[Body], arrays: Sequence[Array], left_out: Sequence[Body] = ()
) -> Iterator[AppFinding]:
    """`left_out` are functions that this build does not compile: faults of theirs sleep."""
    invalidated: set[str] = set()
    yield from _lost_writes(board, functions, AppSeverity.ERROR, invalidated)
    yield from _lost_writes(board, left_out, AppSeverity.LATENT, set())
    # Arrays whose lines are invalidated must have those lines for themselves.
    for array in arrays:
        used = any(re.match(rf"{re.escape(array.name)}\b", text) for text in invalidated)
        if not used or array.align >= LINE:
            continue
        text = (
            f"'{safe_terminal(array.name)}' is invalidated but not aligned to {LINE} bytes: its "
            "first and last line may hold other variables, whose values get lost"
        )
        hint = "__attribute__((aligned(32))), and a size in whole lines"
        yield AppFinding("shared-line", AppSeverity.LATENT, board, text, (array.file,), hint)


def _lost_writes(
    board: str, functions: Sequence[Body], severity: AppSeverity, invalidated: set[str]
) -> Iterator[AppFinding]:
    by_name = {body.name: body for body in functions}
    for body in functions:
        calls = list(_calls(body.text))
        for call in calls:
            if call.name not in _INVALIDATES or not call.arguments:
                continue
            target = _bare(call.arguments[0])
            invalidated.add(target)
            write = _written_before(body, calls, call, target, by_name)
            if write:
                text = (
                    f"{body.name}: the CPU writes {safe_terminal(target)} ({write}), then its "
                    "lines are invalidated and never cleaned: what is still in the cache is lost"
                )
                hint = (
                    "clean and invalidate (SCB_CleanInvalidateDCache_by_Addr) before the NPU runs"
                )
                line = body.line + body.text.count("\n", 0, call.at)
                place = (f"{body.file}:{line}",)
                yield AppFinding("invalidate-without-clean", severity, board, text, place, hint)


def _calls(text: str) -> Iterator[_Call]:
    for match in _CALL.finditer(text):
        depth, parts, begin = 0, [], match.end()
        for at in range(begin, min(len(text), begin + 2000)):
            char = text[at]
            if char in "([{":
                depth += 1
            elif char in ")]}":
                if not depth:
                    parts.append(text[begin:at])
                    break
                depth -= 1
            elif char == "," and not depth:
                parts.append(text[begin:at])
                begin = at + 1
        yield _Call(match.start(), match[1], tuple(part.strip() for part in parts))


def _bare(expression: str) -> str:
    """Without casts, & and spaces."""
    text = re.sub(r"\(\s*(?:const\s+|volatile\s+)?(?:struct\s+)?\w+\s*\**\s*\)", "", expression)
    return re.sub(r"\s+", "", text).lstrip("&(").rstrip(")")


def _written_before(
    body: Body, calls: Sequence[_Call], end: _Call, target: str, by_name: Mapping[str, Body]
) -> str:
    """The last write of the CPU before a call, unless its lines were cleaned behind it."""
    write = ""
    for call in calls:
        if call.at >= end.at:
            break
        first = _bare(call.arguments[0]) if call.arguments else ""
        if call.name in _WHOLE or (call.name in _CLEANS and first == target):
            write = ""
        elif call.name in _COPIES and first == target:
            write = call.name
        elif target in map(_bare, call.arguments) and call.name not in _INVALIDATES:
            number = [_bare(one) for one in call.arguments].index(target)
            if _writes(call, number, by_name, 0):
                write = call.name
    store = re.compile(rf"(?<![\w.>]){re.escape(target)}\s*\[[^\]]*\]\s*=[^=]")
    stores = [match.start() for match in store.finditer(body.text, 0, end.at)]
    cleaned = [c.at for c in calls if c.name in (*_CLEANS, *_WHOLE) and c.at < end.at]
    if stores and not any(at > stores[-1] for at in cleaned):
        write = write or "stores"
    return write


def _writes(call: _Call, number: int, by_name: Mapping[str, Body], depth: int) -> bool:
    """Whether a function writes through one of its pointers with the CPU."""
    body = by_name.get(call.name)
    if body is None:
        is_target = bool(_TARGETS.search(call.arguments[number]))
        return is_target and bool(_WRITING.search(call.name)) and not _OTHERS.match(call.name)
    if depth > _DEEP or number >= len(body.parameters):
        return False
    pointer = body.parameters[number]
    names = {
        pointer,
        *re.findall(rf"(\w+)\s*=\s*(?:\([^()]*\))?\s*{re.escape(pointer)}\b", body.text),
    }
    stored = any(
        re.search(rf"(?<![\w.>])(?:\*\s*{n}(?:\+\+)?|{n}\s*\[[^\]]*\])\s*=[^=]", body.text)
        for n in names
    )
    if stored:
        return True
    for inner in _calls(body.text):
        arguments = [_bare(one) for one in inner.arguments]
        for place, argument in enumerate(arguments):
            if argument not in names:
                continue
            if inner.name in _COPIES:
                if place == 0:
                    return True
            elif inner.name in (*_CLEANS, *_WHOLE):
                return False
            elif not _OTHERS.match(inner.name) and _writes(inner, place, by_name, depth + 1):
                return True
    return False
