"""The application of a network, found from its outputs, and the defines that it reads."""

from __future__ import annotations

import re

import pytest

from npuscope.errors import UsageError
from npuscope.graph.model import DType, Graph, Quant, Tensor
from npuscope.options.rows import APPLICATIONS as CHOICES
from npuscope.program.app_applications import APPLICATIONS, application_lines, find_application

IMAGE = (1, 192, 192, 3)
FOUND = {
    "classification": ((1, 10),),
    "yolov8": ((1, 6, 756),),
    "yolov5": ((1, 756, 7),),
    "yolox": ((1, 24, 24, 6), (1, 12, 12, 6), (1, 6, 6, 6)),
    "ssd": ((1, 300, 4), (1, 300, 3)),
    "blazeface": ((1, 512, 16), (1, 512, 1), (1, 384, 16), (1, 384, 1)),
    "movenet": ((1, 48, 48, 13),),
    "pose-yolov8": ((1, 56, 756),),
    "segmentation": ((1, 192, 192, 21),),
    "yolov2": ((1, 6, 6, 30),),
    "": ((1, 7, 7, 33),),
}


def network(shapes: tuple[tuple[int, ...], ...], dtype: DType = DType.FLOAT32) -> Graph:
    quant = None if dtype is DType.FLOAT32 else Quant((0.5,), (3,))
    outputs = [Tensor(f"out{i}", shape, dtype, quant) for i, shape in enumerate(shapes)]
    names = tuple(tensor.name for tensor in outputs)
    image = Tensor("image", IMAGE, DType.UINT8, Quant((1.0,), (0,)))
    return Graph("net", [image, *outputs], [], ("image",), names)


def defines(lines: list[str]) -> dict[str, str]:
    hits = (re.match(r"#define (\w+) (.+)", line) for line in lines)
    return {hit[1]: hit[2] for hit in hits if hit}


@pytest.mark.parametrize(("name", "shapes"), FOUND.items())
def test_it_is_found_from_the_outputs(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert find_application(network(shapes)) == name
    assert bool(application_lines(network(shapes))) == bool(name)


def test_every_choice_is_there() -> None:
    assert set(CHOICES) == set(APPLICATIONS) == set(FOUND) - {""}
    with pytest.raises(UsageError, match="unknown application 'yolo'"):
        application_lines(network(FOUND["movenet"]), "yolo")


def test_movenet_as_the_course_has_it() -> None:
    found = defines(application_lines(network(FOUND["movenet"])))
    assert found["POSTPROCESS_TYPE"] == "POSTPROCESS_SPE_MOVENET_UF"
    assert (found["HEATMAP_WIDTH"], found["HEATMAP_HEIGHT"]) == ("(48)", "(48)")
    assert found["AI_POSE_PP_POSE_KEYPOINTS_NB"] == "(13)"
    assert found["AI_POSE_PP_CONF_THRESHOLD"] == "(0.4f)"


def test_detectors() -> None:
    yolo = defines(application_lines(network(FOUND["yolov8"], DType.INT8)))
    assert yolo["POSTPROCESS_TYPE"] == "POSTPROCESS_OD_YOLO_V8_UI"
    assert (yolo["AI_OD_YOLOV8_PP_NB_CLASSES"], yolo["AI_OD_YOLOV8_PP_TOTAL_BOXES"]) == (
        "(2)",
        "(756)",
    )
    assert (yolo["AI_OD_YOLOV8_PP_SCALE"], yolo["AI_OD_YOLOV8_PP_ZERO_POINT"]) == ("(0.5f)", "(3)")
    faces = defines(application_lines(network(FOUND["blazeface"], DType.INT8)))
    boxes = [faces[f"AI_FD_BLAZEFACE_PP_OUT_{i}_NB_BOXES"] for i in (0, 1)]
    assert (boxes, faces["AI_FD_BLAZEFACE_PP_NB_KEYPOINTS"]) == (["(512)", "(384)"], "(6)")
