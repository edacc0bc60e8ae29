"""Encounters: where a drone flies, and who walks into its way from where. One seed, one encounter."""

import math
import random
from dataclasses import dataclass

from llm_planner.physics.port import LOOK_S, NUM_LOOKS
from llm_planner.robots.world import WorldObject

PERSON_M = (0.5, 0.5, 1.75)
SPEEDS_M_PER_S = (1.0, 2.0)
MEETING_S = (3.0, 4.5)  # after the start
AIM_M = 0.2  # standard deviation by which somebody misses the middle of the drone
BEYOND_M = 4.0  # somebody walks on for so long behind the meeting point
NEAREST_M = 3.0  # nobody begins nearer
CRUISE_M_PER_S, DELAY_S = 0.85, 0.5  # of the drone that is to be met
LOOKS_AROUND_S = NUM_LOOKS * LOOK_S  # before it takes its errand; the person walks meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Encounter:
    """One encounter, in the frame of a drone that hovers at home.

    Attributes:
        errand: What the drone does when it begins, in MiniSpec.
        ends_s: When the person has walked to the end.
    """

    seed: int
    errand: str
    person: WorldObject
    speed_m_per_s: float
    bearing_deg: float
    ends_s: float


def draw_encounter(seed: int) -> Encounter:
    """Returns an encounter: half of the drones fly straight ahead, half of them hover."""
    rng = random.Random(f"encounter/{seed}")
    is_flying = seed % 2 == 0
    meet_s, speed = rng.uniform(*MEETING_S), rng.uniform(*SPEEDS_M_PER_S)
    while speed * meet_s < NEAREST_M + 1.0:
        meet_s, speed = rng.uniform(*MEETING_S), rng.uniform(*SPEEDS_M_PER_S)
    bearing = rng.uniform(-math.pi, math.pi)  # where the person comes from
    meet_x = CRUISE_M_PER_S * (meet_s - DELAY_S - LOOKS_AROUND_S) if is_flying else 0.0
    c, s = math.cos(bearing), math.sin(bearing)
    aside = rng.gauss(0.0, AIM_M)
    x, y = meet_x + speed * meet_s * c - aside * s, speed * meet_s * s + aside * c
    ends_s = meet_s + BEYOND_M / speed
    person = WorldObject(
        name="person",
        kind="person",
        position_m=(x, y, PERSON_M[2] / 2.0),
        size_m=PERSON_M,
        velocity_m_per_s=(-speed * c, -speed * s, 0.0),
        moves_for_s=ends_s,
    )
    errand = f"mf({min(500, round(100 * CRUISE_M_PER_S * (meet_s + 1.0)))});" if is_flying else "d(20);"
    return Encounter(
        seed=seed,
        errand=errand,
        person=person,
        speed_m_per_s=speed,
        bearing_deg=math.degrees(bearing),
        ends_s=ends_s,
    )
