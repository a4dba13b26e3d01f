"""What one tab asks for: a model, the machine it runs on, fixes and what-if values."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import cast

from msgspec import Struct

from npuscope.building import Options
from npuscope.errors import UsageError
from npuscope.options.kinds import Option
from npuscope.options.rows import READING, TARGET
from npuscope.options.words import option_words, parse_value, spelt
from npuscope.records import JSON, decode
from npuscope.structs import replace

# Far more than a page offers; each costs a build of its own.
_MOST_FIXES = 64
_MOST_VALUES = 256
# What a tab chooses; all other options are those that the server was started with.
_CHOSEN = ("generation", "epoch_controller", "optimization", "mpool", "overrides")
_VALUES = {
    "mcu_mhz": "clocks.mcu_mhz",
    "npu_mhz": "clocks.npu_mhz",
    "flash": "flash",
    "psram": "psram",
}
# Fixes that no rule offered, but that may be asked for: options of their own on `fix`.
_FLAGS = {
    "cut-tail": "--cut",
    "integer-input": "--integer-io",
    "integer-output": "--integer-io",
}


class Setting(Struct, frozen=True):
    """`pools` is 0 for the machine's own and n for the nth file; `values` are in TOML's spelling;
    a fix is RULE/FIX, and they are applied in their order."""

    model: int = 0
    generation: str | None = None
    epoch_controller: bool | None = None
    optimization: int | None = None
    pools: int = 0
    values: tuple[tuple[str, str], ...] = ()
    fixes: tuple[str, ...] = ()
    own: tuple[tuple[str, str], ...] = ()  # options that only the machine's family has

    def parsed(self) -> dict[str, object]:
        return {key: parse_value(key, text) for key, text in self.values}

    def with_fix(self, fix: str) -> Setting:
        return replace(self, fixes=(*self.fixes, fix))

    def without_fix(self, fix: str) -> Setting:
        return replace(self, fixes=tuple(one for one in self.fixes if one != fix))


def setting_from(data: object, models: int, pools: int) -> Setting:
    """Checked: what a browser sends is as foreign as a file."""
    setting: Setting = decode(data, Setting, "$", JSON)
    for name, most in (("fixes", _MOST_FIXES), ("values", _MOST_VALUES)):
        count = len(getattr(setting, name))
        if count > most:
            raise UsageError(f"expected at most {most}, found {count}", where=f"$.{name}")
    for option in TARGET.options:
        value = getattr(setting, option.name, None)
        if option.choices and value is not None and value not in option.choices:
            choices = ", ".join(map(str, option.choices))
            raise UsageError(f"expected one of {choices}, found {value}", where=f"$.{option.name}")
    if not 0 <= setting.model < models:
        raise UsageError(f"unknown model {setting.model}", where="$.model")
    if not 0 <= setting.pools <= pools:
        raise UsageError(f"unknown pool file {setting.pools}", where="$.pools")
    return replace(setting, values=tuple(dict(setting.values).items()))


def first_setting(options: Options, pools: int, own: tuple[Option, ...] = ()) -> Setting:
    """Where every tab begins: what the command line said."""
    stated = {key: options.get(name) for name, key in _VALUES.items()}
    values = {key: value for key, value in stated.items() if value is not None}
    values |= options.get("overrides") or {}
    return Setting(
        generation=options.get("generation"),
        epoch_controller=options.get("epoch_controller"),
        optimization=options.get("optimization"),
        pools=pools,
        values=tuple((key, spelt(value)) for key, value in values.items()),
        own=tuple((row.name, str(options[row.name])) for row in own if options.get(row.name)),  # type: ignore[literal-required]
    )


def fixed_options(options: Options) -> Options:
    """Those that no tab changes."""
    fixed = {k: v for k, v in options.items() if k not in (*_CHOSEN, *_VALUES) and v is not None}
    return cast("Options", fixed)


# --- The same on the command line ---


def command(
    setting: Setting,
    model: Path,
    mpool: Path | None,
    fixed: Options,
    own: tuple[Option, ...] = (),
) -> str:
    """What gives these figures in a shell; with fixes, what writes the fixed file."""
    words = ["npuscope", "fix" if setting.fixes else "estimate", str(model)]
    if setting.fixes:
        # `--only` keeps `fix` from trying others.
        pairs = [fix.partition("/") for fix in setting.fixes]
        names = dict.fromkeys(name for _, _, name in pairs)
        flags = dict.fromkeys(
            _FLAGS[name] for rule, _, name in pairs if not rule and name in _FLAGS
        )
        words += ["--only", ",".join(names), *flags, "-o", f"{model.stem}_fixed{model.suffix}"]
    choices: dict[str, object] = {
        "generation": setting.generation,
        "epoch_controller": setting.epoch_controller,
        "optimization": setting.optimization,
        "mpool": mpool,
        "overrides": setting.parsed(),
        **dict(setting.own),
    }
    rows = (*TARGET.options, *READING.options, *own)
    return shlex.join([*words, *option_words(rows, {**fixed, **choices})])
