# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.prediction.calibration import calibrate, calibrate_groups
from llm_planner.prediction.length import LengthDistribution, LengthInterval

# Length 1 with 1/2, 2 with 1/4, 3 with 1/8, 4 with 1/8.
HALVES = LengthDistribution.from_buckets([4, 2, 1, 1], 1)

weights = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30).filter(lambda w: sum(w) > 0.01)
distributions = st.builds(LengthDistribution.from_buckets, weights, st.integers(1, 20))


def by_hand(distribution):
    """Returns length -> probability."""
    return dict(enumerate(np.diff(distribution.cumulative, prepend=0.0), start=1))


def test_figures_of_a_small_distribution():
    assert HALVES.expected_tokens == pytest.approx(1 / 2 + 2 / 4 + 3 / 8 + 4 / 8)
    assert [HALVES.quantile(share) for share in (0.0, 0.5, 0.51, 0.75, 0.9, 1.0)] == [1, 1, 2, 2, 4, 4]
    assert HALVES.bucket_upper_tokens == 1
    assert HALVES.interval(0.5) == LengthInterval(1, 3)
    assert HALVES.interval(1.0) == LengthInterval(1, 4)


def test_a_bucket_is_half_open_and_its_lengths_are_equally_probable():
    distribution = LengthDistribution.from_buckets([0.2, 0.8], 5)
    assert distribution.max_tokens == 10
    assert [distribution.at_most(n) for n in (0, 5, 6, 10, 99)] == pytest.approx([0.0, 0.2, 0.36, 1.0, 1.0])
    assert distribution.bucket_upper_tokens == 10


def test_the_paper_reports_the_end_of_the_bucket_but_never_more_than_the_limit():
    distribution = LengthDistribution.from_buckets([0.1, 0.2, 0.7], 16)
    assert distribution.bucket_upper_tokens == 48
    assert distribution.limited_to(40).bucket_upper_tokens == 40
    assert distribution.limited_to(20).bucket_upper_tokens == 20  # what is cut off ends up in the bucket of the limit


@given(distributions)
def test_what_is_asked_agrees_with_the_probabilities(distribution):
    masses = by_hand(distribution)
    assert all(mass >= -1e-12 for mass in masses.values())
    assert sum(masses.values()) == pytest.approx(1.0)
    assert distribution.expected_tokens == pytest.approx(sum(n * mass for n, mass in masses.items()))
    assert 1 <= distribution.bucket_upper_tokens <= distribution.max_tokens


@given(distributions, st.floats(0.0, 1.0))
def test_a_quantile_is_the_shortest_length_that_reaches_its_share(distribution, share):
    length = distribution.quantile(share)
    assert distribution.at_most(length) >= share
    assert length == 1 or distribution.at_most(length - 1) < share


@given(distributions, st.floats(0.0, 1.0))
def test_an_uncalibrated_interval_holds_at_least_its_share(distribution, nominal):
    lower, upper = distribution.interval(nominal)
    assert 1 <= lower <= upper <= distribution.max_tokens
    assert distribution.at_most(upper) - distribution.at_most(lower - 1) >= nominal - 1e-9


@given(distributions, st.integers(1, 600), st.integers(0, 100))
def test_the_score_says_which_intervals_hold_a_length(distribution, length, percent):
    length = min(length, distribution.max_tokens)
    score = distribution.nonconformity(length)
    lower, upper = distribution.interval(percent / 100)
    if abs(score - percent / 100) > 1e-9:
        assert (lower <= length <= upper) == (score < percent / 100)


@given(distributions, st.integers(1, 700))
def test_a_limit_moves_what_is_longer_onto_the_limit(distribution, limit):
    limited = distribution.limited_to(limit)
    assert limited.max_tokens == min(limit, distribution.max_tokens)
    expected = sum(min(limit, n) * mass for n, mass in by_hand(distribution).items())
    assert limited.expected_tokens == pytest.approx(expected)


@given(distributions, st.integers(0, 700))
def test_conditioning_keeps_the_proportions_of_what_is_still_possible(distribution, attained):
    conditioned = distribution.at_least(attained)
    first = max(1, min(attained, distribution.max_tokens))
    assert conditioned.at_most(first - 1) == 0.0
    assert conditioned.quantile(0.0) >= 1
    assert conditioned.expected_tokens >= distribution.expected_tokens - 1e-6
    left = 1.0 - distribution.at_most(first - 1)
    if left > 1e-6:
        now, before = by_hand(conditioned), by_hand(distribution)
        assert all(now[n] == pytest.approx(before[n] / left, abs=1e-6) for n in range(first, len(now) + 1))


def test_a_response_that_outgrew_the_prediction_may_have_any_length_up_to_the_limit():
    certain = LengthDistribution.from_buckets([1, 0, 0, 0, 0], 2)
    conditioned = certain.at_least(7)
    assert [conditioned.at_most(n) for n in (6, 7, 8, 9, 10)] == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0])


def test_calibrated_intervals_have_their_nominal_coverage_although_the_predictor_is_overconfident():
    rng = np.random.default_rng(3)

    def examples(count):
        for _ in range(count):
            centre = int(rng.integers(20, 180))
            told = np.exp(-np.abs(np.arange(1, 201) - centre) / 2.0)  # it claims a spread of 2
            yield LengthDistribution.from_buckets(told, 1), int(np.clip(round(rng.laplace(centre, 8.0)), 1, 200))

    def coverage(pairs, calibration, nominal):
        hits = 0
        for told, length in pairs:
            lower, upper = LengthDistribution(cumulative=told.cumulative, calibration=calibration).interval(nominal)
            hits += lower <= length <= upper
        return hits / len(pairs)

    fitted = calibrate(told.nonconformity(length) for told, length in examples(2000))
    fresh = list(examples(2000))
    assert coverage(fresh, calibrate([i / 100 for i in range(101)]), 0.9) < 0.7
    for nominal in (0.5, 0.8, 0.9, 0.95):
        assert coverage(fresh, fitted, nominal) == pytest.approx(nominal, abs=0.03)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=300), st.integers(0, 100))
def test_calibration_is_the_conformal_quantile(scores, percent):
    calibration = calibrate(scores)
    level = calibration.level(percent / 100)
    assert list(calibration.levels) == sorted(calibration.levels)
    reached = sum(score <= level for score in scores)
    assert level == 1.0 or reached >= (len(scores) + 1) * percent / 100 - 1e-9


def test_few_examples_guarantee_nothing_at_high_levels():
    assert calibrate([0.1, 0.2]).level(0.9) == 1.0


@given(distributions, st.integers(0, 700))
def test_what_is_left_is_the_conditioned_length_without_what_came(distribution, generated):
    left = distribution.remaining(generated)
    if generated < distribution.max_tokens:
        assert left.max_tokens == distribution.max_tokens - generated
        total = distribution.at_least(generated + 1)
        assert left.expected_tokens == pytest.approx(total.expected_tokens - generated)
        assert left.quantile(0.9) == max(1, total.quantile(0.9) - generated)
    else:
        assert left.quantile(1.0) == 1


def test_each_group_of_prompts_has_levels_of_its_own():
    short = [(prompt, 0.2) for prompt in range(1, 33) for _ in range(10)]
    long = [(prompt, 0.8) for prompt in range(33, 65) for _ in range(10)]
    few = [(1000, 0.5)] * 199
    grouped = calibrate_groups([*short, *long, *few], (32, 64))
    levels = [grouped.of(num_tokens).level(0.9) for num_tokens in (1, 32, 33, 64, 65)]
    assert levels[:4] == [0.2, 0.2, 0.8, 0.8]
    assert levels[4] == calibrate([score for _, score in (*short, *long, *few)]).level(0.9)  # too few for its own
