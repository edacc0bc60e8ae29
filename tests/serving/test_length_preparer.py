from dataclasses import dataclass, field

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


def prepared(**fields):
    backend, predictor = FakeBackend(), FixedPredictor()
    plans = PlanPreparer(backend=backend, tokenizer=backend.tokenizer, library=RobotLibrary())
    return LengthPreparer(plans, predictor).prepare(make_request(**(fields | {"robot_model": "tello"}))), predictor


def test_the_whole_prompt_is_read():
    done, predictor = prepared()
    assert predictor.prompts == [done.sequence.prompt_token_ids]
    assert done.length.max_tokens == 40


def test_no_plan_is_longer_than_allowed():
    done, _ = prepared(max_tokens=10)
    assert done.length.max_tokens == 10


def test_after_a_restart_only_the_rest_is_predicted():
    delivered = (Segment(index=0, text="mf(50);", calls=(), expected=ZERO_DURATION),)
    done, predictor = prepared(delivered=delivered)
    count = done.num_delivered_tokens
    assert count > 0
    assert predictor.prompts == [done.sequence.prompt_token_ids[:-count]]
    assert done.length.max_tokens == 40 - count
