"""Defines of app_config.h that the vendor's applications read: which decoder, its sizes, and
thresholds. What a model file does not tell (labels, anchors, thresholds, camera and display) is
the usual value, under a comment that says so."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

from npuscope.errors import UsageError
from npuscope.graph.model import Graph, Quant
from npuscope.program.app_outputs import (
    BOX,
    FACE_VALUES,
    KEYPOINT,
    PALM_VALUES,
    STRIDES,
    Outputs,
    find_application,
    outputs_of,
)
from npuscope.text import c_string

Lines = list[str]

_CONFIDENCE, _OVERLAP, _BOXES = 0.6, 0.5, 10

# Width and height of anchors as parts of the image (YOLOX) and in cells (YOLOv2): those of the
# vendor's trained models.
_ANCHORS_X = {1: ((0.5, 0.5),), 3: ((0.5, 0.5), (0.07, 0.25), (0.23, 0.7))}
_ANCHORS_V2 = (0.9883, 3.3606, 2.1194, 5.3759, 3.0520, 9.1336, 5.5517, 9.3066, 9.7260, 11.1422)

# Decoders that the applications have: bytes in (U), then floats, signed or unsigned bytes out.
_DECODERS = {
    "OD_YOLO_V2": "FI",
    "OD_YOLO_V5": "U",
    "OD_YOLO_V8": "FI",
    "OD_ST_YOLOX": "FI",
    "OD_ST_SSD": "F",
    "OD_SSD": "FI",
    "OD_ST_YOLOD": "I",
    "OD_BLAZEFACE": "FIU",
    "FD_BLAZEFACE": "I",
    "MPE_YOLO_V8": "FI",
    "MPE_PD": "F",
    "SPE_MOVENET": "FI",
    "ISEG_YOLO_V8": "I",
    "SSEG_DEEPLAB_V3": "FI",
}
_TYPES = {"F": "float32", "I": "int8", "U": "uint8"}


def application_lines(graph: Graph, application: str = "") -> Lines:
    """The defines of one application, found from the outputs unless it is named."""
    name = application or find_application(graph)
    if not name:
        return []
    if name not in APPLICATIONS:
        hint = f"known: {', '.join(APPLICATIONS)}"
        raise UsageError(f"unknown application '{name}'", where="--application", hint=hint)
    outputs = outputs_of(graph)
    maps, rows = _NEEDS[name]
    if len(outputs.maps) < maps or len(outputs.rows) < rows:
        shapes = ", ".join(str(shape) for shape in outputs.shapes)
        message = f"the outputs {shapes} do not fit the application '{name}'"
        hint = "without --application, the one that fits is chosen from the outputs"
        raise UsageError(message, where="--application", hint=hint)
    how = "as requested" if application else "guessed from the outputs: check it"
    head = [f"/* For the application '{name}', {how}. */"]
    return [*head, *_camera(outputs), *APPLICATIONS[name](outputs), ""]


def _camera(outputs: Outputs) -> Lines:
    """What every application reads. Only the model's name is known from its file."""
    notes = []
    if not outputs.is_bytes:
        notes.append("/* The camera gives uint8: compile with --input-data-type uint8. */")
    if outputs.is_planar:
        notes.append("/* The camera gives pixels: export the model with a channel-last input. */")
    return [
        *notes,
        "/* Camera and display: usual values, not from the model. Use the colours it was",
        " * trained with: most are RGB. */",
        "#define USE_DCACHE",
        "#define CAMERA_FLIP CMW_MIRRORFLIP_NONE",
        "#define ASPECT_RATIO_CROP (1)",
        "#define ASPECT_RATIO_FIT (2)",
        "#define ASPECT_RATIO_FULLSCREEN (3)",
        "#define ASPECT_RATIO_MODE ASPECT_RATIO_CROP",
        "#define COLOR_BGR (0)",
        "#define COLOR_RGB (1)",
        "#define COLOR_MODE COLOR_RGB",
        "#define NN_BPP (NN_CHANNELS)",
        f"#define WELCOME_MSG_1 {c_string(outputs.model)}",
        "#ifdef STM32N6570_NUCLEO_REV /* its display is narrow: two lines */",
        '#define WELCOME_MSG_2 ((char *[2]){"compiled by", "npuscope"})',
        "#else",
        '#define WELCOME_MSG_2 "compiled by npuscope"',
        "#endif",
    ]


def _type(name: str, outputs: Outputs) -> Lines:
    """The decoder of these elements, or what to do where the applications have none."""
    if outputs.letter in _DECODERS[name]:
        return [f"#define POSTPROCESS_TYPE POSTPROCESS_{name}_U{outputs.letter}"]
    others = " or ".join(_TYPES[letter] for letter in _DECODERS[name])
    return [
        f"/* The applications decode this kind from {others}: compile with --output-data-type, or",
        " * write a decoder of your own. */",
        "#define POSTPROCESS_TYPE POSTPROCESS_CUSTOM",
    ]


def _limits(stem: str) -> Lines:
    return [
        "/* Not in the model: usual thresholds, to be tuned. */",
        f"#define {stem}_CONF_THRESHOLD ({_CONFIDENCE}f)",
        f"#define {stem}_IOU_THRESHOLD ({_OVERLAP}f)",
        f"#define {stem}_MAX_BOXES_LIMIT ({_BOXES})",
    ]


def _classes(count: int, background: bool = False) -> Lines:
    first = "background" if background else "class 0"
    names = ", ".join(f'"{name}"' for name in (first, *(f"class {i}" for i in range(1, count))))
    table = f"#define CLASSES_TABLE const char* classes_table[NB_CLASSES] = {{{names}}}"
    return [f"#define NB_CLASSES ({count})", "/* Labels are not in the model. */", table]


def _quantized(stem: str, quant: Quant | None) -> Lines:
    scale, zero = (quant.scales[0], quant.zero_points[0]) if quant else (1.0, 0)
    return [f"#define {stem}_SCALE ({scale!r}f)", f"#define {stem}_ZERO_POINT ({zero})"]


def _numbers(stem: str, **values: int) -> Lines:
    return [f"#define {stem}_{name} ({value})" for name, value in values.items()]


def _table(name: str, count: str, values: tuple[float, ...]) -> str:
    cells = ", ".join(f"{value:.6f}f" for value in values)
    return f"static const float {name}[2 * {count}] = {{{cells}}};"


def _classification(outputs: Outputs) -> Lines:
    return _classes(max(outputs.first))


def _boxes(outputs: Outputs) -> tuple[int, int]:
    """Boxes and values of each, in whichever order they lie."""
    sizes = next(iter(outputs.rows), outputs.first)[1:]
    return max(sizes), min(sizes)


def _rows_of(stem: str, kind: str, extra: int) -> Callable[[Outputs], Lines]:
    """Boxes with `extra` values beside their classes."""

    def lines(outputs: Outputs) -> Lines:
        boxes, values = _boxes(outputs)
        return [
            *_type(kind, outputs),
            *_classes(values - extra),
            *_numbers(stem, NB_CLASSES=values - extra, TOTAL_BOXES=boxes),
            *_quantized(stem, outputs.quants[0]),
            *_limits(stem),
        ]

    return lines


def _yolod(outputs: Outputs) -> Lines:
    stem, (height, width) = "AI_OD_YOLO_D_PP", outputs.image
    classes = _boxes(outputs)[1] - BOX - 1
    strides = {f"STRIDE_{number}": stride for number, stride in enumerate(STRIDES)}
    return [
        *_type("OD_ST_YOLOD", outputs),
        *_classes(classes),
        *_numbers(stem, NB_CLASSES=classes, IMG_WIDTH=width, IMG_HEIGHT=height, **strides),
        *_limits(stem),
    ]


def _pose_yolo(outputs: Outputs) -> Lines:
    stem, (boxes, values) = "AI_MPE_YOLOV8_PP", _boxes(outputs)
    return [
        *_type("MPE_YOLO_V8", outputs),
        *_numbers(stem, NB_CLASSES=1, TOTAL_BOXES=boxes),
        f"#define AI_POSE_PP_POSE_KEYPOINTS_NB ({(values - BOX - 1) // KEYPOINT})",
        *_limits(stem),
        f"#define AI_POSE_PP_CONF_THRESHOLD ({stem}_CONF_THRESHOLD)",
    ]


def _movenet(outputs: Outputs) -> Lines:
    _, height, width, points = outputs.maps[0]
    stem = "AI_SPE_MOVENET_POSTPROC"
    return [
        *_type("SPE_MOVENET", outputs),
        f"#define HEATMAP_WIDTH ({width})",
        f"#define HEATMAP_HEIGHT ({height})",
        f"#define {stem}_HEATMAP_WIDTH (HEATMAP_WIDTH)",
        f"#define {stem}_HEATMAP_HEIGHT (HEATMAP_HEIGHT)",
        f"#define {stem}_NB_KEYPOINTS (AI_POSE_PP_POSE_KEYPOINTS_NB)",
        f"#define AI_POSE_PP_POSE_KEYPOINTS_NB ({points})",
        "/* Not in the model: the usual threshold, to be tuned. */",
        "#define AI_POSE_PP_CONF_THRESHOLD (0.4f)",
    ]


def _yolox(outputs: Outputs) -> Lines:
    """Three grids, the largest first. 18 channels may be 13 classes with one anchor or one class
    with three: the vendor's networks of so many channels are the latter."""
    stem = "AI_OD_ST_YOLOX_PP"
    channels = outputs.maps[0][3]
    anchors = 3 if channels % 3 == 0 and channels // 3 > BOX + 1 else 1
    classes = channels // anchors - BOX - 1
    lines = [
        *_type("OD_ST_YOLOX", outputs),
        *_classes(classes),
        *_numbers(stem, NB_CLASSES=classes, NB_ANCHORS=anchors),
        "/* Anchors are not in the model: usual ones, in cells. Set those it was trained with. */",
    ]
    for letter, shape in zip("LMS", sorted(outputs.maps, reverse=True), strict=False):
        _, height, width, _ = shape
        cells = [value for w, h in _ANCHORS_X[anchors] for value in (w * width, h * height)]
        part = f"{stem}_{letter}"
        lines += _numbers(part, GRID_WIDTH=width, GRID_HEIGHT=height)
        lines += [
            f"#define {part}_NB_INPUT_BOXES ({part}_GRID_WIDTH * {part}_GRID_HEIGHT)",
            _table(f"{part}_ANCHORS", f"{stem}_NB_ANCHORS", tuple(cells)),
        ]
    return [*lines, *_limits(stem)]


def _yolov2(outputs: Outputs) -> Lines:
    stem, (_, height, width, channels) = "AI_OD_YOLOV2_PP", outputs.maps[0]
    anchors = len(_ANCHORS_V2) // 2
    classes = max(1, channels // anchors - BOX - 1)
    return [
        *_type("OD_YOLO_V2", outputs),
        *_classes(classes),
        *_numbers(stem, NB_CLASSES=classes, NB_ANCHORS=anchors),
        *_numbers(stem, GRID_WIDTH=width, GRID_HEIGHT=height),
        f"#define {stem}_NB_INPUT_BOXES ({stem}_GRID_WIDTH * {stem}_GRID_HEIGHT)",
        "/* Anchors are not in the model: usual ones, in cells. Set those it was trained with. */",
        _table(f"{stem}_ANCHORS", f"{stem}_NB_ANCHORS", _ANCHORS_V2),
        *_limits(stem),
    ]


def _ssd(outputs: Outputs) -> Lines:
    """With its anchors as a third output, or with a table that the application has."""
    rows = outputs.rows
    classes = max((shape[2] for shape in rows if shape[2] != BOX), default=2)
    detections = max((shape[1] for shape in rows), default=0)
    has_anchors = sum(shape[2] == BOX for shape in rows) > 1
    stem = "AI_OD_SSD_ST_PP" if has_anchors else "AI_OD_SSD_PP"
    variances = [
        "/* Anchors are not in the model: ssd_anchors.h of the application has them. The variances",
        " * are the usual ones. */",
        f"#define {stem}_XY_VARIANCE (0.1f)",
        f"#define {stem}_WH_VARIANCE (0.2f)",
    ]
    return [
        *_type("OD_ST_SSD" if has_anchors else "OD_SSD", outputs),
        *_classes(classes, background=True),
        *_numbers(stem, NB_CLASSES=classes, TOTAL_DETECTIONS=detections),
        *([] if has_anchors else variances),
        *_limits(stem),
    ]


def _blazeface(outputs: Outputs) -> Lines:
    """Faces with their points where the outputs are int8, boxes alone from other types."""
    kind = "FD_BLAZEFACE" if outputs.letter in _DECODERS["FD_BLAZEFACE"] else "OD_BLAZEFACE"
    stem = f"AI_{kind}_PP"
    boxes = sorted((s[1] for s in outputs.rows if s[-1] == FACE_VALUES), reverse=True)
    counts = {f"OUT_{number}_NB_BOXES": count for number, count in enumerate(boxes)}
    return [
        *_type(kind, outputs),
        *_classes(1),
        *_numbers(stem, NB_KEYPOINTS=(FACE_VALUES - BOX) // 2, NB_CLASSES=1),
        *_numbers(stem, IMG_SIZE=isqrt(outputs.image[0] * outputs.image[1]), **counts),
        *_limits(stem),
    ]


def _palm(outputs: Outputs) -> Lines:
    stem, (height, width) = "AI_PD_MODEL_PP", outputs.image
    boxes = max((shape[1] for shape in outputs.rows), default=0)
    return [
        *_type("MPE_PD", outputs),
        *_numbers(stem, WIDTH=width, HEIGHT=height, TOTAL_DETECTIONS=boxes),
        *_numbers(stem, NB_KEYPOINTS=(PALM_VALUES - BOX) // 2),
        *_limits(stem),
    ]


def _segmentation(outputs: Outputs) -> Lines:
    _, height, width, classes = outputs.maps[0]
    stem = "AI_SSEG_DEEPLABV3_PP"
    return [
        *_type("SSEG_DEEPLAB_V3", outputs),
        *_classes(classes),
        *_numbers(stem, WIDTH=width, HEIGHT=height, NB_CLASSES=classes),
    ]


def _masks(outputs: Outputs) -> Lines:
    """Boxes with coefficients for the masks, and the masks."""
    stem, (boxes, values) = "AI_YOLOV8_SEG_PP", _boxes(outputs)
    _, size, _, masks = next(iter(outputs.maps), (0, 0, 0, 0))
    by_rank = sorted(
        zip(outputs.shapes, outputs.quants, strict=True), key=lambda item: len(item[0])
    )
    classes = values - BOX - masks
    return [
        *_type("ISEG_YOLO_V8", outputs),
        *_classes(classes),
        *_numbers(stem, NB_CLASSES=classes, TOTAL_BOXES=boxes, MASK_NB=masks, MASK_SIZE=size),
        *_quantized("AI_YOLOV8_SEG", by_rank[0][1]),
        *_quantized("AI_YOLOV8_SEG_MASK", by_rank[-1][1]),
        *_limits(stem),
    ]


APPLICATIONS: dict[str, Callable[[Outputs], Lines]] = {
    "classification": _classification,
    "yolov2": _yolov2,
    "yolov5": _rows_of("AI_OD_YOLOV5_PP", "OD_YOLO_V5", BOX + 1),
    "yolov8": _rows_of("AI_OD_YOLOV8_PP", "OD_YOLO_V8", BOX),
    "yolod": _yolod,
    "yolox": _yolox,
    "ssd": _ssd,
    "blazeface": _blazeface,
    "palm": _palm,
    "movenet": _movenet,
    "pose-yolov8": _pose_yolo,
    "segmentation": _segmentation,
    "instance-segmentation": _masks,
}

# Outputs with a height and a width, and outputs of rows, that each reads.
_NEEDS = dict.fromkeys(APPLICATIONS, (0, 1)) | {
    "classification": (0, 0),
    "yolov2": (1, 0),
    "yolox": (3, 0),
    "ssd": (0, 2),
    "blazeface": (0, 2),
    "palm": (0, 2),
    "movenet": (1, 0),
    "segmentation": (1, 0),
    "instance-segmentation": (1, 1),
}
