# SPDX-License-Identifier: Apache-2.0
"""One physical world for a fleet: it owns the state, steps MuJoCo at 500 Hz, and obeys the drivers' set points.

Time is its own: ``advance`` brings it to where a caller wants it, in virtual time (tests, profiling, encounters) or
behind a clock (``physics.server``). The same seed and the same orders at the same times give the same run.
"""

import math
import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.shape import ChainBody, QuadrotorBody
from llm_planner.sim.physics.arms import Arm, ArmRig, sweep
from llm_planner.sim.physics.drones import Drone, DroneFleet
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.inverse import ChainKinematics
from llm_planner.sim.physics.reference import hold
from llm_planner.sim.physics.scene import STEP_S, Scene
from llm_planner.sim.physics.things import Thing

Vector = NDArray[np.float64]
CONTROL_STEPS = 2  # control at 250 Hz
WIND_EVERY_S, WIND_MEMORY_S = 0.02, 2.0
AGAIN_S = 0.5  # the same two are reported again after this time
MAX_COLLISIONS, MAX_TOUCHED = 10_000, 1000  # remembered


@dataclass(frozen=True, slots=True)
class Collision:
    """A robot touched something that it should not have.

    Attributes:
        other: Name of what it touched; ``floor`` for the floor.
        speed_m_per_s: Of the robot when it was noticed.
    """

    time_s: float
    robot: str
    other: str
    speed_m_per_s: float


class PhysicsWorld:
    """Robots and things. Everything in world coordinates; ``physics.port`` speaks each robot's own.

    Args:
        wind_m_per_s: Standard deviation of the wind along x and along y; it changes within seconds.
        seed: Of wind, latencies and drift.

    Attributes:
        collisions: The last ones, in order.
        num_collisions: How many there have been.
        pictures: Directory that drones' pictures are written to; None for no pictures.
    """

    def __init__(self, *, wind_m_per_s: float = 0.3, seed: int = 0) -> None:
        self.scene = Scene()
        self.collisions: deque[Collision] = deque(maxlen=MAX_COLLISIONS)
        self.num_collisions = 0
        self.pictures: Path | None = None
        self.drones: dict[str, Drone] = {}
        self.arms: dict[str, Arm] = {}
        self._rigs: dict[str, ArmRig] = {}
        self._wind, self._rng = wind_m_per_s, random.Random(seed)
        self._seed = seed
        self._num_steps = 0
        self._touched_s: dict[tuple[str, str], float] = {}
        self._link()

    @property
    def time_s(self) -> float:
        """Since the world began."""
        return self._num_steps * STEP_S

    @property
    def robots(self) -> tuple[str, ...]:
        """Names of all robots."""
        return (*self.drones, *self.arms)

    def add_robot(self, name: str, model: RobotModel, home: Home) -> None:
        """Puts a robot at its home: a drone on the floor, an arm with its tool at the model's start pose.

        Raises:
            PlannerError: DUPLICATE_NODE if the name is taken, INVALID_ROBOT_MODEL if the model has no body.
        """
        if name in self.robots:
            raise PlannerError(ErrorCode.DUPLICATE_NODE, f"{name} has a body in this world already; use another name")
        shape = model.body
        rng = random.Random(f"{self._seed}/{name}")
        if isinstance(shape, QuadrotorBody):
            self.scene.add_robot(name, shape, home)
            self.drones[name] = Drone(name, shape, home, rng)
        elif isinstance(shape, ChainBody):
            self.scene.add_robot(name, shape, home)
            chain = ChainKinematics(shape)
            self.arms[name] = Arm(
                name, shape, home, chain, sweep(shape, chain.home, chain.home, 0.0), joints=chain.home
            )
        else:
            raise PlannerError(
                ErrorCode.INVALID_ROBOT_MODEL, f"robot model {model.name} has no body; add one (docs/physics.md)"
            )
        self._link()
        if name in self.arms:
            self.pose_arm(name, model.start)
        else:
            self.hover(name, Pose())
        self.scene.require_apart([name])

    def change(self, *, take: Iterable[Thing] = (), put: Sequence[Thing] = ()) -> None:
        """Takes things out and puts others in.

        Raises:
            PlannerError: INVALID_CONFIG if something that comes overlaps anything; then nothing came.
        """
        hands = [f"{arm.name}/{arm.shape.joints[-1].name}" for arm in self.arms.values()]
        self.scene.change(take=take, put=put, hands=hands)
        try:
            self.scene.require_apart([thing.body for thing in put if thing.is_solid])
        except PlannerError:
            self.scene.change(take=put)
            raise
        finally:
            self._link()

    def hover(self, name: str, pose: Pose) -> None:
        """Puts a drone somewhere at once, at rest: flying if the pose is above the floor, else standing there."""
        drone = self.drones[name]
        is_flying = pose.z_m > 0.0
        height_m = pose.z_m if is_flying else drone.shape.link.radius_m / 4.0
        at_m = drone.home.to_world((pose.x_m, pose.y_m, height_m))
        self._fleet.put(self.scene.data, drone, at_m, math.radians(pose.yaw_deg + drone.home.yaw_deg))
        drone.is_armed, drone.is_landing, drone.is_crashed, drone.armed_at_s = is_flying, False, False, self.time_s
        drone.drift, drone.yaw_drift, drone.battery, drone.rested_s = np.zeros(3), 0.0, 1.0, 0.0
        drone.path = hold(drone.position, drone.yaw)
        self.scene.mujoco.mj_forward(self.scene.model, self.scene.data)

    def pose_arm(self, name: str, tool: Pose) -> None:
        """Puts an arm's tool somewhere at once, at rest; where it cannot be, the joints stand at home."""
        arm = self.arms[name]
        joints = arm.chain.joints((tool.x_m, tool.y_m, tool.z_m), arm.chain.home)
        self._rigs[name].place(self.scene.data, arm.chain.home if joints is None else joints)
        self.scene.mujoco.mj_forward(self.scene.model, self.scene.data)

    def advance(self, until_s: float) -> None:
        """Steps until the world's time is ``until_s``; does nothing if it is later already."""
        scene, step = self.scene, self.scene.mujoco.mj_step
        while (self._num_steps + 1) * STEP_S <= until_s + 1e-9:
            if self._num_steps % CONTROL_STEPS == 0:
                self._control()
            step(scene.model, scene.data)
            self._num_steps += 1

    def tool_m(self, name: str) -> Vector:
        """Returns where an arm's tool is, in the world."""
        return self._rigs[name].tool_m(self.scene.data)

    def grip(self, name: str, *, is_open: bool) -> str | None:
        """Opens or closes a gripper; returns the body that it then holds: what its tip touches is welded to it."""
        arm, rig, scene = self.arms[name], self._rigs[name], self.scene
        arm.is_open = is_open
        if is_open:
            if arm.held is not None:
                scene.data.eq_active[self._weld(arm, arm.held)] = 0
                arm.held = None
            rig.close_fingers(arm.shape.tool.opening_m.value)
            return None
        if arm.held is None:
            arm.held = self._touched_by(rig)
            if arm.held is not None:
                rig.weld(scene.data, self._weld(arm, arm.held), scene.model.body(arm.held).id)
        held = scene.things.get(arm.held or "")
        rig.close_fingers(min(held.known.size_m[:2]) if held else 0.0)
        return arm.held

    def _weld(self, arm: Arm, body: str) -> int:
        return int(self.scene.model.equality(f"{arm.name}/{arm.shape.joints[-1].name}>{body}").id)

    def _touched_by(self, rig: ArmRig) -> str | None:
        """Returns the body of a loose thing that the tip of a gripper touches, unless it is too heavy to be held."""
        for one, other in self.scene.data.contact.geom[: self.scene.data.ncon]:
            if rig.tip in (one, other):
                geom = int(other if one == rig.tip else one)
                thing = self.scene.things.get(self.scene.model.body(int(self.scene.model.geom_bodyid[geom])).name)
                if thing is not None and thing.is_loose:
                    mass_kg = float(self.scene.model.body(thing.body).mass[0])
                    return thing.body if mass_kg <= rig.arm.shape.tool.payload_kg.value else None
        return None

    def _link(self) -> None:
        """Looks numbers up again after the model has changed."""
        scene = self.scene
        self._fleet = DroneFleet(scene.mujoco, scene.model, list(self.drones.values()))
        if self.drones:
            self._fleet.read(scene.data)
        self._rigs = {name: ArmRig(scene.mujoco, scene.model, arm) for name, arm in self.arms.items()}
        tips = {rig.tip for rig in self._rigs.values()}
        model, robots = scene.model, set(self.robots)
        roots = [model.body(int(root)).name for root in model.body_rootid[model.geom_bodyid]]
        self._owners = [root if root in robots and g not in tips else "" for g, root in enumerate(roots)]
        self._is_robot = np.array([bool(owner) for owner in self._owners], dtype=bool)
        self._walkers = [
            (thing.walk, int(model.body_mocapid[model.body(thing.body).id]))
            for thing in scene.things.values()
            if thing.walk is not None
        ]

    def _control(self) -> None:
        now_s, data = self.time_s, self.scene.data
        if self._num_steps % round(WIND_EVERY_S / STEP_S) == 0:
            self._blow()
        for walk, mocap in self._walkers:
            data.mocap_pos[mocap] = walk.at(now_s)[0]
        self._fleet.control(data, now_s, CONTROL_STEPS * STEP_S)
        for rig in self._rigs.values():
            rig.control(data, now_s)
        if data.ncon and self._is_robot.any():
            self._notice_contacts(now_s)

    def _blow(self) -> None:
        """Lets the wind change: an Ornstein-Uhlenbeck process along x and y."""
        keep = math.exp(-WIND_EVERY_S / WIND_MEMORY_S)
        spread = self._wind * math.sqrt(1.0 - keep**2)
        wind = self.scene.model.opt.wind
        for axis in (0, 1):
            wind[axis] = keep * wind[axis] + spread * self._rng.gauss(0.0, 1.0)

    def _notice_contacts(self, now_s: float) -> None:
        geoms = self.scene.data.contact.geom[: self.scene.data.ncon]
        for one, other in geoms[self._is_robot[geoms].any(axis=1)]:
            for robot, partner in ((self._owners[one], int(other)), (self._owners[other], int(one))):
                if robot and self._owners[partner] != robot:
                    self._notice(robot, partner, now_s)

    def _notice(self, robot: str, geom: int, now_s: float) -> None:
        """Takes note that a robot touches a geom, unless it is meant to."""
        drone, speed = self.drones.get(robot), 0.0
        if drone is not None:
            if drone.is_landing:
                drone.touch_down(self._name_of(geom))
            is_starting = now_s - drone.armed_at_s < 2.0 * drone.shape.flight.latency_s.value + 0.5
            if not drone.is_armed or (is_starting and self._name_of(geom) in ("floor", drone.stands_on)):
                return
            speed = float(np.linalg.norm(drone.velocity))
        other = self._name_of(geom)
        if self.arms.get(robot) is not None and self.arms[robot].held == other:
            return
        if now_s - self._touched_s.get((robot, other), -math.inf) > AGAIN_S:
            self.collisions.append(Collision(now_s, robot, other, speed))
            self.num_collisions += 1
        if len(self._touched_s) > MAX_TOUCHED:
            self._touched_s = {pair: at_s for pair, at_s in self._touched_s.items() if now_s - at_s <= AGAIN_S}
        self._touched_s[robot, other] = now_s

    def collisions_since(self, number: int) -> list[Collision]:
        """Returns the collisions but for the first ``number`` ones, as far as they are remembered."""
        num_forgotten = self.num_collisions - len(self.collisions)
        return list(islice(self.collisions, max(0, number - num_forgotten), None))

    def _name_of(self, geom: int) -> str:
        """Returns what a geom belongs to: a robot, the body of a thing, or the floor."""
        if self._owners[geom]:
            return self._owners[geom]
        name: str = self.scene.model.body(int(self.scene.model.geom_bodyid[geom])).name
        return "floor" if name == "world" else name
