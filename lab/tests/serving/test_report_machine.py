# SPDX-License-Identifier: Apache-2.0
"""Reports of any kind, in any order, in any phase of a goal, with engines that die: the book and the loop agree."""

from collections import Counter, deque
from copy import deepcopy
from itertools import product

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lab.tests.serving.test_replans import make_loop
from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.segment import ReportStatus, SegmentReport, Situation
from llm_planner.scheduling.execution_tracker import Reception, breaks_off
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.goal_book import GoalBook
from tests.serving.builders import make_admission, make_request

WAITING = Situation(scene="chair_1", pose=Pose(x_m=1.0, z_m=1.0))
MAX_GOALS = 2
STARTED, SUCCEEDED, FAILED = ReportStatus.STARTED, ReportStatus.SUCCEEDED, ReportStatus.FAILED


class Reports(RuleBasedStateMachine):
    """A book (the parent) and a loop (the engine), with a queue for each direction between them."""

    @initialize(policy=st.sampled_from(("fcfs_stream", "fcfs_segment", "fcfs", "tardiness")), can_insert=st.booleans())
    def begin(self, policy, can_insert):
        self.options = {"policy": policy, "can_insert": can_insert, "max_replans": 4}
        self.now_s = 0.0
        self.book = GoalBook(make_admission())
        self.submitted = []
        self.failed = Counter()  # failures that counted, by goal
        self.told = []  # what the owner was told
        self.start_engine()
        self.submit()
        self.engine_works(num_steps=30)

    def start_engine(self):
        self.loop = make_loop(**self.options)
        self.to_loop = deque()
        self.to_book = deque()
        for name in self.book.request_ids:
            goal = self.book.get(name)
            self.to_loop.append(lambda loop, goal=goal: loop.open(goal, goal.arrival_s))

    @precondition(lambda self: len(self.book.request_ids) < MAX_GOALS)
    @rule()
    def submit(self):
        request, arrival_s = make_request(f"r{len(self.submitted)}"), self.now_s
        self.submitted.append(request.request_id)
        assert self.book.open(request, arrival_s) is None
        self.to_loop.append(lambda loop: loop.submit(request, arrival_s))

    def report(self, goal, behind_last, status, situation=WAITING, duration_s=1.0):
        names = self.book.request_ids or ("r0",)
        name = names[goal % len(names)]
        entry = self.book.get(name)
        last = -1 if entry is None else len(entry.segments) - 1
        report = SegmentReport(
            request_id=name,
            index=last + behind_last,
            status=status,
            duration_s=duration_s,
            reason="gone" if status is FAILED else "",
            situation=situation if status is FAILED else None,
        )
        now_s = self.now_s
        if self.book.report(report, now_s):
            self.failed[name] += status is FAILED
            self.to_loop.append(lambda loop: loop.report(report, now_s))

    @rule(
        goal=st.integers(0, 1),
        behind_last=st.integers(-4, 1),
        status=st.sampled_from(ReportStatus),
        situation=st.sampled_from((None, WAITING, Situation(scene="chair_alone"))),
        duration_s=st.sampled_from((0.0, 1.0, -1.0, float("nan"), 1e300, 10**400)),
    )
    def any_report(self, goal, behind_last, status, situation, duration_s):
        self.report(goal, behind_last, status, situation, duration_s)

    @rule(
        goal=st.integers(0, 1),
        behind_last=st.integers(-4, 0),
        then=st.integers(-3, 3),
        status=st.sampled_from(ReportStatus),
    )
    def failure_and_another_report(self, goal, behind_last, then, status):
        self.report(goal, behind_last, FAILED)
        self.report(goal, min(0, behind_last + then), status)

    @rule(goal=st.integers(0, 1), behind_last=st.integers(-4, 0))
    def work_of_a_robot(self, goal, behind_last):
        self.report(goal, behind_last, STARTED)
        self.report(goal, behind_last, SUCCEEDED)

    @rule(is_meant=st.sampled_from((True, *[False] * 5)))
    def cancel(self, is_meant):
        for name in self.book.request_ids if is_meant else ():
            self.told.append(self.book.end(name, ErrorCode.CANCELLED, "cancelled", self.now_s))
            self.to_loop.append(lambda loop, name=name: loop.cancel(name))

    @precondition(lambda self: self.to_loop)
    @rule()
    def loop_takes_a_command(self):
        self.to_book += self.to_loop.popleft()(self.loop)

    @rule()
    def commands_wait_for_a_step_that_was_decided(self):
        """As where events went out before a step that was decided runs."""
        if self.loop._scheduled is None:
            scheduled = self.loop._scheduler.schedule(self.now_s)
            self.loop._scheduled = None if scheduled.is_empty else scheduled
        while self.to_loop:
            self.loop_takes_a_command()

    @rule(num_steps=st.sampled_from((1, 5)))
    def loop_steps(self, num_steps):
        for _ in range(num_steps):
            self.to_book += self.loop.step(self.now_s)
        self.loop._scheduler.check_integrity()

    @precondition(lambda self: self.to_book)
    @rule()
    def book_takes_an_event(self):
        accepted = self.book.accept(self.to_book.popleft(), self.now_s)
        if accepted is not None:
            self.told.append(accepted)

    def both_catch_up(self):
        while self.to_loop:
            self.loop_takes_a_command()
        while self.to_book:
            self.book_takes_an_event()

    @rule(num_steps=st.sampled_from((1, 3, 30)))
    def engine_works(self, num_steps):
        self.both_catch_up()
        for _ in range(num_steps):
            self.loop_steps(1)
            self.both_catch_up()

    @rule(num_said=st.integers(0, 5))
    def engine_dies(self, num_said):
        for _ in range(min(num_said, len(self.to_book))):
            self.book_takes_an_event()
        self.start_engine()

    @rule(seconds=st.sampled_from((0.01, 1.0)))
    def time_passes(self, seconds):
        self.now_s += seconds

    @property
    def ended(self):
        return [event.request_id for event in self.told if isinstance(event, Finished)]

    @invariant()
    def owner_is_told_a_clean_story(self):
        assert sorted((*self.ended, *self.book.request_ids)) == sorted(self.submitted)
        for name in self.submitted:
            mine = [event for event in self.told if event.request_id == name]
            indices = [event.segment.index for event in mine if isinstance(event, SegmentReady)]
            assert indices == list(range(len(indices)))
            assert not any(isinstance(event, Finished) for event in mine[:-1])

    @invariant()
    def no_goal_ends_well_behind_a_failure_that_is_not_answered(self):
        for event in self.told:
            if isinstance(event, Finished) and event.result.error_code is ErrorCode.NONE:
                num_replans = sum(segment.is_replan for segment in event.result.segments)
                assert self.failed[event.request_id] == num_replans

    @invariant()
    def a_plan_has_one_open_failure_at_most(self):
        for entry in self.book.unfinished():
            reports = [report for _, report in entry.reports]
            num_failures = sum(report.status is FAILED for report in reports)
            num_replans = sum(segment.is_replan for segment in entry.segments)
            gave_up = len(reports) > 1 and breaks_off(reports[-1], reports[-2])  # while it waited for a replan
            assert num_replans <= num_failures == self.failed[entry.request_id] <= num_replans + 1 + gave_up

    @invariant()
    def book_and_loop_count_the_same(self):
        if self.to_loop or self.to_book:
            return
        assert set(self.loop._goals) == set(self.book.request_ids)
        for name, goal in self.loop._goals.items():
            entry = self.book.get(name)
            for index, status in product(range(-1, len(entry.segments) + 1), ReportStatus):
                report = SegmentReport(request_id=name, index=index, status=status)
                reception = deepcopy(goal.execution).report(report, self.now_s)
                assert entry.counts(report) == (reception is not Reception.IGNORED)
            failures = [report for _, report in entry.reports if report.status is FAILED]
            num_replans = sum(segment.is_replan for segment in entry.segments)
            assert goal.failures == failures[:num_replans]

    def teardown(self):
        """Robots fall silent: every goal ends."""
        if not hasattr(self, "loop"):
            return
        for _ in range(200):
            self.both_catch_up()
            if not self.book.request_ids:
                break
            self.now_s = max(self.now_s + 0.01, self.loop.next_wakeup_s(self.now_s) or 0.0)
            self.loop_steps(1)
        assert not self.book.request_ids
        self.owner_is_told_a_clean_story()


Reports.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestReports = Reports.TestCase
