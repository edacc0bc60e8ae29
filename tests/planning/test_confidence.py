"""How sure a model is, statement by statement."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode
from llm_planner.core.step import TokenChoice
from llm_planner.planning.confidence import Confidence
from llm_planner.serving.fake import FakeTokenizer
from tests.serving.builders import make_session


def feed(confidence, *pieces):
    for text, probability in pieces:
        confidence.feed(text, TokenChoice(0, math.log(probability), (7, 8)))


def test_a_statement_is_as_sure_as_its_tokens_together_and_a_plan_as_its_least_sure_statement():
    confidence = Confidence()
    feed(confidence, ("mf(", 0.9), ("100", 0.5), (");", 1.0))
    assert confidence.end_statement() == pytest.approx(0.45)
    feed(confidence, ("tc(90);", 0.8))
    assert confidence.end_statement() == pytest.approx(0.8)
    assert confidence.probability == pytest.approx(0.45)


def test_what_is_said_may_be_worded_in_many_ways():
    confidence = Confidence()
    feed(confidence, ("l('", 0.9), ("hello", 0.01), ("_world", 0.01), ("');", 0.5))
    assert confidence.end_statement() == pytest.approx(0.9)


def test_variants_differ_where_it_is_least_sure():
    confidence = Confidence()
    feed(confidence, ("m", 0.9), ("l", 0.5), ("(100", 0.8), (");", 1.0))
    assert confidence.variants({7: "r", 8: "u"}.get) == ["ml(100);", "mr(100);", "mu(100);"]


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6))
def test_it_never_rises(probabilities):
    confidence, before = Confidence(), 1.0
    for probability in probabilities:
        feed(confidence, ("tp();", probability))
        confidence.end_statement()
        assert confidence.probability <= before
        before = confidence.probability


def test_below_the_least_confidence_nothing_moves():
    tokenizer = FakeTokenizer(1)
    token_ids = tokenizer.encode("mf(100);")
    choices = [TokenChoice(token_id, math.log(0.9)) for token_id in token_ids]
    sure, unsure = (make_session(tokenizer=tokenizer, min_confidence=least) for least in (0.3, 0.6))
    assert [segment.text for segment in sure.feed(token_ids, choices).segments] == ["mf(100);"]
    progress = unsure.feed(token_ids, choices)
    assert progress.segments == ()
    assert progress.error.code is ErrorCode.NOT_UNDERSTOOD
    assert sure.confidence == pytest.approx(0.9**7)  # up to its bracket: there it is executable
