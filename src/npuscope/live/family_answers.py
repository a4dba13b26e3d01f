"""What a tab gets of machines of any family: the page, a report, a comparison."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from npuscope.advice.compare.model import Side
from npuscope.advice.compare.run import compare
from npuscope.advice.sweep.summary import short_names
from npuscope.building import Options
from npuscope.families.registry import family_for
from npuscope.live.answers import Answer, applied_row, offered_row, setting_json
from npuscope.live.family_library import FamilyLibrary, FamilyState
from npuscope.live.library import fix_name
from npuscope.live.setting import Setting, command, first_setting, setting_from
from npuscope.report.html.compare import compare_data
from npuscope.report.html.data import explained_data
from npuscope.report.html.page import page
from npuscope.version import __version__


def opened(paths: list[Path], pools: list[Path], options: Options) -> tuple[FamilyLibrary, Setting]:
    """The models, and where every tab begins; files of pools are those of one family."""
    library = FamilyLibrary(paths, options)
    first = first_setting(options, 0, family_for(None, options).options)
    library.states(first)
    return library, first


def first_page(library: FamilyLibrary, first: Setting) -> str:
    names = short_names([str(path) for path in library.models])
    return page(
        {
            "view": "live",
            "version": __version__,
            "models": [names[str(path)] for path in library.models],
            "pools": [],
            "generations": [],
            "levels": [],
            "named": {},
            "own": [
                {"name": row.name, "means": row.means, "choices": list(map(str, row.choices))}
                for row in library.family.options
            ],
            "notes": {},
            "first": setting_json(first),
        },
        asks=True,
    )


def report(library: FamilyLibrary, question: object) -> Answer:
    setting = _setting(library, question)
    states = library.states(setting)
    last = states[-1]
    explanation = last.explanation
    keys: list[dict[str, Any]] = library.family.keys(library.machine).json["keys"]
    return {
        "report": explained_data(explanation, None),
        "fixes": [
            *(
                _applied(name, *pair)
                for name, pair in zip(setting.fixes, pairwise(states), strict=True)
            ),
            *(offered_row(one) for one in last.offers if fix_name(one) not in setting.fixes),
        ],
        "generation": "",
        "epoch_controller": None,
        "keys": {row["key"]: [row["value"], row.get("mark", "")] for row in keys},
        "command": command(
            setting,
            library.models[setting.model],
            None,
            library.options,  # type: ignore[arg-type]
            library.family.options,
        ),
    }


def _applied(name: str, before: FamilyState, after: FamilyState) -> Answer:
    saved = before.look.total_ms - after.look.total_ms
    return applied_row(name, before.offers, saved, after.refused)


def comparison(library: FamilyLibrary, question: object) -> Answer:
    pair = question if isinstance(question, list) and len(question) == 2 else [None, None]
    settings = [_setting(library, one) for one in pair]
    a, b = (library.states(setting)[-1].look.profile for setting in settings)
    same = settings[0].model == settings[1].model
    sides = Side(a.model.file or "A", a), Side(b.model.file or "B", b)
    return compare_data(compare(*sides, same_model=same))


def _setting(library: FamilyLibrary, question: object) -> Setting:
    return setting_from(question, len(library.models), 0)
