"""Image and loader agree on the functions that the firmware lends, one by one."""

from __future__ import annotations

import pytest

from npuscope.loadable.build_network import firmware_folder
from npuscope.loadable.codes import PackageOptions
from npuscope.loadable.toolchain import find_toolchain, own_flags

pytest.importorskip("ziglang")
# Member on the image's side -> member of the loader's table.
NAMES = {
    "assert_function": "assert_func",
    "library_error": "ll_lib_error",
    "mcu_clean": "ll_aton_cache_mcu_clean_range",
    "mcu_invalidate": "ll_aton_cache_mcu_invalidate_range",
    "mcu_clean_invalidate": "ll_aton_cache_mcu_clean_invalidate_range",
    "npu_clean": "ll_aton_cache_npu_clean_range",
    "npu_clean_invalidate": "ll_aton_cache_npu_clean_invalidate_range",
    "concat": "ll_aton_lib_concat",
    "cast": "ll_aton_lib_cast",
    "softmax": "ll_aton_lib_softmax",
    "image_to_row": "ll_aton_lib_dma_imagetorow",
    "space_to_depth": "ll_aton_lib_dma_spacetodepth",
    "row_to_image": "ll_aton_lib_dma_rowtoimage",
    "depth_to_space": "ll_aton_lib_dma_depthtospace",
    "flat_copy": "ll_aton_lib_dma_outputs_flat_copy",
    "slice_split_like": "ll_aton_lib_dma_outputs_slice_splitlike",
    "channel_split_aton": "ll_aton_lib_dma_outputs_channel_split_aton",
    "channel_split_batched": "ll_aton_lib_dma_outputs_channel_split_batched",
    "pad_memset": "ll_aton_lib_dma_pad_memset",
    "pad_filling": "ll_aton_lib_dma_pad_filling",
    "transpose": "ll_aton_lib_dma_transpose",
}


@pytest.mark.parametrize("dialect", [2, 3])
def test_every_function_has_its_place(tmp_path, dialect):
    checks = "".join(
        f"_Static_assert(offsetof(npuscope_callbacks, {ours}) == "
        f'offsetof(struct ll_aton_reloc_callback, {theirs}), "{ours}");\n'
        for ours, theirs in NAMES.items()
    )
    sizes = '_Static_assert(sizeof(npuscope_image_context) == sizeof(npuscope_context), "ctx");\n'
    includes = "".join(
        f'#include "{name}"\n' for name in ("image.h", "npuscope_loader.h", "npuscope_image.h")
    )
    source = tmp_path / "agree.c"
    source.write_text(includes + checks + sizes)
    firmware = firmware_folder()
    folders = [f"-I{firmware / part}" for part in ("image", "loader")]
    toolchain = find_toolchain(PackageOptions(cpu="cortex-m33"))
    outcome = toolchain.compile(source, tmp_path / "agree.o", [*own_flags(dialect), *folders])
    assert outcome.text == ""
