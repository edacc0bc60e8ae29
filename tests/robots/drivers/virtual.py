# SPDX-License-Identifier: Apache-2.0
"""A Tello without a network: emulator firmware and driver in one process, in virtual time, over a faulty air."""

import heapq
import random

from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.drivers.tello import TelloDriver
from llm_planner.robots.drivers.tello_connection import TelloConnection
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import World
from llm_planner.sim.emulator.faults import Faults, FaultyNetwork
from llm_planner.sim.emulator.firmware import STATE_PERIOD_S, TelloFirmware

MODEL = RobotLibrary().get("tello")
STEP_S = 0.05


class Air:
    """A ``Transport`` and a ``Clock``: what is sent arrives in the firmware, or does not."""

    def __init__(self, faults=None, seed=0, state_faults=None, **firmware):
        rng = random.Random(seed)
        self.firmware = TelloFirmware(MODEL, rng, **firmware)
        self.commands = self.answering = FaultyNetwork(faults or Faults(), rng)
        self.stream = FaultyNetwork(state_faults or Faults(), rng)
        self.time_s = 0.0
        self.sent = []
        self.is_closed = False
        self._to, self._from, self._states, self._count, self._state_due_s = [], [], [], 0, 0.0

    def now_s(self):
        return self.time_s

    def sleep(self, seconds):
        self.advance(seconds)

    def advance(self, seconds):
        """Lets time pass in small steps."""
        end_s = self.time_s + seconds
        while self.time_s < end_s - 1e-9:
            self.time_s = min(end_s, self.time_s + STEP_S)
            while self._to and self._to[0][0] <= self.time_s:
                text = heapq.heappop(self._to)[2].decode("utf-8", "replace")
                self._say(self.firmware.receive(text, "driver", self.time_s))
            self._say(self.firmware.tick(self.time_s))
            if self.firmware.is_sdk_mode and self.time_s >= self._state_due_s:
                self._state_due_s = self.time_s + STATE_PERIOD_S
                self._push(self._states, self.stream, self.firmware.state().encode(), True)

    def _say(self, answers):
        for answer in answers:
            self._push(self._from, self.answering, answer.text.encode(), True)

    def _push(self, queue, network, datagram, is_from_robot):
        for due_s, copy in network.carry(datagram, self.time_s, is_from_robot=is_from_robot):
            self._count += 1
            heapq.heappush(queue, (due_s, self._count, copy))

    def _due(self, queue):
        texts = []
        while queue and queue[0][0] <= self.time_s:
            texts.append(heapq.heappop(queue)[2].decode("ascii", "replace"))
        return texts

    # Transport

    def send(self, text):
        self.sent.append((self.time_s, text))
        self._push(self._to, self.commands, text.encode(), False)

    def answers(self):
        return self._due(self._from)

    def states(self):
        return self._due(self._states)

    def close(self):
        self.is_closed = True


class Pilot:
    """A driver that is ticked, on the ground or in the air; the drone itself always has the bundled ``MODEL``."""

    def __init__(
        self,
        faults=None,
        seed=0,
        world=None,
        *,
        answering=None,
        is_flying=True,
        state_faults=None,
        model=MODEL,
        **firmware,
    ):
        self.air = Air(seed=seed, pose=MODEL.start if is_flying else None, **firmware)
        self.connection = TelloConnection(MODEL, self.air, clock=self.air, sleep=self.air.sleep)
        line, pose = self.connection.line, self.connection.pose
        speed_cm_s = self.connection.speed_cm_s
        self.line = line
        self.driver = TelloDriver(model, line, pose=pose, speed_cm_s=speed_cm_s)
        self.driver.enter(world or World(), None, 0.0)
        self._rng = rng = random.Random(seed + 1)  # the faults begin once it is in the air
        self.fail(faults or Faults(), answering)
        self.air.stream = FaultyNetwork(state_faults or Faults(), rng)
        self.air.sent.clear()

    def fail(self, faults, answering=None):
        """Lets the network lose, delay and repeat from now on."""
        self.air.commands = FaultyNetwork(faults, self._rng)
        self.air.answering = FaultyNetwork(answering or faults, self._rng)

    @property
    def flight(self):
        return self.air.firmware.flight

    @property
    def texts(self):
        return [text for _, text in self.air.sent]

    @property
    def motions(self):
        return [text for text in self.texts if text not in ("battery?", "stop")]

    def wait(self, seconds):
        for _ in range(round(seconds / STEP_S)):
            self.air.advance(STEP_S)
            self.driver.tick(self.air.time_s)
            self.driver.attend(self.air.time_s)

    def start(self, name, *arguments):
        self.driver.start(SkillCall(name, tuple(arguments)), self.air.time_s)

    def finish(self, limit_s=120.0):
        until_s = self.air.time_s + limit_s
        while (result := self.driver.tick(self.air.time_s)).status is SkillStatus.RUNNING:
            assert self.air.time_s < until_s, "the call does not end"
            self.wait(STEP_S)
        return result

    def do(self, name, *arguments):
        self.start(name, *arguments)
        return self.finish()
