# SPDX-License-Identifier: Apache-2.0
"""Optional packages: imported where they are used, with a message that says how to get one that is missing."""

import importlib
import importlib.util
from typing import Any

from llm_planner.core.errors import ErrorCode, PlannerError


def has_extra(module: str) -> bool:
    """Returns whether an optional package is installed."""
    return importlib.util.find_spec(module) is not None


def load_extra(module: str, extra: str) -> Any:
    """Imports and returns a module of an optional package.

    Args:
        module: Name of the module, e.g. ``matplotlib``.
        extra: The extra of this package that brings it; also the name of its file in ``requirements/``.

    Raises:
        PlannerError: NOT_INSTALLED if it cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PlannerError(
            ErrorCode.NOT_INSTALLED,
            f"{module} is not installed ({error}); install it with: pip install 'llm_planner[{extra}]', or in a "
            f"checkout pip install -r requirements/{extra}.txt",
        ) from error
