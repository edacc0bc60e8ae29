"""What a model is told when its plan failed on the robot: why, what is to be seen now, and what is done already.

It is inserted behind what the model has written, which goes on from there. To the model it reads as another turn of
the same conversation: prompts as it knows them, with the old one and the plan that failed in view.
"""

from dataclasses import dataclass

from llm_planner.planning.prompt import PromptStyle
from llm_planner.planning.untrusted import flatten

MAX_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Detour:
    """Around a statement that failed.

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
        """Returns what is inserted, for one style of prompts; the model goes on behind it."""
        scene = "" if self.scene is None else f"scene: {flatten(self.scene)}\n"
        task = f"{scene}task: {flatten(self.instruction)}\n"
        if style is PromptStyle.COMPACT:
            return f"\n{task.lower()}plan:\n{self.done}"
        reason = flatten(self.reason)[:MAX_REASON_CHARACTERS]
        return f"failed: {self.failed} ({reason})\ndone: {self.done}\n{task}{_REST}\nplan:\n"


_REST = (
    "The line 'failed:' says what went wrong; what 'done:' lists is done. Write only what is still to do, another way."
)
