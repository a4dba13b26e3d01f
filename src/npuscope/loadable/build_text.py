"""An image as C arrays, for a debugger or a firmware that has no file to load from."""

from __future__ import annotations

from npuscope.text import c_identifier

_BYTES_A_LINE = 16
_ALIGNMENT = 32


def c_files(name: str, image: bytes, params: bytes | None) -> dict[str, bytes]:
    """NAME_img_rel.c and NAME_img_rel.h."""
    stem = c_identifier(name)
    arrays = {f"{stem}_img_rel": image}
    if params is not None:
        arrays[f"{stem}_img_rel_params"] = params
    header = f"{name}_img_rel.h"
    return {
        header: _header(stem, arrays).encode(),
        f"{name}_img_rel.c": _source(header, arrays).encode(),
    }


def _header(stem: str, arrays: dict[str, bytes]) -> str:
    guard = f"{stem.upper()}_IMG_REL_H"
    lines = [
        f"{array}\n"
        for name, data in arrays.items()
        for array in (
            f"#define {name.upper()}_SIZE ({len(data)})",
            f"extern const unsigned char {name}[{name.upper()}_SIZE];",
        )
    ]
    return f"#ifndef {guard}\n#define {guard}\n\n{''.join(lines)}\n#endif\n"


def _source(header: str, arrays: dict[str, bytes]) -> str:
    parts = [f'#include "{header}"\n']
    for name, data in arrays.items():
        size = f"{name.upper()}_SIZE"
        parts.append(
            f"const unsigned char __attribute__((aligned({_ALIGNMENT}))) {name}[{size}] = {{"
        )
        parts.append(",\n".join(_line(data, at) for at in range(0, len(data), _BYTES_A_LINE)))
        parts.append("};\n")
    return "\n".join(parts)


def _line(data: bytes, at: int) -> str:
    return "  " + ",".join(f"{byte:#04x}" for byte in data[at : at + _BYTES_A_LINE])
