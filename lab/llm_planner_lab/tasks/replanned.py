# SPDX-License-Identifier: Apache-2.0
"""Plans that fail on the way: what a model wrote by then, what it reads, and how it should go on behind it.

The plan goes on with the call that failed, once more, because what is in the way is seldom there for long. What is not
to be seen any more is searched for first, and what the gripper has lost is picked up again.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.language.syntax import Call, If, Statement
from llm_planner.planning.failure_context import FailureContext
from llm_planner.planning.prompt import PromptStyle
from llm_planner_lab.tasks.names import thing
from llm_planner_lab.tasks.sample import DEFAULT_DIFFICULTY, Difficulty, Task, sample

_MOVES = re.compile(r"(?<!\w)(m[fblrud]|t[cu]|g|a|o|s|sa|pick|place|push|move_to)\(")
_APPROACHES = frozenset("gao")
_IN_THE_WAY = (
    "something is in the way",
    "something is in the way",
    "did not arrive; something is in the way",
    "collision ahead",
    "has touched person_1",
    "is unreachable",
    "it did not work",
    "",
)
_SECOND_SHARE = 0.2  # of the plans fail once more
_LOST_SHARE = 0.5  # of the approaches and placings that fail do so because the object is gone


@dataclass(frozen=True, slots=True)
class Replanned:
    """A task on whose way something fails.

    Attributes:
        task: As it would be without.
        turns: What the model wrote, and what it read behind that, for each failure.
        plan: How it goes on behind the last failure.
    """

    task: Task
    turns: tuple[tuple[str, str], ...]
    plan: str


def sample_replanned(
    rng: random.Random,
    difficulty: Difficulty = DEFAULT_DIFFICULTY,
    *,
    held_out: bool = False,
    draw: Callable[[random.Random, Difficulty], Task] | None = None,
) -> Replanned:
    """Returns a task whose plan fails once or twice; arguments as of ``sample``, and ``draw`` draws other tasks."""
    while True:
        task = draw(rng, difficulty) if draw else sample(rng, difficulty, held_out=held_out)
        scene, plan, done = task.scene, task.plan, ""
        turns: list[tuple[str, str]] = []
        while not turns or (len(turns) < 2 and rng.random() < _SECOND_SHARE):
            statements = parse(plan)
            places = [index for index, statement in enumerate(statements) if _MOVES.search(to_text(statement))]
            if not places:
                break
            index = rng.choice(places)
            failure = _fail(rng, statements[index], scene)
            before, failed, rest = (
                to_text(part) for part in (statements[:index], statements[index], statements[index + 1 :])
            )
            done += before
            now = _look(rng, scene, failed, failure.lost, held_out=held_out)
            failure_context = FailureContext(
                instruction=task.instruction,
                scene=now,
                scene_before=scene,
                done=done,
                failed=failed,
                reason=failure.reason,
            )
            turns.append((_written(rng, before + failed, rest), failure_context.text(PromptStyle.COMPACT)))
            plan = _around(failure, rest)
            scene = now
        if turns:
            return Replanned(task, tuple(turns), plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """What failed, and what is left to do of its statement.

    Attributes:
        reason: As a robot words it.
        left: The call that failed, and what the statement had behind it.
        lost: The object that is not to be seen any more; empty for none.
        is_searched: The statement has looked for the object; what to do without it follows.
    """

    reason: str
    left: str
    lost: str = ""
    is_searched: bool = False


def _fail(rng: random.Random, statement: Statement, scene: str) -> _Failure:
    """Returns how a statement fails: a call of its own, or of a condition's body if it is the only one of its skill."""
    calls = _calls(statement)
    names = [call.name for call in calls]
    places = [index for index, call in enumerate(calls) if _MOVES.search(to_text(call)) and names.count(call.name) == 1]
    if not places:
        text = to_text(statement)
        match = _MOVES.search(text)
        assert match is not None
        return _Failure(reason=f"{match.group(1)}: {rng.choice(_IN_THE_WAY)}", left=text)
    index = rng.choice(places)
    call, left = calls[index], to_text(tuple(calls[index:]))
    target = to_text(call).removesuffix(");").partition("(")[2].partition(",")[0]
    if rng.random() < _LOST_SHARE:
        if call.name in _APPROACHES and re.search(rf"\b{target}\b", scene.lower()):
            reason = f"{call.name}: {target} is not visible"
            return _Failure(reason=reason, left=left, lost=target, is_searched=isinstance(statement, If))
        if call.name == "place":
            reason = f"place: nothing is held, so {target} cannot be placed"
            return _Failure(reason=reason, left=f"pick({target});{left}")
        if call.name == "pick":
            return _Failure(reason=f"pick: {target} slipped away", left=left)
    return _Failure(reason=f"{call.name}: {rng.choice(_IN_THE_WAY)}", left=left)


def _calls(statement: Statement) -> list[Call]:
    """Returns a call, or those that a condition's body consists of; empty for anything else."""
    body = statement.body if isinstance(statement, If) else (statement,)
    calls = [part for part in body if isinstance(part, Call)]
    return calls if len(calls) == len(body) else []


def _look(rng: random.Random, scene: str, failed: str, lost: str, *, held_out: bool) -> str:
    """Returns what the robot sees now: the same, or what is to be seen from elsewhere; what failed is there or lost."""
    if not lost and rng.random() < 0.4:
        return scene
    names = set(re.findall(r"(?<=[(,])[A-Za-z_]\w*", failed)) - {lost}
    words = dict.fromkeys(re.findall(r"\w+", scene))
    there = [word for word in words if word in names]
    there += [word for word in words if "_" in word and word not in names and rng.random() < 0.5][:6]
    num_new = rng.choice((0, 0, 0, 1, 1, 2, 4))
    there += [thing(rng, held_out=held_out, invented=0.5, in_scene=True).identifier for _ in range(num_new)]
    rng.shuffle(there)
    return ", ".join(name for name in dict.fromkeys(there) if name != lost)


def _written(rng: random.Random, start: str, rest: str) -> str:
    """Returns what the model had written when the failure arrived: often all of the plan, or half a statement more."""
    kind = rng.random()
    if kind < 0.5:
        return start + rest
    return start.removesuffix(";") if kind < 0.6 else start + rest[: rng.randint(0, len(rest))]


def _around(failure: _Failure, rest: str) -> str:
    """Returns how the plan goes on."""
    x = failure.lost
    if not x:
        return failure.left + rest
    if failure.is_searched:
        return f"s({x});?iv({x}){{{failure.left}}}{rest}"
    body = failure.left
    for ending in (f"l('found {x}');", "tp();"):  # what is done where it is
        if rest.startswith(ending):
            body, rest = body + ending, rest.removeprefix(ending)
    return f"s({x});?iv({x}){{{body}}}?iv({x})==False{{l('{x} not found');}}{rest}"
