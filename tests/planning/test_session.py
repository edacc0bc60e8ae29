# SPDX-License-Identifier: Apache-2.0
"""Plan sessions: however tokens split a plan, the same segments come out, and every error has its number."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import (
    BlockEdge,
    ReportStatus,
    Segment,
    SegmentReport,
    carried_out,
    first_of_statement,
    make_replan,
    statement_text,
)
from llm_planner.core.skill import SkillCall
from llm_planner.core.step import TokenChoice
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.session import Progress
from llm_planner.serving.fake import FakeTokenizer
from tests.serving.builders import StubGate, make_session


class StubCheck:
    """Says of each statement what it was given to say, the last for all that follow."""

    problem = "no"

    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts = list(verdicts)

    def feed(self, calls, text):
        return self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]

    def finish(self):
        return Verdict.CONTRADICTED if self.verdicts[0] is Verdict.DOUBTFUL else self.verdicts[0]


class BytesTokenizer:
    """Token i stands for the i-th of the given pieces."""

    eos_token_ids = frozenset()

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def token_bytes(self, token_id):
        return self.pieces[token_id]


def pieces_of(raw: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(c % (len(raw) + 1) for c in cuts), len(raw)]
    return [raw[a:b] for a, b in itertools.pairwise(places)]


def read(raw: bytes, cuts: list[int] = (), delivered: tuple[Segment, ...] = (), **options) -> Progress:
    """Everything that a plan brings about, token by token."""
    pieces = pieces_of(raw, list(cuts))
    session = make_session(delivered, BytesTokenizer(pieces), **options)
    segments: list[Segment] = []
    for token_id in range(len(pieces)):
        progress = session.feed([token_id])
        segments += progress.segments
        if progress.is_complete:
            return Progress(tuple(segments), progress.error, True)
    end = session.finish()
    assert session.is_complete
    return Progress((*segments, *end.segments), end.error, end.is_complete)


def uncounted(segments):
    """Segments without their number of tokens, which depends on how the text is split."""
    return [replace(segment, num_tokens=0) for segment in segments]


PLANS = {
    "": ([], ErrorCode.EMPTY_PLAN),
    "mf(100);tc(90);": (["mf(100);", "tc(90);"], None),
    "2{mf(50);tc(90);}?iv(x)==True{g(x);}ld();": (["2{mf(50);tc(90);}", "?iv(x)==True{g(x);}", "ld();"], None),
    "l('Grüße, 世界 🚁; bye(1)');mf(50);": (["l('Grüße, 世界 🚁; bye(1)');", "mf(50);"], None),
    "mf(50);->True;mf(60);": (["mf(50);", "->True;"], None),
    "mf(50);forbidden();mf(60);": (["mf(50);"], ErrorCode.UNKNOWN_SKILL),
    "mf(50);oops;mf(60);": (["mf(50);"], ErrorCode.PLAN_SYNTAX),
    "mf(50);2{mf(60);": (["mf(50);"], ErrorCode.PLAN_SYNTAX),
}


@pytest.mark.parametrize("text", PLANS)
@given(cuts=st.lists(st.integers(0, 200), max_size=12))
def test_any_split_gives_the_same_segments(text, cuts):
    texts, code = PLANS[text]
    progress = read(text.encode(), cuts)
    assert [s.text for s in progress.segments] == texts
    assert [s.index for s in progress.segments] == list(range(len(texts)))
    assert (progress.error.code if progress.error else None) is code
    assert progress.is_complete


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_garbage_never_raises_and_never_depends_on_the_split(raw, cuts):
    split, whole = read(raw, cuts), read(raw)
    assert uncounted(split.segments) == uncounted(whole.segments)
    assert split.error is not None or split.segments
    assert (split.error and split.error.code) == (whole.error and whole.error.code)


@pytest.mark.parametrize("raw", [b"\xff", b"mf(50);\xc3", b"l('\xc3\x28');"])
def test_broken_utf8(raw):
    progress = read(raw)
    assert progress.error is not None
    assert progress.error.code is ErrorCode.PLAN_SYNTAX


def test_a_call_is_ready_at_its_parenthesis():
    session = make_session(tokenizer=BytesTokenizer([b"mf(1", b"00", b")", b";"]))
    assert session.feed([0, 1]).segments == ()
    (segment,) = session.feed([2]).segments
    assert segment.text == "mf(100);"
    assert segment.calls == (SkillCall("mf", ()),)  # the stub gate drops arguments
    assert segment.expected.p50_s == 1.0
    assert session.feed([3]) == Progress()


def test_delivered_segments_are_replayed_and_not_repeated():
    plan = "mf(50);tc(90);mf(60);ld();"
    whole = read(plan.encode()).segments
    for num_delivered in range(len(whole)):
        delivered = whole[:num_delivered]
        rest = plan[len("".join(s.text for s in delivered)) :].encode()
        assert uncounted(read(rest, delivered=delivered).segments) == uncounted(whole[num_delivered:])


def test_tokens_belong_to_the_segment_that_they_complete():
    session = make_session(tokenizer=BytesTokenizer([b"mf(", b"50)", b";t", b"c(90);", b"ld();md(10)", b";"]))
    assert [s.num_tokens for s in session.feed(range(5)).segments] == [2, 2, 1, 0]
    session = make_session(tokenizer=BytesTokenizer([b"mf(", b"50)", b";t", b"c(90);", b"ld();md(10)", b";"]))
    one_by_one = [s.num_tokens for token_id in range(6) for s in session.feed([token_id]).segments]
    assert one_by_one == [2, 2, 1, 0]


def test_nothing_more_after_delivered_segments_is_no_empty_plan():
    progress = read(b"", delivered=read(b"mf(50);").segments)
    assert progress == Progress(is_complete=True)


def test_a_delivered_return_leaves_nothing_to_generate():
    assert make_session(read(b"mf(50);->1;").segments).is_complete


def test_delivered_segments_pass_the_gate_again():
    delivered = read(b"mf(50);").segments
    hostile = (Segment(index=0, text="forbidden();", calls=(), expected=delivered[0].expected),)
    with pytest.raises(PlannerError, match="forbidden"):
        make_session(hostile)


def test_a_delivered_segment_may_hold_several_statements():
    whole = read(b"mf(50);tc(90);").segments
    joined = Segment(index=0, text="mf(50);tc(90);", calls=(), expected=whole[0].expected)
    (following,) = read(b"ld();", delivered=(joined,)).segments
    assert following.index == 1


@given(cuts=st.lists(st.integers(0, 120), max_size=8), size=st.integers(30, 60))
def test_a_model_that_is_stuck_in_a_word_is_stopped_there(cuts, size):
    text = f"mf(50);2{{g(sto{'ol' * size});}}mf(60);"
    progress = read(text.encode(), cuts)
    assert [s.text for s in progress.segments] == ["mf(50);"]
    assert progress.error is not None
    assert progress.error.code is ErrorCode.PLAN_SYNTAX
    assert "it writes 'ol'" in progress.error.message
    assert progress.is_complete


@given(cuts=st.lists(st.integers(0, 120), max_size=8), times=st.integers(1, 45))
def test_a_model_that_would_say_the_same_over_and_over_is_stopped_there(cuts, times):
    progress = read(f"mf(50);l('{'ready ' * times}');mf(60);".encode(), cuts)
    delivered = [segment.text for segment in progress.segments]
    if times <= 24:
        assert progress.error is None
        assert delivered == ["mf(50);", f"l('{'ready ' * times}');", "mf(60);"]
    else:
        assert progress.error.code is ErrorCode.PLAN_SYNTAX
        assert "it says 'ready'" in progress.error.message
        assert delivered == ["mf(50);"]


def test_a_stuck_word_spends_no_more_tokens_than_it_takes_to_be_sure():
    session = make_session(tokenizer=BytesTokenizer([b"g(", *[b"a"] * 60]))
    ends = [index for index in range(61) if session.feed([index]).is_complete]
    assert ends[0] == 25


def test_a_replan_makes_it_read_a_fresh_plan_and_count_on():
    tokenizer = FakeTokenizer()
    session = make_session((), tokenizer)
    assert len(session.feed(tokenizer.encode("a();b();c('")).segments) == 2
    report = SegmentReport(request_id="r", index=1, status=ReportStatus.FAILED)
    assert session.begin_replan(report) == make_replan(2)
    progress = session.feed(tokenizer.encode("d();->True;"))
    assert [(s.index, s.text) for s in progress.segments] == [(3, "d();"), (4, "->True;")]
    assert progress.is_complete
    session.begin_replan(SegmentReport(request_id="r", index=3, status=ReportStatus.FAILED))
    assert not session.is_complete
    assert session.finish().error.code is ErrorCode.EMPTY_PLAN


class DoubtsB:
    """A check for which ``b`` has to be explained by what follows."""

    def feed(self, calls, _text):
        return Verdict.DOUBTFUL if any(call.name == "b" for call in calls) else Verdict.EXPLAINED

    def finish(self):
        return Verdict.EXPLAINED

    def restarted(self):
        return None


@pytest.mark.parametrize("options", [{"checks": [DoubtsB()]}, {"min_confidence": 0.5}])
@pytest.mark.parametrize("last", ["", "fail('no');"])
def test_a_replan_counts_on_behind_what_was_sent_whatever_was_held_back(options, last):
    tokenizer = FakeTokenizer(1)
    session = make_session((), tokenizer, **options)
    sent = []
    for plan, logprob in (("a();", 0.0), ("b();", -1.0), (f"b();{last}", 0.0)):
        token_ids = tokenizer.encode(plan)
        choices = [TokenChoice(token_id, logprob / len(token_ids)) for token_id in token_ids]
        sent += session.feed(token_ids, choices).segments
    assert [segment.text for segment in sent] == ["a();"]
    report = SegmentReport(request_id="r", index=0, status=ReportStatus.FAILED)
    assert session.begin_replan(report) == make_replan(1)
    assert [(s.index, s.text) for s in session.feed(tokenizer.encode("c();")).segments] == [(2, "c();")]
    session.begin_replan(replace(report, index=2, reason="c: plate is covered by cup"))
    assert session.feed(tokenizer.encode("c();")).error.code is ErrorCode.NOT_ACHIEVED  # it knows what index 2 was


@pytest.mark.parametrize(
    ("reason", "again", "is_refused"),
    [
        ("a: plate is covered by cup", "a(plate);", True),
        ("a: plate is covered by cup", "b(cup);a(plate);", False),
        ("a: plate is covered by cup", "a(cup);", False),
        ("a: something is in the way", "a(plate);", False),
        ("a: plate slipped away", "a(plate);", False),
    ],
)
@pytest.mark.parametrize("is_resumed", [False, True])
def test_what_has_just_failed_for_a_reason_that_holds_is_not_run_again(reason, again, is_refused, is_resumed):
    tokenizer = FakeTokenizer()
    report = SegmentReport(request_id="r", index=0, status=ReportStatus.FAILED, reason=reason)
    session = make_session((), tokenizer)
    segments = session.feed(tokenizer.encode("a(plate);")).segments
    if is_resumed:
        session = make_session((*segments, make_replan(1)), tokenizer, (report,))
    else:
        session.begin_replan(report)
    progress = session.feed(tokenizer.encode(again))
    assert (progress.error is not None) is is_refused
    if is_refused:
        assert progress.error.code is ErrorCode.NOT_ACHIEVED
        assert progress.error.message == f"the new plan does the same again, but {reason}"
        assert not progress.segments


@pytest.mark.parametrize(
    ("is_finished", "is_resumed", "is_whole"), [(False, False, False), (True, False, True), (False, True, True)]
)
def test_the_gate_learns_whether_the_plan_that_failed_was_whole(is_finished, is_resumed, is_whole):
    restarts = []

    class Gate(StubGate):
        def restart(self, mark, pose, *, is_whole):
            restarts.append(is_whole)

    delivered = read(b"a();").segments if is_resumed else ()
    session = make_session(delivered, BytesTokenizer([b"a();"]), gate=Gate())
    session.feed([0])
    if is_finished:
        session.finish()
    session.begin_replan(SegmentReport(request_id="r1", index=0, status=ReportStatus.FAILED))
    assert restarts == [is_whole]


def test_what_was_delivered_with_a_replan_is_replayed():
    texts = ("a();", "b();", "", "->True;")
    delivered = tuple(
        make_replan(i) if not text else replace(make_replan(i), text=text, is_replan=False)
        for i, text in enumerate(texts)
    )
    failure = SegmentReport(request_id="r", index=0, status=ReportStatus.FAILED)
    session = make_session(delivered, failures=(failure,))
    assert session.is_complete
    assert session.begin_replan(failure).index == 4


@given(st.lists(st.booleans(), max_size=12), st.data())
def test_what_was_carried_out_is_neither_failed_nor_void(failures, data):
    """Segments by chance; after some that fail, a few more come before the replan."""
    segments, failed, expected = [], [], []
    for fails in failures:
        index = len(segments)
        segments.append(replace(make_replan(index), text="a();", is_replan=False))
        if not fails:
            expected.append(index)
            continue
        failed.append(index)
        for _ in range(data.draw(st.integers(0, 2))):
            segments.append(replace(make_replan(len(segments)), text="void();", is_replan=False))
        segments.append(make_replan(len(segments)))
    assert [segment.index for segment in carried_out(segments, failed)] == expected


def test_closing_keeps_the_whole_statements_of_an_open_condition():
    session = make_session(tokenizer=BytesTokenizer([b"tp();?iv(x){g(x);mf(1", b"00);}ld();"]))
    assert [s.text for s in session.feed([0]).segments] == ["tp();"]
    assert session.is_closable
    progress = session.close()
    assert [(s.index, s.text, s.num_tokens) for s in progress.segments] == [(1, "?iv(x){g(x);}", 0)]
    assert (progress.error, progress.is_complete, session.is_complete) == (None, True, True)
    assert not session.is_closable
    assert session.close() == Progress(is_complete=True)
    assert session.feed([1]).segments == ()  # what the model wrote meanwhile is void


@pytest.mark.parametrize("text", ["tp();", "tp();mf(10", "2{tp();", "?iv(x){", "?iv(x){2{tp();"])
def test_closing_adds_nothing_where_nothing_is_whole(text):
    session = make_session(tokenizer=BytesTokenizer([text.encode()]))
    session.feed([0])
    assert not session.is_closable
    assert session.close() == Progress(is_complete=True)


def test_what_the_gate_refuses_is_not_closed_either():
    class StrictGate(StubGate):
        def admit(self, statement):
            raise PlannerError(ErrorCode.GEOFENCE_VIOLATED, "no")

    session = make_session(tokenizer=BytesTokenizer([b"?iv(x){g(x);mf("]))
    session._gate = StrictGate()
    session.feed([0])
    assert session.close() == Progress(is_complete=True)


@pytest.mark.parametrize(
    ("min_confidence", "probability", "verdict"),
    [(0.5, 0.4, "explained"), (0.0, 1.0, "contradicted"), (0.0, 1.0, "doubtful")],
)
def test_what_is_not_understood_is_not_closed_either(min_confidence, probability, verdict):
    tokenizer = BytesTokenizer([b"tp();", b"?iv(x){g(x);mf("])
    check = StubCheck(Verdict.EXPLAINED, Verdict(verdict))
    session = make_session(tokenizer=tokenizer, min_confidence=min_confidence, checks=(check,), can_hold=False)
    assert [s.text for s in session.feed([0]).segments] == ["tp();"]
    session.feed([1], [TokenChoice(1, math.log(probability))])
    assert session.close() == Progress(is_complete=True)


def test_a_plan_that_is_not_understood_ends_before_anything_moves():
    progress = read(b"unclear('which box');mf(100);")
    assert progress.segments == ()
    assert progress.error.code is ErrorCode.NOT_UNDERSTOOD
    assert "which box" in progress.error.message


@pytest.mark.parametrize(
    ("plan", "sent", "code"),
    [
        ("mf(100);tp();", ["mf(100);", "tp();"], None),
        ("mf(100);forbidden();", [], ErrorCode.UNKNOWN_SKILL),
        ("mf(100);mu(50);tc(90", [], ErrorCode.PLAN_SYNTAX),
        ("mf(100);->True;)", [], ErrorCode.PLAN_SYNTAX),
        ("mf(100);fail('no door');", ["mf(100);"], ErrorCode.NOT_ACHIEVED),
        ("fail('no door');", [], ErrorCode.NOT_ACHIEVED),
        ("pick(cup);place(cup,bin);" * 8, ["pick(cup);", "place(cup,bin);"] * 8, None),
        ("l('" + "beep " * 40 + "');", ["l('" + "beep " * 40 + "');"], None),
        ("g(" + "a" * 40 + ");", ["g(" + "a" * 40 + ");"], None),
        ("1{" + "1{mf(20)}1{mb(20)}" * 215 + "}", [], ErrorCode.PLAN_SYNTAX),  # longer as it is sent
    ],
)
def test_of_a_plan_that_is_given_nothing_is_sent_if_a_part_is_refused(plan, sent, code):
    progress = make_session().write(plan)
    assert progress.is_complete
    assert [segment.text for segment in progress.segments] == sent
    assert (progress.error and progress.error.code) is code


@pytest.mark.parametrize("opens_blocks", [False, True])
@pytest.mark.parametrize("num_loops", [180, 240])
def test_a_statement_that_gets_too_long_as_it_is_sent_is_refused(opens_blocks, num_loops):
    progress = read(b"tp();?iv(cat){" + b"1{mf(20)}1{mb(20)}" * num_loops + b"}", opens_blocks=opens_blocks)
    assert (progress.error and progress.error.code) is (None if num_loops == 180 else ErrorCode.PLAN_SYNTAX)
    make_session(progress.segments, opens_blocks=opens_blocks)  # reads what was sent once more


def test_a_plan_that_gives_up_keeps_what_went_before():
    progress = read(b"mf(100);fail('I cannot open doors');mf(50);")
    assert [segment.text for segment in progress.segments] == ["mf(100);"]
    assert (progress.error.code, progress.error.message) == (ErrorCode.NOT_ACHIEVED, "I cannot open doors")


OPENS, CLOSES, WHOLE = BlockEdge.OPENS, BlockEdge.CLOSES, BlockEdge.NONE
IN_PARTS = {
    "tp();?iv(x)==True{g(x);mf(50)}ld();": (["tp();", "?iv(x)==True{", "g(x);", "mf(50);", "}", "ld();"], None),
    "?iv(x){?iv(y){g(y);}->True;}->False;mf(9);": (
        ["?iv(x){", "?iv(y){", "g(y);", "}", "->True;", "}", "->False;"],
        None,
    ),
    "2{?iv(x){g(x);}}?iv(x){2{g(x);}}": (["2{?iv(x){g(x);}}", "?iv(x){", "2{g(x);}", "}"], None),
    "?iv(x){}": (["?iv(x){", "}"], None),
    "?iv(x)==False{fail('no x');}g(x);": (["?iv(x)==False{", "fail('no x');", "}", "g(x);"], None),
    "?iv(x){g(x);fail(": (["?iv(x){", "g(x);"], ErrorCode.PLAN_SYNTAX),
    "?iv(x){g(x);forbidden();}": (["?iv(x){", "g(x);"], ErrorCode.UNKNOWN_SKILL),
    "?iv(x){g(x);": (["?iv(x){", "g(x);"], ErrorCode.PLAN_SYNTAX),
}


@pytest.mark.parametrize("text", IN_PARTS)
@given(cuts=st.lists(st.integers(0, 200), max_size=12))
def test_a_condition_comes_in_parts_whatever_the_split(text, cuts):
    texts, code = IN_PARTS[text]
    progress = read(text.encode(), cuts, opens_blocks=True)
    assert [s.text for s in progress.segments] == texts
    assert [s.index for s in progress.segments] == list(range(len(texts)))
    edges = [OPENS if t[0] == "?" else CLOSES if t == "}" else WHOLE for t in texts]
    assert [s.block_edge for s in progress.segments] == edges
    assert (progress.error.code if progress.error else None) is code
    if code is None:
        whole = read(text.encode(), cuts)
        assert "".join(texts) == "".join(s.text for s in whole.segments)
        assert sum(s.num_tokens for s in progress.segments) == sum(s.num_tokens for s in whole.segments)


@pytest.mark.parametrize("plan", [text for text, (_, code) in IN_PARTS.items() if code is None])
def test_a_session_goes_on_in_a_block_that_was_open_when_the_engine_ended(plan):
    whole = read(plan.encode(), opens_blocks=True).segments
    plan = "".join(s.text for s in whole)  # canonical, as a new engine reads what was delivered
    for num_delivered in range(len(whole)):
        delivered = whole[:num_delivered]
        rest = plan[len("".join(s.text for s in delivered)) :].encode()
        again = read(rest, delivered=delivered, opens_blocks=True)
        assert uncounted(again.segments) == uncounted(whole[num_delivered:])


def test_a_replan_leaves_the_blocks_that_were_open():
    tokenizer = FakeTokenizer()
    session = make_session((), tokenizer, opens_blocks=True)
    assert len(session.feed(tokenizer.encode("?iv(x){g(x);?iv(y){")).segments) == 3
    session.begin_replan(SegmentReport(request_id="r", index=1, status=ReportStatus.FAILED))
    progress = session.feed(tokenizer.encode("d();->True;"))
    assert [s.text for s in progress.segments] == ["d();", "->True;"]
    assert progress.is_complete


def test_a_plan_that_is_closed_in_a_block_that_is_open_keeps_what_was_sent():
    session = make_session(tokenizer=BytesTokenizer([b"tp();?iv(x){g(x);mf(1", b"00);}"]), opens_blocks=True)
    assert [s.text for s in session.feed([0]).segments] == ["tp();", "?iv(x){", "g(x);"]
    assert not session.is_closable
    assert session.close() == Progress(is_complete=True)


@pytest.mark.parametrize("opens_blocks", [False, True])
def test_a_plan_goes_in_circles_by_its_whole_statements(opens_blocks):
    end = read(b"?iv(cup){g(cup);}" * 20, opens_blocks=opens_blocks)
    assert end.error.code is ErrorCode.PLAN_SYNTAX
    assert "".join(s.text for s in end.segments).count("?iv(cup){") == 13 + opens_blocks


def test_a_statement_in_parts_is_told_as_far_as_it_is_there():
    segments = read(b"tp();?iv(x){g(x);?iv(y){mf(50);}ld();}mu(20);", opens_blocks=True).segments
    texts = [s.text for s in segments]
    assert [first_of_statement(segments, i) for i in range(len(texts))] == [0, 1, 1, 1, 1, 1, 1, 1, 8]
    assert statement_text(segments, 0) == "tp();"
    assert statement_text(segments, 4) == "?iv(x){g(x);?iv(y){mf(50);}ld();}"
    assert statement_text(segments[:5], 2) == "?iv(x){g(x);?iv(y){mf(50);}}"
    assert statement_text(segments[:2], 1) == "?iv(x){}"
    voided = (*segments[:5], make_replan(5))
    assert statement_text(voided, 4) == "?iv(x){g(x);?iv(y){mf(50);}}"
    assert [s.text for s in carried_out(voided, [4])] == ["tp();"]
