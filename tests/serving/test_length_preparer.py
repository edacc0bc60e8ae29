# SPDX-License-Identifier: Apache-2.0
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest

from llm_planner.core.segment import ZERO_DURATION, Segment
from llm_planner.prediction.length import LengthDistribution
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.fake import FakeBackend
from llm_planner.serving.length_preparer import LengthPreparer
from llm_planner.serving.plan_preparer import PlanPreparer
from tests.serving.builders import make_request


@dataclass
class FixedPredictor:
    """Says that a plan has 1 to 40 tokens, all alike, and remembers what it was asked."""

    prompts: list = field(default_factory=list)

    def predict(self, prompt_token_ids):
        self.prompts.append(tuple(prompt_token_ids))
        return LengthDistribution.from_buckets([1.0] * 40, 1)


@pytest.fixture
def executor():
    with ThreadPoolExecutor(max_workers=1) as executor:
        yield executor


@pytest.fixture
def prepare(executor):
    def _prepare(predicts_all=True, **fields):
        backend, predictor = FakeBackend(), FixedPredictor()
        plans = PlanPreparer(backend=backend, tokenizer=backend.tokenizer, library=RobotLibrary())
        request = make_request(**(fields | {"robot_model": "tello"}))
        return LengthPreparer(plans, predictor, executor, predicts_all).prepare(request), predictor

    return _prepare


def test_the_whole_prompt_is_read(prepare):
    done, predictor = prepare()
    assert done.length.wait().max_tokens == 40
    assert predictor.prompts == [done.sequence.prompt_token_ids]


def test_lengths_are_predicted_only_where_something_is_decided_by_them(prepare):
    assert prepare(predicts_all=False)[0].length is None
    assert not prepare(predicts_all=False)[1].prompts
    assert prepare(predicts_all=False, time_budget_s=1.0)[0].length.wait().max_tokens == 40


def test_no_plan_is_longer_than_allowed(prepare):
    assert prepare(max_tokens=10)[0].length.wait().max_tokens == 10


def test_after_a_restart_only_the_rest_is_predicted(prepare):
    delivered = (Segment(index=0, text="mf(50);", calls=(), expected=ZERO_DURATION),)
    done, predictor = prepare(delivered=delivered)
    count = done.num_delivered_tokens
    assert count > 0
    assert done.length.wait().max_tokens == 40 - count
    assert predictor.prompts == [done.sequence.prompt_token_ids[:-count]]


def test_lengths_with_an_adapter_are_not_predicted(prepare, executor):
    one, predictor = prepare()[0], FixedPredictor()
    prepared = replace(one, sequence=replace(one.sequence, adapter="adapters/fleet"), length=None)

    class Prepares:
        def prepare(self, _request):
            return prepared

    assert LengthPreparer(Prepares(), predictor, executor, predicts_all=True).prepare(make_request()) == prepared
    assert not predictor.prompts
