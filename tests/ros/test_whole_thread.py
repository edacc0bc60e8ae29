# SPDX-License-Identifier: Apache-2.0
"""From an instruction to a changed world: robot nodes, DDS, planner node, the real loop, gate and prompts; no model."""

import time
from functools import partial

import pytest
from action_msgs.msg import GoalStatus

import llm_planner.msg as msgs
from llm_planner.assembly import build_admission, build_library
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import Urgency
from llm_planner.planning.prompt import PromptStyle
from llm_planner.ros.commander import Commander
from llm_planner.ros.missions import MAX_REPLANS
from llm_planner.ros.snapshot import Snapshot
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.chat_preparer import ChatPreparer
from llm_planner.serving.child import ChildServer
from llm_planner.serving.fake import FakeBackend
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.serving.prompt_encoder import PromptEncoder
from llm_planner.serving.replica import Factories
from tests.ros.nodes import Planner, wait_until
from tests.ros.test_plan_action import Stranger
from tests.ros.test_robot_node import CHAIR, Operator

pytestmark = pytest.mark.ros

TABLE = {"name": "table", "role": "area", "is_fixed": True, "position_m": [0.45, 0, 0], "size_m": [0.6, 1.3, 0]}
BOX = {"name": "red_box", "kind": "box", "position_m": [0.45, 0.1, 0.025]}
PLATE = {"name": "plate", "kind": "plate", "position_m": [0.45, -0.2, 0.01], "size_m": [0.2, 0.2, 0.02]}
PLANS = {
    "look for the chair": "?s('chair')==True{g('chair');tp();}l('found it');",
    "fly a square": "4{mf(50);tc(90);}ld();",
    "put the box on the plate": "pick(red_box);place(red_box,plate);home();",
    "fly away": "mf(50);mf(500);mf(500);mf(500);",
    "linger": "d(0);mf(20);",
    "look again": "tp();rp();",
    "visit the cat": "mf(20);g(cat);mu(500);",
    "seen: sofa_7, chair": "mu(20);l('there is no cat');",  # what only a robot that stands there says
    "patrol": "mf(20);mb(20);" * 60,
    "tell a story": "Once mf(300); was all a fox could say. A drone heard it.\n\nThey became friends!",
}


def build_loop(config, sleep):
    backend, library = FakeBackend(plans=PLANS, sleep=sleep), build_library(config)
    return PlannerLoop(
        backend=backend,
        scheduler=Scheduler(config.scheduler, make_policy(config.scheduler.policy), backend.info),
        max_replans=config.max_replans,
        preparer=ChatPreparer(
            plans=PlanPreparer(backend=backend, tokenizer=backend.tokenizer, library=library),
            library=library,
            encoder=PromptEncoder(tokenizer=backend.tokenizer, style=PromptStyle.INSTRUCT),
        ),
    )


class RealPlanner(Planner):
    """Everything is real but the model, which knows its plans by heart."""

    sleep = None

    def _build(self, config, book):
        book.admission = build_admission(config)
        self.servers.append(
            ChildServer([Factories(partial(build_loop, config, self.sleep))], book=book, clock=MonotonicClock())
        )
        return self.servers[-1]


@pytest.fixture(scope="module")
def real_planner(ros):
    planner = RealPlanner("real", **{"scheduler.silence_timeout_s": 0.2})
    wait_until(planner.is_active, timeout_s=120.0)  # the engine process imports all of it first
    yield planner
    planner.stop()


class SlowPlanner(RealPlanner):
    """Its steps take as long as they say."""

    sleep = staticmethod(time.sleep)


@pytest.fixture
def slow_planner(ros):
    planner = SlowPlanner("slow")
    wait_until(planner.is_active, timeout_s=120.0)  # the engine process imports all of it first
    yield planner
    planner.stop()


@pytest.fixture
def start_operator(ros):
    started = []

    def start(name, planner="/real", **parameters):
        started.append(Operator(name, planner=planner, time_scale=20.0, **parameters))
        return started[-1]

    yield start
    for operator in started:
        operator.stop()


def test_a_fleet_plans_and_moves(real_planner, start_operator):
    seeker, flyer, arm = (
        start_operator("seeker"),
        start_operator("flyer"),
        start_operator("arm", robot_model="indy7"),
    )
    seeker.instruct("look for the chair", [CHAIR | {"position_m": [-2.0, 0.0, 1.0]}])
    flyer.instruct("fly a square")
    arm.instruct("put the box on the plate", [TABLE, BOX, PLATE])
    for operator in (seeker, flyer, arm):
        outcome = operator.outcome()
        assert (outcome.error_code, outcome.error_msg) == (ErrorCode.NONE, "")
        assert outcome.plan == PLANS[outcome.instruction]
        assert outcome.metrics.response_time_s > 0
        assert outcome.metrics.execution_time_s > 0
    found = Snapshot.from_json(seeker.outcome().world)
    assert found.pose.x_m == pytest.approx(-1.5, abs=0.1)
    assert (len(found.pictures), found.said) == (1, ("found it",))
    landed = Snapshot.from_json(flyer.outcome().world).pose
    assert (landed.x_m, landed.y_m, landed.z_m) == pytest.approx((0.0, 0.0, 0.0), abs=0.01)
    table = Snapshot.from_json(arm.outcome().world).world
    assert table.is_on("red_box", "plate")


def test_a_plan_that_is_closed_in_time_is_flown_as_far_as_it_goes(slow_planner, start_operator):
    operator = start_operator("patroller", planner="/slow")
    operator.instruct("patrol", overrun=2, budget_scope=1, time_budget_s=1.5)  # the plan takes 4 s to write
    wait_until(lambda: operator.outcomes, timeout_s=30.0)
    outcome = operator.outcome()
    assert outcome.error_code == ErrorCode.PLAN_PARTIAL
    assert 0 < len(outcome.segments) < 120
    assert PLANS["patrol"].startswith(outcome.plan)
    assert all(segment.status == segment.SUCCEEDED for segment in outcome.segments)
    assert outcome.metrics.plan_time_s <= 1.5
    assert len(Snapshot.from_json(outcome.world).calls) == len(outcome.segments)


def test_a_budget_for_the_whole_plan_that_cannot_be_kept_ends_the_goal(slow_planner, start_operator):
    operator = start_operator("victim", planner="/slow")
    operator.instruct("patrol", budget_scope=1, time_budget_s=1.5)
    outcome = operator.outcome()
    codes = (ErrorCode.BUDGET_EXCEEDED, ErrorCode.BUDGET_INFEASIBLE, ErrorCode.PLAN_PARTIAL)
    assert outcome.error_code in codes  # whole it is not
    assert list(outcome.reflexes) == []  # it was no emergency


def test_a_robot_answers_in_words_and_holds_still_while_a_person_reads(real_planner, start_operator):
    operator = start_operator("talker")
    operator.instruct("tell a story", urgency=Urgency.CHAT.value)
    outcome = operator.outcome()
    assert (outcome.error_code, outcome.error_msg) == (ErrorCode.NONE, "")
    assert outcome.plan == PLANS["tell a story"]
    assert [len(segment.segment.calls) for segment in outcome.segments] == [0, 0, 0]
    assert outcome.segments[0].duration_s >= 8 / 5 / 20  # eight words, in a life twenty times as fast
    assert Snapshot.from_json(outcome.world).pose.x_m == 0.0


def test_a_plan_that_leaves_the_geofence_ends_before_it_does(real_planner, start_operator):
    operator = start_operator("runaway")
    operator.instruct("fly away")
    outcome = operator.outcome()
    assert outcome.error_code == ErrorCode.GEOFENCE_VIOLATED
    assert Snapshot.from_json(outcome.world).pose.x_m < 10.0


def test_a_plan_that_asks_for_a_new_one_gets_it_but_not_for_ever(real_planner, start_operator):
    operator = start_operator("indecisive")
    commander = Commander(operator.node, ["indecisive"], planner="/real")
    operator.instruct("look again", tag="once")
    outcome = commander.outcome("once", 30.0)
    assert outcome.goal_id == operator.outcome(1 + MAX_REPLANS).goal_id
    assert outcome.plan == PLANS["look again"]
    assert [s.segment.text for s in outcome.segments] == ["tp();", "rp();"] * (1 + MAX_REPLANS)
    assert [s.segment.is_last for s in outcome.segments] == [False] * (1 + 2 * MAX_REPLANS) + [True]
    assert {outcome.tag for outcome in operator.outcomes} == {"once"}
    operator.instruct("linger")
    assert operator.outcome(2 + MAX_REPLANS).instruction == "linger"


def test_a_robot_that_never_reports_is_silent(real_planner, start_robot):
    robot = start_robot("mute", planner="/real")
    assert robot.client.plan("linger").result(15.0).error_code is ErrorCode.ROBOT_SILENT


def test_a_plan_that_fails_goes_on_another_way(real_planner, start_operator):
    operator = start_operator("visitor")
    things = [CHAIR | {"position_m": [3.0, 0.0, 1.0]}, CHAIR | {"name": "sofa_7", "position_m": [2.0, 0.0, 1.0]}]
    operator.instruct("visit the cat", things, scene="cat_1")
    outcome = operator.outcome()
    assert outcome.error_code == ErrorCode.NONE
    assert outcome.error_msg == "replanned 1 time, because this failed: g(cat); (g: cat is not visible)"
    by_text = {segment.segment.text: segment.status for segment in outcome.segments}
    assert by_text["g(cat);"] == msgs.SegmentOutcome.FAILED
    assert by_text["mu(20);"] == by_text["l('there is no cat');"] == msgs.SegmentOutcome.SUCCEEDED
    left = Snapshot.from_json(outcome.world)
    assert left.said == ("there is no cat",)
    assert (left.pose.x_m, left.pose.z_m) == pytest.approx((0.2, 1.2), abs=0.01)


def test_a_client_that_sends_no_heartbeat_and_reports_nothing_gets_a_plan(real_planner):
    stranger = Stranger("/real")  # as `ros2 action send_goal`
    goal = {"robot_id": "paper", "instruction": "fly a square"}
    shown = stranger.result(stranger.send(**goal, plan_only=True))
    assert shown.status == GoalStatus.STATUS_SUCCEEDED
    assert (shown.result.error_code, shown.result.error_msg) == (ErrorCode.NONE, "")
    assert list(shown.result.candidates) == [PLANS["fly a square"]]
    assert list(shown.result.segments) == []
    stranger.stop()
