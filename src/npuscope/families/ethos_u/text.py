"""Commands as text, one per line, and text as commands again.

    NPU_SET_IFM_PRECISION type=SIGNED precision=B8 format=NHWC
    NPU_SET_IFM_BASE0 address=0x1200
    NPU_OP_CONV

Fields that are zero and have no name for it are left out; the assembler takes absent fields for
zero. Bits that belong to no field are written as `rest`."""

from __future__ import annotations

from collections.abc import Iterable

from npuscope.errors import FileError
from npuscope.families.ethos_u.commands import (
    CODE_BITS,
    ENCODINGS,
    PARAMETER_BITS,
    WORD_BITS,
    CommandField,
    Encoding,
)
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
                words = (
                    _in_bits(part, int(fields.get(part, "0"), 0), WORD_BITS)
                    for part in ("config", "identity")
                )
                configuration = NpuConfiguration(*words)
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
        words, code = int(fields["words"], 0), _in_bits("code", int(fields["code"], 0), CODE_BITS)
        if words not in (1, 2):
            raise FileError(f"a command has 1 or 2 words, not {words}")
        bits = PARAMETER_BITS + (words - 1) * WORD_BITS
        payload = _in_bits("payload", int(fields["payload"], 0), bits)
        return NpuCommand(code, words, payload, encoding.by_code().get((words, code)))
    form = encoding.by_name().get(name)
    if form is None:
        raise FileError(f"{encoding.name} has no command '{safe_terminal(name)}'")
    bits = PARAMETER_BITS + (form.words - 1) * WORD_BITS
    payload = _in_bits("rest", int(fields.pop("rest", "0"), 0), bits)
    for field in form.fields:
        payload |= (_number(field, fields.pop(field.name, "0")) << field.low) & field.mask
    if fields:
        raise FileError(f"{name} has no field '{safe_terminal(next(iter(fields)))}'")
    return NpuCommand(form.code, form.words, payload, form)


def _number(field: CommandField, text: str) -> int:
    value = field.values.index(text) if text in field.values and text else int(text, 0)
    return _in_bits(field.name, value, field.width, field.signed)


def _in_bits(name: str, value: int, bits: int, signed: bool = False) -> int:
    if not (-(1 << bits - 1) if signed else 0) <= value < 1 << bits:
        raise FileError(f"{name} has {bits} bits, not {value}")
    return value
