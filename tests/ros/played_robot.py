# SPDX-License-Identifier: Apache-2.0
"""A robot node without rclpy: node and action client are played, so that a message comes at any moment, late, twice."""

import collections
import random
from types import SimpleNamespace

import pytest
from builtin_interfaces.msg import Time
from rclpy.task import Future

import llm_planner.msg as msgs
from llm_planner.action import PlanTask
from llm_planner.core.clock import ManualClock
from llm_planner.core.request import PlanResult, Urgency
from llm_planner.core.segment import make_replan
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros import conversions, planner_client
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.missions import Missions
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.robot_control import RobotControl
from llm_planner.sim.kinematics import KinematicDriver
from llm_planner.srv import Instruct
from tests.ros.nodes import make_segment

TELLO, ARM = map(RobotLibrary().get, ("tello", "indy7"))


class FakeNode:
    """A node whose callbacks a test makes."""

    def __init__(self):
        self.timers, self.subscriptions, self.wakeups, self.published = [], {}, [], collections.defaultdict(list)
        self.client = FakeClient()

    def get_fully_qualified_name(self):
        return "/drone_1"

    def get_logger(self):
        return SimpleNamespace(
            warning=lambda *_, **__: None, error=lambda text, **__: pytest.fail(text) if "failed" in text else None
        )

    def get_clock(self):
        return SimpleNamespace(now=lambda: SimpleNamespace(to_msg=lambda: Time(sec=1)))

    def create_client(self, *_):
        return self.client

    def create_publisher(self, _, topic, *__):
        return SimpleNamespace(publish=self.published[topic].append)

    def create_subscription(self, _, topic, callback, *__):
        self.subscriptions[topic] = callback

    def create_timer(self, _, callback, *, clock):
        self.timers.append(callback)
        return SimpleNamespace(cancel=lambda: None, reset=lambda: None, is_canceled=lambda: False)

    def create_guard_condition(self, callback):
        self.wakeups.append(callback)
        return SimpleNamespace(trigger=lambda: None)

    def spin(self):
        """Makes the deferred calls; what these defer is made the next time."""
        for wakeup in self.wakeups:
            wakeup()


class FakeClient:
    """A service client; the test answers."""

    def __init__(self):
        self.asked = []

    def service_is_ready(self):
        return True

    def call_async(self, request):
        self.asked.append((request, Future()))
        return self.asked[-1][1]

    def remove_pending_request(self, future):
        self.asked = [entry for entry in self.asked if entry[1] is not future]


class FakeAction:
    """An action client; the test plays the planner."""

    def __init__(self, *_, **__):
        self.sent, self.feedback, self.results, self.cancelled = {}, {}, {}, []

    def server_is_ready(self):
        return True

    def send_goal_async(self, goal, *, feedback_callback, goal_uuid):
        goal_id = bytes(goal_uuid.uuid).hex()
        self.sent.setdefault(goal_id, goal)
        self.feedback[goal_id] = feedback_callback
        return Future()

    def _get_result_async(self, handle):
        return self.results.setdefault(bytes(handle.goal_id.uuid).hex(), Future())

    def _cancel_goal_async(self, handle):
        self.cancelled.append(bytes(handle.goal_id.uuid).hex())
        return Future()


class RecordingConnection:
    """A kinematic robot that notes which calls begin."""

    takes_worlds = True
    unsupported_skills = frozenset()

    def __init__(self, model, on_start):
        self._model, self._on_start = model, on_start

    def enter(self, world, pose, _epoch_s):
        driver = KinematicDriver(self._model, world, random.Random(0), pose=pose)
        start = driver.start

        def note_and_start(call, now_s):
            self._on_start(call)
            start(call, now_s)

        driver.start = note_and_start
        return driver

    def close(self):
        pass


class Robot:
    """All of a robot node but rclpy."""

    def __init__(self, model=TELLO):
        self.clock, self.node = ManualClock(100.0), FakeNode()
        original, planner_client.PlanActionClient = planner_client.PlanActionClient, FakeAction
        try:
            self.client = PlannerClient(self.node, model.name, clock=self.clock)
        finally:
            planner_client.PlanActionClient = original
        self.action = self.client._endpoints.action
        self.bridge = Bridge(self.node, lambda error, *_: pytest.fail(repr(error)))
        self.started, self.begun, self.messages = [], [], []
        self.void = set()  # goals of which nothing may begin any more
        self.control = RobotControl(
            model,
            clock=self.clock,
            time_scale=1.0,
            connection=RecordingConnection(model, self.note_start),
            report=lambda report: self.bridge.post(lambda: self.missions.on_report(report, Time(sec=1))),
            on_reflex=lambda event: self.bridge.post(lambda: self.missions.on_reflex(event, Time(sec=1))),
            on_stop=lambda _: self.bridge.post(self.missions.publish_outcomes),
        )
        self.missions = Missions(
            self.node,
            self.client,
            self.control,
            model,
            bridge=self.bridge,
            wake=lambda: None,
            publish=self.messages.append,
        )
        begin = self.control.begin

        def note_and_begin(goal_id, **options):
            begin(goal_id, **options)
            self.begun.append(goal_id)

        self.control.begin = note_and_begin

    def note_start(self, call):
        if call.name in ("mf", "mb", "l"):  # hover and land are the robot's own calls
            self.started.append((self.begun[-1], call))
            assert self.begun[-1] == self.control.goal_id
            assert self.begun[-1] not in self.void

    def instruct(self, urgency=Urgency.NORMAL, instruction="go", **fields):
        self.missions.instruct(Instruct.Request(instruction=instruction, urgency=urgency.value, **fields))
        return self.begun[-1]

    def spin(self, times=4):
        for _ in range(times):
            self.node.spin()

    def run(self, seconds):
        for _ in range(round(seconds / 0.1)):
            self.clock.advance(0.1)
            self.control.tick()

    def feed(self, goal_id, segments, num_segments=None):
        feedback = PlanTask.Feedback(segments=segments, num_segments=num_segments or len(segments))
        self.action.feedback[goal_id](PlanTask.Impl.FeedbackMessage(feedback=feedback))

    def end(self, goal_id, code, segments=()):
        result = conversions.from_result(
            PlanResult(request_id=goal_id, error_code=code, error_msg="the end", segments=tuple(segments))
        )
        self.action.results[goal_id].set_result(PlanTask.Impl.GetResultService.Response(status=4, result=result))

    def say_status(self, goals):
        progress = [msgs.GoalProgress(goal_id=goal_id, num_segments=count) for goal_id, count in goals.items()]
        status = msgs.PlannerStatus(state=msgs.PlannerStatus.ACTIVE, goals=progress)
        self.node.subscriptions["/planner/status"](status)

    @property
    def outcomes(self):
        return [message for message in self.messages if isinstance(message, msgs.PlanOutcome)]


def messages(goal_id, *texts):
    """Returns segments as they travel; an empty text stands for the marker of a replan."""
    made = (make_segment(index, text) if text else make_replan(index) for index, text in enumerate(texts))
    return [conversions.from_segment(segment, goal_id) for segment in made]
