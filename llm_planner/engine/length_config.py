# SPDX-License-Identifier: Apache-2.0
"""What a length predictor's directory says of itself: ``length.json``, next to the weights of a small decoder."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.fingerprint import tokenizer_fingerprint, weights_fingerprint
from llm_planner.prediction.calibration import GroupedCalibration, IntervalCalibration

CONFIG_NAME = "length.json"
HEAD_NAME = "length_head.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthConfig:
    """How a predictor is asked, and whose lengths it knows.

    Attributes:
        target_model: Name of the model whose responses it predicts.
        target_weights: Fingerprint of that model (``engine.fingerprint``).
        target_tokenizer: Fingerprint of its tokenizer.
        bucket_tokens: B, tokens per bucket.
        num_buckets: Buckets; together they reach to the longest response.
        max_input_tokens: Longest input; longer prompts are compressed.
        head_input_tokens: Of a compressed prompt, how many tokens are its beginning.
        levels: Of ``prediction.calibration.IntervalCalibration``, for prompts that are longer than those of ``groups``.
        groups: Shorter prompts, by length in ascending order: their most tokens and their levels.
    """

    target_model: str
    target_weights: str
    target_tokenizer: str
    bucket_tokens: int
    num_buckets: int
    max_input_tokens: int
    head_input_tokens: int
    levels: tuple[float, ...]
    groups: tuple[tuple[int, tuple[float, ...]], ...] = ()

    def __post_init__(self) -> None:
        if min(self.bucket_tokens, self.num_buckets) < 1:
            raise ValueError("bucket_tokens and num_buckets must be >= 1")
        if not 0 <= self.head_input_tokens < self.max_input_tokens:
            raise ValueError("head_input_tokens must be >= 0 and less than max_input_tokens")
        bounds = [bound for bound, _ in self.groups]
        if bounds != sorted(set(bounds)):
            raise ValueError("groups must be in ascending order of their prompts' lengths")
        for levels in (self.levels, *(levels for _, levels in self.groups)):
            if len(levels) != len(IntervalCalibration().levels) or list(levels) != sorted(levels):
                raise ValueError("levels must be numbers that never fall, as many as a calibration has")

    @property
    def calibration(self) -> GroupedCalibration:
        """What gives intervals their nominal coverage."""
        shorter = tuple((bound, IntervalCalibration(levels)) for bound, levels in self.groups)
        return GroupedCalibration(shorter, IntervalCalibration(self.levels))

    def save(self, directory: Path) -> None:
        """Writes ``length.json``."""
        (directory / CONFIG_NAME).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


_ADAPTER = TypeAdapter(LengthConfig)


def load_length_config(directory: Path) -> LengthConfig:
    """Returns the configuration of a predictor's directory.

    Raises:
        PlannerError: MODEL_NOT_FOUND if this is no predictor, CHECKPOINT_INVALID if its file is broken.
    """
    path = directory / CONFIG_NAME
    if not path.is_file():
        raise PlannerError(
            ErrorCode.MODEL_NOT_FOUND,
            f"{directory} is no length predictor: it has no {CONFIG_NAME}; make one with "
            "`llm-planner train-length-predictor`",
        )
    try:
        return _ADAPTER.validate_json(path.read_bytes())
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{path}: {problems}") from error


def mismatch(config: LengthConfig, target: Path) -> str | None:
    """Returns what keeps a predictor from predicting for the model in ``target``, naming both; None if it fits.

    A directory without weights, of a model that a server runs, is known by its tokenizer alone.
    """
    made_for = f"was made for {config.target_model!r}, whose"
    if config.target_tokenizer != tokenizer_fingerprint(target):
        return f"{made_for} tokenizer is not that of {target.name!r}"
    if any(target.glob("*.safetensors")) and config.target_weights != weights_fingerprint(target):
        return f"{made_for} weights are not those of {target.name!r}"
    return None
