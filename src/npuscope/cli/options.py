"""Options that verbs share, and what they mean for the API."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from npuscope.bounded_file import parse_toml
from npuscope.errors import UsageError

if TYPE_CHECKING:
    from npuscope.api import Options

SOURCE_HELP = (
    "a model (.tflite, QDQ .onnx), or what a compiler made: folder, network.c, c_info.json"
)
_SIZE = re.compile(r"[0-9]{1,18}")
_DATA_TYPES = ("float32", "int8", "uint8")


def add_output(parser: argparse.ArgumentParser) -> None:
    """How a verb speaks: on every verb."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="print the result as JSON and nothing else, or write it to FILE",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="the answer in one line")
    group.add_argument("-v", "--verbose", action="store_true", help="details and tracebacks")


def add_target(parser: argparse.ArgumentParser) -> None:
    """Which machine, and which what-if."""
    group = parser.add_argument_group("machine")
    group.add_argument("--machine", default="stm32n6", metavar="NAME", help="see `machines`")
    group.add_argument("--machine-file", metavar="FILE", help="a machine of your own (TOML)")
    group.add_argument(
        "--generation", metavar="NAME", help="compiler generation (default 4.0, or the program's)"
    )
    group.add_argument(
        "--epoch-controller",
        action=argparse.BooleanOptionalAction,
        help="epochs are started by the NPU's own controller (default) or by the CPU",
    )
    group.add_argument(
        "--art-profile",
        "--st-neural-art",
        metavar="NAME@FILE",
        help="pools and compiler options from a profile of the vendor's neural_art.json",
    )
    group.add_argument(
        "-O", "--optimization", type=int, choices=range(4), metavar="LEVEL", help="0 to 3"
    )
    group.add_argument("--mcu-mhz", type=float, metavar="MHZ", help="CPU clock")
    group.add_argument("--npu-mhz", type=float, metavar="MHZ", help="NPU clock")
    group.add_argument(
        "--enable-epoch-controller",
        dest="epoch_controller",
        action="store_const",
        const=True,
        help="the vendor's name of --epoch-controller",
    )
    group.add_argument(
        "--mpool", "--load-mpool", metavar="FILE", help="memory pools from a vendor .mpool file"
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="what-if: replace one value of the machine, e.g. clocks.npu_mhz=800",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """How the model file is read."""
    group = parser.add_argument_group("model")
    for side in ("input", "output"):
        group.add_argument(
            f"--{side}-data-type", choices=_DATA_TYPES, help=f"element type at the {side}s"
        )
    group.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,224,224,3",
        help="pin an input whose size the file leaves open",
    )


def api_options(args: argparse.Namespace) -> Options:
    """The command line as keyword arguments of the API."""
    return {
        "machine": args.machine,
        "machine_file": args.machine_file,
        "generation": args.generation,
        "epoch_controller": args.epoch_controller,
        "optimization": args.optimization,
        "art_profile": args.art_profile,
        "overrides": overrides(args),
        "mpool": args.mpool,
        "shapes": parse_shapes(args.shape),
        "input_data_type": args.input_data_type,
        "output_data_type": args.output_data_type,
    }


def overrides(args: argparse.Namespace) -> dict[str, object]:
    """Clock options and --set as one table; --set comes last and wins."""
    return {**clock_overrides(args), **parse_overrides(args.set)}


def clock_overrides(args: argparse.Namespace) -> dict[str, object]:
    told = {"clocks.mcu_mhz": args.mcu_mhz, "clocks.npu_mhz": args.npu_mhz}
    return {key: mhz for key, mhz in told.items() if mhz is not None}


def parse_overrides(texts: Iterable[str]) -> dict[str, object]:
    """What --set was given: KEY=VALUE each."""
    table: dict[str, object] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UsageError(f"expected KEY=VALUE, found '{text}'", where="--set")
        table[key.strip()] = _value(key.strip(), value.strip())
    return table


def _value(key: str, text: str) -> object:
    """A value in TOML's spelling; anything else is plain text."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except ValueError as error:
        raise UsageError(str(error), where=f"--set {key}") from None


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """What --shape was given: NAME=1,224,224,3 each."""
    return dict(map(_shape, texts))


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    # Tensor names may hold '=' themselves, sizes may not.
    name, separator, sizes = text.rpartition("=")
    parts = sizes.split(",")
    if not separator or not name or not all(_SIZE.fullmatch(part.strip()) for part in parts):
        raise UsageError(f"expected NAME=1,224,224,3, found '{text}'", where="--shape")
    shape = tuple(int(part) for part in parts)
    if 0 in shape:
        raise UsageError(f"a size of 0 in '{text}'", where="--shape")
    return name, shape
