# SPDX-License-Identifier: Apache-2.0
"""Time utilities to messages and back."""

from dataclasses import replace

import llm_planner.msg as msgs
from llm_planner.core.request import Urgency
from llm_planner.core.time_utility import LINEAR, TimeUtility


def to_time_utility(message: msgs.TimeUtility, urgency: Urgency) -> TimeUtility:
    """Returns the time utility of a goal; without numbers of its own, those of the preset.

    Raises:
        PlannerError: INVALID_TIME_UTILITY for a number outside its range or a function that is not registered.
    """
    function = message.function or LINEAR
    if (message.ert_s, message.alpha, message.beta) == (0.0, 0.0, 0.0):
        return replace(urgency.time_utility, function=function)
    return TimeUtility(message.ert_s, message.alpha, message.beta, function)


def from_time_utility(utility: TimeUtility, urgency: Urgency) -> msgs.TimeUtility:
    """Returns the message of a time utility: an empty one for the preset."""
    if utility == urgency.time_utility:
        return msgs.TimeUtility()
    function = "" if utility.is_linear else utility.function
    ert_s, alpha, beta = float(utility.ert_s), float(utility.alpha), float(utility.beta)
    return msgs.TimeUtility(ert_s=ert_s, alpha=alpha, beta=beta, function=function)
