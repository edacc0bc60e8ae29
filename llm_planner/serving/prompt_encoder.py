"""Turns a request into the tokens that its model reads."""

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
        )

    def _mark(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, allow_special=True)
