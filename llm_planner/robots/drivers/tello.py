# SPDX-License-Identifier: Apache-2.0
"""A real Tello (or its emulator) as a driver: the skills of the robot model, flown one command at a time.

It knows where it is by dead reckoning from where it took off, sees by the map that it was given (the objects of its
world), and judges the geofence before every motion, exactly as the kinematic robot does: both plan with ``MobileBody``.
"""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from llm_planner.core.skill import SkillCall
from llm_planner.robots.body import BodyState, Course, Job
from llm_planner.robots.driver import (
    PermanentFailureError,
    SkillFailedError,
    SkillResult,
    SkillStatus,
    argument_problem,
    failed,
)
from llm_planner.robots.drivers import tello_commands
from llm_planner.robots.drivers.tello_commands import Leg
from llm_planner.robots.drivers.tello_line import BLIND_S, FALLEN_M, STALE_S, Command, Proof, TelloLine
from llm_planner.robots.drivers.tello_state import MOVING_DM_S, is_steady
from llm_planner.robots.effect import Ask, Land, Stop, TakeOff, TakePicture, Translate
from llm_planner.robots.mobile import MobileBody
from llm_planner.robots.model import Pose, RobotModel, Skill
from llm_planner.robots.motion import Motion
from llm_planner.robots.robot_driver import MapSight, TrackMemory
from llm_planner.robots.track import Track
from llm_planner.robots.world import World

UNSUPPORTED = (TakePicture, Ask)  # effects of skills: this driver does not read the drone's camera
RESERVE_PERCENT = 10.0  # at it or below, the drone lands where it is and takes no more orders
LOW_STATES = 4  # once this many in a row say so, or the last before a silence: a single one may be wrong
OUT_OF_POWER = "the battery is empty, so the drone lands; charge it"
TOO_LOW = "the battery is too low to take off; charge it"
LOST = (
    "the drone flew where it was not told to, or unseen, so where it is is not known; land it, put it at home and "
    "restart its node, or send a world with its pose to a node that has allow_world"
)
UNSEEN = "nothing is received from the drone, so what it does is not known"
STRAYING_STATES = 4  # once this many show it moving without a command, it is told to stop
LAND_AGAIN_S = 3.0  # an order to land that got lost
ATTENTION_S = 1.0
CLEAR_M = 2 * FALLEN_M  # of the floor for certain, wherever it hovers then
HEIGHT_ERROR_M = 0.1  # of a drone that hovers: its state counts decimetres
LANDED_AFTER_S = 1.0  # on the floor for this long, it has landed, whatever made it land


@dataclass(slots=True)
class _Halt:
    """An order to hover that is not known to be obeyed.

    A take-off is stopped only once the drone is seen clear of the floor: below, its state is the same whether it hovers
    or stands.
    """

    ends_take_off: bool
    is_sent: bool = False


class TelloDriver(MapSight, TrackMemory):
    """Executes one call at a time (a ``SkillDriver``), in ticks. Times are those of the robot node's clock.

    A motion that fails or is halted leaves the drone hovering where the duration model says it got to.

    Args:
        model: Of the drone.
        line: To the drone, in SDK mode and with its speed set.
        pose: Where the drone is.
        speed_cm_s: What the drone was told.
    """

    def __init__(self, model: RobotModel, line: TelloLine, *, pose: Pose, speed_cm_s: int) -> None:
        self._model = model
        self._line = line
        self._speed_cm_s = speed_cm_s
        self._epoch_s = 0.0  # time of the line at the driver's time 0
        self._body = self._body_at(pose, World())
        self._course: Course | None = None
        self._motions: deque[Motion] = deque()  # of the course, not begun yet
        self._legs: deque[Leg] = deque()  # of the motion that has begun
        self._leg: Leg | None = None  # in flight
        self._leg_start_s: float | None = None  # None until its command is sent
        self._latency_s = 0.0
        self._halt: _Halt | None = None
        self._waiting: SkillCall | None = None  # until the drone hovers
        self._is_stopping = False
        self._result = SkillResult(SkillStatus.SUCCEEDED)
        self._track = Track(pose)
        self._floor_since_s: float | None = None
        self._has_landed = pose.z_m == 0.0  # for certain: a height of 0 may be that of a drone that hovers low
        self._may_stand = False  # it said that it has landed, and its state shows a height: that of a table, perhaps
        self._is_landing = False  # the command in flight is to land
        self._is_lost = False  # it flew where it was not told to, or unseen, or did not stop
        self._is_out_of_power = False  # then it only lands
        self._land_again_s = self._calm_s = float("-inf")

    @property
    def model(self) -> RobotModel:
        """The robot's model."""
        return self._model

    @property
    def world(self) -> World:
        """The map."""
        return self._body.world

    @property
    def state(self) -> BodyState:
        """Where it is by dead reckoning, as of the last tick; texts said."""
        return self._body.state

    @property
    def battery_share(self) -> float | None:
        """What is left in the battery, by the last state that was received."""
        state = self._line.telemetry.last
        return None if state is None else state.battery_percent / 100.0

    def enter(self, world: World, pose: Pose | None, epoch_s: float) -> None:
        """Takes another world for its map; the drone hovers where it is, and its time starts at 0.

        Args:
            world: The map: objects and where they are.
            pose: Where the drone is, if the caller knows better than the drone, except for its height.
            epoch_s: Time of the line now.
        """
        self.halt(epoch_s - self._epoch_s)
        here = self._body.state.pose
        if pose is not None:
            here, self._is_lost = replace(pose, z_m=here.z_m), False
        self._body, self._epoch_s = self._body_at(here, world), epoch_s
        self._track = Track(here)
        self._floor_since_s = None
        self._land_again_s = float("-inf")

    @property
    def target(self) -> Pose | None:
        """Where the present motion leads; None while it stands."""
        motions = self._course.motions if self._course is not None else ()
        return motions[-1].end if motions and self._result.status is SkillStatus.RUNNING else None

    def start(self, call: SkillCall, now_s: float) -> None:
        """Begins a call. Raises RuntimeError if one is running: drivers are told one thing at a time."""
        if self._result.status is SkillStatus.RUNNING:
            raise RuntimeError(f"{call.name} started while another skill runs")
        self._poll(now_s)
        self._result = SkillResult(SkillStatus.RUNNING)
        self._try_to_begin(call, now_s)

    def tick(self, now_s: float) -> SkillResult:
        """Goes on with the call and returns how it stands."""
        self._poll(now_s)
        self._mind_battery(now_s)
        if self._result.status is SkillStatus.RUNNING and self._leg is None:
            self._go_on(now_s)
        return self._result

    def halt(self, now_s: float) -> None:
        """Makes the drone hover at once: past the command in flight, again and again until it is seen hovering."""
        if self._result.status is not SkillStatus.RUNNING:
            return
        line_s = self._epoch_s + now_s
        self._is_lost |= self._line.is_unknown(line_s)
        self._leave(now_s, has_moved=self._line.is_taking_off or self._line.may_have_moved(line_s))
        self._give_up("halted")
        if self._is_stoppable:
            self._hover(now_s)
        elif not self._is_out_of_power:
            self._line.withdraw()

    def attend(self, now_s: float) -> float:
        """Keeps a drone in the air that is told nothing, and lands it while the battery still can.

        Only the robot's own loop calls this: where that loop has ended, nothing is sent, and the drone lands by itself
        after 15 s. Returns after how many seconds to be called again.
        """
        self._poll(now_s)
        self._notice_landing(now_s)
        self._notice_straying(now_s)
        self._mind_battery(now_s)
        self._line.keep_alive(self._epoch_s + now_s)
        return ATTENTION_S

    def _poll(self, now_s: float) -> None:
        """Reads what came, and concludes where the drone is."""
        self._line.poll(self._epoch_s + now_s)
        self._see_landing()
        self._see_halt_through(now_s)
        if self._result.status is SkillStatus.RUNNING and self._leg is not None:
            self._follow(self._leg, now_s)

    def _hover(self, now_s: float) -> None:
        """Orders the drone to hover."""
        is_again = self._halt is not None and self._halt.ends_take_off
        self._halt = _Halt(ends_take_off=is_again or self._line.is_taking_off)
        self._see_halt_through(now_s)

    def _see_halt_through(self, now_s: float) -> None:
        halt, state = self._halt, self._line.telemetry.last
        if halt is None:
            return
        if not halt.is_sent:
            is_clear = state is not None and state.height_m >= CLEAR_M
            if is_clear or not self._line.is_taking_off:
                halt.is_sent, self._is_landing = True, False
                self._line.interrupt(tello_commands.stop(), self._epoch_s + now_s)
        elif not self._line.is_busy:
            self._halt = None
            if not self._line.ending.is_success:
                self._is_lost = True
            elif halt.ends_take_off:
                height_m = state.height_m if state is not None and self._is_seen_flying else 0.0
                self._put(replace(self._body.state.pose, z_m=height_m), now_s)

    def _mind_battery(self, now_s: float) -> None:
        """Lands between two commands, once the battery is low; what has landed with more in it is free again."""
        are_low = [state.battery_percent <= RESERVE_PERCENT for state in self._line.telemetry.newest(LOW_STATES)]
        if self._has_landed:
            self._is_out_of_power = self._is_out_of_power and any(are_low)
            return
        is_blind = self._line.telemetry.age_s(self._epoch_s + now_s) >= BLIND_S
        num_needed = 1 if is_blind else LOW_STATES
        is_low = len(are_low) >= num_needed and all(are_low[:num_needed])
        if self._line.is_busy or now_s < self._land_again_s or not (is_low or self._is_out_of_power):
            return
        self._is_out_of_power, self._land_again_s = True, now_s + LAND_AGAIN_S
        if self._result.status is SkillStatus.RUNNING:
            self._give_up(OUT_OF_POWER)
        self._send(tello_commands.land_at_once(), now_s)

    def _body_at(self, pose: Pose, world: World) -> MobileBody:
        return MobileBody(self._model, world, random.Random(0), pose)  # its noise is not used: the drone has its own

    def _try_to_begin(self, call: SkillCall, now_s: float) -> None:
        try:
            self._begin(call, now_s)
        except SkillFailedError as failure:
            self._result = failed(failure)

    def _begin(self, call: SkillCall, now_s: float) -> None:
        skill = self.model.skills.get(call.name)
        if skill is None:
            raise PermanentFailureError(f"there is no skill {call.name}")
        problem = argument_problem(skill, call.arguments)
        if problem:
            raise SkillFailedError(problem)
        if isinstance(skill.effect, UNSUPPORTED):
            raise PermanentFailureError("this driver does not read the drone's camera")
        if isinstance(skill.effect, Stop) and self._is_stoppable:
            self._is_stopping = True
            self._hover(now_s)
            return
        if self._halt is not None:
            self._waiting = call
            return
        self._fly(skill, call, now_s)

    def _fly(self, skill: Skill, call: SkillCall, now_s: float) -> None:
        if not isinstance(skill.effect, Stop | Land):
            self._require_fit(skill)
        if isinstance(skill.effect, TakeOff) and self._may_stand:
            self._put(replace(self._body.state.pose, z_m=0.0), now_s)
        self._course = course = self._body.plan(Job(skill, call.arguments, now_s))
        if isinstance(skill.effect, Land):
            self._legs.extend(self._landing(course, now_s))
            return
        if course.motions and self._line.telemetry.age_s(self._epoch_s + now_s) >= STALE_S:
            raise SkillFailedError(UNSEEN)
        if isinstance(skill.effect, TakeOff):
            self._legs.extend(map(tello_commands.take_off, course.motions))
        else:
            self._require_flyable(skill, course)
            self._motions.extend(course.motions)
            self._latency_s = course.motions[0].start_s - now_s if course.motions else 0.0

    def _landing(self, course: Course, now_s: float) -> Iterator[Leg]:
        """Returns the order to land, unless it has landed: where it was only seen that low, it may hover."""
        here = self._body.state.pose
        where_it_is = () if self._has_landed else (Motion(now_s, now_s + LANDED_AFTER_S, here, here),)
        return map(tello_commands.land, course.motions if self._is_off_the_floor else where_it_is)

    def _require_fit(self, skill: Skill) -> None:
        """Refuses to fly on an empty battery, or where the drone is lost."""
        state = self._line.telemetry.last
        if self._is_out_of_power:
            raise PermanentFailureError(OUT_OF_POWER)
        if isinstance(skill.effect, TakeOff) and state is not None and state.battery_percent <= RESERVE_PERCENT:
            raise PermanentFailureError(TOO_LOW)
        if self._is_lost:
            raise PermanentFailureError(LOST)

    def _require_flyable(self, skill: Skill, course: Course) -> None:
        """Refuses an amount that a Tello does not fly, and a way up or down for which its height leaves no room."""
        fence, state = self._model.geofence, self._line.telemetry.last
        if isinstance(skill.effect, Translate) and any(map(tello_commands.is_too_short, course.motions)):
            raise SkillFailedError(f"a Tello flies no way below {tello_commands.LEAST_CM} cm")
        if not course.motions or fence is None or state is None:
            return
        risen_m = course.motions[-1].end.z_m - course.motions[0].begin.z_m
        end_m = state.height_m + risen_m
        is_too_low = risen_m < 0.0 and end_m < fence.z_m[0] - HEIGHT_ERROR_M
        if is_too_low or (risen_m > 0.0 and end_m > fence.z_m[1] + HEIGHT_ERROR_M):
            way = f"would {'sink' if is_too_low else 'rise'} by {abs(risen_m):.2f} m and leave the geofence"
            raise SkillFailedError(f"{way}: the drone reports a height of {state.height_m:.2f} m")

    @property
    def _is_seen_flying(self) -> bool:
        state = self._line.telemetry.last
        return state is not None and state.height_m > FALLEN_M

    @property
    def _is_off_the_floor(self) -> bool:
        return self._body.state.pose.z_m > 0.0 or self._is_seen_flying

    @property
    def _is_stoppable(self) -> bool:
        """Whether to tell it to hover: not where it has landed, and not while it must land."""
        return not self._has_landed and not self._is_out_of_power

    def _go_on(self, now_s: float) -> None:
        """Sends the next command of the call, or ends it."""
        if self._halt is not None:
            return
        if self._is_stopping:
            self._finish_stop()
        elif self._waiting is not None:
            call, self._waiting = self._waiting, None
            self._try_to_begin(call, now_s)
        elif self._line.is_busy:  # it lands, because the battery is low
            return
        elif self._legs:
            self._leg, self._leg_start_s = self._legs.popleft(), None
            self._send(self._leg.command, now_s)
            self._note_sent()
        elif self._motions:
            motion, begin = self._motions.popleft(), self._body.state.pose
            self._legs.extend(tello_commands.legs(motion, begin, self._speed_cm_s, self._latency_s))
            self._go_on(now_s)
        elif self._course is not None and (self._course.motions or now_s >= self._course.end_s):
            self._finish(self._course)

    def _send(self, command: Command, now_s: float) -> None:
        self._is_landing = command.proof is Proof.LANDED
        self._has_landed = self._may_stand = False
        self._line.begin(command, self._epoch_s + now_s)

    def _see_landing(self) -> None:
        """Notes what came of an order to land, once that is known."""
        if self._is_landing and not self._line.is_busy:
            ending, self._is_landing = self._line.ending, False
            self._has_landed, self._may_stand = ending.is_success, ending.is_answered and not ending.is_success

    def _finish(self, course: Course) -> None:
        self._course = None
        try:
            self._result = SkillResult(SkillStatus.SUCCEEDED, course.finish())
        except SkillFailedError as failure:
            self._result = failed(failure)

    def _finish_stop(self) -> None:
        self._is_stopping, ending = False, self._line.ending
        status = SkillStatus.SUCCEEDED if ending.is_success else SkillStatus.FAILED
        self._result = SkillResult(status, reason=ending.reason)

    def _follow(self, leg: Leg, now_s: float) -> None:
        """Reckons where the drone is while a command is in flight, and goes on when it has ended."""
        if self._line.is_busy:
            self._estimate(now_s, has_moved=True)
            return
        ending = self._line.ending
        stands = leg.command.proof is Proof.LANDED and ending.is_refused and not self._is_off_the_floor
        if not (ending.is_success or stands):
            self._is_lost |= ending.is_unknown
            self._leave(now_s, has_moved=ending.has_moved)
            self._give_up(ending.reason)
            return
        self._leg = None
        self._put(self._end_of(leg), now_s)

    def _give_up(self, reason: str) -> None:
        self._leg, self._course, self._waiting, self._is_stopping = None, None, None, False
        self._legs.clear()
        self._motions.clear()
        self._result = SkillResult(SkillStatus.FAILED, reason=reason, is_permanent=reason in (OUT_OF_POWER, LOST))

    def _leave(self, now_s: float, *, has_moved: bool) -> None:
        """Puts the drone where a command that is given up leaves it: a take-off goes on to its end."""
        self._estimate(now_s, has_moved=has_moved)
        leg = self._leg
        if leg is not None and leg.command.proof is Proof.FLYING and has_moved and self._leg_start_s is not None:
            self._put(self._end_of(leg), now_s)

    def _end_of(self, leg: Leg) -> Pose:
        """Returns where a command leads: a take-off to the height at which the drone is seen hovering."""
        states, end = self._line.telemetry.since(float("-inf")), leg.motion.end
        has_risen = leg.command.proof is Proof.FLYING and self._is_seen_flying and is_steady(states)
        return replace(end, z_m=states[-1].height_m) if has_risen else end

    def _estimate(self, now_s: float, *, has_moved: bool) -> None:
        """Puts the drone where the duration model says that the command in flight has brought it."""
        self._note_sent()
        if self._leg is not None:
            motion, start_s = self._leg.motion, self._leg_start_s
            self._put(motion.begin if start_s is None or not has_moved else motion.pose_at(now_s - start_s), now_s)

    def _note_sent(self) -> None:
        """Notes when the command of a leg has left: it waits for its turn."""
        if self._leg_start_s is None and self._line.sent_s is not None:
            self._leg_start_s = self._line.sent_s - self._epoch_s

    def _put(self, pose: Pose, now_s: float) -> None:
        if pose != self._body.state.pose:
            self._body.state.pose = pose
            self._track.note(now_s, pose)

    def _notice_landing(self, now_s: float) -> None:
        """Believes the state stream if a drone that should fly stays on the floor: it lands without being told, too."""
        is_blind = self._line.telemetry.age_s(self._epoch_s + now_s) >= BLIND_S
        is_down = not is_blind and not self._is_seen_flying and self._body.state.pose.z_m > FALLEN_M
        if not is_down or self._leg is not None or self._halt is not None:
            self._floor_since_s = None
        elif self._floor_since_s is None:
            self._floor_since_s = now_s
        elif now_s - self._floor_since_s >= LANDED_AFTER_S:
            self._put(replace(self._body.state.pose, z_m=0.0), now_s)

    def _notice_straying(self, now_s: float) -> None:
        """Stops a drone that flies though nothing was asked of it: a command may have come after its own ``stop``."""
        line_s = self._epoch_s + now_s
        if self._line.is_busy or self._is_out_of_power or not self._is_off_the_floor:
            self._calm_s = line_s
            return
        moving = [
            state.speed_dm_s >= MOVING_DM_S for state in self._line.telemetry.since(self._calm_s)[-STRAYING_STATES:]
        ]
        if len(moving) < STRAYING_STATES or not all(moving):
            return
        self._is_lost = True
        self._give_up(LOST)
        self._is_landing = False
        self._line.interrupt(tello_commands.stop(), line_s)
