"""What a tab gets: the page with all that may be chosen, a report, a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npuscope.advice.compare.model import Side
from npuscope.advice.compare.numbering import renumbered, with_names
from npuscope.advice.compare.run import compare
from npuscope.advice.fix.candidates import Candidate
from npuscope.advice.sweep.summary import short_names
from npuscope.building import Options
from npuscope.live.library import Library, LiveView, TimedView, fix_name
from npuscope.live.setting import Setting, command, first_setting, setting_from
from npuscope.machine.load import DEFAULT_MACHINE, generations, packaged, read_table
from npuscope.machine.set_keys import machine_keys
from npuscope.options.rows import LEVELS
from npuscope.report.estimate import known_keys
from npuscope.report.html.compare import compare_data
from npuscope.report.html.data import explained_data
from npuscope.report.html.page import page
from npuscope.version import __version__

Answer = dict[str, Any]


def opened(paths: list[Path], pools: list[Path], options: Options) -> tuple[Library, Setting]:
    """The models, and where every tab begins."""
    own = options.get("mpool")
    library = Library(paths, [*([Path(own)] if own else []), *pools], options)
    first = first_setting(options, 1 if own else 0)
    library.shown(first)
    return library, first


def first_page(library: Library, first: Setting) -> str:
    """The application; its first report comes with the first question."""
    names = short_names([str(path) for path in library.models])
    return page(
        {
            "view": "live",
            "version": __version__,
            "models": [names[str(path)] for path in library.models],
            "pools": [path.name for path in library.pools],
            "generations": list(generations()),
            "levels": list(LEVELS),
            "named": _named(library),
            "own": [],
            "notes": _key_notes(library),
            "first": setting_json(first),
        },
        asks=True,
    )


def _named(library: Library) -> dict[str, list[str]]:
    """Set-ups that have a name, by the key that takes it; the first is the usual one."""
    name = library.options.get("machine") or DEFAULT_MACHINE
    if not isinstance(name, str):
        return {}
    file = library.options.get("machine_file")
    table = read_table(Path(file) if file else packaged(name))
    tables = {"clock_mode": "clock_modes", "flash": "flash", "psram": "psram"}
    return {key: list(table.get(rows, {})) for key, rows in tables.items() if table.get(rows)}


def _key_notes(library: Library) -> dict[str, str]:
    """What each key of a packaged machine means."""
    name = library.options.get("machine") or ""
    if library.options.get("machine_file") or not isinstance(name, str):
        return {}
    return {row.key.name: row.note for row in known_keys(name or DEFAULT_MACHINE)}


def setting_json(setting: Setting) -> Answer:
    return {
        "model": setting.model,
        "generation": setting.generation,
        "epoch_controller": setting.epoch_controller,
        "optimization": setting.optimization,
        "pools": setting.pools,
        "values": [list(pair) for pair in setting.values],
        "fixes": list(setting.fixes),
        "own": [list(pair) for pair in setting.own],
    }


def report(library: Library, question: object) -> Answer:
    """Figures, findings and fixes of one setting."""
    view = library.shown(_setting(library, question))
    library.ahead(view)
    setting, machine, explanation = view.setting, view.machine, view.found
    model = library.models[setting.model]
    return {
        "report": explained_data(explanation, view.build),
        "fixes": [
            *_applied(view),
            *[offered_row(one) for one in view.offers if fix_name(one) not in view.setting.fixes],
        ],
        "generation": machine.generation.name,
        "epoch_controller": machine.epoch_controller,
        "keys": {
            key.name: [
                (list(key.value) if isinstance(key.value, tuple) else key.value),
                key.effect.value,
            ]
            for key in machine_keys(machine).values()
        },
        "command": command(setting, model, library.mpool(setting), library.options),
    }


def comparison(library: Library, question: object) -> Answer:
    """Two settings against each other."""
    pair = question if isinstance(question, list) and len(question) == 2 else [None, None]
    a, b = (library.timed(_setting(library, one)) for one in pair)
    same = library.models[a.setting.model] == library.models[b.setting.model]
    return compare_data(compare(_side("A", a), _side("B", b), same_model=same))


def _side(letter: str, view: TimedView) -> Side:
    """Under the names that ops have in the file: an edit shifts the numbers of those behind it."""
    file, edited = (state.look.build.graph for state in (view.states[0], view.states[-1]))
    side = Side(
        view.profile.model.file or letter,
        view.profile,
        view.build.program,
        view.machine,
        view.states[-1].epochs,
        file,
    )
    return with_names(side, renumbered(file, edited)) if file and edited else side


def _setting(library: Library, question: object) -> Setting:
    return setting_from(question, len(library.models), len(library.pools))


def _applied(view: LiveView) -> list[Answer]:
    """In their order, each with what it saved, or why it changed nothing."""
    totals = view.totals_ms
    return [
        applied_row(
            name,
            view.states[number].offers,
            totals[number] - totals[number + 1],
            view.states[number + 1].refused,
        )
        for number, name in enumerate(view.setting.fixes)
    ]


def offered_row(offer: Candidate) -> Answer:
    return {
        "id": fix_name(offer),
        "rule": offer.rule,
        "title": offer.fix.title,
        "places": len(offer.places),
        "gain": None if offer.gain_ms is None else round(offer.gain_ms, 6),
        "on": False,
        "notes": list(offer.notes),
    }


def applied_row(name: str, offers: tuple[Candidate, ...], saved_ms: float, refused: str) -> Answer:
    offer = next((one for one in offers if fix_name(one) == name), None)
    rule, _, fix = name.partition("/")
    return {
        "id": name,
        "rule": rule,
        "title": offer.fix.title if offer else fix,
        "places": len(offer.places) if offer else 0,
        "gain": saved_ms,
        "on": True,
        "notes": [refused] if refused else list(offer.notes if offer else ()),
    }
