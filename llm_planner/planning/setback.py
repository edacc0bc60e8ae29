"""What a model reads when its plan failed on the robot: why, what is to be seen now, and what is done already.

There are two ways. ``KEEP`` appends that to all that the model has read and written, as another turn of the
conversation; only the new text is computed. ``FRESH`` gives it its usual prompt, with the new scene, and what is done
behind ``plan:``. The bundled model needs the second: it knows no turns, and what it sees twice it writes once more, the
call that failed above all (docs/replanning.md has the figures).
"""

from dataclasses import dataclass
from enum import Enum

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.planning.prompt import PromptStyle
from llm_planner.planning.untrusted import flatten

MAX_REASON_CHARACTERS = 200


class ReplanContext(Enum):
    """What stays in sight when a plan goes on another way."""

    KEEP = "keep"
    FRESH = "fresh"


def replan_context(name: str) -> ReplanContext | None:
    """Returns what a setting names; None for ``auto``.

    Raises:
        PlannerError: INVALID_CONFIG for any other name.
    """
    known = [context.value for context in ReplanContext]
    if name not in ("auto", *known):
        message = f"replan_context is {name!r}; it must be one of auto, {', '.join(known)}"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    return None if name == "auto" else ReplanContext(name)


def usual_context(style: PromptStyle) -> ReplanContext:
    """Returns what suits the models that a style of prompts is for."""
    return ReplanContext.FRESH if style is PromptStyle.COMPACT else ReplanContext.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """A statement that failed, and how things stand.

    Attributes:
        instruction: The task; untrusted.
        scene: What the robot sees now; untrusted. None if it sees what the model has read already.
        done: The plan as far as it was carried out.
        failed: The statement that failed.
        reason: Why, by the robot's word; untrusted.
    """

    instruction: str
    scene: str | None
    done: str
    failed: str
    reason: str

    def text(self, style: PromptStyle) -> str:
        """Returns what is inserted behind the plan, for one style of prompts; the model goes on behind it."""
        scene = "" if self.scene is None else f"scene: {flatten(self.scene)}\n"
        task = f"{scene}task: {flatten(self.instruction)}\n"
        if style is PromptStyle.COMPACT:
            return f"\n{task.lower()}plan:\n{self.done}"
        reason = flatten(self.reason)[:MAX_REASON_CHARACTERS]
        return f"failed: {self.failed} ({reason})\ndone: {self.done}\n{task}{_REST}\nplan:\n"


_REST = (
    "The line 'failed:' says what went wrong; what 'done:' lists is done. Write only what is still to do, another way."
)
