# SPDX-License-Identifier: Apache-2.0
"""Draws tasks: one family, or several clauses in sequence, with a scene, noise and a reference plan."""

import itertools
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.planning.safety.living import is_living
from llm_planner.robots.world import World
from llm_planner_lab.tasks import arm, drone, refusal, table_work, urgent
from llm_planner_lab.tasks.draft import Clause, Draft
from llm_planner_lab.tasks.names import is_held_out
from llm_planner_lab.tasks.scene import PlacedObject, describe
from llm_planner_lab.tasks.sentence import decorate, join, misspell, recase

Family = Callable[[Draft], Clause]


@dataclass(frozen=True, slots=True)
class Task:
    """An instruction with its world and what counts as success.

    Attributes:
        family: Name of the family.
        robot: Name of the robot model.
        instruction: What is asked.
        scene: What the robot says it sees; may be empty.
        plan: A reference plan that succeeds.
        objects: The world.
        goal: Name and parameters of the goal test (``llm_planner.demo.goal_tests``).
    """

    family: str
    robot: str
    instruction: str
    scene: str
    plan: str
    objects: tuple[PlacedObject, ...]
    goal: tuple[str, ...]

    @property
    def world(self) -> World:
        """The world in which its plan is executed: the same objects each time, untouched."""
        from llm_planner_lab.tasks.worlds import build_world  # which is made for tasks

        return build_world(self)

    def request(self, name: str, urgency: Urgency = Urgency.NORMAL) -> PlanRequest:
        """Returns the request for it, of a robot of the same name."""
        return PlanRequest(
            request_id=name,
            robot_id=name,
            robot_model=self.robot,
            instruction=self.instruction,
            scene=self.scene,
            urgency=urgency,
        )


@dataclass(frozen=True, slots=True)
class Difficulty:
    """How hard the tasks of a sample are.

    Attributes:
        max_clauses: Longest sequence.
        max_objects: Longest scene.
        min_objects: Shortest scene that lists what the task does not ask for.
        invented: Share of invented names.
        noise: Share of instructions with a typing error.
    """

    max_clauses: int = 4
    max_objects: int = 200
    min_objects: int = 0
    invented: float = 0.5
    noise: float = 0.12


DEFAULT_DIFFICULTY = Difficulty()


def _sequence_of(steps: Mapping[str, tuple[Family, int]]) -> Callable[[Draft, int], list[Clause]]:
    families = [family for family, weight in steps.values() for _ in range(weight)]

    def draw(draft: Draft, count: int) -> list[Clause]:
        clauses = [draft.rng.choice(families)(draft) for _ in range(count)]
        if draft.robot == "tello":
            if draft.rng.random() < 0.06:
                clauses[0] = drone.take_off(draft)
            if draft.rng.random() < 0.1:
                clauses[-1] = drone.land(draft)
        return clauses

    return draw


_DRONE_STEPS: dict[str, tuple[Family, int]] = {
    "move": (drone.move, 5),
    "turn": (drone.turn, 3),
    "fixed_motion": (drone.fixed_motion, 2),
    "picture": (drone.picture, 2),
    "wait": (drone.wait, 1),
    "say": (drone.say, 1),
    "goto": (drone.goto, 3),
    "look_for": (drone.look_for, 2),
    "look_at": (drone.look_at, 1),
    "conditional": (drone.conditional, 2),
    "repeat": (drone.repeat, 2),
    "check_on": (drone.check_on, 1),
}
_ARM_STEPS: dict[str, tuple[Family, int]] = {
    "put": (arm.put, 6),
    "push": (arm.push, 1),
    "move_to": (arm.move_to, 2),
    "fixed": (arm.fixed, 2),
    "wait": (arm.wait, 1),
    "say": (arm.say, 1),
    "conditional": (arm.conditional, 2),
}

# family -> (robot, function, weight). The eleven tasks of TimelyLLM, Table 2, come first.
FAMILIES: dict[str, tuple[str, Family, int]] = {
    "look_for": ("tello", drone.look_for, 6),
    "check_or": ("tello", drone.check_or, 20),
    "check_on": ("tello", drone.check_on, 12),
    "find_under": ("tello", drone.find_under, 7),
    "find_tool": ("tello", drone.find_tool, 16),
    "avoid_injury": ("tello", urgent.injury, 7),
    "prevent_collision": ("tello", urgent.collision, 6),
    "evade_animal": ("tello", urgent.pursuit, 7),
    "stack": ("indy7", table_work.stack, 40),
    "clean_desk": ("indy7", table_work.clean, 14),
    "sort_food": ("indy7", table_work.sort_food, 4),
    "move": ("tello", drone.move, 34),
    "turn": ("tello", drone.turn, 3),
    "fixed_motion": ("tello", drone.fixed_motion, 5),
    "repeat": ("tello", drone.repeat, 26),
    "goto": ("tello", drone.goto, 5),
    "look_at": ("tello", drone.look_at, 8),
    "is_there": ("tello", drone.is_there, 10),
    "conditional": ("tello", drone.conditional, 12),
    "picture": ("tello", drone.picture, 2),
    "land": ("tello", drone.land, 2),
    "take_off": ("tello", drone.take_off, 2),
    "stop": ("tello", drone.stop, 4),
    "say": ("tello", drone.say, 8),
    "wait": ("tello", drone.wait, 2),
    "cannot": ("tello", refusal.drone, 8),
    "arm_put": ("indy7", arm.put, 4),
    "arm_pick": ("indy7", arm.pick, 3),
    "arm_push": ("indy7", arm.push, 2),
    "arm_move_to": ("indy7", arm.move_to, 4),
    "arm_fixed": ("indy7", arm.fixed, 2),
    "arm_conditional": ("indy7", arm.conditional, 8),
    "arm_say": ("indy7", arm.say, 6),
    "arm_stop": ("indy7", urgent.arm_stop, 12),
    "arm_cannot": ("indy7", refusal.arm, 5),
}
SEQUENCES: dict[str, tuple[str, Callable[[Draft, int], list[Clause]], int]] = {
    "sequence": ("tello", _sequence_of(_DRONE_STEPS), 80),
    "arm_sequence": ("indy7", _sequence_of(_ARM_STEPS), 50),
}
FAMILY_NAMES = (*FAMILIES, *SEQUENCES)
_SCENE_DOES_NOT_MATTER = frozenset(
    (
        "move",
        "turn",
        "fixed_motion",
        "repeat",
        "picture",
        "land",
        "take_off",
        "stop",
        "say",
        "wait",
        "cannot",
        "avoid_injury",
        "prevent_collision",
        "evade_animal",
        "arm_fixed",
        "arm_say",
        "arm_stop",
        "arm_cannot",
    )
)
_WEIGHTS = [weight for _, _, weight in (*FAMILIES.values(), *SEQUENCES.values())]


def sample(
    rng: random.Random,
    difficulty: Difficulty = DEFAULT_DIFFICULTY,
    *,
    held_out: bool = False,
    family: str | None = None,
) -> Task:
    """Returns one task.

    Args:
        rng: Source of chance; the same state gives the same task.
        difficulty: Limits of length and noise.
        held_out: Draw what training never draws here: variants of templates, words, combinations of names.
        family: One of FAMILY_NAMES; by default drawn by weight.
    """
    while True:
        name = family or rng.choices(FAMILY_NAMES, _WEIGHTS)[0]
        if name in SEQUENCES and difficulty.max_clauses < 2:
            name = "move"
        draft, clauses = _write(rng, name, difficulty, held_out=held_out)
        plan = "".join(clause.plan for clause in clauses)
        if not is_within_limits(plan) or grasps_somebody(plan):
            continue
        names = tuple(part for clause in clauses for part in clause.names)
        if not names or is_held_out(names) == held_out:
            return _finish(draft, name, clauses, difficulty)


_HANDLED = re.compile(r"\b(?:pick|push|place)\(([a-z0-9_]+)")


def grasps_somebody(plan: str) -> bool:
    """Returns whether an arm would handle a person or an animal, which no gate admits: names are drawn at random."""
    return any(map(is_living, _HANDLED.findall(plan)))


_LOOP = re.compile(r"(\d+)\{([^{}]*)\}")
_CALL = re.compile(r"\b(m[fblrud]|g|ld)\((\d*)")


_FENCE_CM = 990


def is_within_limits(plan: str) -> bool:
    """True if a drone that carries out the whole plan stays inside its fence, wherever the objects are.

    The safety gate assumes the same: an approach may lead 4.5 m in any direction. Nothing moves after a landing.
    """
    path_cm = height_cm = 0
    unrolled = _LOOP.sub(lambda match: match.group(2) * int(match.group(1)), plan)
    for skill, number in _CALL.findall(unrolled):
        if skill in ("mu", "md"):
            height_cm += int(number) if skill == "mu" else -int(number)
            if not -80 <= height_cm <= 190:
                return False
        elif skill == "ld":
            if not unrolled.endswith(("ld();", "ld();}")):
                return False
        elif skill == "g":
            path_cm = min(_FENCE_CM, path_cm + 450)
        else:
            path_cm += int(number)
            if path_cm > _FENCE_CM:
                return False
    return True


def _write(rng: random.Random, name: str, difficulty: Difficulty, *, held_out: bool) -> tuple[Draft, list[Clause]]:
    sequence = SEQUENCES.get(name)
    robot = sequence[0] if sequence else FAMILIES[name][0]
    has_scene = rng.random() < (0.3 if name in _SCENE_DOES_NOT_MATTER else 0.55)
    draft = Draft(rng, robot, held_out, has_scene=has_scene, invented=difficulty.invented)
    if sequence:
        return draft, sequence[1](draft, rng.randint(2, difficulty.max_clauses))
    return draft, [FAMILIES[name][1](draft)]


def _finish(draft: Draft, name: str, clauses: list[Clause], difficulty: Difficulty) -> Task:
    rng = draft.rng
    if draft.has_scene:
        most = max(1, difficulty.max_objects - len(draft.objects))
        fewest = min(most, max(0, difficulty.min_objects - len(draft.objects)))
        count = 0
        if draft.is_crowded and rng.random() < 0.85:
            share = rng.random() ** 2  # of the way from fewest to most, on a logarithmic scale
            count = int((fewest + 1) * ((most + 1) / (fewest + 1)) ** share) - 1
        draft.distract(count)
    objects = tuple(draft.objects)
    plan = "".join(_resolve(clause, objects) for clause in clauses)
    text = join(rng, [clause.text for clause in clauses], held_out=draft.held_out)
    scene = describe(rng, objects, injection=rng.random() < 0.08) if draft.has_scene and objects else ""
    text = decorate(rng, text, held_out=draft.held_out)
    if rng.random() < difficulty.noise:
        text = misspell(rng, text, _protected(plan, clauses, objects))
    goal = clauses[0].goal if len(clauses) == 1 else ("same_outcome",)
    return Task(name, draft.robot, recase(rng, text), scene, plan, objects, goal)


def _resolve(clause: Clause, objects: tuple[PlacedObject, ...]) -> str:
    """Returns the plan of a clause; what depends on the order of the scene is filled in once that is known."""
    if clause.goal[0] == "stacked_all":
        members = [placed.name for placed in objects if placed.name in clause.goal]
        return "".join(arm.put_plan(upper, lower) for lower, upper in itertools.pairwise(members))
    if clause.goal[0] == "sorted" and "?" not in clause.plan:
        place_of = dict(pair.split(">") for pair in clause.goal[1:])
        return "".join(
            arm.put_plan(placed.name, place_of[placed.name]) for placed in objects if placed.name in place_of
        )
    return clause.plan


def _protected(plan: str, clauses: list[Clause], objects: tuple[PlacedObject, ...]) -> frozenset[str]:
    names = [part for clause in clauses for part in (*clause.names, *clause.goal)] + [placed.name for placed in objects]
    words = {word for name in names for word in name.replace("_", " ").replace(">", " ").split()}
    pieces = "".join(letter if letter.isalpha() else " " for letter in plan).split()
    return frozenset(words) | frozenset(pieces)
