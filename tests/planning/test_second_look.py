# SPDX-License-Identifier: Apache-2.0
"""What else may have been meant, where a plan must not be executed as it is."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import ReportStatus, SegmentReport
from llm_planner.core.step import TokenChoice
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.planning.second_look import MAX_PLANS, SecondLook
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.fake import EOS_TOKEN_ID, FakeTokenizer
from tests.serving.builders import make_session

TOKENIZER = FakeTokenizer(1)
TELLO = RobotLibrary().get("tello")


class Model:
    """Writes plans with given probabilities: a token is as likely as all plans that go on with it.

    Args:
        plans: What it may write, and how probable that is; the sum is at most 1.
        refused: What the grammar does not let it write.
    """

    def __init__(self, plans, refused=()):
        ids = {text: (*TOKENIZER.encode(text), EOS_TOKEN_ID) for text in plans}
        self._plans = {ids[text]: probability for text, probability in plans.items()}
        self._refused = tuple((*TOKENIZER.encode(text), EOS_TOKEN_ID) for text in refused)

    def write(self, begun=()):
        """Returns the token ids behind ``begun`` and its choices, up to the likeliest end."""
        token_ids, choices = list(begun), []
        while True:
            length = len(token_ids)
            fitting = {ids: p for ids, p in self._plans.items() if ids[:length] == tuple(token_ids)}
            nexts = {ids[length] for ids in fitting}
            share = {t: sum(p for ids, p in fitting.items() if ids[length] == t) for t in nexts}
            total = sum(fitting.values())
            refused = {ids[length] for ids in self._refused if ids[:length] == tuple(token_ids)}
            ranked = sorted(share, key=lambda t: -share[t])
            chosen = next(t for t in ranked if t not in refused or len(ranked) == 1)
            alternatives = [
                TokenChoice(t, math.log(share[t] / total), (), t not in refused) for t in ranked if t != chosen
            ]
            choices.append(TokenChoice(chosen, math.log(share[chosen] / total), tuple(alternatives[:3])))
            if chosen == EOS_TOKEN_ID:
                return token_ids[len(begun) :], choices
            token_ids.append(chosen)


class RulesOut:
    """A check that contradicts plans with a word."""

    problem = "that was ruled out"

    def __init__(self, *words):
        self._words = words

    def feed(self, _calls, text):
        return Verdict.CONTRADICTED if any(word in text for word in self._words) else Verdict.EXPLAINED

    def finish(self):
        return Verdict.EXPLAINED

    def restarted(self):
        return self


def looked(plans, *, least=0.7, refused=(), ruled_out=(), max_looks=99):
    """Returns the look, what was decided, and how many plans were written."""
    model = Model(plans, refused)

    def new_session():
        checks = [RulesOut(*ruled_out)]
        return make_session(tokenizer=TOKENIZER, gate=SafetyGate(TELLO), min_confidence=least, checks=checks)

    look = SecondLook(new_session(), new_session, eos_token_ids={EOS_TOKEN_ID}, min_confidence=least)
    begun, number = (), 1
    while True:
        progress = look.feed(*model.write(begun))
        if not progress.is_complete:
            progress = look.finish()
        if progress.error is None:
            return look, progress, number
        instead = look.instead(progress.error, may_write=number < max_looks)
        if instead is None:
            return look, progress, number
        if instead.progress is not None:
            assert look.instead(PlannerError(ErrorCode.NOT_UNDERSTOOD, "")) is None, "what is decided stays decided"
            written = TOKENIZER.decode(instead.token_ids)
            assert instead.progress.error or written == "".join(s.text for s in instead.progress.segments)
            return look, instead.progress, number
        begun, number = instead.token_ids, number + 1


def texts(progress):
    return [segment.text for segment in progress.segments]


def test_a_plan_that_is_sure_is_handed_out_as_it_is_written():
    look, progress, number = looked({"mf(100);": 0.9, "mb(100);": 0.1})
    assert (progress.error, number) == (None, 1)
    assert look.confidence == pytest.approx(0.9)


def test_the_likeliest_plan_that_is_not_contradicted_is_taken_with_its_share():
    plans = {"mf(100);": 0.6, "mb(100);": 0.3, "mb(200);tp();": 0.06, "ld();": 0.04}
    look, progress, _ = looked(plans, ruled_out=("mf",))
    assert texts(progress) == ["mb(100);"]
    assert [segment.index for segment in progress.segments] == [0]
    assert look.confidence == pytest.approx(0.3 / 0.4, abs=0.01)


def test_a_plan_may_win_that_ends_sooner():
    _, progress, _ = looked({"mf(100);l('now');": 0.55, "mf(100);": 0.45}, ruled_out=("l(",))
    assert texts(progress) == ["mf(100);"]


def test_what_stays_unsure_is_not_executed_and_the_likeliest_can_be_confirmed():
    look, progress, _ = looked({"mf(100);": 0.4, "mb(100);": 0.3, "ld();": 0.2, "tp();": 0.1})
    assert (progress.error.code, progress.segments) == (ErrorCode.NOT_UNDERSTOOD, ())
    assert progress.candidates == ("mf(100);", "mb(100);", "ld();")
    assert "only 40% sure that this is meant: mf(100);" in progress.error.message
    assert look.confidence == pytest.approx(0.4)


def test_who_is_unsure_and_knows_nothing_else_stays_unsure():
    session = make_session(tokenizer=TOKENIZER, gate=SafetyGate(TELLO), min_confidence=0.7)
    look = SecondLook(session, lambda: session, eos_token_ids={EOS_TOKEN_ID}, min_confidence=0.7)
    token_ids = TOKENIZER.encode("mf(100);")
    look.feed(token_ids, [TokenChoice(t, math.log(0.92)) for t in token_ids])  # all clear: no alternatives
    instead = look.instead(look.finish().error)
    assert instead.progress.error.code is ErrorCode.NOT_UNDERSTOOD
    assert look.confidence == pytest.approx(0.92 ** len(token_ids), rel=0.1)
    assert instead.progress.candidates == ("mf(100);",)


def test_what_the_model_nearly_ruled_out_is_not_sure_because_all_the_rest_is_refused():
    look, progress, _ = looked({"mf(100);": 0.96, "mb(100);": 0.04}, ruled_out=("mf",))
    assert (progress.error.code, look.confidence) == (ErrorCode.NOT_UNDERSTOOD, pytest.approx(0.04))


def test_a_sure_refusal_of_the_gate_is_no_reason_to_do_something_else():
    _, progress, number = looked({"mu(900);": 0.9, "mu(90);": 0.1})
    assert (progress.error.code, number) == (ErrorCode.ARGUMENT_OUT_OF_RANGE, 1)
    _, progress, _ = looked({"mu(900);": 0.6, "mu(90);": 0.4})
    assert progress.error.code is ErrorCode.ARGUMENT_OUT_OF_RANGE, "the likeliest answer, which counts"
    assert progress.candidates == ()


@pytest.mark.parametrize("plan", ["unclear('which one');", "fail('I cannot carry things');"])
def test_who_asks_or_gives_up_does_so_whatever_else_is_possible_but_not_if_that_is_likelier(plan):
    _, progress, number = looked({plan: 0.9, "mf(100);": 0.1})
    assert (progress.segments, number) == ((), 1)
    _, progress, _ = looked({plan: 0.55, "mf(100);": 0.45})
    assert progress.segments == progress.candidates == ()
    _, progress, _ = looked({plan: 0.3, "mf(100);": 0.28, "mf(150);": 0.02, "mb(100);": 0.4}, ruled_out=("mb",))
    assert progress.segments == ()


def test_what_the_grammar_refuses_is_not_begun():
    _, progress, _ = looked({"mf(100);": 0.5, "xx(100);": 0.3, "mb(100);": 0.2}, refused=("xx(100);",))
    assert progress.candidates == ("mf(100);", "mb(100);")


def test_what_is_known_and_not_written_counts_so_that_no_plan_is_sure_for_want_of_time():
    plans = {"mf(100);": 0.5, "mb(100);": 0.2, "ld();": 0.16, "tp();": 0.14}
    for max_looks in (2, 3, 99):
        look, progress, _ = looked(plans, least=0.65, ruled_out=("mf",), max_looks=max_looks)
        assert (progress.error.code, look.confidence) == (ErrorCode.NOT_UNDERSTOOD, pytest.approx(0.4, abs=0.03))


def test_an_answer_that_is_hardly_one_is_not_given_instead_of_what_was_wrong():
    _, progress, _ = looked({"mf(100);": 0.97, "fail('no');": 0.02, "mu(900);": 0.01}, ruled_out=("mf",))
    assert "ruled out" in progress.error.message
    assert progress.segments == progress.candidates == ()
    _, progress, _ = looked({"mf(100);": 0.86, "mb(100);": 0.1, "tp();": 0.04}, least=0.0, ruled_out=("mf", "mb"))
    assert (progress.segments, progress.error.code) == ((), ErrorCode.NOT_UNDERSTOOD), (
        "less than 5 %, whatever is asked"
    )


def test_only_so_many_plans_are_written_and_none_when_time_is_over():
    plans = {f"m{d}({n}0);": 0.025 for d in "fblrud" for n in range(1, 7)}
    assert looked(plans)[2] <= MAX_PLANS
    _, progress, number = looked({"mf(100);": 0.6, "mb(100);": 0.4}, ruled_out=("mf",), max_looks=1)
    assert (progress.error.code, number) == (ErrorCode.NOT_UNDERSTOOD, 1)
    assert "ruled out" in progress.error.message


def test_a_plan_that_goes_on_around_a_failure_is_not_looked_at_again():
    look, progress, _ = looked({"mf(100);": 0.6, "mb(100);": 0.4}, ruled_out=("mf",))
    assert texts(progress) == ["mb(100);"]
    look.begin_replan(SegmentReport(request_id="r", index=0, status=ReportStatus.FAILED, reason="no"))
    read = look.feed(TOKENIZER.encode("tp();"), [TokenChoice(t, -0.001) for t in TOKENIZER.encode("tp();")])
    assert texts(read) == ["tp();"], "shown at once"
    error = look.feed(TOKENIZER.encode("mf(100);")).error
    assert look.instead(error) is None


_WRITTEN = ("mf(100);", "mf(150);", "mb(100);", "tp();", "mf(100);tp();", "ld();", "unclear('what');", "mf(9")
_PLANS = st.lists(st.sampled_from(_WRITTEN), min_size=1, max_size=6, unique=True)


@given(_PLANS, st.data())
def test_nothing_moves_that_is_contradicted_or_less_sure_than_asked(plans, data):
    weights = data.draw(st.lists(st.integers(1, 20), min_size=len(plans), max_size=len(plans)))
    probabilities = {plan: weight / sum(weights) for plan, weight in zip(plans, weights, strict=True)}
    ruled_out = data.draw(st.sampled_from(((), ("mf",), ("tp",), ("mf", "mb"))))
    least = data.draw(st.sampled_from((0.3, 0.6, 0.9)))
    look, progress, number = looked(probabilities, least=least, ruled_out=ruled_out)
    assert number <= MAX_PLANS
    moved = "".join(texts(progress))
    if progress.error is None:
        assert not any(word in moved for word in ruled_out)
        assert look.confidence >= least
    else:
        assert progress.segments == ()
        assert all(not any(word in plan for word in ruled_out) for plan in progress.candidates)
