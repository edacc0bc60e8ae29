# SPDX-License-Identifier: Apache-2.0
"""What one robot notices: things in sight, and what moves near it. It knows nothing of where anything will go."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from llm_planner.robots.model import RobotModel
from llm_planner.robots.shape import Point, QuadrotorBody
from llm_planner.robots.world import WorldObject
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.sight import is_in_sight
from llm_planner.sim.physics.things import Thing
from llm_planner.sim.physics.world import PhysicsWorld

Vector = NDArray[np.float64]
STILL_M_PER_S = 0.08  # slower than that it does not seem to move
MEMORY = 0.5  # weight of the newest speed in the estimate
MOVED = 1e-6  # speed of what has moved and stands now: it may move again
ARM_RANGE_M = 2.0  # an arm knows its table and what comes near it, as if from a camera above
ARM_HZ = 20.0
ENOUGH_SPEEDS = 3  # differences that are needed before a speed is believed
LOST_S = 0.5  # what was not seen for this long is forgotten


class _Trace:
    """Where something was noticed, in the robot's own frame."""

    def __init__(self, seen: WorldObject, now_s: float) -> None:
        self.seen, self.time_s = seen, now_s
        self.velocity = np.zeros(3)
        self.num_speeds = 0
        self.has_moved = False

    def notice(self, seen: WorldObject, now_s: float) -> None:
        """Takes another sighting; the speed is the difference, smoothed."""
        gone_s = now_s - self.time_s
        speed = (np.array(seen.position_m) - np.array(self.seen.position_m)) / gone_s
        weight = MEMORY if self.velocity.any() else 1.0
        self.velocity = weight * speed + (1.0 - weight) * self.velocity
        self.num_speeds += 1
        is_fast = float(np.linalg.norm(self.velocity)) > STILL_M_PER_S
        self.has_moved |= is_fast and self.num_speeds >= ENOUGH_SPEEDS
        self.seen, self.time_s = seen, now_s

    @property
    def found(self) -> WorldObject:
        """As it is now, with its speed."""
        moves = float(np.linalg.norm(self.velocity)) > STILL_M_PER_S
        x, y, z = (float(v) for v in self.velocity)
        return replace(self.seen, velocity_m_per_s=(x, y, z) if moves else (MOVED, 0.0, 0.0))


class Senses:
    """The senses of one robot.

    Args:
        world: Where it is.
        name: Of the robot.
        model: Of the robot.
    """

    def __init__(self, world: PhysicsWorld, name: str, model: RobotModel) -> None:
        self._world, self._name = world, name
        shape = model.body
        self._is_drone = isinstance(shape, QuadrotorBody)
        self._range_m, self._period_s, self._eye_m = ARM_RANGE_M, 1.0 / ARM_HZ, (0.0, 0.0, 0.0)
        if isinstance(shape, QuadrotorBody):
            flight = shape.flight
            self._range_m = flight.proximity_m.value
            self._period_s = 1.0 / flight.proximity_hz.value if flight.proximity_hz.value else math.inf
            self._eye_m = shape.camera_at_m
        self.forget()

    def forget(self) -> None:
        """Begins again."""
        self._traces: dict[str, _Trace] = {}
        self._next_s = -math.inf

    def near(self, now_s: float) -> tuple[WorldObject, ...]:
        """Returns what the robot notices that moves or has moved."""
        if now_s >= self._next_s and self._range_m > 0.0:
            self._next_s = now_s + self._period_s
            self._sweep(now_s)
        return tuple(trace.found for trace in self._traces.values() if trace.has_moved)

    def _sweep(self, now_s: float) -> None:
        for seen in (*self._sightings(self._movable(), self._range_m), *self._others()):
            trace = self._traces.get(seen.name)
            if trace is None:
                self._traces[seen.name] = _Trace(seen, now_s)
            elif now_s > trace.time_s:
                trace.notice(seen, now_s)
        self._traces = {name: trace for name, trace in self._traces.items() if now_s - trace.time_s <= LOST_S}

    def look(self) -> tuple[WorldObject, ...]:
        """Returns what is in sight, with the speed of what is known to move."""
        things = [thing for thing in self._known() if thing.is_solid]
        places = [self._as_seen(t, self._position(t)) for t in self._known() if not t.is_solid]
        seen = [self._with_speed(thing) for thing in self._sightings(things, math.inf)]
        return (*seen, *places, *self._others())

    def survey(self) -> tuple[WorldObject, ...]:
        """Returns everything on the stage as it is."""
        found = []
        for thing in self._known():
            velocity = thing.walk.at(self._world.time_s)[1] if thing.walk else np.zeros(3)
            truth = replace(
                thing.known,
                position_m=self._home.to_robot(self._position(thing)),
                velocity_m_per_s=self._home.turned_back(velocity),
            )
            found.append(truth)
        return tuple(found)

    def _with_speed(self, seen: WorldObject) -> WorldObject:
        trace = self._traces.get(seen.name)
        return seen if trace is None or not trace.has_moved else replace(trace.found, position_m=seen.position_m)

    def _known(self) -> list[Thing]:
        return [thing for thing in self._world.scene.things.values() if thing.owner in ("", self._name)]

    def _movable(self) -> list[Thing]:
        """Returns what may move by itself; what lies on an arm's table is moved by the arm alone."""
        loose = self._is_drone
        return [t for t in self._known() if t.is_solid and (t.walk is not None or (t.is_loose and loose))]

    def _sightings(self, things: list[Thing], range_m: float) -> list[WorldObject]:
        scene, eye, found = self._world.scene, self._eye, []
        own = scene.model.body(self._name).id if self._is_drone else -1
        for thing in things:
            position = self._position(thing)
            near_m = max(0.0, float(np.linalg.norm(position - eye)) - math.hypot(*thing.known.size_m[:2]) / 2.0)
            if near_m > range_m:
                continue
            body = scene.model.body(thing.body).id
            size = thing.known.size_m
            if self._is_drone and not is_in_sight(scene.mujoco, scene.model, scene.data, eye, own, body, size):
                continue
            found.append(self._as_seen(thing, position))
        return found

    def _others(self) -> list[WorldObject]:
        """Returns the other drones in range: they move, and are no things. An arm does not watch drones."""
        found: list[WorldObject] = []
        if not self._is_drone:
            return found
        for drone in self._world.drones.values():
            if drone.name == self._name or float(np.linalg.norm(drone.position - self._eye)) > self._range_m:
                continue
            radius_m = 2.0 * drone.shape.link.radius_m
            seen = WorldObject(
                name=drone.name,
                kind="drone",
                position_m=self._believed(drone.position),
                size_m=(radius_m, radius_m, radius_m / 2.0),
                is_fixed=True,
            )
            found.append(seen)
        return found

    def _as_seen(self, thing: Thing, position: Vector) -> WorldObject:
        return replace(thing.known, position_m=self._believed(position))

    def _believed(self, position: Vector) -> Point:
        """Returns a place of the world where the robot, misled by its odometry, believes it to be."""
        drone = self._world.drones.get(self._name)
        if drone is None:
            return self._home.to_robot(position)
        c, s = math.cos(drone.yaw_drift), math.sin(drone.yaw_drift)
        x, y, z = position - drone.position
        return self._home.to_robot(drone.believed + np.array([c * x - s * y, s * x + c * y, z]))

    def _position(self, thing: Thing) -> Vector:
        scene = self._world.scene
        return np.array(scene.data.xpos[scene.model.body(thing.body).id])

    @property
    def _eye(self) -> Vector:
        drone = self._world.drones.get(self._name)
        if drone is None:
            return self._world.tool_m(self._name)
        c, s = math.cos(drone.yaw), math.sin(drone.yaw)
        x, y, z = self._eye_m
        eye: Vector = drone.position + np.array([c * x - s * y, s * x + c * y, z])
        return eye

    @property
    def _home(self) -> Home:
        robots = self._world.drones | self._world.arms
        return robots[self._name].home
