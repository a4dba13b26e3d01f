"""Plans for public applications beside what their authors did.

    python benchmarks/plan_public.py --applications DIR

DIR holds the applications as benchmarks/plan_check.py takes them. Each is planned from its own
models, linker script and buffers; work of CPU and GPU2D has stand-in times, which are the same on
both sides and left out of the table. The authors' builds are read from their network.c and timed by
the same model, so that only memory and choice of pools differ (and the compiler: theirs is the
vendor's). Wall time and CPU time of each plan are told.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from pathlib import Path

from npuscope.application.check.model import CheckedNetwork
from npuscope.application.check.network import checked_network
from npuscope.application.plan import Plan, make_plan
from npuscope.application.request import read_application
from npuscope.building import build
from npuscope.errors import NpuscopeError
from npuscope.profiling.run import estimate

ST = "STMicroelectronics+"
SCREEN = """
[[buffers]]
name = "background"
width = 800
height = 480
bytes_per_pixel = 4
count = {backgrounds}
memory = "PSRAM"
hz = 60
[[buffers]]
name = "foreground"
bytes = 768000
count = 2
memory = "PSRAM"
hz = 60
[[buffers]]
name = "screen"
bytes = 768000
memory = "PSRAM"
"""
HAND = """
name = "hand landmarks"
linker = "{root}/Gcc/STM32N657xx.ld"
image_bytes = 500000
order = ["isp", "palm_detector", "boxes", "crop", "hand_landmark", "points"]
[[networks]]
name = "palm_detector"
model = "{root}/Model/033_palm_detection_full_quant_pc_uf_od.tflite"
inputs = "application"
input_buffers = 2
when = ["searching", "found"]
[[networks]]
name = "hand_landmark"
model = "{root}/Model/033_hand_landmark_full_quant_pc_uf_handl.tflite"
when = ["found", "tracking"]
[[work]]
name = "isp"
ms = 0.3
[[work]]
name = "boxes"
ms = 0.5
when = ["searching", "found"]
[[work]]
name = "crop"
unit = "GPU2D"
ms = 1.5
when = ["found", "tracking"]
[[work]]
name = "points"
ms = 0.2
when = ["found", "tracking"]
""" + SCREEN.replace("{backgrounds}", "4")
FACE = """
name = "face landmarks"
linker = "{root}/Gcc/STM32N657xx.ld"
image_bytes = 500000
threads = true
order = ["face_detector", "boxes", "crop", "face_landmark", "points"]
[[networks]]
name = "face_detector"
model = "{root}/Model/blazeface_front_128_quant_pc_ff_od_wider_face.tflite"
input_data_type = "uint8"
output_data_type = "int8"
inputs = "application"
outputs = "application"
input_buffers = 2
[[networks]]
name = "face_landmark"
model = "{root}/Model/face_landmarks_v1_192_int8_pc.onnx"
input_data_type = "uint8"
repeat = "face"
inputs = "application"
outputs = "application"
input_buffers = 2
[loops.face]
most = 4
[[work]]
name = "boxes"
ms = 0.5
[[work]]
name = "crop"
unit = "GPU2D"
ms = 1.5
repeat = "face"
after = "boxes"
[[work]]
name = "points"
ms = 0.2
repeat = "face"
""" + SCREEN.replace("{backgrounds}", "3")
REID = """
name = "re-identification"
board = "nucleo-n657x0-q"
linker = "{root}/Application/NUCLEO-N657X0-Q/STM32CubeIDE/STM32N657xx.ld"
image_bytes = 500000
order = ["od", "boxes", "crop", "reid"]
[[networks]]
name = "od"
build = "{root}/Model/NUCLEO-N657X0-Q/od.c"
[[networks]]
name = "reid"
model = "{root}/Model/mobilenetv2_a100_256_128_fft_int8.tflite"
input_data_type = "uint8"
repeat = "box"
outputs = "application"
[loops.box]
most = 20
[[work]]
name = "boxes"
ms = 0.5
[[work]]
name = "crop"
ms = 2.0
repeat = "box"
"""
CASES = {
    f"{ST}x-cube-n6-ai-hand-landmarks": (HAND, "Model/{name}.c", "stm32n6570-dk"),
    f"{ST}x-cube-n6-ai-face-landmarks": (FACE, "Model/{name}.c", "stm32n6570-dk"),
    f"{ST}STM32N6-GettingStarted-ReID": (
        REID,
        "Model/NUCLEO-N657X0-Q/{name}.c",
        "nucleo-n657x0-q",
    ),
}


def planned(root: Path, text: str) -> tuple[Plan, float, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "app.toml"
        path.write_text(text.replace("{root}", root.resolve().as_posix()), encoding="utf-8")
        wall, spent = time.perf_counter(), time.process_time()
        plan = make_plan(read_application(path))
        return plan, time.perf_counter() - wall, time.process_time() - spent


def ram(networks: list[CheckedNetwork]) -> int:
    """RAM on chip with each byte counted once."""
    spans = sorted((s.start, s.end) for n in networks for s in n.used if s.start >> 28 == 3)
    total = reached = 0
    for start, end in spans:
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def own_ram(plan: Plan) -> int:
    spans = sorted(
        (p.address, p.end)
        for p in plan.placement.places
        if p.block.name.endswith((" activations", " weights"))
    )
    total = reached = 0
    for start, end in spans:
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def authors_ms(path: Path, board: str) -> float | None:
    try:
        made = build(path, {"board": board})
    except NpuscopeError:
        return None
    return estimate(made.program, made.machine).total_ms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=Path, required=True)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    print("| application, network | RAM on chip, theirs | ours | ms, theirs | ours |")
    print("|---|---|---|---|---|")
    for name, (text, pattern, board) in CASES.items():
        root = arguments.applications / name
        plan, wall, spent = planned(root, text)
        theirs = []
        for one in plan.networks:
            path = root / pattern.format(name=one.name)
            checked = checked_network(path, path.name)
            theirs.append(checked)
            grant = one.variant.grant
            chip = f"{grant.npu + grant.cpu:,}"
            if grant.weights:
                chip += f" + {grant.weights:,} of weights"
            time_ms = authors_ms(path, board)
            shown = "-" if time_ms is None else f"{time_ms:.2f}"
            built = f"{ram([checked]):,}" if one.planned.is_fixed else chip
            print(f"| {one.name} | {ram([checked]):,} | {built} | {shown} | {one.cost.ms:.2f} |")
        frame = plan.frame
        verdict = "fits" if plan.fits else "; ".join(p.message for p in plan.problems)
        print(
            f"| {plan.application.name}: {verdict}, {plan.placement.solver} | {ram(theirs):,} | "
            f"{own_ram(plan):,} | worst frame | {frame.latency_ms:.2f} (at most "
            f"{frame.worst_ms:.2f}), {frame.fps:.3g} frames/s; {wall:.1f} s, {spent:.1f} s CPU |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
