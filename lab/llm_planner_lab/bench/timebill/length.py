# SPDX-License-Identifier: Apache-2.0
"""The length part of ``llm-planner bench timebill``: what the run measured that made the model's length predictor.

Predictor and baselines must be compared on the same held-out prompts in the same run, and only training has them all.
"""

import json
from pathlib import Path
from typing import Any

from llm_planner.core.errors import ErrorCode, PlannerError


def length_figures(model: Path) -> dict[str, Any]:
    """Returns ``rlp`` (errors by predictor), ``interval_coverage_90`` and how both were measured.

    Args:
        model: Checkpoint directory of the planner's model; its predictor is in the same directory.

    Raises:
        PlannerError: MODEL_NOT_FOUND without a predictor that was measured, INVALID_CONFIG if it is another model's,
            CHECKPOINT_INVALID if its figures cannot be read.
    """
    from llm_planner.engine.length_config import load_length_config, mismatch

    directory = model.resolve().with_name(f"{model.resolve().name}-length")
    problem = mismatch(load_length_config(directory), model.resolve())
    if problem is not None:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"length predictor {directory} {problem}; train it again")
    path = directory / "figures.json"
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
        return {"rlp": figures["rlp"], "interval_coverage_90": figures["interval_coverage_90"], **figures}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{path} cannot be read: {error!r}; train it again") from error
