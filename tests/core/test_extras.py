# SPDX-License-Identifier: Apache-2.0
"""Optional packages: one that is missing is named, with how to get it."""

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.extras import has_extra, load_extra


def test_what_is_installed_is_loaded():
    assert has_extra("json")
    assert load_extra("json", "plots").dumps([1]) == "[1]"


def test_what_is_missing_is_named_with_how_to_get_it():
    assert not has_extra("no_such_package")
    with pytest.raises(PlannerError, match=r"no_such_package.*llm_planner\[plots\].*requirements/plots\.txt") as error:
        load_extra("no_such_package", "plots")
    assert error.value.code is ErrorCode.NOT_INSTALLED
