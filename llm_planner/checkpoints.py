# SPDX-License-Identifier: Apache-2.0
"""Names -> checkpoints: where a model lies, how it wants to be asked, and what predicts the lengths of its answers."""

import logging
from pathlib import Path

from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Tokenizer
from llm_planner.core.resources import share_dir
from llm_planner.planning.prompt import PromptStyle
from llm_planner.prediction.length import LengthPredictor
from llm_planner.serving.prompt_encoder import PromptEncoder, PromptMarkup

_log = logging.getLogger(__name__)
OWN_PREDICTOR = "auto"
"""Asks for the length predictor in the directory next to the model's: ``MODEL-length``."""


def resolve_model(name: str) -> Path:
    """Returns the checkpoint directory of a bundled model's name or of a path.

    Raises:
        PlannerError: MODEL_NOT_FOUND, naming the bundled models.
    """
    bundled = share_dir() / "models"
    for candidate in (bundled / name, Path(name).expanduser()):
        if candidate.is_dir():
            return candidate
    known = sorted(p.parent.name for p in bundled.glob("*/config.json") if not (p.parent / "length.json").exists())
    raise PlannerError(
        ErrorCode.MODEL_NOT_FOUND,
        f"model {name!r} is neither a directory nor one of the bundled models {known}; pass a Hugging Face checkpoint "
        "directory",
    )


def planner_model(config: PlannerConfig) -> Path:
    """Returns the directory of the configured model, which must not be a length predictor's.

    Raises:
        PlannerError: MODEL_NOT_FOUND if it is, or if there is none.
    """
    directory = resolve_model(config.engine.model)
    if (directory / "length.json").is_file():
        raise PlannerError(
            ErrorCode.MODEL_NOT_FOUND, f"{directory} is a length predictor and writes no plans; name a planner model"
        )
    return directory


def build_prompt_encoder(directory: Path) -> PromptEncoder:
    """Returns what turns requests into the prompts of a checkpoint, exactly as a planner with this model does."""
    from llm_planner.engine.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(directory)
    return prompt_encoder(directory, tokenizer, tokenizer.start_text)


def prompt_encoder(directory: Path, tokenizer: Tokenizer, start_text: str) -> PromptEncoder:
    """Returns the same for a tokenizer that is loaded already; ``start_text`` are its start tokens."""
    style, markup = _prompt_format(directory, start_text)
    return PromptEncoder(tokenizer=tokenizer, style=style, markup=markup)


def _prompt_format(directory: Path, start_text: str) -> tuple[PromptStyle, PromptMarkup]:
    """Returns how to ask the model: in its short prompt if ``planner.json`` says so, else in full.

    In full, it is asked in its chat template if it has one.
    """
    from llm_planner.engine.chat import load_chat_format
    from llm_planner.engine.model_config import read_json

    own, known = directory / "planner.json", [style.value for style in PromptStyle]
    style = (read_json(own) if own.is_file() else {}).get("prompt_style", PromptStyle.INSTRUCT.value)
    if style not in known:
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{own}: prompt_style must be one of {', '.join(known)}")
    if style == PromptStyle.COMPACT.value:
        return PromptStyle.COMPACT, PromptMarkup()
    chat = load_chat_format(directory)
    if chat is None:
        return PromptStyle.INSTRUCT, PromptMarkup(before_static=start_text)
    markup = PromptMarkup(
        before_static=chat.before_system,
        before_dynamic=chat.before_user,
        after_dynamic=chat.after_user,
        before_next=chat.before_next_user,
    )
    return PromptStyle.INSTRUCT, markup


def min_confidence(config: PlannerConfig) -> float:
    """Returns how sure the configured model must be of each statement: as configured, or as its directory says."""
    if config.min_confidence >= 0.0:
        return config.min_confidence
    from llm_planner.engine.model_config import read_json

    own = resolve_model(config.engine.model) / "planner.json"
    value = read_json(own).get("min_confidence", 0.0) if own.is_file() else 0.0
    if not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{own}: min_confidence must be a number from 0 to 1")
    return float(value)


def trained_robot_models(config: PlannerConfig) -> frozenset[str] | None:
    """Returns the robot models that the configured checkpoint was trained for, as its ``planner.json`` says.

    None for any: what says nothing, such as a chat checkpoint, reads in its prompt what a robot can do.

    Raises:
        PlannerError: CHECKPOINT_INVALID if ``robot_models`` is no list of names.
    """
    from llm_planner.engine.model_config import read_json

    own = resolve_model(config.engine.model) / "planner.json"
    names = read_json(own).get("robot_models") if own.is_file() else None
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{own}: robot_models must be a list of names")
    return frozenset(names)


def taught_verbs(config: PlannerConfig) -> dict[str, frozenset[str]]:
    """Returns the verbs that the configured checkpoint was taught, by robot model, as its ``planner.json`` says.

    Raises:
        PlannerError: CHECKPOINT_INVALID if ``verbs`` is no object of texts.
    """
    from llm_planner.engine.model_config import read_json

    own = resolve_model(config.engine.model) / "planner.json"
    verbs = read_json(own).get("verbs", {}) if own.is_file() else {}
    if not isinstance(verbs, dict) or not all(isinstance(words, str) for words in verbs.values()):
        raise PlannerError(
            ErrorCode.CHECKPOINT_INVALID, f"{own}: verbs must be an object with a text for each robot model"
        )
    return {robot: frozenset(words.split()) for robot, words in verbs.items()}


def build_length_predictor(config: PlannerConfig) -> LengthPredictor | None:
    """Returns what predicts the response lengths of the configured model, or None if there is nothing.

    Raises:
        PlannerError: If the predictor that was asked for is another model's, or its files cannot be used.
    """
    model, name = resolve_model(config.engine.model).resolve(), config.length_predictor
    own = model.with_name(f"{model.name}-length")
    if not name or (name == OWN_PREDICTOR and not own.is_dir()):
        return None
    from llm_planner.engine.length_config import load_length_config, mismatch
    from llm_planner.engine.length_predictor import TorchLengthPredictor

    try:
        directory = own if name == OWN_PREDICTOR else resolve_model(name)
    except PlannerError as error:
        raise PlannerError(error.code, f"length_predictor: {error.message}") from error
    problem = mismatch(load_length_config(directory), model)
    if problem is None:
        return TorchLengthPredictor(directory, device=config.engine.device)
    message = f"length predictor {directory} {problem}; train it with `llm-planner train-length-predictor`"
    if name != OWN_PREDICTOR:
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    _log.warning("lengths are not predicted: %s", message)
    return None
