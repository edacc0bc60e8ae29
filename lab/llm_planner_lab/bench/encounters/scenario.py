# SPDX-License-Identifier: Apache-2.0
"""Encounters: where a drone flies, and what comes into its way from where. One seed, one encounter."""

import math
import random
from dataclasses import dataclass

from llm_planner.robots.world import WorldObject
from llm_planner.sim.physics.port import LOOK_S, NUM_LOOKS
from llm_planner_lab.bench.encounters.kinds import Begin, Kind

SPEEDS_M_PER_S = (1.0, 2.0)
AIM = 0.4  # standard deviation by which a mover misses the middle of the drone, of its width: 0.2 m for a person
BEYOND_M = 4.0  # the mover goes on this far behind the meeting point
CRUISE_M_PER_S, DELAY_S = 0.85, 0.5  # of the drone that is to be met
LOOKS_AROUND_S = NUM_LOOKS * LOOK_S  # before it takes its errand; the person walks meanwhile
FARTHEST_CM = 500  # of an errand: the most that the skill takes

NEAR_MEETING_S = (3.0, 4.5)  # after the start
NEAREST_M = 3.0  # no mover begins nearer to the meeting point; it may begin nearer to a drone that flies there
FAR_MEETING_S = (3.0, 6.5)
OUTSIDE_M = 5.5  # no mover begins nearer to the drone, whose range finders reach 5 m


@dataclass(frozen=True, slots=True, kw_only=True)
class Comer:
    """One kind.

    Attributes:
        name: As one speaks of it.
        height_m: Of its middle.
    """

    name: str
    size_m: tuple[float, float, float]
    height_m: float


COMERS = {
    Kind.PERSON: Comer(name="person", size_m=(0.5, 0.5, 1.75), height_m=0.875),
    Kind.ANIMAL: Comer(name="bird", size_m=(0.4, 0.4, 0.2), height_m=1.0),
    Kind.BALL: Comer(name="ball", size_m=(0.22, 0.22, 0.22), height_m=1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encounter:
    """One encounter, in the frame of a drone that hovers at home.

    Attributes:
        errand: What the drone does when it begins, in MiniSpec.
        comer: What comes, as a thing of the world.
        begins_m: How far its middle is from the drone then.
        ends_s: When it has gone to the end.
    """

    seed: int
    kind: Kind
    begin: Begin
    errand: str
    comer: WorldObject
    begins_m: float
    ends_s: float


def draw_encounter(seed: int, kind: Kind = Kind.PERSON, begin: Begin = Begin.NEAR) -> Encounter:
    """Returns an encounter: half of the drones (even seeds) fly straight ahead, half of them hover."""
    is_near, is_flying = begin is Begin.NEAR, seed % 2 == 0
    rng = random.Random(f"encounter/{seed}" if is_near else f"encounter/{begin.value}/{seed}")
    meet_s, speed, bearing = _near(rng) if is_near else _far(rng, is_flying=is_flying)
    meet_x = _met_m(meet_s) if is_flying else 0.0
    c, s = math.cos(bearing), math.sin(bearing)
    comer = COMERS[kind]
    aside = rng.gauss(0.0, AIM * comer.size_m[0])
    x, y = meet_x + speed * meet_s * c - aside * s, speed * meet_s * s + aside * c
    ends_s = meet_s + BEYOND_M / speed
    thing = WorldObject(
        name=comer.name,
        kind=comer.name,
        position_m=(x, y, comer.height_m),
        size_m=comer.size_m,
        velocity_m_per_s=(-speed * c, -speed * s, 0.0),
        moves_for_s=ends_s,
    )
    errand = f"mf({min(FARTHEST_CM, _errand_cm(meet_s))});" if is_flying else "d(20);"
    return Encounter(
        seed=seed,
        kind=kind,
        begin=begin,
        errand=errand,
        comer=thing,
        begins_m=math.hypot(x, y),
        ends_s=ends_s,
    )


def _near(rng: random.Random) -> tuple[float, float, float]:
    """Returns when they meet, how fast the mover comes, and from where."""
    meet_s, speed = rng.uniform(*NEAR_MEETING_S), rng.uniform(*SPEEDS_M_PER_S)
    while speed * meet_s < NEAREST_M + 1.0:
        meet_s, speed = rng.uniform(*NEAR_MEETING_S), rng.uniform(*SPEEDS_M_PER_S)
    return meet_s, speed, rng.uniform(-math.pi, math.pi)


def _far(rng: random.Random, *, is_flying: bool) -> tuple[float, float, float]:
    """Returns the same; every direction is as likely, and speed and time are drawn until the mover begins far away.

    So a mover that overtakes a drone is fast.
    """
    bearing = rng.uniform(-math.pi, math.pi)
    while True:
        meet_s, speed = rng.uniform(*FAR_MEETING_S), rng.uniform(*SPEEDS_M_PER_S)
        meet_x = _met_m(meet_s) if is_flying else 0.0
        begins_m = math.hypot(meet_x + speed * meet_s * math.cos(bearing), speed * meet_s * math.sin(bearing))
        if begins_m >= OUTSIDE_M and (not is_flying or _errand_cm(meet_s) <= FARTHEST_CM):
            return meet_s, speed, bearing


def _met_m(meet_s: float) -> float:
    """Returns how far a drone that flies has come then."""
    return CRUISE_M_PER_S * (meet_s - DELAY_S - LOOKS_AROUND_S)


def _errand_cm(meet_s: float) -> int:
    """Returns how far it has to fly so that it still flies then."""
    return round(100 * CRUISE_M_PER_S * (meet_s + 1.0))
