"""Commands as text, one per line, and text as commands again.

    NPU_SET_IFM_PRECISION type=SIGNED precision=B8 format=NHWC
    NPU_SET_IFM_BASE0 address=0x1200
    NPU_OP_CONV

Fields that are zero and have no name for it are left out; the assembler takes absent fields for
zero. Bits that belong to no field are written as `rest`."""

from __future__ import annotations

from collections.abc import Iterable

from npuscope.errors import FileError
from npuscope.families.ethos_u.commands import ENCODINGS, CommandField, Encoding
from npuscope.families.ethos_u.stream import (
    CommandStream,
    NpuCommand,
    NpuConfiguration,
    build_stream,
    encode_commands,
)
from npuscope.text import safe_terminal

_WIDE_BITS = 20  # numbers of that width and more are addresses and scales: hexadecimal
_UNKNOWN = "UNKNOWN"
_HEAD = "CONFIGURATION"


def command_text(command: NpuCommand) -> str:
    if command.form is None:
        return f"{_UNKNOWN} words={command.words} code={command.code} payload=0x{command.payload:x}"
    items = [
        f"{field.name}={_value_text(field, value)}"
        for field in command.form.fields
        if (value := field.get(command.payload)) or field.values
    ]
    if rest := command.form.rest(command.payload):
        items.append(f"rest=0x{rest:x}")
    return " ".join((command.form.name, *items))


def _value_text(field: CommandField, value: int) -> str:
    if 0 <= value < len(field.values) and field.values[value]:
        return field.values[value]
    return f"0x{value:x}" if field.width >= _WIDE_BITS and value >= 0 else str(value)


def disassemble(stream: CommandStream) -> Iterable[str]:
    """The lines of a stream, with the machine that it is for in front."""
    configuration = stream.configuration
    if configuration is not None:
        yield (
            f"{_HEAD} config=0x{configuration.config:08x} identity=0x{configuration.identity:08x}"
            f"  ; {configuration.machine}"
        )
    for command in stream.commands():
        yield command_text(command)


# --- Text to commands ---


def assemble(text: str, encoding: str = "u55") -> CommandStream:
    """A stream of the lines that `disassemble` gives. `;` begins a remark."""
    forms, configuration = ENCODINGS[encoding], NpuConfiguration(0, 0)
    commands = []
    for number, line in enumerate(text.splitlines(), 1):
        name, *items = line.partition(";")[0].split() or ("",)
        if not name:
            continue
        try:
            fields = dict(_item(item) for item in items)
            if name == _HEAD:
                config, identity = fields.get("config", "0"), fields.get("identity", "0")
                configuration = NpuConfiguration(int(config, 0), int(identity, 0))
                forms = configuration.encoding
            else:
                commands.append(_command(name, fields, forms))
        except (FileError, ValueError, KeyError) as error:
            problem = error.message if isinstance(error, FileError) else safe_terminal(line.strip())
            raise FileError(f"this is not a command: {problem}", where=f"line {number}") from error
    return build_stream(configuration, encode_commands(commands))


def _item(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals:
        raise FileError(f"'{safe_terminal(item)}' is not FIELD=VALUE")
    return name, value


def _command(name: str, fields: dict[str, str], encoding: Encoding) -> NpuCommand:
    if name == _UNKNOWN:
        words, code = int(fields["words"], 0), int(fields["code"], 0)
        form = encoding.by_code().get((words, code))
        return NpuCommand(code, words, int(fields["payload"], 0), form)
    form = encoding.by_name().get(name)
    if form is None:
        raise FileError(f"{encoding.name} has no command '{safe_terminal(name)}'")
    payload = int(fields.pop("rest", "0"), 0)
    for field in form.fields:
        payload |= (_number(field, fields.pop(field.name, "0")) << field.low) & field.mask
    if fields:
        raise FileError(f"{name} has no field '{safe_terminal(next(iter(fields)))}'")
    return NpuCommand(form.code, form.words, payload, form)


def _number(field: CommandField, text: str) -> int:
    value = field.values.index(text) if text in field.values and text else int(text, 0)
    least = -(1 << field.width - 1) if field.signed else 0
    if not least <= value < 1 << field.width:
        raise FileError(f"{field.name} has {field.width} bits, not {value}")
    return value
