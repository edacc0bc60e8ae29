# SPDX-License-Identifier: Apache-2.0
"""The prompts whose responses are measured: from a file, or generated for the bundled planner; in three parts."""

import json
import random
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, repeat
from pathlib import Path

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.tasks.frames import HELD_OUT_AUTHORS, Frame, corpus, of_authors
from llm_planner_lab.tasks.inventory import long_inventory
from llm_planner_lab.tasks.sample import FAMILY_NAMES, Difficulty, Task, sample
from llm_planner_lab.tasks.spoken import Speaker

MIN_PROMPTS = 30
_HELD_OUT_SHARE = 0.1  # of a file, once for calibration and once for the figures
_LONGEST_SCENE = Difficulty(max_objects=500)  # longer than training had: service shows what is needed of any scene
_CROWDED_SCENE = Difficulty(max_objects=500, min_objects=40)
_FIELDS = {"robot", "instruction", "scene"}


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a robot asks for.

    Attributes:
        robot: Name of its robot model.
        instruction: What is asked.
        scene: What the robot sees; may be empty.
    """

    robot: str
    instruction: str
    scene: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """Prompts by purpose; no prompt is in two parts.

    Attributes:
        train: The predictor learns from these.
        calibration: Choose when to stop, and the levels of intervals.
        test: Give the figures; nothing else sees them.
    """

    train: tuple[Prompt, ...]
    calibration: tuple[Prompt, ...]
    test: tuple[Prompt, ...]

    @property
    def all(self) -> tuple[Prompt, ...]:
        """Every prompt, in the order in which they are measured."""
        return (*self.calibration, *self.test, *self.train)


def generate_prompts(num_train: int, num_held_out: int, seed: int) -> PromptParts:
    """Returns prompts of the kind that the bundled planner was trained on: half sentences of people, half templates.

    Calibration and test prompts are sentences of authors by whom neither planner nor predictor is trained, and tasks of
    the variants of templates, words and combinations of names that ``sample`` never draws for training (sentences of
    trained authors have most of these words): new requests in service are like that. Of the training prompts from
    templates half give every family of tasks the same share, a third of these in crowded scenes: what is drawn seldom
    has lengths of its own, too.
    """
    num_spoken, num_even, num_crowded = num_train // 2, num_train // 6, num_train // 12
    num_others = num_train - num_spoken - num_even - num_crowded
    speakers = {is_held_out: Speaker.of(_frames(is_held_out=is_held_out)) for is_held_out in (False, True)}
    train = _draw(random.Random(seed), num_others, _templates(held_out=False))
    for offset, count, difficulty in ((2, num_even, _LONGEST_SCENE), (3, num_crowded, _CROWDED_SCENE)):
        even = _templates(difficulty, held_out=False, families=cycle(FAMILY_NAMES))
        train |= _draw(random.Random(seed + offset), count, even, besides=train)
    train |= _draw(random.Random(seed + 4), num_spoken, speakers[False].sample, besides=train)
    held_out = _draw(random.Random(seed + 1), num_held_out, _templates(held_out=True), besides=train)
    held_out |= _draw(random.Random(seed + 5), num_held_out, speakers[True].sample, besides={**train, **held_out})
    fresh = list(held_out)
    random.Random(seed + 6).shuffle(fresh)
    return PromptParts(train=tuple(train), calibration=tuple(fresh[:num_held_out]), test=tuple(fresh[num_held_out:]))


def inventory_prompts(num_train: int, num_held_out: int, seed: int) -> PromptParts:
    """Returns the same of inventories alone, for a model of them; calibration and test have sentences of their own."""
    train = _draw(random.Random(seed), num_train, long_inventory)
    held_out = _draw(random.Random(seed + 1), 2 * num_held_out, partial(long_inventory, held_out=True), besides=train)
    fresh = tuple(held_out)
    return PromptParts(train=tuple(train), calibration=fresh[:num_held_out], test=fresh[num_held_out:])


def _frames(*, is_held_out: bool) -> Sequence[Frame]:
    return of_authors(corpus(), HELD_OUT_AUTHORS, is_in=is_held_out)


def _templates(
    difficulty: Difficulty = _LONGEST_SCENE, *, held_out: bool, families: Iterator[str | None] | None = None
) -> Callable[[random.Random], Task]:
    """Returns what draws tasks of templates; families come by weight unless given."""
    families = families or repeat(None)
    return lambda rng: sample(rng, difficulty, held_out=held_out, family=next(families))


def _draw(
    rng: random.Random, count: int, draw: Callable[[random.Random], Task], *, besides: Container[Prompt] = ()
) -> dict[Prompt, None]:
    """Returns ``count`` prompts, each once and none of ``besides``, in order."""
    drawn: dict[Prompt, None] = {}
    while len(drawn) < count:
        task = draw(rng)
        prompt = Prompt(task.robot, task.instruction, task.scene)
        if prompt not in besides:
            drawn[prompt] = None
    return drawn


def read_prompts(path: Path, robots: Collection[str], seed: int) -> PromptParts:
    """Returns the prompts of a file, one JSON object a line: ``robot``, ``instruction``, ``scene``.

    Repeated prompts count once. The parts are drawn by ``seed``: 80, 10 and 10 percent.

    Args:
        path: UTF-8; empty lines are skipped, and so may be the scene.
        robots: Names of known robot models.
        seed: Of the parts.

    Raises:
        PlannerError: INVALID_FILE, naming the line that is wrong, or if there are too few prompts.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"prompts file {path} cannot be read: {error}") from error
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    prompts = list(dict.fromkeys(_parse(line, robots, f"{path}, line {number}") for number, line in numbered))
    if len(prompts) < MIN_PROMPTS:
        raise PlannerError(
            ErrorCode.INVALID_FILE,
            f"prompts file {path} holds {len(prompts)} different prompts; at least {MIN_PROMPTS} are needed, and "
            "thousands for good predictions",
        )
    random.Random(seed).shuffle(prompts)
    size = max(1, round(_HELD_OUT_SHARE * len(prompts)))
    return PromptParts(
        train=tuple(prompts[2 * size :]), calibration=tuple(prompts[:size]), test=tuple(prompts[size : 2 * size])
    )


def _parse(line: str, robots: Collection[str], where: str) -> Prompt:
    def wrong(what: str) -> PlannerError:
        return PlannerError(ErrorCode.INVALID_FILE, f"{where}: {what}")

    try:
        values = json.loads(line)
    except ValueError as error:
        raise wrong(f"no JSON: {error}") from error
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise wrong('expected an object like {"robot": "tello", "instruction": "...", "scene": "..."}')
    if unknown := values.keys() - _FIELDS:
        raise wrong(f"unknown field {min(unknown)!r}; known are {', '.join(sorted(_FIELDS))}")
    if values.get("robot") not in robots:
        raise wrong(f"robot {values.get('robot')!r} is no robot model; known are {', '.join(sorted(robots))}")
    if not values.get("instruction", "").strip():
        raise wrong("the instruction is empty")
    return Prompt(**values)
