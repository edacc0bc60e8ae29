# SPDX-License-Identifier: Apache-2.0
"""A baseline without a network: gradient-boosted trees on what a prompt's words are, cheaply counted."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.training.length.data import Example

_COUNTED_TOKENS = 300
_TASK_TOKENS = 48  # the end of a prompt, where the task stands
_ROUNDS = 300
_OPTIONS = {"objective": "reg:squarederror", "max_depth": 6, "eta": 0.1, "subsample": 0.8, "nthread": 1}
HOW_TO_INSTALL = "xgboost is not installed; `make setup-dev` installs it"


def is_installed() -> bool:
    """Returns whether the library is there."""
    try:
        import xgboost  # noqa: F401
    except ImportError:
        return False
    return True


def boosted_lengths(train: Sequence[Example], test: Sequence[Example], seed: int) -> list[float]:
    """Returns the lengths of ``test`` that trees predict which were fitted to ``train``.

    Raises:
        PlannerError: NOT_INSTALLED if xgboost is not installed.
    """
    if not is_installed():
        raise PlannerError(ErrorCode.NOT_INSTALLED, HOW_TO_INSTALL)
    import xgboost

    counts = Counter(token_id for example in train for token_id in set(example.token_ids))
    counted = [token_id for token_id, _ in counts.most_common(_COUNTED_TOKENS)]
    labels = np.array([example.num_tokens for example in train], dtype=np.float64)
    trees = xgboost.train(
        {**_OPTIONS, "seed": seed}, xgboost.DMatrix(_features(train, counted), label=labels), num_boost_round=_ROUNDS
    )
    predicted = trees.predict(xgboost.DMatrix(_features(test, counted)))
    return [max(1.0, float(length)) for length in predicted]


def _features(examples: Sequence[Example], counted: Sequence[int]) -> NDArray[np.float64]:
    """Returns (num_examples, num_features): lengths, and counts of tokens, also in the task alone."""
    column = {token_id: index for index, token_id in enumerate(counted)}
    width = len(counted)
    rows = np.zeros((len(examples), 2 + 2 * width))
    for row, example in zip(rows, examples, strict=True):
        row[0], row[1] = len(example.token_ids), len(set(example.token_ids))
        for offset, token_ids in ((2, example.token_ids), (2 + width, example.token_ids[-_TASK_TOKENS:])):
            for token_id in token_ids:
                if token_id in column:
                    row[offset + column[token_id]] += 1
    return rows
