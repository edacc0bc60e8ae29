# SPDX-License-Identifier: Apache-2.0
"""Which requests lose by being held back for the sake of balance."""

from collections.abc import Sequence

from llm_planner.core.time_utility import TimeUtility
from llm_planner.scheduling.policies.interface import GenerationView

URGENT_FACTOR = 2.0
"""A request that loses this many times what the others lose on the mean is urgent."""


def urgent(waits: Sequence[tuple[TimeUtility, float]], cycle_s: float) -> list[bool]:
    """Returns, for each request, whether it loses by waiting for one cycle more than the others do.

    The time utility (TimelyLLM, section 2.3) says what a request loses per second once it is late. One that would not
    be late after the next cycle loses nothing; if all lose alike, none is urgent, because none can yield.

    Args:
        waits: Time utility of each request and the seconds since it asked for its next token or segment.
        cycle_s: How long it would be held back.
    """
    losses = [utility.loss_per_s(waited_s + cycle_s - utility.ert_s) for utility, waited_s in waits]
    late = [
        loss if waited_s + cycle_s > utility.ert_s else 0.0
        for loss, (utility, waited_s) in zip(losses, waits, strict=True)
    ]
    total = sum(late)
    others = max(1, len(late) - 1)
    return [loss > 0.0 and loss >= URGENT_FACTOR * (total - loss) / others for loss in late]


def urgent_requests(generations: Sequence[GenerationView], now_s: float, cycle_s: float) -> tuple[str, ...]:
    """Returns which generations lose by waiting for one cycle more; each waits since its robot became idle."""
    waits = [(_utility(g), now_s - g.robot_idle_at_s) for g in generations]
    are_urgent = urgent(waits, cycle_s)
    return tuple(g.request.request_id for g, is_urgent in zip(generations, are_urgent, strict=True) if is_urgent)


def _utility(generation: GenerationView) -> TimeUtility:
    """Returns what service is worth: a robot between two segments has nothing to do, so it is late at once."""
    utility = generation.request.time_utility
    return utility.suspended() if generation.num_segments else utility
