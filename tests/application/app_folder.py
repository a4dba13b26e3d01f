"""A small application folder in the vendor's form, with two networks of our own compiler."""

from __future__ import annotations

import re
from pathlib import Path

from application.networks_here import application
from npuscope.application.plan import make_plan
from npuscope.application.request import read_application
from npuscope.cli.main import main
from npuscope.report.plan_files import plan_files

MAKEFILE = """
C_SOURCES += Src/main.c
C_SOURCES += Model/detector.c
C_SOURCES += Model/tagger.c
C_DEFS += -DUSE_DISPLAY
LDSCRIPT = Gcc/app.ld
"""
LINKER = """
MEMORY
{
  AXISRAM1_S (xrw) : ORIGIN = 0x34000400, LENGTH = 1023K
  PSRAM (xrw) : ORIGIN = 0x91000000, LENGTH = 16M
}
SECTIONS
{
  .psram_section (NOLOAD) : { *(.psram_bss) } >PSRAM
}
"""
MAIN = """
#define IN_PSRAM __attribute__ ((section (".psram_bss")))
#define ALIGN_32 __attribute__ ((aligned (32)))
#define WIDTH 800
#define HEIGHT 480 /* lines */
#ifdef USE_DISPLAY
#define SCREENS 2
#else
#define SCREENS 99
#endif
static uint8_t screen[SCREENS][WIDTH * HEIGHT * 2] ALIGN_32 IN_PSRAM;
static uint8_t crop[16 * 16 * 3] ALIGN_32;

static void run(uint8_t *frame)
{
  memcpy(crop, frame, sizeof(crop));
  SCB_CleanInvalidateDCache_by_Addr(crop, sizeof(crop));
  LL_ATON_RT_Main(&NN_Instance_tagger);
  SCB_InvalidateDCache_by_Addr(screen[0], sizeof(screen[0]));
}
"""
APP = """
name = "two"
[[networks]]
name = "detector"
model = "detector.tflite"
[[networks]]
name = "tagger"
model = "tagger.tflite"
"""


def moved(text: str, low: int, high: int, by: int) -> str:
    """A source with all addresses of a range moved."""

    def new(match: re.Match[str]) -> str:
        value = int(match[0], 16)
        return f"{value + by:#x}" if low <= value < high else match[0]

    return re.sub(r"0[xX][0-9a-fA-F]{8}", new, text)


def app_folder(root: Path) -> Path:
    """Compiled with the pools of a plan, so that nothing in it is wrong."""
    work = root / "work"
    work.mkdir(parents=True)
    plan = make_plan(read_application(application(work, APP)))
    for name, data in plan_files(plan).items():
        (work / name).write_bytes(data)
    folder = root / "app"
    for name in ("Model", "Src", "Gcc"):
        (folder / name).mkdir(parents=True)
    for name in ("detector", "tagger"):
        out, profile = work / name, f"{name}@{work / 'neural_art.json'}"
        words = ["compile", str(work / f"{name}.tflite"), "-o", str(out), "--art-profile", profile]
        assert main([*words, "--quiet"]) == 0
        weights = next(n for n in plan.networks if n.name == name).windows.weights
        flash = 0x71000000 if name == "detector" else 0x71010000
        text = (out / "network.c").read_text()
        # Weights of networks as small as these pay on chip: here they are to lie in flash.
        text = moved(text, weights, weights + 0x400 * 3, flash - weights)
        (folder / "Model" / f"{name}.c").write_text(text)
        image = (out / "atonbuf.weightsRAM.raw").read_bytes()
        (folder / "Model" / f"{name}_atonbuf.xSPI2.bin").write_bytes(image)
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "Gcc" / "app.ld").write_text(LINKER)
    (folder / "Src" / "main.c").write_text(MAIN)
    return folder
