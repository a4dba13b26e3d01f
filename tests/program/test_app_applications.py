"""The defines that the vendor's applications read, with values from the network."""

from __future__ import annotations

import re

import pytest

from npuscope.errors import UsageError
from npuscope.graph.model import DType
from npuscope.program.app_applications import APPLICATIONS, application_lines
from npuscope.verbs.compile import APPLICATIONS as CHOICES
from program.app_networks import FOUND, network
from program.network_c.nets import compile_c

# What the sources of the STM32N6 getting-started applications read, beside NN_WIDTH and NN_HEIGHT.
COMMON = """ASPECT_RATIO_CROP ASPECT_RATIO_FIT ASPECT_RATIO_FULLSCREEN ASPECT_RATIO_MODE CAMERA_FLIP
COLOR_BGR COLOR_RGB COLOR_MODE NN_BPP USE_DCACHE WELCOME_MSG_1 WELCOME_MSG_2"""
LIMITS = "CONF_THRESHOLD IOU_THRESHOLD MAX_BOXES_LIMIT NB_CLASSES"
GRIDS = " ".join(
    f"{size}_{name}" for size in "LMS" for name in ("ANCHORS", "GRID_WIDTH", "GRID_HEIGHT")
)
LABELLED = "NB_CLASSES CLASSES_TABLE"
READ = {  # names without a stem, then names by stem
    "classification": (LABELLED, {}),
    "yolov2": (
        LABELLED,
        {"AI_OD_YOLOV2_PP": f"{LIMITS} ANCHORS GRID_HEIGHT GRID_WIDTH NB_ANCHORS NB_INPUT_BOXES"},
    ),
    "yolov5": (LABELLED, {"AI_OD_YOLOV5_PP": f"{LIMITS} SCALE TOTAL_BOXES ZERO_POINT"}),
    "yolov8": (LABELLED, {"AI_OD_YOLOV8_PP": f"{LIMITS} SCALE TOTAL_BOXES ZERO_POINT"}),
    "yolod": (
        LABELLED,
        {"AI_OD_YOLO_D_PP": f"{LIMITS} IMG_HEIGHT IMG_WIDTH STRIDE_0 STRIDE_1 STRIDE_2"},
    ),
    "yolox": (LABELLED, {"AI_OD_ST_YOLOX_PP": f"{LIMITS} NB_ANCHORS {GRIDS}"}),
    "ssd": (LABELLED, {"AI_OD_SSD_ST_PP": f"{LIMITS} TOTAL_DETECTIONS"}),
    "blazeface": (
        "",
        {
            "AI_OD_BLAZEFACE_PP": f"{LIMITS} IMG_SIZE NB_KEYPOINTS OUT_0_NB_BOXES OUT_1_NB_BOXES",
        },
    ),
    "palm": (
        "",
        {
            "AI_PD_MODEL_PP": "CONF_THRESHOLD IOU_THRESHOLD MAX_BOXES_LIMIT HEIGHT WIDTH"
            " NB_KEYPOINTS TOTAL_DETECTIONS"
        },
    ),
    "movenet": (
        "HEATMAP_WIDTH HEATMAP_HEIGHT AI_POSE_PP_CONF_THRESHOLD AI_POSE_PP_POSE_KEYPOINTS_NB",
        {"AI_SPE_MOVENET_POSTPROC": "HEATMAP_HEIGHT HEATMAP_WIDTH"},
    ),
    "pose-yolov8": (
        "AI_POSE_PP_CONF_THRESHOLD AI_POSE_PP_POSE_KEYPOINTS_NB",
        {"AI_MPE_YOLOV8_PP": f"{LIMITS} TOTAL_BOXES"},
    ),
    "segmentation": (LABELLED, {"AI_SSEG_DEEPLABV3_PP": "HEIGHT WIDTH NB_CLASSES"}),
    "instance-segmentation": (
        LABELLED,
        {
            "AI_YOLOV8_SEG_PP": f"{LIMITS} MASK_NB MASK_SIZE TOTAL_BOXES",
            "AI_YOLOV8_SEG": "SCALE ZERO_POINT MASK_SCALE MASK_ZERO_POINT",
        },
    ),
}


def defines(lines: list[str]) -> dict[str, str]:
    hits = (re.match(r"#define (\w+)(?: (.+))?", line) for line in lines)
    return {hit[1]: hit[2] or "" for hit in hits if hit}


def tables(lines: list[str]) -> set[str]:
    hits = (re.match(r"static const float (\w+)\[", line) for line in lines)
    return {hit[1] for hit in hits if hit}


def of(name: str, dtype: DType = DType.FLOAT32) -> dict[str, str]:
    return defines(application_lines(network(FOUND[name], dtype)))


@pytest.mark.parametrize("name", READ)
def test_every_name_that_the_application_reads_is_there(name: str) -> None:
    lines = application_lines(network(FOUND[name]))
    plain, by_stem = READ[name]
    wanted = {*COMMON.split(), *plain.split()}
    wanted |= {f"{stem}_{part}" for stem, parts in by_stem.items() for part in parts.split()}
    wanted |= set() if name == "classification" else {"POSTPROCESS_TYPE"}
    assert wanted - set(defines(lines)) - tables(lines) == set()


@pytest.mark.parametrize("name", READ)
def test_it_is_c_in_which_every_name_stands_for_something(name: str, tmp_path) -> None:
    lines = application_lines(network(FOUND[name], DType.INT8))
    numbers = [n for n in defines(lines) if n.startswith("AI_") or n == "NB_CLASSES"]
    uses = [f"const double use_{number} = {n};" for number, n in enumerate(numbers)]
    uses += [f"const float *const use_{n} = {n};" for n in tables(lines)]
    sizes = ["#define NN_CHANNELS 3", "#define NN_WIDTH 192", "#define NN_HEIGHT 192"]
    assert compile_c(tmp_path, "\n".join([*sizes, *lines, *uses, ""]), "4.0") == ""


def test_every_choice_is_there() -> None:
    assert set(CHOICES) == set(APPLICATIONS) == set(READ) == set(FOUND) - {""}
    assert application_lines(network(FOUND[""])) == []
    with pytest.raises(UsageError, match="unknown application 'yolo'"):
        application_lines(network(FOUND["movenet"]), "yolo")


@pytest.mark.parametrize("name", [name for name in READ if name != "classification"])
def test_an_application_that_reads_other_outputs(name: str) -> None:
    with pytest.raises(UsageError, match=f"do not fit the application '{name}'"):
        application_lines(network(FOUND["classification"]), name)


def test_movenet_as_the_course_has_it() -> None:
    found = of("movenet")
    assert found["POSTPROCESS_TYPE"] == "POSTPROCESS_SPE_MOVENET_UF"
    assert (found["HEATMAP_WIDTH"], found["HEATMAP_HEIGHT"]) == ("(48)", "(48)")
    assert found["AI_POSE_PP_POSE_KEYPOINTS_NB"] == "(13)"
    assert found["AI_POSE_PP_CONF_THRESHOLD"] == "(0.4f)"


def test_detectors() -> None:
    yolo = of("yolov8", DType.INT8)
    assert yolo["POSTPROCESS_TYPE"] == "POSTPROCESS_OD_YOLO_V8_UI"
    assert (yolo["AI_OD_YOLOV8_PP_NB_CLASSES"], yolo["AI_OD_YOLOV8_PP_TOTAL_BOXES"]) == (
        "(2)",
        "(756)",
    )
    assert (yolo["AI_OD_YOLOV8_PP_SCALE"], yolo["AI_OD_YOLOV8_PP_ZERO_POINT"]) == ("(0.5f)", "(3)")
    masks = of("instance-segmentation", DType.INT8)
    stem = "AI_YOLOV8_SEG_PP"
    numbers = [masks[f"{stem}_{name}"] for name in ("NB_CLASSES", "MASK_NB", "MASK_SIZE")]
    assert numbers == ["(80)", "(32)", "(48)"]


def test_faces_have_points_where_the_decoder_of_points_reads_the_type() -> None:
    faces = of("blazeface", DType.INT8)
    boxes = [faces[f"AI_FD_BLAZEFACE_PP_OUT_{i}_NB_BOXES"] for i in (0, 1)]
    assert (boxes, faces["AI_FD_BLAZEFACE_PP_NB_KEYPOINTS"]) == (["(512)", "(384)"], "(6)")
    assert faces["POSTPROCESS_TYPE"] == "POSTPROCESS_FD_BLAZEFACE_UI"
    assert of("blazeface")["POSTPROCESS_TYPE"] == "POSTPROCESS_OD_BLAZEFACE_UF"


def test_anchors_of_yolox_are_in_cells_of_each_grid() -> None:
    one = "\n".join(application_lines(network(FOUND["yolox"])))
    assert "L_ANCHORS[2 * AI_OD_ST_YOLOX_PP_NB_ANCHORS] = {12.000000f, 12.000000f}" in one
    assert "S_ANCHORS[2 * AI_OD_ST_YOLOX_PP_NB_ANCHORS] = {3.000000f, 3.000000f}" in one
    # 18 channels: one class with three anchors, as the vendor's network of 480 x 480 has them.
    shapes = tuple((1, size, size, 18) for size in (15, 60, 30))
    lines = application_lines(network(shapes))
    three = defines(lines)
    assert three["AI_OD_ST_YOLOX_PP_NB_ANCHORS"] == "(3)"
    assert three["AI_OD_ST_YOLOX_PP_NB_CLASSES"] == "(1)"
    values = "{7.500000f, 7.500000f, 1.050000f, 3.750000f, 3.450000f, 10.500000f}"
    assert any(line.endswith(f"{values};") and "_S_ANCHORS" in line for line in lines)


def test_ssd_with_and_without_its_anchors() -> None:
    assert of("ssd")["POSTPROCESS_TYPE"] == "POSTPROCESS_OD_ST_SSD_UF"
    two = application_lines(network(((1, 300, 21), (1, 300, 4)), DType.INT8))
    found = defines(two)
    assert found["POSTPROCESS_TYPE"] == "POSTPROCESS_OD_SSD_UI"
    assert found["AI_OD_SSD_PP_XY_VARIANCE"] == "(0.1f)"
    assert any("ssd_anchors.h" in line for line in two)


def test_a_type_that_no_decoder_reads_says_so() -> None:
    lines = application_lines(network(FOUND["yolov5"]))
    assert defines(lines)["POSTPROCESS_TYPE"] == "POSTPROCESS_CUSTOM"
    assert any("from uint8: compile with --output-data-type" in line for line in lines)


@pytest.mark.parametrize("name", READ)
def test_what_is_not_in_a_model_stands_under_a_comment(name: str) -> None:
    lines = application_lines(network(FOUND[name]))
    for number, line in enumerate(lines):
        if re.search(r"_(CONF_THRESHOLD|ANCHORS\[|XY_VARIANCE)|CLASSES_TABLE|CAMERA_FLIP", line):
            above = "\n".join(lines[max(0, number - 16) : number])
            assert re.search(r"not (in|from) the model|Not in the model", above), line


@pytest.mark.parametrize("name", ["yolox", "movenet", "yolov2", "segmentation"])
def test_an_output_of_another_kind_may_come_first(name: str) -> None:
    alone = application_lines(network(FOUND[name]), name)
    assert application_lines(network(((1, 5), *FOUND[name])), name) == alone
