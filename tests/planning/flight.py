# SPDX-License-Identifier: Apache-2.0
"""An independent judge of drone plans: flies them by dead reckoning and notices every broken limit.

It shares no code with the gate, and knows the drone's skills by heart. What only a robot can know (conditions, where
objects are, how far a scan turns) is drawn at random; some courses draw the extremes on purpose.
"""

import contextlib
import math

from llm_planner.language.syntax import (
    And,
    Assign,
    Call,
    Comparison,
    If,
    Loop,
    Name,
    Number,
    Or,
    Return,
    Text,
    Variable,
)

LONG = {
    "move_forward": "mf", "move_backward": "mb", "move_left": "ml", "move_right": "mr", "move_up": "mu",
    "move_down": "md", "turn_cw": "tc", "turn_ccw": "tu", "takeoff": "tk", "land": "ld", "stop": "h", "delay": "d",
    "is_visible": "iv", "object_x": "ox", "object_y": "oy", "object_width": "ow", "object_height": "oh",
    "object_distance": "od", "scan": "s", "scan_abstract": "sa", "orient": "o", "approach": "a", "goto": "g",
    "log": "l", "probe": "p", "take_picture": "tp", "replan": "rp",
}  # fmt: skip
MOVES = {"mf": (1, 0, 0), "mb": (-1, 0, 0), "ml": (0, 1, 0), "mr": (0, -1, 0), "mu": (0, 0, 1), "md": (0, 0, -1)}
RANGES = {**dict.fromkeys(MOVES, (20, 500)), "tc": (1, 360), "tu": (1, 360), "d": (0, 60)}
NAMED = {"iv", "ox", "oy", "ow", "oh", "od", "s", "o", "a", "g"}
WORDED = {"sa", "l", "p"}
BARE = {"tk", "ld", "h", "home", "tp", "rp"}
HOME_M = (0.0, 0.0, 1.0)
TEXTS = {"sa", "p"}
TRAVEL_M = 4.5
TOLERANCE_M = 1e-5


class BrokenLimitError(Exception):
    """The plan broke a limit on this course."""


class _EndedError(Exception):
    """The plan returned, or a skill failed."""


class Flight:
    """One course of a plan.

    Args:
        rng: Draws what only the robot knows.
        extreme: How often it draws an extreme instead of anything.
        start: x, y, z in metres and yaw in degrees.
        fence: Intervals of x, y and z in metres.
    """

    def __init__(self, rng, extreme, start, fence):
        self.rng, self.extreme = rng, extreme
        self.x, self.y, self.z, self.yaw = start
        self.fence = fence
        self.num_calls = 0
        self.assigned = {}

    def fly(self, statements):
        with contextlib.suppress(_EndedError):
            self.block(statements)

    def block(self, statements):
        for statement in statements:
            self.statement(statement)

    def statement(self, statement):
        if isinstance(statement, Call):
            self.call(statement)
        elif isinstance(statement, Assign):
            self.call(statement.call)
            self.assigned[statement.variable.index] = statement.call.name
        elif isinstance(statement, Return):
            self.value(statement.value)
            raise _EndedError
        elif isinstance(statement, Loop):
            self.require(1 <= statement.count <= 100, f"{statement.count} rounds")
            for _ in range(statement.count):
                self.block(statement.body)
        elif isinstance(statement, If) and self.holds(statement.condition):
            self.block(statement.body)

    def holds(self, condition):
        if isinstance(condition, Or):
            return any(self.holds(operand) for operand in condition.operands)
        if isinstance(condition, And):
            return all(self.holds(operand) for operand in condition.operands)
        for side in (condition.left, condition.right) if isinstance(condition, Comparison) else (condition,):
            self.value(side)
        return self.rng.random() < 0.7

    def value(self, value):
        if isinstance(value, Call):
            self.call(value)
        if isinstance(value, Variable):
            self.require(value.index in self.assigned, f"_{value.index} has no value")
        if isinstance(value, Number):
            self.require(math.isfinite(value.value), "not a finite number")

    def call(self, call):
        for argument in call.arguments:
            self.value(argument)
        self.num_calls += 1
        self.require(self.num_calls <= 500, "more than 500 calls")
        name = LONG.get(call.name, call.name)
        self.check_arguments(name, call.arguments)
        if name in MOVES:
            self.move(MOVES[name], call.arguments[0].value / 100)
        elif name in ("tc", "tu"):
            self.turn(call.arguments[0].value * (1 if name == "tu" else -1))
        elif name == "tk" and self.z == 0:
            self.z = 1.0
        elif name == "ld":
            self.z = 0.0
        elif name == "home":
            self.fly_home()
        elif name in ("s", "sa"):
            self.yaw -= 45 * self.rng.randint(0, 8)
        elif name in ("o", "a", "g"):
            self.towards_an_object(name)

    def check_arguments(self, name, arguments):
        if name in BARE:
            self.require(len(arguments) == 0, f"{name} with an argument")
            return
        self.require(len(arguments) == 1, f"{name} with {len(arguments)} arguments")
        given = arguments[0]
        if name in RANGES:
            low, high = RANGES[name]
            is_number = isinstance(given, Number)
            self.require(not (is_number and name in ("tc", "tu")) or given.value % 1 == 0, "a part of a degree")
            self.require(is_number and low <= given.value <= high, f"{name}({given})")
            return
        self.require(name in NAMED | WORDED, f"unknown skill {name!r}")
        is_literal = isinstance(given, Text) or (isinstance(given, Name) and name in NAMED)
        if is_literal:
            text = given.text if isinstance(given, Text) else given.name
            self.require(0 < len(text) <= 300 and "\x1b" not in text, f"{name} of {text[:20]!r}")
            return
        makers = {Call: lambda: given.name, Variable: lambda: self.assigned[given.index]}
        maker = makers.get(type(given), lambda: "")()
        self.require(LONG.get(maker, maker) in TEXTS, f"{name}({given})")

    def move(self, axis, distance_m):
        if self.z == 0:
            return self.refused_on_the_floor()
        cos, sin = math.cos(math.radians(self.yaw)), math.sin(math.radians(self.yaw))
        self.x += distance_m * (axis[0] * cos - axis[1] * sin)
        self.y += distance_m * (axis[0] * sin + axis[1] * cos)
        self.z += distance_m * axis[2]
        for name, value, (low, high) in zip("xyz", (self.x, self.y, self.z), self.fence, strict=True):
            self.require(low - TOLERANCE_M <= value <= high + TOLERANCE_M, f"{name} = {value:.3f} m")
        return None

    def fly_home(self):
        if self.z == 0:
            return self.refused_on_the_floor()
        self.x, self.y, self.z = HOME_M
        return None

    def turn(self, angle_deg):
        if self.z == 0:
            return self.refused_on_the_floor()
        self.yaw += angle_deg
        return None

    def towards_an_object(self, name):
        """Turns or flies to an object somewhere; the robot's driver refuses to fly out of the fence."""
        if self.z == 0:
            return self.refused_on_the_floor()
        bearing = self.yaw + self.rng.uniform(-30, 30)
        if name != "a":
            self.yaw = bearing
        if name == "o":
            return None
        travel_m = TRAVEL_M if self.rng.random() < self.extreme else self.rng.uniform(0, TRAVEL_M)
        x = self.x + travel_m * math.cos(math.radians(bearing))
        y = self.y + travel_m * math.sin(math.radians(bearing))
        (x0, x1), (y0, y1), _ = self.fence
        if not (x0 <= x <= x1 and y0 <= y <= y1):
            raise _EndedError
        self.x, self.y = x, y
        return None

    def refused_on_the_floor(self):
        if self.rng.random() < 0.5:
            raise _EndedError  # the robot says that it cannot; or it ignores the command, and the plan goes on

    def require(self, is_met, problem):
        if not is_met:
            raise BrokenLimitError(problem)
