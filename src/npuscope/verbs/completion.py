"""`npuscope completion SHELL`: a script made from the records of the verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from npuscope.errors import UsageError
from npuscope.families.registry import families
from npuscope.options.kinds import Argument, Option, OptionKind, VendorEffect, Verb
from npuscope.options.rows import MACHINE, OUTPUT
from npuscope.verbs.check import checked
from npuscope.verbs.families import with_families
from npuscope.verbs.table import records

SHELLS = ("bash", "zsh", "fish")
VERB = Verb(
    "completion of verbs, options and values for a shell",
    (Argument("shell", "SHELL", "bash, zsh or fish", "", SHELLS),),
    (OUTPUT,),
    text="npuscope.verbs.completion:script_text",
    json="npuscope.verbs.completion:script_json",
)
_ALONE = ("--help", "--version")
_NO_VALUE = (OptionKind.FLAG, OptionKind.SWITCH)


@checked(VERB)
def completion(shell: str) -> str:
    """A script that completes verbs, options and values in a shell.

    In: bash, zsh or fish. Out: the script; it calls no program, so completion is immediate.

    >>> npuscope.completion("bash")
    """
    if shell not in SHELLS:
        names = ", ".join(SHELLS)
        raise UsageError(f"unknown shell '{shell}'", where="npuscope.completion", hint=names)
    return _SCRIPTS[shell]()


def script_text(script: str) -> str:
    return script


def script_json(script: str, *, shell: str) -> dict[str, Any]:
    return {"schema": "npuscope/completion/1", "shell": shell, "script": script}


class Command(Struct, frozen=True):
    """A verb as it is typed: the words that may follow it, and its options, each once."""

    name: str
    line: str
    words: tuple[str, ...]
    options: tuple[Option, ...]


def commands() -> tuple[Command, ...]:
    table = {name: with_families(row) for name, row in records().items()}
    return tuple(_command(name, table) for name in table if " " not in name)


def _command(name: str, table: Mapping[str, Verb]) -> Command:
    """With what belongs to the verbs below it, such as `manycore compile`."""
    below = {key: row for key, row in table.items() if key.startswith(f"{name} ")}
    rows = [table[name], *below.values()]
    words = [key.partition(" ")[2] for key in below]
    words += [str(word) for row in rows for argument in row.arguments for word in argument.choices]
    options: dict[tuple[str, ...], Option] = {}
    for option in (option for row in rows for option in row.options):
        if option.shell and option.effect is not VendorEffect.REFUSED:
            options.setdefault(option.spellings, option)
    return Command(name, table[name].line, tuple(dict.fromkeys(words)), tuple(options.values()))


def values(option: Option) -> tuple[str, ...]:
    """What an option may be, where that is known; nothing for files and numbers."""
    if option.kind is OptionKind.BOOLEAN:
        return ("true", "false")
    if option == MACHINE[0]:
        return tuple(name for family in families() for name in family.machines())
    return tuple(map(str, option.choices or option.suggested))


def _flags(option: Option) -> Iterator[str]:
    yield from option.spellings
    if option.kind is OptionKind.SWITCH:
        yield option.spellings[0].replace("--", "--no-", 1)


# --- bash ---

_BASH = """# bash completion of npuscope, written by `npuscope completion bash`
_npuscope() {{
    local cur prev verb word options words
    cur="${{COMP_WORDS[COMP_CWORD]}}"
    prev="${{COMP_WORDS[COMP_CWORD-1]}}"
    COMPREPLY=()
    verb=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$word" in
            -*) ;;
            *) verb="$word"; break ;;
        esac
    done
    if [[ -z "$verb" || "$verb" == help ]]; then
        COMPREPLY=($(compgen -W "{verbs}" -- "$cur"))
        return
    fi
    case "$verb $prev" in
{values}
    esac
    options=""
    words=""
    case "$verb" in
{options}
    esac
    if [[ "$cur" == -* ]]; then
        COMPREPLY=($(compgen -W "$options --help" -- "$cur"))
    else
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
        local IFS=$'\\n'  # names of files may hold spaces
        COMPREPLY+=($(compgen -f -- "$cur"))
    fi
}}
complete -o filenames -F _npuscope npuscope
"""


def _bash() -> str:
    rows, options = [], []
    for command in commands():
        for option in command.options:
            if choices := values(option):
                cases = "|".join(f'"{command.name} {flag}"' for flag in option.spellings)
                words = f'COMPREPLY=($(compgen -W "{" ".join(choices)}" -- "$cur")); return'
                rows.append(f"        {cases}) {words} ;;")
        flags = " ".join(flag for option in command.options for flag in _flags(option))
        words = " ".join(command.words)
        options.append(f'        {command.name}) options="{flags}"; words="{words}" ;;')
    verbs = " ".join((*(command.name for command in commands()), "help", *_ALONE))
    return _BASH.format(verbs=verbs, values="\n".join(rows), options="\n".join(options))


# --- zsh ---

_ZSH = """#compdef npuscope
# zsh completion of npuscope, written by `npuscope completion zsh`
_npuscope() {{
    local -a verbs
    verbs=(
{verbs}
    )
    if (( CURRENT == 2 )) || [[ $words[2] == help ]]; then
        _describe 'verb' verbs
        return
    fi
    local verb=$words[2]
    shift words
    (( CURRENT-- ))
    case $verb in
{cases}
    esac
}}
if [[ $funcstack[1] == _npuscope ]]; then
    _npuscope "$@"
else
    compdef _npuscope npuscope
fi
"""


def _zsh() -> str:
    verbs = [f"        {_quoted(f'{c.name}:{c.line}')}" for c in commands()]
    verbs.append(f"        {_quoted('help:explain a verb and its options')}")
    cases = "\n".join(
        f"        {command.name}) {_zsh_arguments(command)} ;;" for command in commands()
    )
    return _ZSH.format(verbs="\n".join(verbs), cases=cases)


def _zsh_arguments(command: Command) -> str:
    specs = [spec for option in command.options for spec in _zsh_specs(option)]
    words = f":word:({' '.join(command.words)})" if command.words else ""
    rest = [f"1{words}"] if words else []
    lines = [_quoted(spec) for spec in (*specs, *rest, "*:file:_files")]
    return " \\\n            ".join(("_arguments", *lines))


def _zsh_specs(option: Option) -> Iterator[str]:
    means = "".join(f"\\{char}" if char in "[]:\\" else char for char in option.means)
    for flag in _flags(option):
        spec = f"*{flag}[{means}]"
        if option.kind in _NO_VALUE:
            yield spec
            continue
        words = values(option)
        what = (
            f"({' '.join(words)})" if words else "_files" if option.kind is OptionKind.FILE else " "
        )
        # A value that may be left out has two colons.
        colon = "::" if option.const is not None else ":"
        yield f"{spec}{colon}{option.value or option.name}:{what}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# --- fish ---


def _fish() -> str:
    lines = ["# fish completion of npuscope, written by `npuscope completion fish`"]
    first = "complete -c npuscope -n __fish_use_subcommand -f"
    for command in commands():
        lines.append(f"{first} -a {command.name} -d {_fish_quoted(command.line)}")
    lines.append(f"{first} -a help -d {_fish_quoted('explain a verb and its options')}")
    names = " ".join(command.name for command in commands())
    lines.append(f"complete -c npuscope -n '__fish_seen_subcommand_from help' -f -a '{names}'")
    for command in commands():
        lines += _fish_lines(command)
    return "\n".join(lines) + "\n"


def _fish_lines(command: Command) -> Iterator[str]:
    line = f"complete -c npuscope -n '__fish_seen_subcommand_from {command.name}'"
    if command.words:
        yield f"{line} -a '{' '.join(command.words)}'"
    for option in command.options:
        flags = " ".join(_fish_flag(flag) for flag in _flags(option))
        value = "" if option.kind in _NO_VALUE or option.const is not None else " -r"
        words = values(option)
        choice = f" -f -a '{' '.join(words)}'" if words else ""
        yield f"{line} {flags} -d {_fish_quoted(option.means)}{value}{choice}"


def _fish_flag(flag: str) -> str:
    """-l is long (--name), -s one letter, -o a name behind a single dash."""
    if flag.startswith("--"):
        return f"-l {flag[2:]}"
    return f"-s {flag[1:]}" if len(flag) == 2 else f"-o {flag[1:]}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: dict[str, Callable[[], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
