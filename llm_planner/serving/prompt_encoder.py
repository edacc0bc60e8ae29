"""Turns a request into the tokens that its model reads."""

import itertools
from dataclasses import dataclass

from llm_planner.core.interfaces import Tokenizer
from llm_planner.planning.prompt import Prompt, PromptStyle, build_prompt
from llm_planner.robots.model import RobotModel


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMarkup:
    """What a chat model wants around the parts of a prompt, special tokens included; nothing for a plain model."""

    before_static: str = ""
    before_dynamic: str = ""
    after_dynamic: str = ""


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt in tokens: the part that all requests of a robot model share, and this request."""

    static_ids: tuple[int, ...]
    dynamic_ids: tuple[int, ...]
    num_scene_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEncoder:
    """Encodes prompts for one model.

    Markup may spell special tokens, the prompt's own text may not: scene and instruction are untrusted.
    """

    tokenizer: Tokenizer
    style: PromptStyle = PromptStyle.COMPACT
    markup: PromptMarkup = PromptMarkup()

    def encode(self, model: RobotModel, instruction: str, scene: str) -> EncodedPrompt:
        """Returns the tokens that ask for a plan; ``instruction`` and ``scene`` may hold anything."""
        return self.wrap(build_prompt(model, instruction, scene, self.style))

    def wrap(self, prompt: Prompt) -> EncodedPrompt:
        """Returns the tokens of a prompt with the markup around its parts."""
        return EncodedPrompt(
            (*self._mark(self.markup.before_static), *self.tokenizer.encode(prompt.static)),
            (
                *self._mark(self.markup.before_dynamic),
                *self.tokenizer.encode(prompt.dynamic),
                *self._mark(self.markup.after_dynamic),
            ),
            prompt.num_scene_bytes,
        )

    def scene_span(self, prompt: EncodedPrompt) -> tuple[int, int]:
        """Returns the half-open range of positions whose tokens describe the scene and nothing else.

        It is empty for a tokenizer whose tokens do not spell the text out, because then nobody knows where it ends.
        """
        num_marks = len(self._mark(self.markup.before_dynamic))
        sizes = [len(self.tokenizer.token_bytes(token_id)) for token_id in prompt.dynamic_ids[num_marks:]]
        start = len(prompt.static_ids) + num_marks
        if 0 in sizes[: prompt.num_scene_bytes]:
            return start, start
        ends = itertools.accumulate(sizes)
        return start, start + sum(1 for _ in itertools.takewhile(lambda end: end <= prompt.num_scene_bytes, ends))

    def _mark(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, allow_special=True)
