# SPDX-License-Identifier: Apache-2.0
"""Execution-time models as data: how long a skill takes, and how we know."""

from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Discriminator

from llm_planner.robots.record import Record, require

NUM_SAMPLES = 33  # of a polynomial, to bound it


class Source(Enum):
    """Where a number comes from."""

    MEASURED = "measured"  # on the robot itself, by the author of the file
    SIMULATED = "simulated"  # in a physical simulation, by `llm-planner robots profile`
    PUBLISHED = "published"  # in a paper, its artifact or a data sheet
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Record):
    """A number >= 0 and its source."""

    value: float
    source: Source

    def __post_init__(self) -> None:
        require(self.value >= 0, "value must be >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise(Record):
    """Log-normal extra time with the given median and the standard deviation ``sigma`` of its logarithm."""

    median_s: float
    sigma: float
    source: Source

    def __post_init__(self) -> None:
        require(self.median_s > 0 and 0 < self.sigma <= 3, "median_s must be > 0 and sigma in (0, 3]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Travel(Record):
    """What no argument tells of a motion, before it happened: how far in metres or degrees, or how long in seconds."""

    minimum: float
    p50: float
    p90: float
    source: Source

    def __post_init__(self) -> None:
        require(0 <= self.minimum <= self.p50 <= self.p90, "0 <= minimum <= p50 <= p90 must hold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trapezoid(Record):
    """``latency_s + trap(distance; speed, acceleration) + noise``: accelerate, cruise, brake.

    Speed is in m/s for translations and degrees/s for turns, acceleration per second of that. The distance is the
    skill's number argument; ``travel`` stands in where no argument tells it. ``num_samples`` says how many calls it was
    fitted to, here as in the other models; None for what was not.
    """

    kind: Literal["trapezoid"] = "trapezoid"
    latency_s: Parameter
    speed: Parameter
    acceleration: Parameter
    noise: Noise | None = None
    travel: Travel | None = None
    num_samples: int | None = None

    def __post_init__(self) -> None:
        require(self.speed.value > 0 and self.acceleration.value > 0, "speed and acceleration must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnThenMove(Record):
    """One trapezoid of degrees after another of metres (``goto``)."""

    kind: Literal["turn_then_move"] = "turn_then_move"
    turn: Trapezoid
    move: Trapezoid


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeps(Record):
    """``latency_s + moving + noise``: for an arm, whose joints move together from rest to rest, a few times per call.

    For how long they move follows from the body's limits once it is known where tool and things are; a caller that does
    not know counts with ``moving_s``. The latency is all the rest: orders, the gripper, coming to rest.
    """

    kind: Literal["sweeps"] = "sweeps"
    latency_s: Parameter
    moving_s: Travel
    noise: Noise
    num_samples: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Polynomial(Record):
    """``c0 + c1 n + c2 n^2 + ...`` seconds of the number argument ``n`` in its own unit, plus noise.

    A constant has one coefficient. The value must not be negative within the argument's limits: ``Skill`` checks that.
    """

    kind: Literal["polynomial"] = "polynomial"
    coefficients: tuple[float, ...]
    source: Source
    noise: Noise | None = None
    num_samples: int | None = None

    def __post_init__(self) -> None:
        require(1 <= len(self.coefficients) <= 6, "coefficients must be 1 to 6 numbers")

    def least_s(self, low: float, high: float) -> float:
        """Returns about the least value between two numbers; a polynomial of degree 5 turns 4 times at most."""
        step = (high - low) / (NUM_SAMPLES - 1)
        return min(self.at(low + i * step) for i in range(NUM_SAMPLES if step else 1))

    def at(self, number: float) -> float:
        """Returns the value at a number, without noise."""
        value = 0.0
        for coefficient in reversed(self.coefficients):
            value = value * number + coefficient
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles(Record):
    """A table of ``(probability, seconds)`` for skills whose time has many modes, such as a scan.

    Attributes:
        table: From probability 0 to 1, both rising; linear in between.
        step_s: Seconds per step of a scan, once the world tells how many steps it took.
    """

    kind: Literal["quantiles"] = "quantiles"
    table: tuple[tuple[float, float], ...]
    source: Source
    step_s: Parameter | None = None
    num_samples: int | None = None

    def __post_init__(self) -> None:
        require(len(self.table) >= 2, "table needs two rows or more")
        require(self.table[0][0] == 0 and self.table[-1][0] == 1, "table must run from probability 0 to 1")
        require(self.table[0][1] >= 0, "seconds must be >= 0")
        rises = all(low[0] < high[0] and low[1] <= high[1] for low, high in pairwise(self.table))
        require(rises, "probabilities must rise and seconds must not fall")


DurationModel = Annotated[Trapezoid | TurnThenMove | Sweeps | Polynomial | Quantiles, Discriminator("kind")]
