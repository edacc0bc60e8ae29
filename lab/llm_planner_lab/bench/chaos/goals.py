# SPDX-License-Identifier: Apache-2.0
"""What robots are told to do, so that every call shows of which goal it is."""

import random
from dataclasses import dataclass, field

SCRIPT = "exactly: "
"""How the scripted engine is told its plan (``serving.fake``)."""
SENTENCES = {
    "tello": (
        "take off",
        "turn right by a quarter turn",
        "fly forward half a metre and come back",
        "go up thirty centimetres",
        "come down a bit",
        "spin around once",
        "land",
        "wait two seconds and then turn left 45 degrees",
        "stop",
        "what can you see?",
        "could you maybe do something nice",
    ),
    "indy7": (
        "go home",
        "wait one second",
        "say hello",
        "stop",
        "what is on the table?",
        "go home, then wait two seconds and go home again",
        "put everything where it belongs",
    ),
}
"""What people say to a model: some of it is carried out, some is asked back, some cannot be done."""


@dataclass(slots=True, kw_only=True)
class Goal:
    """One instruction to a robot, and what became of it.

    Attributes:
        number: From 0; also in its tag and in the words of its plan.
        instruction: What the robot was told.
        plan: What a scripted engine writes, to the letter; empty if a model decides.
        pid: Of the robot's process when it was told.
        accepted_s: When the robot said that an outcome will follow; None if it has not.
        ended_s: When the outcome came.
        code: Of the outcome.
        verdict: How it ended for the campaign, if without an outcome.
    """

    number: int
    robot: str
    is_urgent: bool
    instruction: str
    asked_s: float
    pid: int
    plan: str = ""
    accepted_s: float | None = None
    ended_s: float | None = None
    code: int | None = None
    verdict: str = ""

    @property
    def tag(self) -> str:
        """Of the instruction, given back in its outcome."""
        return tag(self.number)


@dataclass(slots=True)
class Burst:
    """Goals that a client asks for at once, without a robot."""

    asked_s: float
    codes: list[int] = field(default_factory=list)
    num_asked: int = 0


def tag(number: int) -> str:
    """Returns what a goal is recognised by."""
    return f"g{number}"


def write_plan(seed: int, number: int, robot_model: str) -> str:
    """Returns a plan whose words name its goal, and that leads nowhere: whatever is cut off, the fence is far."""
    rng = random.Random(f"plan {seed} {number}")
    say = "say" if robot_model == "indy7" else "l"
    moves = _arm_moves(rng) if robot_model == "indy7" else _drone_moves(rng)
    steps = []
    for index, move in enumerate(moves):
        steps += [move, f"{say}('{tag(number)} step {index}');"]
    return "".join([f"{say}('{tag(number)} begins');", *steps])


def sentence(seed: int, number: int, robot_model: str) -> str:
    """Returns something that a person might say."""
    return random.Random(f"sentence {seed} {number}").choice(SENTENCES[robot_model])


def _drone_moves(rng: random.Random) -> list[str]:
    distance = rng.randint(20, 60)
    kinds = (
        lambda: f"tc({rng.randint(1, 90)});",
        lambda: f"mf({distance});mb({distance});",
        lambda: f"{rng.randint(2, 4)}{{tu({rng.randint(1, 45)});}}",
        lambda: f"d({rng.randint(0, 2)});",
    )
    return [rng.choice(kinds)() for _ in range(rng.randint(1, 3))]


def _arm_moves(rng: random.Random) -> list[str]:
    return [rng.choice(("home();", f"wait({rng.randint(0, 2)});")) for _ in range(rng.randint(1, 3))]
