# SPDX-License-Identifier: Apache-2.0
"""A robot model: everything the planner knows of one kind of robot. Immutable; read from YAML by ``robots.library``."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from llm_planner.core import pose
from llm_planner.core.skill import ArgumentType, SkillCall
from llm_planner.robots.effect import Delay, Effect, Perceive, Scan, TakeOff, Translate, Turn
from llm_planner.robots.record import Record, require
from llm_planner.robots.reflex_rule import ReflexAction, ReflexRule
from llm_planner.robots.shape import BodyShape
from llm_planner.robots.shape_check import check_shape
from llm_planner.robots.timing import DurationModel, Parameter, Polynomial, Sweeps, Trapezoid, TurnThenMove


class RobotKind(Enum):
    """How the body moves."""

    DRONE = "drone"  # flies; starts in the air if its start pose is above the floor
    GROUND = "ground"  # drives on the floor
    ARM = "arm"  # stands at the origin and moves its tool


class ReturnType(Enum):
    """What a skill returns. A skill that returns a text may return ``False`` instead: nothing found."""

    NONE = "none"
    BOOLEAN = "boolean"
    NUMBER = "number"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument(Record):
    """One argument of a skill.

    Attributes:
        minimum: Least number, inclusive; required for numbers and only for them.
        maximum: Greatest number, inclusive; likewise.
        is_integer: Whether a number must be whole.
        unit: Of a number, for people and the prompt (``cm``).
        max_length: Most characters of a name or text.
    """

    name: str
    type: ArgumentType
    minimum: float | None = None
    maximum: float | None = None
    is_integer: bool = False
    unit: str = ""
    max_length: int = 200
    description: str = ""

    def __post_init__(self) -> None:
        if self.type is ArgumentType.NUMBER:
            require(self.minimum is not None and self.maximum is not None, "a number needs minimum and maximum")
            minimum, maximum = self.minimum or 0, self.maximum or 0
            require(minimum <= maximum, "minimum must be <= maximum")
            is_empty = self.is_integer and math.ceil(minimum) > math.floor(maximum)
            require(not is_empty, f"no whole number lies between minimum {minimum:g} and maximum {maximum:g}")
        else:
            require(self.minimum is None and self.maximum is None, "only a number has minimum and maximum")
            require(not self.is_integer, "only a number can be an integer")
        require(1 <= self.max_length <= 10_000, "max_length must be in [1, 10000]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill(Record):
    """Something that a robot can be told to do.

    Attributes:
        name: As plans are printed (``mf``).
        alias: A longer spelling that plans may also use (``move_forward``); empty for none.
        description: One line for the prompt.
        effect: What it does to the world.
        duration: How long it takes.
    """

    name: str
    description: str
    effect: Effect
    duration: DurationModel
    alias: str = ""
    arguments: tuple[Argument, ...] = ()
    returns: ReturnType = ReturnType.NONE

    def __post_init__(self) -> None:
        for spelling in filter(None, (self.name, self.alias)):
            require(spelling.isidentifier() and spelling.isascii(), f"{spelling!r} is not an ASCII identifier")
            require(not spelling.startswith("_") and spelling not in {"True", "False"}, f"{spelling!r} is reserved")
        numbers = [a for a in self.arguments if a.type is ArgumentType.NUMBER]
        names = [a for a in self.arguments if a.type is not ArgumentType.NUMBER]
        require(len(numbers) <= 1, "a skill has at most one number argument")
        if isinstance(self.effect, Translate | Turn | Delay):
            require(len(numbers) == 1, f"effect {self.effect.kind} needs a number argument")
        if isinstance(self.effect, Translate):
            unit, unit_m = numbers[0].unit, self.effect.unit_m
            is_same = math.isclose(_UNITS_M.get(unit, unit_m), unit_m)
            require(is_same, f"unit: {unit} of the argument contradicts unit_m: {unit_m:g} of the effect translate")
        needed = NUM_NAMES.get(self.effect.kind, 0)
        require(len(names) >= needed, f"effect {self.effect.kind} needs {needed} name or text argument(s)")
        takes_text = self.effect.kind in {"say", "ask"} or getattr(self.effect, "match", "") == "description"
        are_names = takes_text or all(a.type is ArgumentType.IDENTIFIER for a in names[:needed])
        require(are_names, f"effect {self.effect.kind} takes things by their names: type identifier, not text")
        is_turn_then_move = isinstance(self.duration, TurnThenMove)
        require(not is_turn_then_move or self.effect.kind == "goto", "turn_then_move is for effect goto")
        if isinstance(self.duration, Polynomial):
            low, high = (numbers[0].minimum or 0.0, numbers[0].maximum or 0.0) if numbers else (0.0, 0.0)
            require(
                self.duration.least_s(low, high) >= 0.0,
                f"skill {self.name}: the polynomial is negative within [{low:g}, {high:g}]",
            )
        is_arms = self.effect.kind in {"grasp", "place", "push", "move_tool", "home"}
        require(not isinstance(self.duration, Sweeps) or is_arms, "sweeps is for ways of an arm's tool")
        is_told = isinstance(self.effect, Translate | Turn)
        for trapezoid in trapezoids(self.duration):
            problem = f"a trapezoid needs travel where effect {self.effect.kind} tells no distance"
            require(is_told or trapezoid.travel is not None, problem)
            problem = f"effect {self.effect.kind} tells how far it goes by its argument; leave travel out"
            require(not is_told or trapezoid.travel is None, problem)

    @property
    def number(self) -> Argument | None:
        """The number argument, if the skill has one."""
        return next((a for a in self.arguments if a.type is ArgumentType.NUMBER), None)

    def names_in(self, call: SkillCall) -> list[str]:
        """Returns the names of objects and places in a call of this skill, in order."""
        arguments = zip(self.arguments, call.arguments, strict=False)
        return [given for a, given in arguments if a.type is ArgumentType.IDENTIFIER and isinstance(given, str)]


_UNITS_M = {"mm": 0.001, "cm": 0.01, "m": 1.0}
NUM_NAMES: Mapping[str, int] = {
    **dict.fromkeys(("orient", "approach", "goto", "scan", "perceive", "say", "ask", "grasp", "move_tool"), 1),
    **dict.fromkeys(("place", "push"), 2),
}


def trapezoids(duration: DurationModel) -> tuple[Trapezoid, ...]:
    """Returns the trapezoids that a duration model consists of; the turn comes before the move."""
    if isinstance(duration, TurnThenMove):
        return (duration.turn, duration.move)
    return (duration,) if isinstance(duration, Trapezoid) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pose(pose.Pose, Record):
    """A pose that may stand in a robot model file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geofence(Record):
    """A box around home that the body never leaves: ``(least, greatest)`` in metres. A drone may land below its z."""

    x_m: tuple[float, float]
    y_m: tuple[float, float]
    z_m: tuple[float, float]

    def __post_init__(self) -> None:
        require(all(low <= high for low, high in (self.x_m, self.y_m, self.z_m)), "least must be <= greatest")

    def contains(self, x_m: float, y_m: float, z_m: float, tolerance_m: float = 1e-6) -> bool:
        """Returns True if the point is inside or on the border."""
        sides = zip((x_m, y_m, z_m), (self.x_m, self.y_m, self.z_m), strict=True)
        return all(low - tolerance_m <= value <= high + tolerance_m for value, (low, high) in sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace(Record):
    """What an arm reaches: horizontal distance from the base and height, ``(least, greatest)`` in metres."""

    reach_m: tuple[float, float]
    z_m: tuple[float, float]

    def __post_init__(self) -> None:
        require(0 <= self.reach_m[0] < self.reach_m[1], "reach_m must be two rising numbers >= 0")
        require(self.z_m[0] < self.z_m[1], "z_m must be two rising numbers")

    def excess_m(self, point: tuple[float, float, float]) -> float:
        """Returns how far a point lies outside in level distance or height; 0 inside. The base is the origin."""
        level_m, z = math.hypot(point[0], point[1]), point[2]
        (nearest, farthest), (low, high) = self.reach_m, self.z_m
        excess_m = max(nearest - level_m, level_m - farthest, low - z, z - high, 0.0)
        return excess_m if math.isfinite(level_m + z) else math.inf  # max would drop a NaN


@dataclass(frozen=True, slots=True, kw_only=True)
class Camera(Record):
    """A camera that looks along the body's x axis. An arm without one sees its whole table."""

    field_of_view_deg: float
    vertical_field_of_view_deg: float
    range_m: float

    def __post_init__(self) -> None:
        angles = (self.field_of_view_deg, self.vertical_field_of_view_deg)
        require(all(0 < angle <= 360 for angle in angles) and self.range_m > 0, "angles in (0, 360], range_m > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedLimits(Record):
    """What the body never exceeds; the duration models are checked against it."""

    translation_m_per_s: float
    rotation_deg_per_s: float

    def __post_init__(self) -> None:
        require(self.translation_m_per_s > 0 and self.rotation_deg_per_s > 0, "speed limits must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceStep(Record):
    """Runs a skill without arguments once the planner has been silent for ``after_s`` during an unfinished goal."""

    after_s: float
    skill: str

    def __post_init__(self) -> None:
        require(0 < self.after_s <= 600, "after_s must be in (0, 600]; it is in seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(Record):
    """The way between planner and robot, one direction."""

    latency_s: Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(Record):
    """A worked example for the prompt of a chat model.

    Attributes:
        is_urgent: Whether the instruction warns of a danger, so that the plan keeps to ``RobotModel.urgent_skills``.
        needs: Names of skills that the plan does not call and without which, or with other limits, it would be wrong.
    """

    instruction: str
    plan: str
    scene: str = ""
    is_urgent: bool = False
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentRule(Record):
    """What the plan of an emergency may do: nothing that goes to the danger, looks for it or touches it."""

    skills: tuple[str, ...]

    def __post_init__(self) -> None:
        require(bool(self.skills), "an emergency needs skills; leave urgent out for those that stop, hold or move")


_URGENT_EFFECTS = frozenset(("translate", "turn", "stop", "delay", "land"))
"""What a robot whose model does not say may do in an emergency."""

_NOT_URGENT_EFFECTS = frozenset(("orient", "approach", "goto", "scan", "grasp", "place", "push", "move_tool"))
"""What goes to a thing, looks for it or touches it."""

_SAFE_EFFECTS = {"stop_skill": ("stop", "land"), "silence": ("stop", "land", "home")}
"""What a robot may do on its own account, by where the model says so."""

ANY_BODY = frozenset(("stop", "delay", "none", "home", "perceive", "say", "ask", "picture", "replan"))
LOCOMOTION = frozenset(("translate", "turn", "orient", "approach", "goto", "scan"))
FLIGHT = frozenset(("takeoff", "land"))
MANIPULATION = frozenset(("grasp", "place", "push", "move_tool", "gripper"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotModel(Record):
    """One kind of robot.

    Attributes:
        name: Names the model in requests; the file is ``<name>.yaml``.
        description: Who the robot is, for the prompt.
        skills: By name; ``skill`` finds them by alias, too.
        start: Where the body or tool is when a goal starts.
        stop_skill: Skill without arguments that stops or lands the robot at once (reflex, cancel).
        silence: What happens while the planner is silent, in order of time: stops, landings, ways home.
        reflex: What happens when something comes too near; None for nothing.
        urgent: What the plan of an emergency may do.
        places: Names of places that are always there: a skill's object may be one of them.
        geofence: Of a drone or ground robot.
        workspace: Of an arm.
        body: What physics and Gazebo make its body of; None for a robot that is simulated without.
        adapter: Directory of the LoRA adapter with which the planner's model writes for this robot; None for the model
            alone. In a file, a relative path begins at the file's directory. Only the planner opens it.
    """

    name: str
    kind: RobotKind
    description: str
    skills: Mapping[str, Skill]
    start: Pose
    speed_limits: SpeedLimits
    stop_skill: str
    silence: tuple[SilenceStep, ...]
    network: Network
    geofence: Geofence | None = None
    workspace: Workspace | None = None
    camera: Camera | None = None
    reflex: ReflexRule | None = None
    urgent: UrgentRule | None = None
    places: tuple[str, ...] = ()
    body: BodyShape | None = None
    adapter: str | None = None
    rules: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    schema_version: Literal[1] = 1

    def __post_init__(self) -> None:
        require(self.name.isidentifier() and self.name.isascii(), f"name {self.name!r} is not an ASCII identifier")
        require(bool(self.skills), "a robot needs skills")
        require(
            self.adapter is None or bool(self.adapter.strip()), "adapter must name a directory; leave it out for none"
        )
        self._check_spellings()
        self._check_space()
        self._check_effects()
        self._check_speeds()
        check_shape(self)
        times_s = [step.after_s for step in self.silence]
        require(times_s == sorted(times_s) and bool(times_s), "silence needs steps in order of after_s")
        self._check_named_skills()
        is_backing_off = self.reflex is not None and self.reflex.action is ReflexAction.BACK_OFF
        moves = any(isinstance(skill.effect, Translate) for skill in self.skills.values())
        require(moves or not is_backing_off, "reflex back_off needs a skill with effect translate")

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def urgent_skills(self) -> frozenset[str]:
        """Names of the skills that the plan of an emergency may use."""
        if self.urgent is not None:
            return frozenset(self.urgent.skills)
        return frozenset(name for name, skill in self.skills.items() if skill.effect.kind in _URGENT_EFFECTS)

    @property
    def can_search(self) -> bool:
        """Whether it can look for what it does not see."""
        return any(isinstance(skill.effect, Scan) for skill in self.skills.values())

    def skill(self, spelling: str) -> Skill | None:
        """Returns the skill of a name or an alias; None if there is none."""
        found = self.skills.get(spelling)
        return found or next((s for s in self.skills.values() if s.alias and s.alias == spelling), None)

    def _check_spellings(self) -> None:
        require(all(key == skill.name for key, skill in self.skills.items()), "a skill's key must be its name")
        spellings = [s for skill in self.skills.values() for s in (skill.name, skill.alias) if s]
        taken = sorted({"fail", "unclear"}.intersection(spellings))
        require(not taken, f"words of the plan language are no names of skills: {', '.join(taken)}")
        doubles = sorted({s for s in spellings if spellings.count(s) > 1})
        require(not doubles, f"names and aliases must differ; used twice: {', '.join(doubles)}")

    def _check_named_skills(self) -> None:
        at_once = [("stop_skill", self.stop_skill), *(("silence", step.skill) for step in self.silence)]
        urgent = [("urgent", name) for name in self.urgent.skills] if self.urgent is not None else []
        for key, name in (*at_once, *urgent):
            require(name in self.skills, f"{key}: {name!r} is not among the skills ({', '.join(self.skills)})")
        for _, name in urgent:
            kind = self.skills[name].effect.kind
            problem = f"urgent: {name!r} (effect {kind}) goes to a thing, looks for it or touches it; leave it out"
            require(kind not in _NOT_URGENT_EFFECTS, problem)
        for key, name in at_once:
            require(not self.skills[name].arguments, f"{key}: skill {name!r} must take no arguments")
            known = _SAFE_EFFECTS[key]
            is_safe = self.skills[name].effect.kind in known
            require(is_safe, f"{key}: skill {name!r} must have one of the effects {', '.join(known)}")

    def _check_space(self) -> None:
        start = self.start
        if self.kind is RobotKind.ARM:
            require(self.workspace is not None and self.geofence is None, "an arm has a workspace and no geofence")
            outside_m = 0.0 if self.workspace is None else self.workspace.excess_m((start.x_m, start.y_m, start.z_m))
            require(outside_m == 0.0, "the start pose is outside the workspace")
            return
        fence = self.geofence
        require(fence is not None and self.workspace is None, "a mobile robot has a geofence and no workspace")
        is_drone = self.kind is RobotKind.DRONE
        starts_parked = fence is not None and is_drone and start.z_m == 0  # where the height is free
        z_m = fence.z_m[0] if fence is not None and starts_parked else start.z_m
        if fence is not None and is_drone:
            low, high = fence.z_m
            problem = f"a drone's fence must not begin below the floor: z_m is [{low:g}, {high:g}]"
            require(low >= 0.0, problem)
        is_inside = fence is not None and fence.contains(start.x_m, start.y_m, z_m)
        require(is_inside, "the start pose is outside the geofence")
        flies_home = is_drone and any(skill.effect.kind == "home" for skill in self.skills.values())
        problem = f"effect home flies to the start, which is at {start.z_m:g} m, outside the geofence"
        require(z_m == start.z_m or not flies_home, problem)

    def _check_effects(self) -> None:
        possible = ANY_BODY | (MANIPULATION if self.kind is RobotKind.ARM else LOCOMOTION)
        possible |= FLIGHT if self.kind is RobotKind.DRONE else frozenset()
        for skill in self.skills.values():
            effect, problem = skill.effect, f"skill {skill.name}: "
            require(effect.kind in possible, f"{problem}a robot of kind {self.kind.value} cannot {effect.kind}")
            is_sight = isinstance(effect, Scan) or (isinstance(effect, Perceive) and effect.quantity != "visible")
            require(not is_sight or self.camera is not None, f"{problem}effect {effect.kind} needs a camera")
            if isinstance(effect, TakeOff) and self.geofence is not None:
                low, high = self.geofence.z_m
                require(low <= effect.altitude_m <= high, f"{problem}altitude_m is outside the geofence")

    def _check_speeds(self) -> None:
        limits = self.speed_limits
        for skill in self.skills.values():
            for number, duration in enumerate(trapezoids(skill.duration)):
                is_rotation = skill.effect.kind in {"turn", "orient"} or (skill.effect.kind == "goto" and number == 0)
                limit = limits.rotation_deg_per_s if is_rotation else limits.translation_m_per_s
                require(duration.speed.value <= limit, f"skill {skill.name}: speed exceeds its limit {limit}")
