"""Defines of app_config.h that the vendor's applications read: which decoder, its sizes, and
thresholds. What the model file cannot tell (labels, anchors, thresholds) is a usual value that
the application may change."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

from npuscope.errors import UsageError
from npuscope.graph.model import DType, Graph
from npuscope.lean_dataclass import dataclass

Lines = list[str]
Shape = tuple[int, ...]

_BOX, _KEYPOINT = 4, 3  # values of a box; of a keypoint: x, y, confidence
_MOST_KEYPOINTS = 17
_FACE_VALUES = 16  # BlazeFace: a box and six points
_CONFIDENCE, _OVERLAP, _BOXES = 0.6, 0.5, 10


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Shapes of the outputs, and the letter of their element type."""

    image: tuple[int, int]
    shapes: tuple[Shape, ...]
    letter: str
    scale: float
    zero_point: int

    @property
    def first(self) -> Shape:
        return self.shapes[0]


def find_application(graph: Graph) -> str:
    """By the outputs alone; "" where no application fits."""
    found = _outputs(graph)
    shapes = found.shapes
    maps = [shape for shape in shapes if len(shape) == 4 and max(shape[1:3]) > 1]
    rows = [shape for shape in shapes if len(shape) == 3]
    if len(maps) == 3 and len({shape[3] for shape in maps}) == 1:
        return "yolox"
    if len(maps) == 1 == len(shapes):
        return _of_map(maps[0], found.image)
    if len(rows) > 1 and any(shape[-1] == _FACE_VALUES for shape in rows):
        return "blazeface"
    if len(rows) > 1 and any(shape[-1] == _BOX for shape in rows):
        return "ssd"
    if len(rows) == 1 == len(shapes):
        return _of_rows(rows[0])
    is_vector = len(shapes) == 1 and sum(size > 1 for size in shapes[0]) == 1
    return "classification" if is_vector else ""


def _of_map(shape: Shape, image: tuple[int, int]) -> str:
    if shape[1:3] == image:
        return "segmentation"
    if shape[3] <= _MOST_KEYPOINTS and shape[1] * 4 == image[0]:
        return "movenet"
    return "yolov2" if shape[3] % 5 == 0 else ""


def _of_rows(shape: Shape) -> str:
    count, values = max(shape[1:]), min(shape[1:])
    if count < 20 or values <= _BOX:
        return ""
    if values == _BOX + 1 + _KEYPOINT * _MOST_KEYPOINTS:
        return "pose-yolov8"
    # YOLOv5 has a row for each box, with an objectness; YOLOv8 a row for each value.
    return "yolov8" if shape[1] < shape[2] else "yolov5"


def application_lines(graph: Graph, application: str = "") -> Lines:
    """The defines of one application, found from the outputs unless it is named."""
    name = application or find_application(graph)
    if not name:
        return []
    if name not in APPLICATIONS:
        hint = f"known: {', '.join(APPLICATIONS)}"
        raise UsageError(f"unknown application '{name}'", where="--application", hint=hint)
    found = _outputs(graph)
    how = "as asked for" if application else "found from the outputs: check it"
    head = [f"/* For the application '{name}', {how}. Thresholds may be changed. */"]
    return [*head, "#define NN_BPP (3)", *APPLICATIONS[name](found), ""]


def _outputs(graph: Graph) -> _Outputs:
    tensors = [graph.tensor(name) for name in graph.outputs]
    images = [graph.tensor(name).shape for name in graph.inputs]
    image = next((s[1:3] for s in images if len(s) == 4), (0, 0))
    letter = {DType.FLOAT32: "F", DType.UINT8: "U"}.get(tensors[0].dtype, "I") if tensors else "F"
    quant = tensors[0].quant if tensors else None
    scale, zero = (quant.scales[0], quant.zero_points[0]) if quant else (0.0, 0)
    return _Outputs((image[0], image[1]), tuple(t.shape for t in tensors), letter, scale, zero)


def _type(name: str, found: _Outputs) -> str:
    return f"#define POSTPROCESS_TYPE POSTPROCESS_{name}_U{found.letter}"


def _limits(stem: str) -> Lines:
    return [
        f"#define {stem}_CONF_THRESHOLD ({_CONFIDENCE}f)",
        f"#define {stem}_IOU_THRESHOLD ({_OVERLAP}f)",
        f"#define {stem}_MAX_BOXES_LIMIT ({_BOXES})",
    ]


def _classes(count: int) -> Lines:
    names = ", ".join(f'"class {number}"' for number in range(count))
    table = f"#define CLASSES_TABLE const char* classes_table[NB_CLASSES] = {{{names}}}"
    return [f"#define NB_CLASSES ({count})", table]


def _quantized(stem: str, found: _Outputs) -> Lines:
    if found.letter == "F":
        return []
    values = (("SCALE", f"{found.scale!r}f"), ("ZERO_POINT", str(found.zero_point)))
    return [f"#define {stem}_{name} ({value})" for name, value in values]


def _classification(found: _Outputs) -> Lines:
    return _classes(max(found.first))


def _rows_of(stem: str, kind: str, extra: int) -> Callable[[_Outputs], Lines]:
    """Boxes with `extra` values beside their classes."""

    def lines(found: _Outputs) -> Lines:
        boxes, values = max(found.first[1:]), min(found.first[1:])
        return [
            _type(kind, found),
            *_classes(values - extra),
            f"#define {stem}_NB_CLASSES ({values - extra})",
            f"#define {stem}_TOTAL_BOXES ({boxes})",
            *_quantized(stem, found),
            *_limits(stem),
        ]

    return lines


def _pose_yolo(found: _Outputs) -> Lines:
    boxes, values = max(found.first[1:]), min(found.first[1:])
    stem = "AI_MPE_YOLOV8_PP"
    return [
        _type("MPE_YOLO_V8", found),
        f"#define {stem}_TOTAL_BOXES ({boxes})",
        f"#define {stem}_NB_CLASSES (1)",
        f"#define AI_POSE_PP_POSE_KEYPOINTS_NB ({(values - _BOX - 1) // _KEYPOINT})",
        "#define AI_POSE_PP_CONF_THRESHOLD (0.5f)",
        *_limits(stem),
    ]


def _movenet(found: _Outputs) -> Lines:
    _, height, width, points = found.first
    return [
        _type("SPE_MOVENET", found),
        f"#define HEATMAP_WIDTH ({width})",
        f"#define HEATMAP_HEIGHT ({height})",
        "#define AI_SPE_MOVENET_POSTPROC_HEATMAP_WIDTH (HEATMAP_WIDTH)",
        "#define AI_SPE_MOVENET_POSTPROC_HEATMAP_HEIGHT (HEATMAP_HEIGHT)",
        f"#define AI_POSE_PP_POSE_KEYPOINTS_NB ({points})",
        "#define AI_POSE_PP_CONF_THRESHOLD (0.4f)",
    ]


def _yolox(found: _Outputs) -> Lines:
    """Three grids, the largest first; anchors are not in the model."""
    stem = "AI_OD_ST_YOLOX_PP"
    grids = sorted((s[1:3] for s in found.shapes if len(s) == 4), reverse=True)
    classes = found.first[3] - _BOX - 1
    lines = [_type("OD_ST_YOLOX", found), *_classes(classes)]
    lines += [f"#define {stem}_NB_CLASSES ({classes})", f"#define {stem}_NB_ANCHORS (1)"]
    for letter, (height, width) in zip("LMS", grids, strict=False):
        lines += [
            f"#define {stem}_{letter}_GRID_WIDTH ({width})",
            f"#define {stem}_{letter}_GRID_HEIGHT ({height})",
            f"static const float {stem}_{letter}_ANCHORS[2] = {{0.5f, 0.5f}};",
        ]
    return [*lines, *_limits(stem)]


def _yolov2(found: _Outputs) -> Lines:
    stem, (_, height, width, channels) = "AI_OD_YOLOV2_PP", found.first
    anchors = 5
    classes = max(1, channels // anchors - _BOX - 1)
    return [
        _type("OD_YOLO_V2", found),
        *_classes(classes),
        f"#define {stem}_NB_CLASSES ({classes})",
        f"#define {stem}_NB_ANCHORS ({anchors})",
        f"#define {stem}_GRID_WIDTH ({width})",
        f"#define {stem}_GRID_HEIGHT ({height})",
        f"#define {stem}_NB_INPUT_BOXES ({stem}_GRID_WIDTH * {stem}_GRID_HEIGHT)",
        "/* Anchors are not in the model: set those it was trained with. */",
        f"static const float {stem}_ANCHORS[2 * {stem}_NB_ANCHORS] = {{0}};",
        *_limits(stem),
    ]


def _ssd(found: _Outputs) -> Lines:
    stem = "AI_OD_SSD_ST_PP"
    rows = [shape for shape in found.shapes if len(shape) == 3]
    classes = max((s[2] for s in rows if s[2] != _BOX), default=2)
    return [
        _type("OD_ST_SSD", found),
        *_classes(classes),
        f"#define {stem}_NB_CLASSES ({classes})",
        f"#define {stem}_TOTAL_DETECTIONS ({max(s[1] for s in rows)})",
        *_limits(stem),
    ]


def _blazeface(found: _Outputs) -> Lines:
    stem = "AI_FD_BLAZEFACE_PP"
    boxes = sorted((s[1] for s in found.shapes if s[-1] == _FACE_VALUES), reverse=True)
    return [
        _type("FD_BLAZEFACE", found),
        f"#define {stem}_NB_KEYPOINTS ({(_FACE_VALUES - _BOX) // 2})",
        f"#define {stem}_NB_CLASSES (1)",
        f"#define {stem}_IMG_SIZE ({isqrt(found.image[0] * found.image[1])})",
        *(f"#define {stem}_OUT_{i}_NB_BOXES ({count})" for i, count in enumerate(boxes)),
        *_limits(stem),
    ]


def _segmentation(found: _Outputs) -> Lines:
    _, height, width, classes = found.first
    stem = "AI_SSEG_DEEPLABV3_PP"
    return [
        _type("SSEG_DEEPLAB_V3", found),
        *_classes(classes),
        f"#define {stem}_WIDTH ({width})",
        f"#define {stem}_HEIGHT ({height})",
        f"#define {stem}_NB_CLASSES ({classes})",
    ]


APPLICATIONS: dict[str, Callable[[_Outputs], Lines]] = {
    "classification": _classification,
    "yolov2": _yolov2,
    "yolov5": _rows_of("AI_OD_YOLOV5_PP", "OD_YOLO_V5", _BOX + 1),
    "yolov8": _rows_of("AI_OD_YOLOV8_PP", "OD_YOLO_V8", _BOX),
    "yolox": _yolox,
    "ssd": _ssd,
    "blazeface": _blazeface,
    "movenet": _movenet,
    "pose-yolov8": _pose_yolo,
    "segmentation": _segmentation,
}
