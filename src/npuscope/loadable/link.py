"""From objects to one ELF file: the linker script, what the packager adds, what is missing."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from npuscope.errors import InternalError, NpuscopeError, TargetError
from npuscope.loadable.layout import Header, version_word
from npuscope.loadable.pack_pools import PlannedPool, PoolPlan
from npuscope.loadable.toolchain import Toolchain, ToolResult
from npuscope.text import c_string, safe_terminal

CONTEXT, POOLS = "npuscope_rt_context", "npuscope_rt_pools"
GOT_START, GOT_END = "npuscope_got_start", "npuscope_got_end"
# Field of the header -> function of network.c.
_ENTRIES = {
    "ec_network_init": "EC_Network_Init",
    "ec_inference_init": "EC_Inference_Init",
    "input_setter": "Set_User_Input_Buffer",
    "input_getter": "Get_User_Input_Buffer",
    "output_setter": "Set_User_Output_Buffer",
    "output_getter": "Get_User_Output_Buffer",
    "get_epoch_items": "EpochBlockItems",
    "get_output_buffers_info": "Output_Buffers_Info",
    "get_input_buffers_info": "Input_Buffers_Info",
    "get_internal_buffers_info": "Internal_Buffers_Info",
}
_MISSING = re.compile(r"undefined (?:symbol: |reference to [`'])([A-Za-z_$][\w$.]*)")
_TWICE = re.compile(r"(?:duplicate symbol: |multiple definition of [`'])([A-Za-z_$][\w$.]*)")
_FUNCTION = re.compile(r"LL_ATON_(?:Start|End)_EpochBlock_(-?\d+)\s*\(")
_OUR_KERNELS = "npuscope_"
_OURS_HINT = "these operators run on the simulated device only: see `npuscope explain`"
_HINT = "compile the model with `npuscope compile`: its network.c calls kernels that npuscope has"
_POOL_BYTES = 32  # a stand-in: only the address counts


def entry_functions(suffix: str) -> dict[str, str]:
    return {field: f"LL_ATON_{stem}_{suffix}" for field, stem in _ENTRIES.items()}


def linker_script(symbols: dict[int, str]) -> str:
    """Segments at their numbers; `symbols` are the relative pools by their identifier.

    Data begins its own PT_LOAD: offsets from R9 count from there. The GOT lies in the same
    section for the same reason.
    """
    pools = sorted(symbols.items())
    parts = "".join(
        f"  .params_{number} 0x{8 + number}0000000 (NOLOAD) : "
        f"{{ {name} = .; . = . + {_POOL_BYTES}; }} :params_{number}\n"
        for number, name in pools
    )
    heads = "".join(f" params_{number} PT_LOAD;" for number, _ in pools)
    return f"""PHDRS {{ flash PT_LOAD; ram PT_LOAD;{heads} }}
SECTIONS
{{
  .flash 0x20000000 : {{
    . = . + {Header.BYTES};
    *(.text .text.*) *(.rodata .rodata.*)
    . = ALIGN(8);
  }} :flash
  .data 0x40000000 : {{
    *(.data .data.*)
    . = ALIGN(8);
    KEEP(*(.npuscope_context)) KEEP(*(.npuscope_pools))
    . = ALIGN(4);
    {GOT_START} = .;
    *(.got .got.*)
    {GOT_END} = .;
    . = ALIGN(8);
  }} :ram
  .bss : {{ *(.bss .bss.* COMMON) . = ALIGN(8); }} :ram
{parts}  /DISCARD/ : {{ *(.ARM.exidx* .ARM.extab* .note* .comment* .eh_frame*) }}
}}
"""


def image_c(
    name: str, suffix: str, plan: PoolPlan, runtime: tuple[int, int, int, int], tag: str
) -> str:
    """Context and pool descriptors of one network, as a source of its own."""
    major, minor, micro, build = runtime
    parameters = plan.parameters
    version = c_string(f"atonn-v{major}.{minor}.{micro}-{build} (RELOC.{tag})")
    internal = entry_functions(suffix)["get_internal_buffers_info"]
    return f"""#include "image.h"

npuscope_image_interface npuscope_rt_interface = {{ .network_name = {c_string(name)} }};

__attribute__((used, section(".npuscope_context")))
npuscope_image_context {CONTEXT} = {{
  .c_name = {c_string(name)},
  .acts_sz = {plan.acts_bytes}u,
  .params_sz = {plan.params_bytes}u,
  .ext_ram_sz = {plan.external_ram_bytes}u,
  .rt_version_desc = {version},
  .rt_version = {version_word(major, minor, micro):#x}u,
  .rt_version_extra = {build}u,
  .params_bin_sz = {len(parameters)}u,
  .params_bin_crc32 = {zlib.crc32(parameters):#x}u,
  .struct_sizes = NPUSCOPE_STRUCT_SIZES,
  .interface = &npuscope_rt_interface,
}};

__attribute__((used, section(".npuscope_pools")))
npuscope_image_pool {POOLS}[] = {{
{"".join(_descriptor(pool) for pool in plan.pools)}  {{ 0 }},
}};

/* A network that was compiled without its internal buffers. */
__attribute__((weak)) const LL_Buffer_InfoTypeDef *{internal}(void);
__attribute__((weak)) const LL_Buffer_InfoTypeDef *{internal}(void) {{ return NULL; }}
"""


def _descriptor(pool: PlannedPool) -> str:
    return (
        f"  {{ .name = {c_string(pool.name)}, .flags = {pool.flags.pack():#010x}u, "
        f".foff = {pool.foff}u, .dst = {pool.dst:#010x}u, .size = {pool.size_bytes}u }},\n"
    )


def link(
    toolchain: Toolchain,
    objects: Sequence[Path],
    library: Path,
    script: Path,
    suffix: str,
    output: Path,
    source: str,
) -> None:
    """Link what the entry points reach; errors name the epochs that call a missing function."""
    entries = entry_functions(suffix)
    entry_flags = [word for function in entries.values() for word in ("-u", function)]
    # lld stops after 20 errors; the message should name every missing function.
    own = ["--error-limit=0"] if toolchain.name == "zig" else []
    outcome = toolchain.run(
        [
            *toolchain.linker,
            *own,
            "-T",
            str(script),
            # The packer has to see every relocation, also those that the linker has resolved.
            "--emit-relocs",
            # Only kernels that the network calls get into the image.
            "--gc-sections",
            *entry_flags,
            "-e",
            entries["get_epoch_items"],
            *map(str, objects),
            str(library),
            "-o",
            str(output),
        ]
    )
    if outcome.code or not output.is_file():
        raise _link_error(outcome, suffix, source)


def _link_error(outcome: ToolResult, suffix: str, source: str) -> NpuscopeError:
    twice = _TWICE.search(outcome.text)
    if twice is not None:
        name = twice[1]
        if re.search(rf"\b{re.escape(name)}\b", source):
            return TargetError(
                f"the source defines '{safe_terminal(name)}', a name of npuscope's own code",
                hint="rename it in network.c",
            )
        return InternalError(f"two sources of npuscope define {name}")
    missing = sorted(set(_MISSING.findall(outcome.text)))
    if not missing:
        return TargetError(f"the network cannot be linked: {outcome.first_error}")
    entries = set(entry_functions(suffix).values())
    # Without its entry points it is not a network: other missing names would only confuse.
    if entries & set(missing):
        names = ", ".join(sorted(entries & set(missing)))
        return TargetError(f"the source does not define {names}", hint="is it a network.c?")
    callers = callers_by_epoch(source, missing)
    missing_names = ", ".join(_with_epochs(name, callers[name]) for name in missing)
    ours = all(name.startswith(_OUR_KERNELS) for name in missing)
    return TargetError(
        f"this build has no code for {missing_names}",
        hint=_OURS_HINT if ours else _HINT,
    )


def _with_epochs(name: str, epochs: list[int]) -> str:
    if not epochs:
        return safe_terminal(name)
    word = "epoch" if len(epochs) == 1 else "epochs"
    return f"{safe_terminal(name)} ({word} {', '.join(map(str, epochs))})"


def callers_by_epoch(source: str, names: Sequence[str]) -> dict[str, list[int]]:
    """Numbers of the epochs whose functions mention each name."""
    epochs: dict[str, list[int]] = {name: [] for name in names}
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")
    epoch: int | None = None
    for line in source.splitlines():
        head = _FUNCTION.search(line)
        epoch = int(head[1]) if head else epoch
        for name in pattern.findall(line):
            if epoch is not None and epoch not in epochs[name]:
                epochs[name].append(epoch)
    return epochs
