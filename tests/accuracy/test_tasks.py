"""Figures of tasks on answers whose value is known."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.accuracy.boxes import Detection, decoded
from npuscope.accuracy.figures import share, surely_worse
from npuscope.accuracy.maps import VOID, Keypoints, Segmentation
from npuscope.accuracy.tasks import Anomaly, Classification, Regression, TaskSample, likely_task

PICTURE = TaskSample({"image": np.zeros((1, 8, 8, 3), np.float32)})


def value(task, answers, truths, place=0):
    return task.figures(answers, truths)[place].value


def test_wilsons_interval_is_the_published_one() -> None:
    figure = share("x", 9, 10)  # 0.596 to 0.982 in Wilson (1927), as calculators give it
    assert (round(figure.low, 3), round(figure.high, 3)) == (0.596, 0.982)
    assert share("x", 0, 0).high == 1.0


def test_losses_are_sure_only_beyond_chance() -> None:
    right, wrong = [True] * 5, [False] * 5
    assert surely_worse(right, wrong)  # 1 of 32
    assert not surely_worse(right[:4], wrong[:4])  # 1 of 16
    assert not surely_worse(wrong, right)
    assert not surely_worse(right + wrong, wrong + right)


def test_classes_by_place() -> None:
    task = Classification(("a", "b", "c"))
    answers = [task.answer([np.array([row], np.float32)], PICTURE) for row in np.eye(3)]
    assert [task.shown(answer) for answer in answers] == ["a", "b", "c"]
    assert value(task, answers, [0, 1, 1]) == pytest.approx(2 / 3)


def test_area_under_the_curve_counts_ordered_pairs() -> None:
    scores, odd = [0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]
    assert value(Anomaly(), scores, odd) == 0.75  # 3 of 4 pairs
    assert value(Anomaly(), [1.0, 1.0], [0, 1]) == 0.5  # equal scores count half


def test_an_autoencoder_scores_its_error() -> None:
    sample = TaskSample({"x": np.ones((1, 4), np.float32)})
    assert Anomaly().answer([np.array([[1, 1, 1, 3.0]])], sample) == 1.0


def test_errors_of_numbers() -> None:
    task = Regression(extent=10.0)
    answers = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    truths = [np.array([1.0, 4.0]), np.array([3.0, 4.0])]
    assert value(task, answers, truths) == 0.5
    assert value(task, answers, truths, 1) == 1.0
    assert task.same(answers[0], answers[0] + 0.09) and not task.same(answers[0], answers[0] + 0.2)


def test_overlap_of_classes_without_pixels_that_nobody_judges() -> None:
    scores = np.zeros((1, 2, 2, 2), np.float32)
    scores[0, 0, :, 1] = 1  # the upper row is of class 1
    answer = Segmentation().answer([scores], PICTURE)
    assert answer.tolist() == [[1, 1], [0, 0]]
    truth = np.array([[1, 0], [0, VOID]])
    # class 0: 1 of 2, class 1: 1 of 2; 2 of 3 pixels
    assert value(Segmentation(), [answer], [truth]) == 0.5
    assert value(Segmentation(), [answer], [truth], 1) == pytest.approx(2 / 3)
    planes = TaskSample({"image": np.zeros((1, 3, 8, 8), np.float32)})
    assert (Segmentation().answer([scores.transpose(0, 3, 1, 2)], planes) == answer).all()


def test_keypoints_are_peaks_of_maps() -> None:
    maps = np.zeros((1, 4, 4, 2), np.float32)
    maps[0, 1, 2, 0] = maps[0, 3, 0, 1] = 1
    points = Keypoints().answer([maps], PICTURE)
    assert points.tolist() == [[0.625, 0.375], [0.125, 0.875]]
    truth = np.concatenate([points, [[1], [1]]], 1)
    assert value(Keypoints(), [points], [truth]) == 1.0
    assert value(Keypoints(), [points + 1], [truth]) < 0.01


def boxes(*rows):
    return np.array(rows, float).reshape(-1, 6)


def test_precision_of_boxes() -> None:
    truth = np.array([(0, 0, 0.5, 0.5, 0), (0.5, 0.5, 1, 1, 0)])
    both = boxes((0, 0, 0.5, 0.5, 0.9, 0), (0.5, 0.5, 1, 1, 0.8, 0))
    assert value(Detection(), [both], [truth]) == 1.0
    # A false box that is surer than both halves the precision at every recall.
    false_first = np.concatenate([boxes((0, 0.5, 0.5, 1, 0.95, 0)), both])
    assert value(Detection(), [false_first], [truth]) == pytest.approx(2 / 3, abs=0.01)
    assert value(Detection(), [both[:1]], [truth]) == pytest.approx(51 / 101)
    other_class = both.copy()
    other_class[:, 5] = 1
    assert value(Detection(), [other_class], [truth]) == 0.0


def test_a_detection_that_moves_is_another_answer() -> None:
    one = boxes((0, 0, 0.5, 0.5, 0.9, 0))
    near, far = (one + np.array([move, 0, move, 0, 0, 0]) for move in (0.02, 0.4))
    assert Detection().same(one, near) and not Detection().same(one, far)
    assert not Detection().same(one, one[:0])


def test_yolo_rows_are_decoded_and_doubles_dropped() -> None:
    picture = (1, 64, 64, 3)
    rows = np.zeros((1, 6, 84), np.float32)  # four numbers and two classes per cell
    rows[0, :4, 7] = rows[0, :4, 8] = (0.5, 0.5, 0.2, 0.4)
    rows[0, 5, 7], rows[0, 5, 8] = 0.9, 0.8
    found = decoded([rows], picture)
    assert len(found) == 1 and found[0] == pytest.approx((0.4, 0.3, 0.6, 0.7, 0.9, 1))
    rows[0, :4] *= 64  # in pixels
    assert decoded([rows], picture)[0] == pytest.approx((0.4, 0.3, 0.6, 0.7, 0.9, 1))


def test_grids_of_yolox_are_decoded() -> None:
    grid = np.full((1, 4, 4, 6), -20.0, np.float32)
    grid[0, 1, 2] = (0.5, 0.5, np.log(2), np.log(1), 8, 8)
    other = np.full((1, 2, 2, 6), -20.0, np.float32)
    found = decoded([grid, other], (1, 64, 64, 3))
    assert found[0, :4] == pytest.approx((0.375, 0.25, 0.875, 0.5))


def test_four_outputs_of_a_postprocess() -> None:
    outputs = [
        np.array([[[0.1, 0.2, 0.5, 0.6], [0, 0, 0.1, 0.1]]]),  # top, left, bottom, right
        np.array([[3.0, 0.0]]),
        np.array([[0.75, 0.25]]),
        np.array([1.0]),
    ]
    assert decoded(outputs, (1, 8, 8, 3)).tolist() == [[0.2, 0.1, 0.6, 0.5, 0.75, 3.0]]


def test_shapes_tell_the_task_only_where_one_comes_into_question() -> None:
    image = [(1, 96, 96, 3)]
    assert likely_task([(1, 10)], image) == "classification"
    assert likely_task([(1, 640)], [(1, 640)]) == "anomaly"
    assert likely_task([(1, 96, 96, 21)], image) == "segmentation"
    assert likely_task([(1, 6, 84)], image) == ""
    assert likely_task([(1, 4), (1, 3)], image) == ""
