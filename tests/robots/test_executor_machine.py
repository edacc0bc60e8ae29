# SPDX-License-Identifier: Apache-2.0
"""Whatever happens in whatever order, the executor keeps its invariants."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from llm_planner.core.segment import ReportStatus, Situation
from llm_planner.core.skill import SkillCall
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from tests.robots.builders import drone, segment

CALLS = ["mf(100);", "tc(90);", "d(1);", "a(unicorn);", "ld();", "tk();", "mu(500);"]
TEXTS = [*CALLS, "", "mf(", "->True;", "2{?iv(chair){mb(20);}}"]


class ExecutorMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.driver = drone()
        self.reports = []
        self.now_s = 0.0
        self.num_goals = 0
        self.taken = {}
        self.set_up(looks=False)

    @initialize(looks=st.booleans())
    def set_up(self, looks):
        self.looks, look = looks, Situation if looks else None
        self.executor = SegmentExecutor(self.driver.model, self.driver, self.reports.append, look)

    @rule()
    def begin(self):
        self.num_goals += 1
        self.executor.begin(f"goal {self.num_goals}", self.now_s)

    @rule(index=st.integers(0, 5), text=st.sampled_from(TEXTS), age=st.integers(0, 2))
    def add(self, index, text, age):
        missing = self.executor.next_missing_index
        goal_id = f"goal {self.num_goals - age}"
        is_taken = self.executor.add(goal_id, segment(index, text), self.now_s)
        assert not (is_taken and index < missing)
        if is_taken:
            assert goal_id == self.executor.request_id
            assert (goal_id, index) not in self.taken
            self.taken[goal_id, index] = text

    @rule(count=st.integers(0, 6), is_partial=st.booleans(), age=st.integers(0, 2))
    def expect(self, count, is_partial, age):
        is_taken = self.executor.expect(f"goal {self.num_goals - age}", count, self.now_s, is_partial=is_partial)
        assert not (is_taken and age)

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.3, 2.0, 7.0, 65.0]))
    def tick(self, seconds):
        self.now_s += seconds
        self.executor.tick(self.now_s)

    @rule()
    def cancel(self):
        self.executor.cancel(self.now_s)
        assert self.executor.state is not ExecutorState.ACTIVE

    @rule(backs_off=st.booleans())
    def reflex(self, backs_off):
        self.executor.reflex(self.now_s, [SkillCall("mb", (20.0,))] if backs_off else [])
        assert self.executor.state is not ExecutorState.ACTIVE

    @precondition(lambda self: self.executor.state is ExecutorState.ACTIVE)
    @rule()
    def a_silent_planner_gets_a_landed_robot(self):
        """However the goal stands, an hour without a word ends it, or ends on the floor or in a held pose."""
        for _ in range(40):
            self.now_s += 90.0
            self.executor.tick(self.now_s)
        if self.executor.state is ExecutorState.ACTIVE:
            assert self.driver.state.pose.z_m == 0

    @invariant()
    def every_segment_starts_at_most_once_and_ends_at_most_once(self):
        keys = [(r.request_id, r.index, r.status is ReportStatus.STARTED) for r in self.reports]
        assert len(keys) == len(set(keys))

    @invariant()
    def only_segments_of_their_own_goal_run(self):
        started = {(r.request_id, r.index) for r in self.reports if r.status is ReportStatus.STARTED}
        assert started <= self.taken.keys()

    @invariant()
    def segments_run_one_after_the_other_in_order(self):
        running, last = None, {}
        for report in self.reports:
            if report.status is ReportStatus.STARTED:
                assert running is None
                next_index = last.get(report.request_id, -1) + 1
                assert report.index == next_index or (self.looks and report.index > next_index)
                running, last[report.request_id] = report.index, report.index
            else:
                assert running in {None, report.index}
                assert report.duration_s >= 0
                assert running is not None or report.status is ReportStatus.FAILED
                assert bool(report.reason) == (report.status is ReportStatus.FAILED)
                running = None

    @invariant()
    def the_robot_stays_inside_its_geofence(self):
        pose = self.driver.state.pose
        assert max(abs(pose.x_m), abs(pose.y_m)) <= 10 + 1e-6
        assert -1e-9 <= pose.z_m <= 3 + 1e-6


TestExecutor = ExecutorMachine.TestCase
TestExecutor.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
