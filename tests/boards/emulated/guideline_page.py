"""The C pieces of the profiler's guideline: those printed on the vendor's page, and our own with
the same calls."""

from __future__ import annotations

import re
from pathlib import Path

# Where a piece begins on the page and the last line that belongs to it.
_PIECES = {
    "runtime": ("void _rt_callback(", "The second is used"),
    "epoch": ("static void _epoch_callback(", "Measured events"),
    "clock_start": ("- Configure and start a free running counter\n", "- Read the free"),
    "clock_read": ("- Read the free running counter\n", "- Reset the counter"),
    "clock_reset": ("- Reset the counter\n", "Stream engine activity"),
}
_CONFIGURE, _DUMP = "void _configure_counters(", "void _dump_counters("
_KEYWORDS = "for|if|else|const|int|void|static|return|while|switch|case|volatile|unsigned"
_NAMES = rf"(?!(?:{_KEYWORDS})\b)[A-Za-z_]\w*(?: (?!(?:{_KEYWORDS})\b)[A-Za-z_]\w*)*"
# What no line of C begins with: the name before it was moved behind the rest of the line when
# the page became text.
_REST = r"(?P<rest>(?:[(\[.;=)]|->|\+\+)[^\n]*"
_MOVED = (
    re.compile(rf"{_REST}?;) (?P<name>{_NAMES})(?=\n)"),
    re.compile(rf"{_REST})\n(?P<name>{_NAMES})"),
)


def printed(page: str) -> dict[str, str]:
    """The page's pieces, with names at their places again."""
    pieces = {name: _between(page, *marks) for name, marks in _PIECES.items()}
    for name, (configure, dump) in zip(("engines", "bursts"), _counters(page), strict=True):
        pieces[name] = configure + "\n" + dump
    return {name: _whole(text) for name, text in pieces.items()}


def _between(page: str, first: str, behind: str) -> str:
    start = page.index(first)
    text = page[start : page.index(behind, start)]
    return text.removeprefix(first) if first.startswith("- ") else text


def _counters(page: str) -> list[tuple[str, str]]:
    found = []
    for match in re.finditer(re.escape(_CONFIGURE), page):
        start = match.start()
        at = page.index(_DUMP, start)
        found.append((_between(page[start:], _CONFIGURE, "- Read"), _function(page[at:])))
    return found


def _function(text: str) -> str:
    depth = 0
    for at, char in enumerate(text):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "}" and not depth:
            return text[: at + 1]
    raise AssertionError("a function on the page does not end")


def _whole(text: str) -> str:
    lines: list[str] = []
    while text:
        if match := next(filter(None, (moved.match(text) for moved in _MOVED)), None):
            lines.append(match["name"] + _balanced(match["rest"]))
            text = text[match.end() :]
            continue
        line, _, text = text.partition("\n")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _balanced(line: str) -> str:
    """The page closes one parenthesis too many in a line."""
    if line.endswith("));") and line.count(")") > line.count("("):
        return line.removesuffix(");") + ";"
    return line


OURS = {
    "runtime": """
void _rt_callback(LL_ATON_RT_Callbacktype_t what) {
  if (what == LL_ATON_RT_Callbacktype_RT_Init) { LL_Dbgtrc_EnableClock(); LL_Dbgtrc_Init(0); }
  if (what == LL_ATON_RT_Callbacktype_RT_Deinit) { LL_Dbgtrc_Deinit(0); LL_Dbgtrc_DisableClock(); }
}
""",
    "clock_start": """
  LL_Dbgtrc_Counter_InitTypdef clock = {.signal = DBGTRC_VDD, .evt_type = DBGTRC_EVT_HI,
                                        .int_disable = 1, .counter = 7};
  LL_Dbgtrc_Counter_Init(0, _COUNTER_ID, &clock);
  LL_Dbgtrc_Counter_Start(0, _COUNTER_ID);
""",
    "clock_read": "  LL_Dbgtrc_Counter_Read(0, _COUNTER_ID);\n",
    "clock_reset": """
  const uintptr_t place = ATON_DEBUG_TRACE_EVENT_CNT_ADDR(0, _NPU_CLK_COUNTER);
  *(volatile uint32_t *)place = 0;
""",
    "engines": """
void _configure_counters(const LL_ATON_RT_EpochBlockItem_t *item) {
  const uint32_t in = item->in_streng_mask, out = item->out_streng_mask;
  const int taken = LL_Dbgtrc_Count_StrengActive_Config(in, out, _COUNTER_BASE_IDX);
  if (taken == __builtin_popcount(in) + __builtin_popcount(out))
    LL_Dbgtrc_Count_StrengActive_Start(in, out, _COUNTER_BASE_IDX);
}
void _dump_counters(const LL_ATON_RT_EpochBlockItem_t *item) {
  const uint32_t in = item->in_streng_mask, out = item->out_streng_mask;
  int next = _COUNTER_BASE_IDX;
  LL_Dbgtrc_Count_StrengActive_Stop(in, out, _COUNTER_BASE_IDX);
  for (int engine = 0; engine < ATON_STRENG_NUM; engine++)
    if ((in | out) >> engine & 1u) (void)LL_Dbgtrc_Counter_Read(0, next++);
}
""",
    "bursts": """
void _configure_counters(const EpochBlock_ItemTypeDef *item) {
  (void)item;
  for (int port = 0; port < 2; port++)
    for (int reads = 0; reads < 2; reads++)
      LL_Dbgtrc_Count_BurstsLen(8 * port + 4 * reads, port, reads);
}
void _dump_counters(const EpochBlock_ItemTypeDef *item) {
  (void)item;
  for (int i = 0; i < 16; i++) (void)LL_Dbgtrc_Counter_Read(0, i);
}
""",
    "epoch": """
static void _epoch_callback(LL_ATON_RT_Callbacktype_t what, const NN_Instance_TypeDef *network,
                            const LL_ATON_RT_EpochBlockItem_t *item) {
  (void)network;
  (void)_get_free_running_counters();
  if (what == LL_ATON_RT_Callbacktype_PRE_START) _configure_counters(item);
  if (what == LL_ATON_RT_Callbacktype_POST_END) _dump_counters(item);
}
""",
}


def written(pieces: dict[str, str], folder: Path) -> Path:
    for name, text in pieces.items():
        (folder / f"{name}.inc").write_text(text, encoding="utf-8")
    return folder
