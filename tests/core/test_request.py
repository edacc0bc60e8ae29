# SPDX-License-Identifier: Apache-2.0
"""What a request says of its time budget."""

import pytest

from llm_planner.core.request import AtDeadline, BudgetScope, OverrunStrategy, PlanRequest

GOES_ON, IS_CLOSED, ENDS = AtDeadline
KILL, SKIP_NEXT, PARTIAL = OverrunStrategy
FIRST, WHOLE = BudgetScope.FIRST_SEGMENT, BudgetScope.WHOLE_PLAN


@pytest.mark.parametrize(
    ("overrun", "scope", "num_segments", "is_capped", "outcome"),
    [
        (KILL, WHOLE, 0, False, ENDS),
        (KILL, WHOLE, 3, False, ENDS),
        (KILL, WHOLE, 3, True, IS_CLOSED),
        (KILL, WHOLE, 0, True, ENDS),
        (KILL, FIRST, 0, True, ENDS),
        (SKIP_NEXT, WHOLE, 0, True, GOES_ON),
        (SKIP_NEXT, FIRST, 0, False, GOES_ON),
        (PARTIAL, WHOLE, 3, False, IS_CLOSED),
        (PARTIAL, WHOLE, 0, False, ENDS),
    ],
)
def test_what_happens_at_the_deadline(overrun, scope, num_segments, is_capped, outcome):
    request = PlanRequest(
        request_id="r", robot_id="x", robot_model="tello", instruction="go", overrun=overrun, budget_scope=scope
    )
    assert request.at_deadline(num_segments, is_capped=is_capped) is outcome
