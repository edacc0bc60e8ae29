# SPDX-License-Identifier: Apache-2.0
"""Conditions that come part by part, from the model to the robot: whatever is lost, late, fails or ends in between.

Book, loop, session, gate, parser and the robot's executor are real; the model is scripted, the network is the test.
"""

import itertools
import math

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.request import Urgency
from llm_planner.core.segment import BlockEdge, MarkStatus, ReportStatus, Situation
from llm_planner.language.printer import to_text
from llm_planner.language.syntax import And, Boolean, Call, Comparison, If, Loop, Name, Or, Return, Text
from llm_planner.planning.failure_context import ReplanContext
from llm_planner.planning.limits import MAX_DEPTH
from llm_planner.planning.prompt import PromptStyle
from llm_planner.robots.driver import SkillResult, SkillStatus
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from tests.serving.builders import make_admission, make_request

LIBRARY = RobotLibrary()
TELLO = LIBRARY.get("tello")
TICK_S = 0.1
MAX_REPLANS = 2

leaves = st.sampled_from(["call", "call", "loop", "return"])
trees = st.recursive(leaves, lambda inner: st.tuples(st.integers(0, 3), st.lists(inner, max_size=3)), max_leaves=8)
blocks = st.tuples(st.integers(0, 3), st.lists(trees, min_size=1, max_size=3))
plans = st.lists(blocks | trees, min_size=1, max_size=4)


def planned(trees, prefix):
    """Returns a plan whose calls all differ; a condition tests one or two names."""
    numbers = itertools.count()

    def call(name, text_type):
        return Call(name, (text_type(f"{prefix}{next(numbers)}"),))

    def statement(tree, depth):
        if tree == "return" and depth:
            return Return(Boolean(True))
        if tree == "loop" and depth < MAX_DEPTH:
            return Loop(2, (call("l", Text),))
        if isinstance(tree, str) or depth == MAX_DEPTH:
            return call("l", Text)
        kind, inner = tree
        one, two = call("iv", Name), call("iv", Name)
        condition = (one, Comparison(one, "==", Boolean(False)), And((one, two)), Or((one, two)))[kind]
        return If(condition, tuple(statement(each, depth + 1) for each in inner))

    return tuple(statement(tree, 0) for tree in trees)


class Course:
    """The calls of a plan in the order in which a robot makes them, by other code than the interpreter's."""

    def __init__(self, truth):
        self.truth, self.made = truth, []

    def is_visible(self, call):
        (name,) = call.arguments
        self.made.append(("iv", name.name))
        return self.truth(name.name)

    def is_met(self, condition):
        match condition:
            case Comparison(left=left):
                return not self.is_visible(left)
            case And(operands=(one, two)):
                return self.is_visible(one) and self.is_visible(two)
            case Or(operands=(one, two)):
                return self.is_visible(one) or self.is_visible(two)
        return self.is_visible(condition)

    def run(self, statements):
        """Returns whether the plan goes on behind them."""
        for statement in statements:
            match statement:
                case Call(name, (text,)):
                    self.made.append((name, text.text))
                case Loop(count, body):
                    self.run(body * count)
                case If(condition, body) if self.is_met(condition) and not self.run(body):
                    return False
                case Return():
                    return False
        return True


def course(plan, truth):
    course = Course(truth)
    course.run(plan)
    return course.made


class Driver:
    """Takes 1 s for a word and 0.3 s for a look; fails when it is told."""

    def __init__(self, truth, on_call):
        self.truth, self.on_call = truth, on_call
        self.call, self.ends_s, self.fails = None, 0.0, False
        self.hovered_s = -1.0

    def start(self, call, now_s):
        self.call, self.ends_s = call, now_s + {"l": 1.0, "iv": 0.3}.get(call.name, 0.0)
        if call.name == "h":
            self.hovered_s = now_s
        if call.name in ("l", "iv"):
            self.on_call(call)

    def tick(self, now_s):
        if now_s < self.ends_s:
            return SkillResult(SkillStatus.RUNNING)
        if self.fails and self.call.name in ("l", "iv"):
            self.fails = False
            return SkillResult(SkillStatus.FAILED, reason="it did not work")
        value = self.truth(self.call.arguments[0]) if self.call.name == "iv" else None
        return SkillResult(SkillStatus.SUCCEEDED, value=value)

    def halt(self, now_s):
        self.ends_s = now_s


class World:
    """A planner and a robot. ``network`` holds segments on their way, ``reports`` what the robot says."""

    def __init__(
        self,
        plan,
        another,
        truths,
        *,
        policy="fcfs_segment",
        takes_open_blocks=True,
        can_insert=True,
        waits_for_plan_s=0.0,
        **options,
    ):
        self.plans = [plan, another, another]  # the model writes the other one whenever something has failed
        self.truth = lambda name: truths[int(name[1:]) % len(truths)]
        self.policy, self.can_insert, self.options = policy, can_insert, options
        self.waits_for_plan_s = waits_for_plan_s
        self.now_s, self.made, self.failed_at = 0.0, [], []
        self.network, self.reports, self.events = [], [], []
        self.is_over, self.num_lost_reports = False, 0
        self.heard_s = 0.0  # the last that the robot received or did, and since when it is silent
        self.driver = Driver(self.truth, self.note_call)
        self.robot = SegmentExecutor(TELLO, self.driver, self.reports.append, lambda: Situation(pose=Pose(z_m=1.0)))
        self.robot.begin("r1", 0.0)
        self.book = GoalBook(make_admission(), memory_s=1e9)
        request = make_request(instruction="go", takes_open_blocks=takes_open_blocks)
        self.book.open(request, 0.0)
        self.start_engine()

    def start_engine(self):
        texts = [to_text(plan) for plan in self.plans]
        backend = FakeBackend(plans={"go": texts[0], "did not work": texts[1]}, can_insert=self.can_insert)
        self.loop = PlannerLoop(
            backend=backend,
            scheduler=Scheduler(SchedulerConfig(policy=self.policy), make_policy(self.policy), backend.info),
            preparer=PlanPreparer(
                backend=backend,
                tokenizer=backend.tokenizer,
                library=LIBRARY,
                style=PromptStyle.INSTRUCT,
                **self.options,
            ),
            max_replans=MAX_REPLANS,
            waits_for_plan_s=self.waits_for_plan_s,
        )
        self.events = []
        if (record := self.book.get("r1")).result is None:
            self.take(self.loop.open(record, record.arrival_s))

    @property
    def record(self):
        return self.book.get("r1")

    @property
    def expected(self):
        """The calls that the robot may make, and must if nothing else fails."""
        calls = []
        for plan, end in itertools.zip_longest(self.plans, self.failed_at):
            start = len(calls)
            calls += course(plan, self.truth)
            if end is None:
                break
            del calls[end:]
            assert end >= start
        return calls

    def note_call(self, call):
        assert not self.is_over
        self.made.append((call.name, call.arguments[0]))
        assert self.made == self.expected[: len(self.made)]

    def take(self, events):
        for event in events:
            accepted = self.book.accept(event, self.now_s)
            if isinstance(accepted, SegmentReady):
                self.network.append(accepted.segment)
            elif isinstance(accepted, Finished) and accepted.result.error_code is not ErrorCode.NONE:
                self.stop()

    def stop(self):
        self.is_over = True
        self.robot.cancel(self.now_s)

    def engine_works(self, num_steps):
        for _ in range(num_steps):
            wakeup_s = self.loop.next_wakeup_s(self.now_s)
            if wakeup_s is None or wakeup_s > self.now_s:
                return
            self.take(self.loop.step(self.now_s))
            self.loop._scheduler.check_integrity()
        assert not self.loop._is_kv_off

    def deliver(self, segment):
        self.heard_s = self.now_s
        self.robot.add("r1", segment, self.now_s)

    def resync(self):
        """As ``GetSegments`` answers: all from an index on, and whether the plan is complete."""
        segments = self.record.segments
        for segment in segments[self.robot.next_missing_index :]:
            self.deliver(segment)
        if self.record.is_complete:
            self.heard_s = self.now_s
            self.robot.expect("r1", len(segments), self.now_s)

    def robot_works(self, seconds):
        for _ in range(round(seconds / TICK_S)):
            num_reports = len(self.reports)
            self.robot.tick(self.now_s)
            said = self.reports[num_reports:]
            if any(report.status is ReportStatus.FAILED for report in said) and not self.is_over:
                self.failed_at.append(len(self.made))
            if said or self.robot._started_s is not None:
                self.heard_s = self.now_s
            self.check_silence()
            self.now_s += TICK_S

    def check_silence(self):
        """The robot hovers once it has had nothing to do for as long as its silence rule allows, in a block or not."""
        is_waiting = self.robot.state is ExecutorState.ACTIVE and not self.robot.is_acting
        if is_waiting and self.now_s - self.heard_s > TELLO.silence[0].after_s + TICK_S:
            assert self.driver.hovered_s >= self.heard_s

    def tell(self, report):
        if self.book.report(report, self.now_s):
            self.take(self.loop.report(report, self.now_s))

    def tell_all(self):
        while self.reports:
            self.tell(self.reports.pop(0))

    def go_on(self):
        """Nothing is lost any more."""
        for _ in range(3000):
            if self.record.result is not None:
                return
            self.engine_works(50)
            self.resync()
            self.robot_works(TICK_S)
            self.tell_all()
        pytest.fail("the goal does not end")


def test_the_robot_moves_before_the_block_is_written():
    world = World(planned([(0, ["call", "call"]), "call"], "w"), planned(["call"], "v"), [True], policy="fcfs_stream")
    while not world.network:
        world.engine_works(1)
    first = world.network[0]
    assert (first.text, first.block_edge) == ("?iv(w0){", BlockEdge.OPENS)
    world.deliver(first)
    world.robot_works(0.2)
    assert world.made == [("iv", "w0")]
    assert len(world.record.segments) == 1
    world.go_on()
    assert world.record.result.error_code is ErrorCode.NONE
    assert world.record.result.plan == to_text(world.plans[0])
    assert world.made == [("iv", "w0"), ("l", "w2"), ("l", "w3"), ("l", "w4")]


def test_a_robot_that_does_not_take_open_blocks_gets_none():
    world = World(planned([(0, ["call"])], "w"), planned(["call"], "v"), [True], takes_open_blocks=False)
    world.go_on()
    assert [segment.text for segment in world.record.segments] == ["?iv(w0){l('w2');}"]
    assert world.made == [("iv", "w0"), ("l", "w2")]


@pytest.mark.parametrize("changes", [{"urgency": Urgency.URGENT}, {"plan_only": True}])
def test_an_emergency_and_a_plan_to_look_at_come_in_whole_statements(changes):
    backend = FakeBackend(plans={"go": "?iv(w0){h();}"})
    preparer = PlanPreparer(backend=backend, tokenizer=backend.tokenizer, library=LIBRARY, style=PromptStyle.INSTRUCT)
    session = preparer.prepare(make_request(instruction="go", takes_open_blocks=True, **changes)).session
    assert session.feed(backend.tokenizer.encode("?iv(w0){")).segments == ()


def test_how_it_went_says_what_was_skipped():
    world = World(planned([(0, ["call"]), "call"], "w"), planned(["call"], "v"), [False])
    world.go_on()
    marks = world.record.result.marks
    done, skipped = MarkStatus.SUCCEEDED, MarkStatus.SKIPPED
    assert [mark.status for mark in marks] == [done, skipped, skipped, done]


@pytest.mark.parametrize("context", ReplanContext)
def test_a_model_reads_of_a_whole_statement_that_failed(context):
    world = World(
        planned(["call", (0, ["call", "call"]), "call"], "w"),
        planned(["call"], "v"),
        [True],
        replan_context=context,
        policy="fcfs_stream",
    )
    world.engine_works(200)
    world.resync()
    world.robot_works(1.8)
    world.driver.fails = True  # the first call of the block
    world.robot_works(1.0)
    world.tell_all()
    sequence = world.loop._goals["r1"].generation.sequence
    prompt = world.loop._backend.tokenizer.decode(sequence.prompt_token_ids)
    if context is ReplanContext.FRESH:
        assert prompt.endswith("plan:\nl('w0');")
    else:
        assert "failed: ?iv(w1){l('w3');l('w4');} (it did not work)\ndone: l('w0');\n" in prompt


class OpenBlocks(RuleBasedStateMachine):
    """Each call of the branch that is taken is made exactly once, in order, and none of the other."""

    @initialize(
        plan=plans,
        another=plans,
        truths=st.lists(st.booleans(), min_size=1, max_size=5),
        policy=st.sampled_from(("fcfs_segment", "fcfs_stream", "fcfs", "tardiness")),
        takes_open_blocks=st.sampled_from((True, True, True, False)),
        can_insert=st.booleans(),
        waits_for_plan_s=st.sampled_from((0.0, 0.25, math.inf)),
        num_steps=st.integers(0, 60),
    )
    def begin(self, plan, another, truths, num_steps, **options):
        self.world = World(planned(plan, "w"), planned(another, "v"), truths, **options)
        self.world.engine_works(num_steps)
        note(f"{to_text(self.world.plans[0])} then {to_text(self.world.plans[1])}")

    @rule(num_steps=st.sampled_from((1, 4, 40)))
    def engine_works(self, num_steps):
        self.world.engine_works(num_steps)

    @rule()
    def engine_dies(self):
        self.world.start_engine()

    @precondition(lambda self: self.world.network)
    @rule(place=st.integers(0, 5), is_doubled=st.booleans())
    def a_segment_arrives(self, place, is_doubled):
        network = self.world.network
        self.world.deliver(network[place % len(network)] if is_doubled else network.pop(place % len(network)))

    @precondition(lambda self: self.world.network)
    @rule(place=st.integers(0, 5))
    def a_segment_is_lost(self, place):
        self.world.network.pop(place % len(self.world.network))

    @rule()
    def robot_asks_again(self):
        self.world.resync()

    @rule(seconds=st.sampled_from((0.1, 0.5, 2.0, 8.0)))
    def robot_works(self, seconds):
        self.world.robot_works(seconds)

    @rule(is_meant=st.booleans())
    def a_skill_fails(self, is_meant):
        self.world.driver.fails |= is_meant and len(self.world.failed_at) < MAX_REPLANS

    @rule(num_reports=st.sampled_from((1, 9)))
    def planner_is_told(self, num_reports):
        for _ in range(min(num_reports, len(self.world.reports))):
            self.world.tell(self.world.reports.pop(0))

    @precondition(lambda self: self.world.reports)
    @rule(place=st.integers(0, 9))
    def a_report_comes_late(self, place):
        reports = self.world.reports
        reports.append(reports.pop(place % len(reports)))

    @precondition(lambda self: self.world.reports)
    @rule()
    def a_report_comes_twice(self):
        self.world.tell(self.world.reports[0])

    @precondition(lambda self: self.world.reports)
    @rule()
    def a_report_is_lost(self):
        if (
            self.world.reports[0].status is not ReportStatus.FAILED
        ):  # else the robot waits, and its goal ends in silence
            self.world.reports.pop(0)
            self.world.num_lost_reports += 1

    @rule(is_meant=st.sampled_from((True, *[False] * 9)))
    def it_is_cancelled(self, is_meant):
        if is_meant and self.world.record.result is None:
            self.world.stop()
            self.world.book.end("r1", ErrorCode.CANCELLED, "cancelled", self.world.now_s)
            self.world.loop.cancel("r1")

    @invariant()
    def the_book_has_each_part_once(self):
        if hasattr(self, "world"):
            segments = self.world.record.segments
            assert [segment.index for segment in segments] == list(range(len(segments)))

    def teardown(self):
        if not hasattr(self, "world"):
            return
        world = self.world
        world.driver.fails = False
        world.go_on()
        code = world.record.result.error_code
        if code is ErrorCode.NONE:
            assert world.made == world.expected
            if not world.failed_at:
                assert world.record.result.plan == to_text(world.plans[0])
        else:
            assert world.is_over or world.num_lost_reports


OpenBlocks.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestOpenBlocks = OpenBlocks.TestCase
