# SPDX-License-Identifier: Apache-2.0
"""Requests made ready with the real robot models, gate, grammar and parser."""

import math
from dataclasses import replace

import pytest

from llm_planner.checkpoints import build_prompt_encoder, resolve_model
from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.request import Urgency
from llm_planner.core.segment import Situation, make_replan
from llm_planner.core.shortening import droppable_tokens, shortened
from llm_planner.core.step import TokenChoice
from llm_planner.planning.grammar import continued
from llm_planner.planning.instruction.checks import instruction_checks
from llm_planner.planning.prompt import PromptStyle
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend, FakeTokenizer
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer, PromptMarkup
from tests.serving.builders import failed, make_request, make_segment, succeeded

MARKUP = PromptMarkup(before_static="<sys>", before_dynamic="</sys><user>", after_dynamic="</user>")


def make_preparer(backend: FakeBackend, **options) -> PlanPreparer:
    return PlanPreparer(backend=backend, tokenizer=backend.tokenizer, library=RobotLibrary(), **options)


def plan(plans: dict[str, str], robot_model: str, *instructions: str) -> list:
    backend = FakeBackend(plans=plans)
    scheduler = Scheduler(SchedulerConfig(), make_policy("fcfs_stream"), backend.info)
    preparer = make_preparer(backend, style=PromptStyle.INSTRUCT)
    loop = PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer, do_clients_report=False)
    loop.warm_up([make_request(robot_model=robot_model)])
    events = []
    for instruction in instructions:
        events += loop.submit(make_request(instruction, instruction, robot_model=robot_model), 0.0)
    while loop.next_wakeup_s(0.0) is not None:
        events += loop.step(0.0)
    assert not loop._is_kv_off
    return events


def test_segments_with_durations_of_the_robot_model():
    events = plan({"fly": "mf(100);tc(90);"}, "tello", "fly")
    segments = [e.segment for e in events if isinstance(e, SegmentReady)]
    assert [s.text for s in segments] == ["mf(100);", "tc(90);"]
    assert segments[0].calls[0].name == "mf"
    assert all(0 < s.expected.min_s <= s.expected.p50_s <= s.expected.p90_s for s in segments)


def test_what_is_unclear_to_a_chat_model_is_not_understood_and_moves_nothing():
    events = plan({"go there": "unclear('where to go');"}, "tello", "go there")
    assert [type(e) for e in events] == [Finished]
    assert events[0].result.error_code is ErrorCode.NOT_UNDERSTOOD
    assert events[0].result.error_msg == "not understood: where to go; say it in other words"


def served(backend, preparer, request, policy="fcfs_stream", **options):
    """Returns the events of one request."""
    scheduler = Scheduler(SchedulerConfig(), make_policy(policy), backend.info)
    loop = PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer, do_clients_report=False, **options)
    events = loop.submit(request, 0.0)
    now_s = 0.0
    while (wakeup_s := loop.next_wakeup_s(now_s)) is not None:
        now_s = wakeup_s
        events += loop.step(now_s)
    return events


class DoubtfulBackend(FakeBackend):
    """Is half sure of every token."""

    def execute(self, scheduled):
        output = super().execute(scheduled)
        choices = {name: tuple(TokenChoice(i, -0.7) for i in ids) for name, ids in output.token_ids.items()}
        return replace(output, choices=choices)


@pytest.mark.parametrize(
    ("text", "least", "code"),
    [
        ("mr(150);", 0.9, ErrorCode.NOT_UNDERSTOOD),  # not sure
        ("ml(150);", 0.0, ErrorCode.NOT_UNDERSTOOD),  # towards it
        ("unclear('what');", 0.0, ErrorCode.NOT_UNDERSTOOD),
        ("g(cat);", 0.0, ErrorCode.SKILL_NOT_ALLOWED),
        ("mr(150);", 0.0, ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("style", PromptStyle)
def test_a_warning_that_is_not_understood_reaches_no_robot(text, least, code, style):
    instruction = "a cat from the left"
    backend = DoubtfulBackend(plans={instruction: text})
    preparer = make_preparer(backend, style=style, min_confidence=least, checks=instruction_checks)
    events = served(backend, preparer, make_request("r", instruction, urgency=Urgency.URGENT))
    segments = [event.segment.text for event in events if isinstance(event, SegmentReady)]
    assert events[-1].result.error_code is code
    assert segments == ([] if code else [text])


class UnsureEndBackend(FakeBackend):
    """Is half sure that its plans end where they do."""

    def execute(self, scheduled):
        output = super().execute(scheduled)
        ends = {
            name: (*map(TokenChoice, output.token_ids.get(name, ())), TokenChoice(0, -0.7)) for name in output.finished
        }
        return replace(output, choices=ends)


@pytest.mark.parametrize(("is_plan_only", "candidates"), [(True, ("mf(100);tp();",)), (False, ())])
def test_what_can_be_confirmed_is_all_that_the_robot_does_not_have(is_plan_only, candidates):
    backend = UnsureEndBackend(plans={"go": "mf(100);tp();"})
    preparer = make_preparer(backend, min_confidence=0.6)
    events = served(backend, preparer, make_request("r", "go", plan_only=is_plan_only))
    assert events[-1].result.error_code is ErrorCode.NOT_UNDERSTOOD
    assert events[-1].result.candidates == candidates


def order(events):
    """Returns what robot and client get, in order."""
    return [e.segment.text if isinstance(e, SegmentReady) else type(e).__name__ for e in events]


@pytest.mark.parametrize("policy", ["fcfs_stream", "tardiness"])
def test_a_robot_may_get_its_plan_only_when_all_of_it_is_understood(policy):
    backend = UnsureEndBackend(plans={"go": "mf(100);tp();"})
    for least, reached in ((0.6, ["Finished"]), (0.4, ["mf(100);", "tp();", "PlanComplete", "Finished"])):
        preparer = make_preparer(backend, min_confidence=least)
        events = served(backend, preparer, make_request("r", "go"), policy, waits_for_plan_s=math.inf)
        assert order(events) == reached
        assert events[-1].result.candidates == (() if least < 0.5 else ("mf(100);tp();",))


@pytest.mark.parametrize("hurry", [{"urgency": Urgency.URGENT}, {"time_budget_s": 5.0}])
def test_who_is_in_a_hurry_does_not_wait_for_the_whole_plan(hurry):
    backend = FakeBackend(plans={"go": "mr(100);oops;"})
    events = served(backend, make_preparer(backend), make_request("r", "go", **hurry), waits_for_plan_s=math.inf)
    assert order(events)[0] == "mr(100);"
    events = served(backend, make_preparer(backend), make_request("r", "go"), waits_for_plan_s=math.inf)
    assert order(events) == ["Finished"]


@pytest.mark.parametrize(
    ("instruction", "plan", "executed"),
    [
        ("fly 100 m forward", "mf(100);", []),
        ("turn left 45", "tu(90);", []),
        ("fly 2 m forward, then 1 m up", "mf(200);", ["mf(200);"]),  # what it leaves out shows at its end only
    ],
)
def test_what_contradicts_an_instruction_is_no_success_with_a_time_budget_either(instruction, plan, executed):
    backend = FakeBackend(plans={instruction.split()[0]: plan})
    request = make_request("r", instruction, time_budget_s=5.0)
    events = served(backend, make_preparer(backend, checks=instruction_checks), request)
    assert [e.segment.text for e in events if isinstance(e, SegmentReady)] == executed
    assert events[-1].result.error_code is ErrorCode.NOT_UNDERSTOOD


@pytest.mark.parametrize("style", PromptStyle)
def test_words_of_a_plan_are_divided_as_in_its_instruction(style):
    preparer = make_preparer(FakeBackend(), style=style, checks=instruction_checks)
    session = preparer.prepare(make_request(instruction="go to the head light and say good night")).session
    progress = session.feed(FakeTokenizer().encode("g(headlight);l('goodnight');"))
    assert progress.error is None
    assert [segment.text for segment in progress.segments] == ["g(head_light);", "l('good night');"]


class TornBackend(FakeBackend):
    """Would go another way with nearly the same probability."""

    def execute(self, scheduled):
        output = super().execute(scheduled)
        (right,), (up,) = FakeTokenizer().encode("mr("), FakeTokenizer().encode("mu(")
        torn = TokenChoice(right, math.log(0.5), (TokenChoice(up, math.log(0.45)),))
        names = output.token_ids.items()
        choices = {name: tuple(torn if i == right else TokenChoice(i) for i in ids) for name, ids in names}
        return replace(output, choices=choices)


@pytest.mark.parametrize(
    ("instruction", "urgency", "code"),
    [
        ("a cat from the left", Urgency.URGENT, ErrorCode.NONE),
        ("a cat", Urgency.URGENT, ErrorCode.NOT_UNDERSTOOD),
        ("fly away from the left", Urgency.NORMAL, ErrorCode.NOT_UNDERSTOOD),
    ],
)
def test_which_way_out_is_taken_decides_nothing_in_an_emergency_that_names_a_side(instruction, urgency, code):
    backend = TornBackend(plans={instruction: "mr(150);"})
    preparer = make_preparer(backend, min_confidence=0.9)
    events = served(backend, preparer, make_request("r", instruction, urgency=urgency))
    assert events[-1].result.error_code is code


def test_a_plan_may_name_the_places_of_its_robot_model_whatever_the_scene():
    request = make_request(instruction="throw the can away", scene="can, plate", robot_model="indy7")
    session = make_preparer(FakeBackend()).prepare(request).session
    progress = session.feed(FakeTokenizer().encode("pick(can);place(can,bin);"))
    assert progress.error is None
    assert len(progress.segments) == 2


def test_the_gate_stands_between_model_and_robot():
    events = plan({"fly": "mf(100);mf(9999);", "pick": "tk();"}, "tello", "fly")
    assert [e.segment.text for e in events if isinstance(e, SegmentReady)] == ["mf(100);"]
    assert events[-1].result.error_code is ErrorCode.ARGUMENT_OUT_OF_RANGE
    events = plan({"pick": "mf(100);"}, "indy7", "pick")
    assert [type(e) for e in events] == [Finished]
    assert events[0].result.error_code is ErrorCode.UNKNOWN_SKILL


@pytest.mark.parametrize("given", [{"plan": "mf(100);"}, {"instruction": "stop"}])
def test_the_model_writes_no_other_plan_than_the_one_that_a_person_gave(given):
    preparer = make_preparer(FakeBackend())
    assert preparer.prepare(make_request("r", "go", robot_model="tello")).begin_replan is not None
    prepared = preparer.prepare(replace(make_request("r", "go", robot_model="tello"), **given))
    assert prepared.at_once.error is None
    assert prepared.begin_replan is None


def test_the_gate_counts_from_where_the_robot_is():
    backend = FakeBackend()
    prepare = make_preparer(backend).prepare
    forward = backend.tokenizer.encode("mf(300);")
    at_home = prepare(make_request("home", "go")).session.feed(forward)
    near_the_fence = Pose(x_m=8.0, z_m=1.0)
    far_out = prepare(make_request("far", "go", start_pose=near_the_fence)).session.feed(forward)
    assert at_home.error is None
    assert far_out.error is not None
    assert far_out.error.code is ErrorCode.GEOFENCE_VIOLATED


def test_the_static_part_is_shared():
    backend = FakeBackend()
    preparer = make_preparer(backend, style=PromptStyle.INSTRUCT)
    first, second = (preparer.prepare(make_request(name, name)).sequence for name in ("one", "two"))
    assert first.num_cached_tokens == second.num_cached_tokens > 100
    shared = first.num_cached_tokens
    assert first.prompt_token_ids[:shared] == second.prompt_token_ids[:shared]
    arm = preparer.prepare(make_request("three", "three", robot_model="indy7")).sequence
    assert arm.prefix_id != first.prefix_id
    assert first.grammar != arm.grammar


def test_markup_surrounds_the_parts():
    backend = FakeBackend()
    sequence = make_preparer(backend, markup=MARKUP).prepare(make_request(instruction="go up")).sequence
    text = backend.tokenizer.decode(sequence.prompt_token_ids)
    assert text.startswith("<sys>")
    assert text.index("</sys><user>") < text.index("go up") < text.index("</user>")
    assert text.endswith("</user>")


def test_delivered_segments_end_the_prompt():
    backend = FakeBackend()
    whole = plan({"fly": "mf(100);tc(90);"}, "tello", "fly")[-1].result.segments
    prepared = make_preparer(backend).prepare(make_request(delivered=whole[:1]))
    text = backend.tokenizer.decode(prepared.sequence.prompt_token_ids)
    assert text.endswith("plan:\nmf(100);")
    assert prepared.num_delivered_tokens == 3


@pytest.mark.parametrize("style", PromptStyle)
def test_only_what_the_model_wrote_counts_as_delivered(style):
    preparer = make_preparer(FakeBackend(), style=style)
    delivered = (make_segment(text="tc(90);"), make_replan(1), make_segment(2, "tu(90);"))
    prepared = preparer.prepare(make_request(delivered=delivered, failures=(failed("r1", 0),)))
    one = preparer.prepare(make_request(delivered=delivered[:1]))
    assert prepared.num_delivered_tokens == 2 * one.num_delivered_tokens
    asked = len(preparer.prepare(make_request()).sequence.prompt_token_ids)
    behind = len(prepared.sequence.prompt_token_ids) - asked
    assert behind == prepared.num_delivered_tokens + prepared.num_inserted_tokens
    assert prepared.num_inserted_tokens > 0


@pytest.mark.parametrize("fields", [{"plan": "mu(50);"}, {"instruction": "stop"}])
def test_what_no_model_reads_needs_no_room_for_a_prompt(fields):
    backend = FakeBackend(max_model_len=200)
    scene = ", ".join(f"thing_{number} at (1.0, 2.0)" for number in range(200))
    events = served(backend, make_preparer(backend), make_request(scene=scene, **fields))
    assert events[-1].result.error_code is ErrorCode.NONE
    assert backend._prefixes == {}


def test_nothing_need_follow_what_was_delivered_before_a_restart():
    """The end of the plan may be all that was lost; another statement, forced, would be an unplanned motion."""
    preparer = make_preparer(FakeBackend())
    assert preparer.prepare(make_request()).sequence.first_grammar is None
    sequence = preparer.prepare(make_request(delivered=(make_segment(text="mf(100);"),))).sequence
    assert sequence.first_grammar == continued(sequence.grammar)


@pytest.mark.parametrize("num_delivered", [0, 1, 2, 3])
@pytest.mark.parametrize("plan", ["mf(50);tp();mb(50);", "mf(50); ?iv(cat)==True{ tp(); } mb(50);"])
def test_of_a_plan_that_a_person_gave_only_the_rest_follows_a_restart(plan, num_delivered):
    backend = FakeBackend(plans={"go": "mf(100);mf(100);ld();"})
    request = make_request("r", "go", plan=plan)
    whole = [e.segment for e in served(backend, make_preparer(backend), request) if isinstance(e, SegmentReady)]
    again = replace(request, delivered=tuple(whole[:num_delivered]))
    events = served(backend, make_preparer(backend), again)
    assert [e.segment.index for e in events if isinstance(e, SegmentReady)] == [*range(num_delivered, 3)]
    assert order(events) == [*(s.text for s in whole[num_delivered:]), "PlanComplete", "Finished"]
    assert (events[-1].result.error_code, events[-1].result.plan) == (ErrorCode.NONE, "".join(s.text for s in whole))


def test_a_plan_that_a_person_gave_and_that_is_complete_is_not_completed_again_after_a_restart():
    backend = FakeBackend()
    loop = PlannerLoop(
        backend=backend,
        scheduler=Scheduler(SchedulerConfig(), make_policy("fcfs_stream"), backend.info),
        preparer=make_preparer(backend),
    )
    delivered = (make_segment(0, "mf(50);"),)
    request = make_request("r", "go", plan="mf(50);fail('no light');", delivered=delivered)
    verdict = PlannerError(ErrorCode.NOT_ACHIEVED, "no light")
    record = GoalRecord(request=request, arrival_s=0.0, delivered_at_s=(0.5,), is_complete=True, verdict=verdict)
    assert loop.open(record, 1.0) == []
    (end,) = loop.report(succeeded("r", 0), 2.0)
    assert (end.result.error_code, end.result.error_msg) == (ErrorCode.NOT_ACHIEVED, "no light")


def ask_an_untrained_model(**requested):
    """Returns the events of a request for a Tello to a model that knows another robot, and the loop."""
    backend = FakeBackend(plans={"fly": "mf(100);"})
    scheduler = Scheduler(SchedulerConfig(), make_policy("fcfs_stream"), backend.info)
    preparer = make_preparer(backend, trained_models={"indy7"})
    loop = PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer)
    return loop.submit(make_request("r1", robot_model="tello", **requested), 0.0), loop


def test_a_robot_that_the_model_was_not_trained_for_is_refused_with_a_way():
    (event,), loop = ask_an_untrained_model(instruction="fly")
    assert event.result.error_code is ErrorCode.UNTRAINED_ROBOT_MODEL
    assert all(word in event.result.error_msg for word in ("indy7", "'tello'", "chat checkpoint"))
    assert loop.next_wakeup_s(0.0) is None


class Adapted(RobotLibrary):
    """Robot models, all with one adapter."""

    def get(self, name):
        return replace(super().get(name), adapter="/adapters/one")


def test_prefix_and_sequence_belong_to_the_adapter_of_the_robot_model():
    loaded = []

    class Backend(FakeBackend):
        def load_prefix(self, prefix_id, token_ids, adapter=None):
            loaded.append(adapter)
            return super().load_prefix(prefix_id, token_ids, adapter)

    backend = Backend()
    preparer = PlanPreparer(backend=backend, tokenizer=backend.tokenizer, library=Adapted(), trained_models={"indy7"})
    assert preparer.prepare(make_request(robot_model="tello")).sequence.adapter == "/adapters/one"
    assert make_preparer(backend).prepare(make_request()).sequence.adapter is None
    assert loaded == ["/adapters/one", None]


@pytest.mark.parametrize("requested", [{"instruction": "stop!"}, {"instruction": "fly", "plan": "h();"}])
def test_what_needs_no_model_is_carried_out_by_any_robot(requested):
    events, loop = ask_an_untrained_model(**requested)
    assert [event.segment.text for event in events if isinstance(event, SegmentReady)] == ["h();"]
    (end,) = loop.report(replace(failed("r1", 0, "wind"), situation=Situation(scene="wall_1")), 1.0)
    assert end.result.error_code is ErrorCode.SKILL_FAILED  # no model writes another plan


def play(loop, record, now_s=0.0):
    """Returns what comes of a goal until nothing is left to be run, and when that is."""
    events = loop.open(record, now_s)
    while loop.next_wakeup_s(now_s) == now_s:
        events += loop.step(now_s)
        now_s += 0.01
    return events, now_s


def make_replanning_loop(plans):
    backend = FakeBackend(plans=plans)
    scheduler = Scheduler(SchedulerConfig(), make_policy("fcfs_stream"), backend.info)
    preparer = make_preparer(backend, style=PromptStyle.INSTRUCT)
    return PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer, max_replans=2)


@pytest.mark.parametrize("num_steps", range(4))
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_robot_that_gives_up_while_it_waits_for_a_replan_ends_its_goal(num_steps, is_restarted):
    loop = make_replanning_loop({"fly": "mf(50);tc(90);"})
    record = GoalRecord(request=make_request("r1", "fly"), arrival_s=0.0)
    events, now_s = play(loop, record)
    waits = replace(failed("r1", 0, "collision ahead"), situation=Situation(pose=Pose(z_m=1.0)))
    gives_up = failed("r1", 1, "a person is near")
    events += loop.report(waits, now_s)
    for _ in range(num_steps):
        events += loop.step(now_s)
    if is_restarted:
        for event in events:
            record = record.with_segment(event.segment, now_s) if isinstance(event, SegmentReady) else record
        record = record.with_report(waits, now_s).with_report(gives_up, now_s)
        events, _ = play(make_replanning_loop({}), record, now_s)
    else:
        events = loop.report(gives_up, now_s)
    assert [event.result.error_code for event in events] == [ErrorCode.SKILL_FAILED]
    assert "segment 1 (tc(90);) failed on the robot: a person is near" in events[0].result.error_msg


def test_a_plan_that_is_cut_short_counts_the_tokens_of_all_its_replans():
    loop = make_replanning_loop({"fly": "mf(50);", "did not work": "tc(90);" * 40})
    _, now_s = play(loop, GoalRecord(request=make_request("r1", "fly", max_tokens=60), arrival_s=0.0))
    events = loop.report(replace(failed("r1", 0, "mf: motor"), situation=Situation(pose=Pose(z_m=1.0))), now_s)
    while not isinstance(events[-1], Finished):
        events += loop.step(now_s)
    assert events[-1].result.error_msg == "the plan and its replans had 60 tokens and no end; raise max_tokens"


def test_an_unknown_robot_model():
    with pytest.raises(PlannerError) as caught:
        make_preparer(FakeBackend()).prepare(make_request(robot_model="r2d2"))
    assert caught.value.code is ErrorCode.UNKNOWN_ROBOT_MODEL


@pytest.mark.parametrize("markup", [PromptMarkup(), MARKUP])
@pytest.mark.parametrize("scene", ["", "cup (2 m ahead), chaise électrique, чаша", "x" * 500])
def test_the_scene_may_be_evicted_to_keep_a_budget_and_nothing_else(markup, scene):
    backend = FakeBackend()
    preparer = make_preparer(backend, markup=markup)
    request = make_request("r", "go to the cup", scene=scene, time_budget_s=1.0)
    sequence = preparer.prepare(request).sequence
    ((start, end),) = sequence.evictable
    before, evictable, after = (
        b"".join(map(backend.tokenizer.token_bytes, part)).decode(errors="replace")
        for part in (
            sequence.prompt_token_ids[:start],
            sequence.prompt_token_ids[start:end],
            sequence.prompt_token_ids[end:],
        )
    )
    assert before.endswith(f"robot tello\n{markup.before_dynamic}")
    assert "scene:" in evictable
    assert "task:go to the cup\nplan:\n" in after
    assert len(after.partition("\ntask")[0]) < 3  # of a token that belongs to both
    assert not preparer.prepare(replace(request, time_budget_s=None)).sequence.evictable
    backend.can_evict = False
    assert not preparer.prepare(request).sequence.evictable


def test_nothing_is_evictable_where_tokens_do_not_spell_the_text():
    class Mute(FakeTokenizer):
        def token_bytes(self, token_id: int) -> bytes:
            return b"" if token_id % 5 == 0 else super().token_bytes(token_id)

    preparer = PlanPreparer(backend=FakeBackend(), tokenizer=Mute(), library=RobotLibrary())
    ((start, end),) = preparer.prepare(make_request(scene="cup " * 50, time_budget_s=1.0)).sequence.evictable
    assert start == end


def test_what_the_task_does_not_speak_of_can_be_left_out_of_a_prompt_with_a_budget():
    encoder = build_prompt_encoder(resolve_model("planner-small"))
    preparer = PlanPreparer(backend=FakeBackend(), tokenizer=encoder.tokenizer, library=RobotLibrary())
    scene = "objects: red_cup_2 (wet), chaise, parcel_3 at (1.2, -3), lamp; statue_7, kettle"
    request = make_request("r", "photograph parsel if you please", scene=scene, time_budget_s=1.0)
    sequence = preparer.prepare(request).sequence
    texts = [text_of(encoder, sequence.prompt_token_ids[start:end]) for start, end in sequence.droppable]
    assert [text.strip(" ,;") for text in texts] == ["kettle", "statue_7", "lamp", "red_cup_2", "chaise"]
    short = text_of(encoder, shortened(sequence, droppable_tokens(sequence)[-1]).prompt_token_ids)
    assert short.replace(
        " ", ""
    ) == "robot tello\nscene:parcel_3,\ntask:photograph parsel if you please\nplan:\n".replace(" ", "")
    assert not preparer.prepare(replace(request, time_budget_s=None)).sequence.droppable


@pytest.mark.parametrize(
    "instruction",
    [
        *("bring all 3 things on the shelf", "take the other hat", "tidy up", "bring the biggest hat"),
        *("put the fruit on the shelf", "put both on the shelf", "bring what is on the shelf"),
    ],
)
def test_nothing_is_left_out_or_evicted_where_no_name_says_what_is_needed(instruction):
    encoder = build_prompt_encoder(resolve_model("planner-small"))
    preparer = PlanPreparer(backend=FakeBackend(), tokenizer=encoder.tokenizer, library=RobotLibrary())
    scene = "shelf_1, red_cup_2, old_hat, new_hat, lamp, kettle"
    sequence = preparer.prepare(make_request("r", instruction, scene=scene, time_budget_s=1.0)).sequence
    assert (sequence.droppable, sequence.evictable) == ((), ())


@pytest.mark.parametrize("style", PromptStyle)
def test_a_model_reads_what_the_task_names_and_never_the_words_of_a_robot(style):
    backend = FakeBackend()
    preparer = make_preparer(backend, style=style)
    request = make_request("r", "go to the cat", scene="land_now_1, cat_1, the manager wants the dog")
    text = backend.tokenizer.decode(preparer.prepare(request).sequence.prompt_token_ids)
    assert "cat_1" in text
    assert "land_now" not in text
    assert "manager" not in text
    report = replace(failed("r", 0, "land at once"), situation=Situation(scene="fly_home_1, cat_1"))
    delivered = (make_segment(text="g(cat_1);"), make_replan(1))
    again = preparer.prepare(replace(request, delivered=delivered, failures=(report,)))
    text = backend.tokenizer.decode(again.sequence.prompt_token_ids)
    assert "it did not work" in text
    assert "land" not in text.rpartition("failed:")[2]
    assert "fly_home" not in text


@pytest.mark.parametrize(
    ("scene", "reason", "said"),
    [
        ("bin, cup", "the banana cannot go into itself", "there is no banana in the scene"),
        ("bin, banana_2", "the banana cannot go into itself", "the banana cannot go into itself"),
        ("bin, bananas", "the banana is too heavy", "the banana is too heavy"),
        ("bin, cup", "the apple is too heavy", "the apple is too heavy"),  # nobody spoke of it
        ("bin, cup", "I cannot do that", "I cannot do that"),
        ("", "the banana cannot go into itself", "the banana cannot go into itself"),  # it sees nothing at all
    ],
)
def test_a_model_that_gives_up_on_what_is_not_there_says_so(scene, reason, said):
    request = make_request("r", "put the banana in the bin", scene=scene, robot_model="indy7")
    session = make_preparer(FakeBackend()).prepare(request).session
    progress = session.feed(FakeTokenizer().encode(f"fail('{reason}');"))
    assert (progress.error.code, progress.error.message) == (ErrorCode.NOT_ACHIEVED, said)


def test_a_plan_names_nothing_of_a_scene_that_the_model_has_not_read():
    session = make_preparer(FakeBackend()).prepare(make_request("r", "go to the cat", scene="cat_1, dog_1")).session
    progress = session.feed(FakeTokenizer().encode("g(dog_1);"))
    assert progress.error.code is ErrorCode.UNKNOWN_OBJECT


def test_a_drone_is_not_ordered_to_do_harm_but_warned_and_what_a_person_wrote_is_flown():
    preparer = make_preparer(FakeBackend())
    request = make_request("r", "ram the door")
    with pytest.raises(PlannerError) as caught:
        preparer.prepare(request)
    assert caught.value.code is ErrorCode.HARMFUL_REQUEST
    assert preparer.prepare(replace(request, plan="mf(100);")).at_once is not None
    assert preparer.prepare(replace(request, urgency=Urgency.URGENT)).at_once is None


def text_of(encoder, token_ids):
    return b"".join(map(encoder.tokenizer.token_bytes, token_ids)).decode()


@pytest.mark.parametrize("spelling", ["mf", "move_forward"])
def test_a_skill_is_ruled_out_by_name_and_by_alias(spelling):
    backend = FakeBackend(plans={"fly": "mf(100);"})
    request = make_request("fly", "fly", unsupported_skills=(spelling,))
    *_, end = served(backend, make_preparer(backend, style=PromptStyle.INSTRUCT), request)
    assert end.result.error_code is not ErrorCode.NONE
    assert not end.result.segments
    for plan, code in [("mf(20);", None), ("mb(20);", ErrorCode.SKILL_NOT_ALLOWED)]:
        other = make_request("x", allowed_skills=frozenset((spelling,)), plan=plan)
        error = make_preparer(backend).prepare(other).at_once.error
        assert (error and error.code) is code


@pytest.mark.parametrize("fields", [{"allowed_skills": frozenset(("mf", "mff"))}, {"unsupported_skills": ("mff",)}])
def test_a_skill_that_the_robot_model_does_not_have_is_refused(fields):
    with pytest.raises(PlannerError, match=r"tello has no skill mff; it has .*mf \(move_forward\)") as caught:
        make_preparer(FakeBackend()).prepare(make_request("x", **fields))
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
