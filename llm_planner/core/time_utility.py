"""Time utility: what a response is worth as a function of when it comes (TimelyLLM, section 2.3)."""

import math
from dataclasses import dataclass

from llm_planner.core.errors import ErrorCode, PlannerError


@dataclass(frozen=True, slots=True)
class TimeUtility:
    """``TUF(t) = min(beta, alpha (t - ERT) + beta)``, Eq. (1) of TimelyLLM.

    Attributes:
        ert_s: Expected response time; until then the utility is ``beta``. Finite, >= 0.
        alpha: Slope after ``ert_s``, in utility per second. Finite, <= 0.
        beta: Utility of a response in time. Finite, > 0.

    Raises:
        PlannerError: INVALID_TIME_UTILITY if a parameter is outside its range.
    """

    ert_s: float
    alpha: float
    beta: float

    def __post_init__(self) -> None:
        in_range = self.ert_s >= 0 and self.alpha <= 0 and self.beta > 0
        if not (in_range and all(map(math.isfinite, (self.ert_s, self.alpha, self.beta)))):
            raise PlannerError(
                ErrorCode.INVALID_TIME_UTILITY,
                f"time utility needs finite ert_s >= 0, alpha <= 0, beta > 0; got {self}",
            )

    def __call__(self, response_time_s: float) -> float:
        """Returns the utility of a response after ``response_time_s`` seconds (may be negative)."""
        return min(self.beta, self.alpha * (response_time_s - self.ert_s) + self.beta)

    def suspended(self) -> "TimeUtility":
        """Returns TUF_1 for later segments: same slope and worth, ERT = 0 (TimelyLLM, section 4.2)."""
        return TimeUtility(0.0, self.alpha, self.beta)


# TimelyLLM, section 7.1. Its alpha for urgent tasks is printed rounded; the cut-off time of 0.5 s is kept exactly.
NORMAL = TimeUtility(ert_s=1.0, alpha=-2.0, beta=1.0)
URGENT = TimeUtility(ert_s=0.2, alpha=-2.0 / 0.3, beta=2.0)
CHAT = NORMAL
