# SPDX-License-Identifier: Apache-2.0
"""Chat templates of instruction-tuned checkpoints, taken apart once so that user text never passes through them."""

import logging
from dataclasses import dataclass
from pathlib import Path

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.model_config import read_json

_log = logging.getLogger(__name__)

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
    """Returns the format of a checkpoint's chat template, or None if it has none, or one that the planner cannot use.

    Raises:
        PlannerError: CHECKPOINT_INVALID if the template is broken.
    """
    config, own_file = model_dir / "tokenizer_config.json", model_dir / "chat_template.jinja"
    in_config = config.is_file() and read_json(config).get("chat_template")
    if not in_config and not own_file.is_file():
        return None
    source = own_file if own_file.is_file() else config
    from jinja2 import TemplateError
    from transformers import PreTrainedTokenizerFast

    try:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(model_dir)
    except Exception as error:  # whatever the library throws: the files are the checkpoint's
        raise _broken(source, error) from error

    def render(messages: list[dict[str, str]]) -> str:
        return str(
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, enable_thinking=False)
        )

    two_turns = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _USER}]
    one_turn = [{"role": "user", "content": f"{_SYSTEM}\n\n{_USER}"}]
    why, broken = "it drops or moves a message", None
    for messages in (two_turns, one_turn):  # some templates refuse or drop the system role
        answered = [*messages, {"role": "assistant", "content": _ANSWER}, {"role": "user", "content": _NEXT}]
        try:
            text, more = render(messages), render(answered)
        except TemplateError as error:
            why = str(error)
            continue
        except Exception as error:  # noqa: BLE001 (a template is a program, and of others)
            broken = error
            continue
        if (found := _taken_apart(text, more)) is not None:
            return found
    if broken is not None:
        raise _broken(source, broken) from broken
    _log.warning(
        "%s: the chat template fits neither a system and a user message nor one that holds both (%s); the model is "
        "asked without it, and may plan badly",
        source,
        why[:200],
    )
    return None


def _taken_apart(text: str, more: str) -> ChatFormat | None:
    """Returns what stands around the messages; None if one is missing, is there twice or at another place.

    Args:
        text: Up to where the answer begins.
        more: The same with an answer, and another user message.
    """
    is_whole = text.count(_SYSTEM) == text.count(_USER) == more.count(_ANSWER) == more.count(_NEXT) == 1
    if not is_whole or text.index(_SYSTEM) > text.index(_USER):
        return None
    before_system, rest = text.split(_SYSTEM)
    before_user, after_user = rest.split(_USER)
    before_next_user = more.partition(_ANSWER)[2].partition(_NEXT)[0]
    if _SYSTEM in before_next_user:  # the system message moves on to the last user message
        return None
    return ChatFormat(
        before_system=before_system,
        before_user=before_user,
        after_user=_without_thinking(after_user),
        before_next_user=before_next_user,
    )


def _broken(source: Path, error: Exception) -> PlannerError:
    message = f"{source}: the chat template cannot be used: {type(error).__name__}: {error}"
    return PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{message[:500]}; correct it, or take it out")


def _without_thinking(after_user: str) -> str:
    """Returns how an answer begins, with a block of thoughts that was opened closed: a plan must not stand in it."""
    start = after_user.rstrip()
    return start.removesuffix(_THINKS) + _THOUGHT if start.endswith(_THINKS) else after_user
