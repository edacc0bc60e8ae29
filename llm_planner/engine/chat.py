# SPDX-License-Identifier: Apache-2.0
"""Chat templates of instruction-tuned checkpoints, taken apart once so that user text never passes through them."""

from dataclasses import dataclass
from pathlib import Path

from llm_planner.engine.model_config import read_json

_THINKS, _THOUGHT = "<think>", "<think>\n\n</think>\n\n"
_SYSTEM, _USER, _ANSWER, _NEXT = "@@system@@", "@@user@@", "@@answer@@", "@@next@@"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFormat:
    """What a template puts around a system and a user message, up to where the answer begins.

    ``before_next_user`` stands between an answer and the next user message.
    """

    before_system: str
    before_user: str
    after_user: str
    before_next_user: str


def load_chat_format(model_dir: Path) -> ChatFormat | None:
    """Returns the format of a checkpoint's chat template, or None if it has none (or one that drops a message)."""
    config = model_dir / "tokenizer_config.json"
    in_config = config.is_file() and read_json(config).get("chat_template")
    if not in_config and not (model_dir / "chat_template.jinja").is_file():
        return None
    from jinja2 import TemplateError
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(model_dir)
    two_turns = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _USER}]
    one_turn = [{"role": "user", "content": f"{_SYSTEM}\n\n{_USER}"}]
    for messages in (two_turns, one_turn):  # some templates refuse or drop the system role
        answered = [*messages, {"role": "assistant", "content": _ANSWER}, {"role": "user", "content": _NEXT}]
        try:
            text, more = (
                tokenizer.apply_chat_template(m, tokenize=False, add_generation_prompt=True, enable_thinking=False)
                for m in (messages, answered)
            )
        except TemplateError:
            continue
        is_whole = text.count(_SYSTEM) == text.count(_USER) == more.count(_ANSWER) == more.count(_NEXT) == 1
        if not is_whole or text.index(_SYSTEM) > text.index(_USER):
            continue
        before_system, rest = text.split(_SYSTEM)
        before_user, after_user = rest.split(_USER)
        before_next_user = more.partition(_ANSWER)[2].partition(_NEXT)[0]
        if _SYSTEM in before_next_user:  # the system message moves on to the last user message
            continue
        return ChatFormat(
            before_system=before_system,
            before_user=before_user,
            after_user=_without_thinking(after_user),
            before_next_user=before_next_user,
        )
    return None


def _without_thinking(after_user: str) -> str:
    """Returns how an answer begins, with a block of thoughts that was opened closed: a plan must not stand in it."""
    start = after_user.rstrip()
    return start.removesuffix(_THINKS) + _THOUGHT if start.endswith(_THINKS) else after_user
