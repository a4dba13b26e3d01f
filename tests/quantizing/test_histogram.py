"""Ranges from what tensors held."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.quantizing.histogram import METHODS, Histogram, Histograms
from npuscope.quantizing.plan import ActivationRange
from npuscope.quantizing.sqnr import rounded


def seen(*arrays: np.ndarray) -> Histogram:
    histogram = Histogram()
    for values in arrays:
        histogram.add(values)
    return histogram


def noise(values: np.ndarray, found: ActivationRange) -> float:
    return float(np.mean((values - rounded(values, found)) ** 2))


def test_minmax_is_exact() -> None:
    values = np.array([0.3, -1.25, 2.5], np.float32)
    assert seen(values).range("minmax") == ActivationRange(-1.25, 2.5)


@pytest.mark.parametrize("method", METHODS)
def test_zero_is_in_every_range_and_nothing_is_wider_than_what_was_seen(method: str) -> None:
    values = np.random.default_rng(0).uniform(0.5, 3, 5000).astype(np.float32)
    found = seen(values).range(method)
    assert found.low == 0.0 and 0 < found.high <= values.max()


def test_counts_do_not_depend_on_the_order_of_samples() -> None:
    generator = np.random.default_rng(1)
    parts = [generator.normal(0, scale, 1000).astype(np.float32) for scale in (0.1, 1, 30, 2)]
    one, other = seen(*parts), seen(*reversed(parts))
    for method in METHODS:
        assert one.range(method) == other.range(method)
    assert one.counts.sum() == 4000


def test_an_outlier_is_cut_by_percentile() -> None:
    values = np.random.default_rng(2).normal(0, 1, 40000).astype(np.float32)
    values[7] = 400.0
    histogram = seen(values)
    assert histogram.range("minmax").high == 400.0
    assert histogram.range("percentile").high < 6
    # Cutting one value by 394 costs more than rounding all others to coarse steps.
    assert histogram.range("mse").high > 300
    assert noise(np.delete(values, 7), histogram.range("percentile")) < 0.001


def test_mse_rounds_better_than_minmax() -> None:
    values = np.random.default_rng(3).laplace(0, 1, 200_000).astype(np.float32)
    histogram = seen(values)
    assert noise(values, histogram.range("mse")) < 0.8 * noise(values, histogram.range("minmax"))


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_of_zeros_and_infinite_values(method: str) -> None:
    assert seen(np.zeros(5, np.float32)).range(method) == ActivationRange(0.0, 0.0)
    masked = seen(np.array([-np.inf, 1.0, np.nan], np.float32)).range(method)
    assert np.isfinite([masked.low, masked.high]).all()


def test_only_floats_count() -> None:
    found = Histograms()
    found.add({"a": np.ones(3, np.float32), "b": np.ones(3, np.int64)})
    assert list(found.ranges("minmax")) == ["a"]
