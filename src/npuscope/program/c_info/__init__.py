"""c_info.json: what the vendor's tools say of a compiled network, read and written."""

from npuscope.program.c_info.document import Flavour, c_info_json, flavour, read_c_info
from npuscope.program.c_info.from_program import c_info_of
from npuscope.program.c_info.names import with_origins
from npuscope.program.c_info.records import CInfo
from npuscope.program.c_info.to_program import program_from_c_info

__all__ = [
    "CInfo",
    "Flavour",
    "c_info_json",
    "c_info_of",
    "flavour",
    "program_from_c_info",
    "read_c_info",
    "with_origins",
]
