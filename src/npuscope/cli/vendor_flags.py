"""The vendor compiler's options on our command line: obeyed, accepted, or refused with a reason."""

from __future__ import annotations

import argparse

from npuscope.errors import UsageError
from npuscope.machine.vendor_options import NEUTRAL, NOT_MODELLED

# Those that are options of ours, or that set a file name.
_OWN = ("--csv-file", "--output-info-file", "--ec-single-epoch", "--network-name")
_TARGETS = ("stm32n6",)


def add_vendor(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the vendor's options", "under the names its tools use")
    group.add_argument("--target", metavar="NAME", help="stm32n6")
    group.add_argument("-n", "--name", "--network-name", metavar="NAME", help="network's name in C")
    group.add_argument("--csv-file", metavar="F", help="name of the epoch table (network.csv)")
    group.add_argument("--output-info-file", metavar="F", help="name of c_info.json")
    group.add_argument(
        "--ec-single-epoch", action="store_true", help="a blob for every epoch, not one for many"
    )
    group.add_argument("--Omax-ca-pipe", type=int, metavar="N", help="units in series at most")
    group.add_argument(
        "--enable-virtual-mem-pools", action="store_true", help="accepted: always so"
    )
    for name, values in NEUTRAL.items():
        if name.startswith("--") and name not in _OWN:
            _accept(group, name, values)
    for name in NOT_MODELLED:
        group.add_argument(name, action=_Refuse, nargs=0, help="refused: see the message")


def _accept(group: argparse._ArgumentGroup, name: str, values: int) -> None:
    if values:
        group.add_argument(name, metavar="F", help="accepted, changes nothing")
    else:
        group.add_argument(name, action="store_true", help="accepted, changes nothing")


class _Refuse(argparse.Action):
    def __call__(
        self, parser: object, namespace: object, values: object, option: object = ""
    ) -> None:
        name = str(option)
        raise UsageError(f"{name} cannot be followed: {NOT_MODELLED[name]}", where=name)


def check_vendor(args: argparse.Namespace) -> None:
    if args.target is not None and args.target not in _TARGETS:
        raise UsageError(f"unknown target '{args.target}'", where="--target", hint="stm32n6")
    pipe = args.Omax_ca_pipe
    if pipe is not None and not 1 <= pipe <= 4:
        raise UsageError(f"expected 1 to 4 units, found {pipe}", where="--Omax-ca-pipe")


def vendor_overrides(args: argparse.Namespace) -> dict[str, object]:
    """What the options change in the machine."""
    pipe = args.Omax_ca_pipe
    return {} if pipe is None else {"convacc.max_pipe": pipe}
