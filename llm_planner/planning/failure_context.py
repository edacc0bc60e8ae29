# SPDX-License-Identifier: Apache-2.0
"""What a model reads when its plan failed on the robot: why, and what is to be seen now.

There are two ways. ``KEEP`` appends that to all that the model has read and written; only the new text is computed.
``FRESH`` gives it its usual prompt, with the new scene, and what is done behind ``plan:``.

The bundled model is trained to go on behind what it wrote (``lab/llm_planner_lab/tasks/replanned.py``), and so it reads
the least: what has changed. A chat model gets another turn of its conversation, with scene and task in full.
"""

import re
from dataclasses import dataclass
from enum import Enum

from llm_planner.planning.failure_cause import plain_reason
from llm_planner.planning.prompt import PromptStyle
from llm_planner.planning.scene_entries import entries_of
from llm_planner.planning.untrusted import plain_scene, plain_task, plain_words

_MAX_SHORT_REASON = 60
_SKILL = re.compile(r"(\w+)\(")
_NAME = re.compile(r"(?<=[(,])[A-Za-z_]\w*")  # arguments of a call that are no text
_WORD = re.compile(r"\w+")


class ReplanContext(Enum):
    """What stays in sight when a plan goes on another way."""

    KEEP = "keep"
    FRESH = "fresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureContext:
    """A statement that failed, and how things stand.

    Attributes:
        instruction: The task; untrusted.
        scene: What the robot sees now; untrusted.
        scene_before: What the model has read of the scene last; untrusted.
        done: The plan as far as it was carried out.
        failed: The statement that failed.
        reason: Why, by the robot's word; untrusted, and read by no model (``planning.failure_cause``).
    """

    instruction: str
    scene: str
    scene_before: str
    done: str
    failed: str
    reason: str

    def text(self, style: PromptStyle) -> str:
        """Returns what is inserted behind the plan, for one style of prompts; the model goes on behind it."""
        return self._changes() if style is PromptStyle.COMPACT else self._turn()

    @property
    def _reason(self) -> str:
        return plain_reason(self.reason, set(_SKILL.findall(self.failed)), set(_NAME.findall(self.failed)))

    def _changes(self) -> str:
        """Returns what failed and what has changed since: all else stands in the context already."""
        reason = plain_words(self._reason, _MAX_SHORT_REASON)
        now, before = plain_scene(self.scene), plain_scene(self.scene_before)
        known, left = frozenset(_WORD.findall(before)), frozenset(_WORD.findall(now))
        names = (entry.partition(" ")[0] for entry in entries_of(now))
        seen = [name for name in names if name not in known]
        gone = [name for name in dict.fromkeys(_NAME.findall(self.failed)) if name in known - left]
        lines = [f"failed: {self.failed} {reason}".rstrip()]
        lines += [f"seen: {', '.join(seen)}"] if seen else []
        lines += [f"gone: {', '.join(gone)}"] if gone else []
        return "\n".join(["", *lines, "plan:", ""])

    def _turn(self) -> str:
        scene = "" if self.scene == self.scene_before else f"scene: {plain_scene(self.scene)}\n"
        task = f"{scene}task: {plain_task(self.instruction)}\n"
        return f"failed: {self.failed} ({self._reason})\ndone: {self.done}\n{task}{_REST}\nplan:\n"


_REST = (
    "The line 'failed:' says what went wrong; what 'done:' lists is done. Write only what is still to do, another way."
)
