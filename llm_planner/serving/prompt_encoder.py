# SPDX-License-Identifier: Apache-2.0
"""Turns a request into the tokens that its model reads."""

import bisect
import itertools
from collections.abc import Collection
from dataclasses import dataclass

from llm_planner.core.interfaces import Tokenizer
from llm_planner.planning.failure_context import FailureContext
from llm_planner.planning.prompt import Prompt, PromptStyle, build_prompt, compact_plan
from llm_planner.planning.scene_entries import droppable_entries
from llm_planner.robots.model import RobotModel


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMarkup:
    """What a chat model wants around the parts of a prompt, special tokens included; nothing for a plain model.

    ``before_next`` stands between the model's answer and another message of the user.
    """

    before_static: str = ""
    before_dynamic: str = ""
    after_dynamic: str = ""
    before_next: str = ""


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt in tokens: the part that all requests of a robot model share, and this request.

    ``scene`` is the text of the scene as the second part, behind its markup, begins with it.
    """

    static_ids: tuple[int, ...]
    dynamic_ids: tuple[int, ...]
    scene: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEncoder:
    """Encodes prompts for one model.

    Markup may spell special tokens, the prompt's own text may not: scene and instruction are untrusted.
    """

    tokenizer: Tokenizer
    style: PromptStyle = PromptStyle.COMPACT
    markup: PromptMarkup = PromptMarkup()

    def encode(
        self,
        model: RobotModel,
        instruction: str,
        scene: str,
        unsupported: Collection[str] = (),
        *,
        is_urgent: bool = False,
    ) -> EncodedPrompt:
        """Returns the tokens that ask for a plan; arguments as of ``build_prompt``."""
        return self.wrap(
            build_prompt(model, instruction, scene, self.style, unsupported=unsupported, is_urgent=is_urgent)
        )

    def wrap(self, prompt: Prompt) -> EncodedPrompt:
        """Returns the tokens of a prompt with the markup around its parts."""
        return EncodedPrompt(
            (*self._mark(self.markup.before_static), *self.tokenizer.encode(prompt.static)),
            (
                *self._mark(self.markup.before_dynamic),
                *self.tokenizer.encode(prompt.dynamic),
                *self._mark(self.markup.after_dynamic),
            ),
            prompt.scene,
        )

    def encode_plan(self, plan: str) -> list[int]:
        """Returns the tokens of a plan as the model would have written it."""
        return self.tokenizer.encode(compact_plan(plan) if self.style is PromptStyle.COMPACT else plan)

    def encode_failure(self, failure_context: FailureContext) -> tuple[int, ...]:
        """Returns the tokens that are inserted behind a plan that failed: to a chat model, another message."""
        return (
            *self._mark(self.markup.before_next),
            *self.tokenizer.encode(failure_context.text(self.style)),
            *self._mark(self.markup.after_dynamic),
        )

    def scene_span(self, prompt: EncodedPrompt) -> tuple[int, int]:
        """Returns the half-open range of positions whose tokens describe the scene and nothing else.

        It is empty for a tokenizer whose tokens do not spell the text out, because then its end is unknown.
        """
        start, ends = self._scene_ends(prompt)
        return start, start + bisect.bisect_right(ends, len(prompt.scene.encode()))

    def droppable_spans(self, prompt: EncodedPrompt, instruction: str) -> tuple[tuple[int, int], ...]:
        """Returns the positions of the scene's entries, the least needed first (``planning.scene_entries``).

        A token that two entries share belongs to the later one. Empty as ``scene_span`` is.
        """
        start, ends = self._scene_ends(prompt)
        if not ends:
            return ()
        byte_at = list(itertools.accumulate((len(c.encode()) for c in prompt.scene), initial=0))

        def position(character: int) -> int:
            return start + bisect.bisect_right(ends, byte_at[character])

        spans = [(position(first), position(last)) for first, last in droppable_entries(prompt.scene, instruction)]
        return tuple((first, last) for first, last in spans if first < last)

    def _scene_ends(self, prompt: EncodedPrompt) -> tuple[int, list[int]]:
        """Returns the position where the scene begins, and in which of its bytes each token from there on ends."""
        num_marks, num_bytes = len(self._mark(self.markup.before_dynamic)), len(prompt.scene.encode())
        sizes = [len(self.tokenizer.token_bytes(token_id)) for token_id in prompt.dynamic_ids[num_marks:]]
        start = len(prompt.static_ids) + num_marks
        return start, [] if 0 in sizes[:num_bytes] else list(itertools.accumulate(sizes))

    def _mark(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, allow_special=True)
