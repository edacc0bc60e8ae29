# SPDX-License-Identifier: Apache-2.0
"""How sure a model is, statement by statement."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode
from llm_planner.core.segment import BlockEdge, ReportStatus, SegmentReport
from llm_planner.core.step import TokenChoice
from llm_planner.planning.confidence import Confidence
from llm_planner.planning.in_words import in_words
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.fake import FakeTokenizer
from tests.serving.builders import make_session

OTHERS = {7: "r", 8: "u", 9: "_", 10: "light", 11: "mr", 12: "tp", 13: "unclear"}


def make_confidence(**options):
    return Confidence(OTHERS.get, **options)


def choice(probability, **others):
    """Returns a choice with its alternatives, by their text."""
    ids = {text: token_id for token_id, text in OTHERS.items()}
    alternatives = tuple(TokenChoice(ids[text], math.log(p)) for text, p in others.items())
    return TokenChoice(0, math.log(probability), alternatives)


def feed(confidence, *pieces):
    for text, probability in pieces:
        confidence.feed(text, choice(probability, r=0.01, u=0.001))


def test_a_statement_is_as_sure_as_its_tokens_together_and_a_plan_as_its_least_sure_statement():
    confidence = make_confidence()
    feed(confidence, ("mf(", 0.9), ("100", 0.5), (");", 1.0))
    assert confidence.end_statement() == pytest.approx(0.45)
    feed(confidence, ("tc(90);", 0.8))
    assert confidence.end_statement() == pytest.approx(0.8)
    assert confidence.probability == pytest.approx(0.45)


def test_why_it_cannot_may_be_worded_in_many_ways_but_what_it_says_to_people_may_not():
    confidence = make_confidence()
    feed(confidence, ("fail('", 0.9), ("too", 0.01), (" far", 0.01), ("');", 0.5))
    assert confidence.end_statement() == pytest.approx(0.9)
    feed(confidence, ("l('", 0.9), ("closing", 0.9), (" at", 0.9), (" five');", 0.5))
    assert confidence.end_statement() == pytest.approx(0.9**3 * 0.5)


@pytest.mark.parametrize("call", ["pick", "pick_up", "drop", "grip"])
def test_the_object_of_any_skill_counts(call):
    confidence = make_confidence()
    feed(confidence, (f"{call}('", 1.0), ("red", 0.3), (" box", 0.5), ("');", 1.0))
    assert confidence.end_statement() == pytest.approx(0.15)


def test_free_words_end_with_their_quotation_mark():
    confidence = make_confidence()
    feed(confidence, ("?p('", 1.0), ("it\\'s", 0.1), (" red", 0.1), ("' )", 1.0), ("{mf(", 0.5), ("500", 0.5))
    assert confidence.end_statement() == pytest.approx(0.25)


@pytest.mark.parametrize(("can_ask", "expected"), [(True, 0.6), (False, 0.8)])
def test_what_a_model_gives_to_asking_back_counts_for_nothing_where_nothing_is_unclear(can_ask, expected):
    confidence = make_confidence(can_ask=can_ask)
    confidence.feed("tk", choice(0.6, unclear=0.25))
    confidence.feed("();", choice(1.0))
    assert confidence.end_statement() == pytest.approx(expected)


def test_variants_differ_where_it_is_least_sure():
    confidence = make_confidence()
    feed(confidence, ("m", 0.9), ("l", 0.5), ("(100", 0.8), (");", 1.0))
    assert confidence.variants() == ["ml(100);", "mr(100);", "mu(100);"]


def test_where_a_name_is_divided_into_words_is_not_for_the_model_to_know():
    confidence = make_confidence()
    feed(confidence, ("o(", 1.0), ("head", 1.0))
    confidence.feed("_", choice(0.5, light=0.4))
    confidence.feed("light", choice(1.0))
    assert confidence.end_statement() == pytest.approx(0.9)
    feed(confidence, ("o(", 1.0), ("head", 1.0))
    confidence.feed("light", choice(0.5, _=0.4, r=0.05))
    assert confidence.end_statement() == pytest.approx(0.9)


def test_another_letter_is_another_name_and_another_skill_another_deed():
    confidence = make_confidence(equivalent_skills={"light"})
    confidence.feed("move", choice(1.0))
    confidence.feed("_", choice(0.5, light=0.4))
    assert confidence.end_statement() == pytest.approx(0.5)
    feed(confidence, ("o(", 1.0))
    confidence.feed("light", choice(0.5, _=0.4, r=0.05))  # the first letters of a name
    assert confidence.end_statement() == pytest.approx(0.5)


def test_skills_that_are_as_good_as_each_other_are_added_up():
    confidence = make_confidence(equivalent_skills={"ml", "mr"})
    for text, others, expected in (("ml", {"mr": 0.3, "tp": 0.1}, 0.9), ("tp", {"mr": 0.3}, 0.6)):
        confidence.feed(text, choice(0.6, **others))
        feed(confidence, ("(100);", 1.0))
        assert confidence.end_statement() == pytest.approx(expected)


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6))
def test_it_never_rises(probabilities):
    confidence, before = make_confidence(), 1.0
    for probability in probabilities:
        feed(confidence, ("tp();", probability))
        confidence.end_statement()
        assert confidence.probability <= before
        before = confidence.probability


def fed(plan, least, *, sure=0.9, **options):
    """Returns the session and what came of a plan whose tokens are all equally sure, to its end."""
    tokenizer = FakeTokenizer(1)
    token_ids = tokenizer.encode(plan)
    session = make_session(tokenizer=tokenizer, min_confidence=least, **options)
    others = (TokenChoice(tokenizer.encode("r")[0], math.log(1e-3)),)
    first = session.feed(token_ids, [TokenChoice(token_id, math.log(sure), others) for token_id in token_ids])
    return session, first, first if first.is_complete else session.finish()


def test_below_the_least_confidence_nothing_moves():
    session, first, _ = fed("mf(100);", 0.3)
    assert [segment.text for segment in first.segments] == ["mf(100);"]
    assert session.confidence == pytest.approx(0.9**7)  # up to its bracket: there it is executable
    _, first, end = fed("mf(100);", 0.6)
    assert first.segments == end.segments == ()
    assert end.error.code is ErrorCode.NOT_UNDERSTOOD
    assert end.candidates[0] == "mf(100);"


def test_nothing_behind_an_unsure_statement_moves_either_and_the_whole_plan_can_be_confirmed():
    tokenizer = FakeTokenizer(1)
    session = make_session(tokenizer=tokenizer, min_confidence=0.5)
    sent = []
    for plan, logprob in (("tc(90);", 0.0), ("ml(50);", -1.0), ("h();", 0.0)):
        token_ids = tokenizer.encode(plan)
        others = (TokenChoice(tokenizer.encode("r")[0], math.log(1e-3)),)
        choices = [TokenChoice(t, logprob / len(token_ids), others) for t in token_ids]
        sent += session.feed(token_ids, choices).segments
    end = session.finish()
    assert [segment.text for segment in sent] == ["tc(90);"]
    assert end.segments == ()
    assert end.candidates[0] == "ml(50);h();"


@pytest.mark.parametrize(("end", "is_sure"), [(0.9, True), (0.4, False)])
def test_the_end_of_a_plan_decides_too_because_a_plan_may_be_too_short(end, is_sure):
    tokenizer = FakeTokenizer(1)
    session = make_session(tokenizer=tokenizer, min_confidence=0.5)
    token_ids = tokenizer.encode("tc(90);tp();")
    choices = [*map(TokenChoice, token_ids), TokenChoice(0, math.log(end))]
    sent = session.feed(token_ids, choices)
    progress = session.finish()
    assert [segment.text for segment in sent.segments] == ["tc(90);", "tp();"]
    assert session.confidence == pytest.approx(end)
    if is_sure:
        assert progress.error is None
    else:
        assert progress.error.message == (
            "not understood: only 40% sure that this is all: tc(90);tp();; "
            "say what is missing or, if nothing of it was sent, confirm it"
        )
        assert progress.candidates == ("",)  # nothing was held back


def test_what_has_no_time_to_wait_ends_where_the_model_ends_it():
    tokenizer = FakeTokenizer(1)
    session = make_session(tokenizer=tokenizer, min_confidence=0.5, can_hold=False)
    token_ids = tokenizer.encode("tc(90);")
    session.feed(token_ids, [*map(TokenChoice, token_ids), TokenChoice(0, math.log(0.4))])
    assert session.finish().error is None


def test_what_may_have_been_meant_passes_the_gate():
    tokenizer = FakeTokenizer(1)
    asked = []

    def is_admissible(plan):
        asked.append(plan)
        return plan == "mr(50);"

    session = make_session(tokenizer=tokenizer, min_confidence=0.9, is_admissible=is_admissible)
    weakest = {"l": -0.5}
    others = tuple(TokenChoice(tokenizer.encode(text)[0], -5.0) for text in ("r", "z"))
    for character in "ml(50);":
        (token_id,) = tokenizer.encode(character)
        session.feed([token_id], [TokenChoice(token_id, weakest.get(character, 0.0), others)])
    assert session.finish().candidates == ("ml(50);", "mr(50);")
    assert set(asked) == {"mr(50);", "mz(50);"}


def test_what_has_no_time_to_wait_ends_at_once():
    _, first, _ = fed("mf(100);", 0.6, can_hold=False)
    assert first.error.code is ErrorCode.NOT_UNDERSTOOD


def test_a_person_is_told_what_may_be_meant_and_what_to_do():
    def in_words(plan):
        return {"mf(100);": "fly forward (100 cm)"}[plan]

    said = "not understood: only 48% sure that this is meant: fly forward (100 cm)"
    _, _, end = fed("mf(100);", 0.6, in_words=in_words)
    assert end.error.message == f"{said}; confirm it, or say it in other words"
    _, first, _ = fed("mf(100);", 0.6, in_words=in_words, can_hold=False)  # there are no candidates to confirm
    assert first.error.message == f"{said}; say it in other words"


def test_a_plan_that_was_confirmed_needs_no_confidence():
    session = make_session(min_confidence=1.0)
    progress = session.write("mf(100);h();")
    assert [segment.text for segment in progress.segments] == ["mf(100);", "h();"]
    assert (progress.error, progress.is_complete) == (None, True)
    assert make_session().write("mf(").error.code is ErrorCode.PLAN_SYNTAX


class Forbids:
    """A check that is contradicted by one skill, in replans too if ``holds``."""

    def __init__(self, name, *, holds):
        self.name, self.holds, self.problem = name, holds, ""

    def feed(self, calls, _text):
        if any(call.name == self.name for call in calls):
            self.problem = f"no {self.name} here"
        return Verdict.CONTRADICTED if self.problem else Verdict.EXPLAINED

    def finish(self):
        return Verdict.EXPLAINED

    def restarted(self):
        return Forbids(self.name, holds=True) if self.holds else None


FAILED = SegmentReport(request_id="r", index=0, status=ReportStatus.FAILED)


def test_a_replan_does_not_inherit_what_was_unsure_before():
    tokenizer = FakeTokenizer(1)
    session = make_session(tokenizer=tokenizer, min_confidence=0.5)
    for plan, logprob in (("tc(90);", 0.0), ("ml(50);", -1.0)):
        token_ids = tokenizer.encode(plan)
        session.feed(token_ids, [TokenChoice(t, logprob) for t in token_ids])
    session.begin_replan(FAILED)
    token_ids = tokenizer.encode("h();")
    sent = session.feed(token_ids, [TokenChoice(t, 0.0) for t in token_ids])
    assert [segment.text for segment in sent.segments] == ["h();"]
    assert session.finish().error is None
    assert session.confidence == 1.0


def test_a_replan_is_judged_from_its_first_token_whatever_text_was_cut_off():
    """In the text of ``fail('`` words are free: none of the replan's are, because another statement begins."""
    tokenizer = FakeTokenizer(1)
    session = make_session(tokenizer=tokenizer, min_confidence=0.5)
    session.feed(tokenizer.encode("tc(90);fail('too"))
    session.begin_replan(FAILED)
    token_ids = tokenizer.encode("mf(100);")
    assert session.feed(token_ids, [TokenChoice(t, -1.0) for t in token_ids]).segments == ()
    assert session.finish().error.code is ErrorCode.NOT_UNDERSTOOD


def test_a_check_that_holds_for_replans_is_asked_again():
    tokenizer = FakeTokenizer(1)
    session = make_session(tokenizer=tokenizer, checks=[Forbids("ml", holds=True), Forbids("mr", holds=False)])
    session.feed(tokenizer.encode("tc(90);"))
    session.begin_replan(FAILED)
    assert session.feed(tokenizer.encode("mr(50);")).error is None
    assert (
        session.feed(tokenizer.encode("ml(50);")).error.message == "not understood: no ml here; say it in other words"
    )


def test_a_condition_in_parts_is_as_sure_as_a_whole_one():
    confidence = make_confidence()
    feed(confidence, ("?iv(cat){", 0.9))
    assert confidence.end_statement(goes_on=True) == pytest.approx(0.9)
    feed(confidence, ("g(cat);", 0.5))
    assert confidence.end_statement(goes_on=True) == pytest.approx(0.45)
    feed(confidence, ("}", 0.8))
    assert confidence.end_statement() == pytest.approx(0.36)
    feed(confidence, ("h();", 0.9))
    assert confidence.end_statement() == pytest.approx(0.9)
    assert confidence.probability == pytest.approx(0.36)


@pytest.mark.parametrize("plan", ["?iv(x){g(x);?iv(y){h();}}mf(100);", "tc(90);?iv(x){h();}"])
@pytest.mark.parametrize("least", [0.0, 0.02, 0.1, 0.3, 0.5])
def test_in_parts_or_not_the_same_plans_are_understood(plan, least):
    session, _, end = fed(plan, least)
    in_parts, first, end_in_parts = fed(plan, least, opens_blocks=True)
    assert in_parts.confidence == pytest.approx(session.confidence)
    assert (end.error is None) == (end_in_parts.error is None)
    rest_is_a_plan = not any(s.block_edge is BlockEdge.OPENS for s in first.segments)
    assert end_in_parts.candidates == (end.candidates if rest_is_a_plan else ())


@pytest.mark.parametrize(
    ("place", "meant"), [("{", "if b is in view: []"), ("g", "b"), ("}", "the end of a condition")]
)
def test_a_doubtful_part_of_a_condition_is_said_in_words(place, meant):
    tokenizer, plan = FakeTokenizer(1), "?iv(b){g(b);}h();"
    session = make_session(
        tokenizer=tokenizer,
        min_confidence=0.9,
        opens_blocks=True,
        in_words=partial(in_words, RobotLibrary().get("tello")),
    )
    for position, token_id in enumerate(tokenizer.encode(plan)):
        session.feed([token_id], [TokenChoice(token_id, -0.5 if position == plan.index(place) else 0.0)])
    assert meant in session.finish().error.message


def test_what_may_have_been_meant_by_a_condition_in_parts():
    tokenizer = FakeTokenizer(1)
    plan, other = "?iv(b){g(b);}h();", (TokenChoice(tokenizer.encode("c")[0], -1.0),)
    for number in range(2):  # the first b, then the second
        session = make_session(tokenizer=tokenizer, min_confidence=0.9, opens_blocks=True)
        places = [place for place, character in enumerate(plan) if character == "b"]
        sent = []
        for place, token_id in enumerate(tokenizer.encode(plan)):
            logprob = -0.5 if place == places[number] else 0.0
            sent += session.feed([token_id], [TokenChoice(token_id, logprob, other)]).segments
        end = session.finish()
        assert end.error.code is ErrorCode.NOT_UNDERSTOOD
        assert [s.text for s in sent] == ["?iv(b){"][:number]
        assert end.candidates == ((), (plan, "?iv(c){g(b);}h();"))[number == 0]
