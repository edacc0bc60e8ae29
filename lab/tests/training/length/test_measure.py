# SPDX-License-Identifier: Apache-2.0
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.prediction.length import LengthDistribution
from llm_planner_lab.training.length.data import Example
from llm_planner_lab.training.length.measure import errors_of, fit_calibration, measure_served


class Told:
    """Predicts what the prompt's first token says, spread evenly over it and the next one."""

    def predict(self, prompt_token_ids):
        probabilities = [0.0] * 20
        probabilities[prompt_token_ids[0] - 1] = probabilities[prompt_token_ids[0]] = 1.0
        return LengthDistribution.from_buckets(probabilities, 1)


def test_errors_by_hand():
    errors = errors_of([1.0, 2.0, 6.0], [1, 4, 4])
    assert (errors.mae, errors.rmse) == pytest.approx((4 / 3, (8 / 3) ** 0.5))
    assert errors.r2 == pytest.approx(1 - 8 / 6)


@given(st.lists(st.integers(1, 99), min_size=2, max_size=30).filter(lambda some: len(set(some)) > 1))
def test_the_mean_explains_nothing_and_the_truth_everything(some):
    assert errors_of([sum(some) / len(some)] * len(some), some).r2 == pytest.approx(0.0)
    assert errors_of(some, some).r2 == 1.0


def test_a_predictor_is_measured_as_it_serves():
    examples = [Example((n,), n) for n in range(2, 12)] + [Example((3,), 9)]
    ticks = itertools.count()
    figures = measure_served(Told(), examples, now_s=lambda: float(next(ticks)), max_tokens=20, nominals=(0.9,))
    assert figures.ended == figures.mean
    assert figures.mean.mae == pytest.approx((10 * 0.5 + 5.5) / 11)
    assert figures.bucket_end.mae == pytest.approx(6 / 11)
    assert figures.coverage == {0.9: pytest.approx(10 / 11)}
    assert figures.width_90 == 2
    assert figures.predict_ms == (1000.0, 1000.0)


def test_responses_that_ran_into_the_limit_are_also_left_out():
    examples = [Example((n,), n) for n in range(2, 12)] + [Example((3,), 20)]
    figures = measure_served(Told(), examples, now_s=lambda: 0.0, max_tokens=20)
    assert figures.mean.mae == pytest.approx((10 * 0.5 + 16.5) / 11)
    assert figures.ended.mae == pytest.approx(0.5)
    assert measure_served(Told(), examples[-1:], now_s=lambda: 0.0, max_tokens=20).ended is None


def test_calibration_widens_what_was_too_narrow():
    examples = [Example((5,), 5 + n % 4) for n in range(200)]  # half of the lengths are beyond what is told
    assert fit_calibration(Told(), examples).of(1).level(0.9) == 1.0
