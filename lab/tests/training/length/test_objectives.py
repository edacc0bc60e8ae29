# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_planner_lab.training.length.objectives import Buckets, Classes, Regression

lengths = st.lists(st.integers(1, 60), min_size=2, max_size=80)


def test_a_certain_bucket_is_predicted_as_its_middle():
    outputs = torch.full((1, 4), -100.0)
    outputs[0, 2] = 100.0
    assert Buckets.of([1], 5, 4).lengths(outputs).tolist() == [13.0]  # 11 to 15


def test_buckets_begin_with_the_frequencies_of_training():
    buckets = Buckets.of([1, 2, 2, 8], 2, 4)
    assert buckets.counts == (3, 0, 0, 1)
    assert buckets.first_bias.argmax() == 0
    assert torch.isfinite(buckets.first_bias).all()


def test_the_loss_of_buckets_is_least_at_the_true_one():
    buckets, outputs = Buckets.of([1], 4, 3), 9.0 * torch.eye(3)
    losses = [float(buckets.loss(outputs[row][None], torch.tensor([8]))) for row in range(3)]  # 5 to 8 is the second
    assert losses[1] < min(losses[0], losses[2])


def test_a_near_miss_costs_less_than_a_far_one():
    buckets, outputs = Buckets.of(range(1, 21), 1, 20), torch.zeros(1, 20)
    outputs[0, 9] = 9.0  # length 10
    near, far = (float(buckets.loss(outputs, torch.tensor([length]))) for length in (11, 20))
    assert near < far - 0.5


@given(st.lists(st.integers(1, 20), min_size=2, max_size=20), st.lists(st.floats(-3.0, 3.0), min_size=20, max_size=20))
def test_no_belief_loses_less_than_the_truth(some, beliefs):
    buckets, true = Buckets.of(some, 1, 20), torch.tensor(some)
    frequencies = torch.bincount(true - 1, minlength=20) / len(some)
    told = torch.log(frequencies + 1e-9).expand(len(some), -1)
    assert float(buckets.loss(told, true)) <= float(buckets.loss(torch.tensor([beliefs] * len(some)), true)) + 1e-5


@given(lengths)
def test_a_regression_that_is_right_loses_nothing(some):
    regression, true = Regression.of(some), torch.tensor(some)
    outputs = ((true - regression.mean) / regression.deviation)[:, None]
    assert float(regression.loss(outputs, true)) == pytest.approx(0.0, abs=1e-9)
    assert regression.lengths(outputs).tolist() == pytest.approx(some, abs=1e-3)


@given(lengths, st.sampled_from([(25, 50, 75, 99), tuple(range(10, 100, 10))]))
def test_classes_part_the_lengths_in_order_and_none_is_empty(some, percentiles):
    classes = Classes.of(some, percentiles)
    assert list(classes.means) == sorted(set(classes.means))
    assert len(classes.starts) == len(classes.means) - 1 <= len(percentiles)
    own = np.searchsorted(classes.starts, some, side="right")
    for index, mean in enumerate(classes.means):
        assert np.mean(np.array(some)[own == index]) == pytest.approx(mean)


def test_a_class_is_predicted_as_its_mean():
    classes = Classes.of([1, 2, 10, 20], (50,))
    assert classes.means == (1.5, 15.0)
    assert classes.lengths(torch.tensor([[1.0, 0.0], [0.0, 1.0]])).tolist() == [1.5, 15.0]
    right = torch.tensor([[9.0, 0.0], [0.0, 9.0]])
    assert classes.loss(right, torch.tensor([2, 10])) < classes.loss(right, torch.tensor([10, 2]))
