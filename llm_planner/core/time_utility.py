# SPDX-License-Identifier: Apache-2.0
"""Time utility: what a response is worth as a function of when it comes (TimelyLLM, section 2.3)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from llm_planner.core.errors import ErrorCode, PlannerError

UtilityFunction = Callable[[float, float, float], float]
"""``(lateness_s, alpha, beta) -> utility`` of a response that comes ``lateness_s`` > 0 after its ERT."""

LINEAR = "linear"
ENTRY_POINTS = "llm_planner.time_utilities"
"""Packages that declare functions under this entry point group need no registration in any process."""

LOSS_HORIZON_S = 1.0
_CHECKED_AT_S = tuple(10.0 ** (exponent / 4) for exponent in range(-12, 25))  # 1 ms to 11 days
_CHECKED_WITH = tuple((alpha, beta) for alpha in (0.0, -0.5, -2.0, -20.0 / 3) for beta in (0.5, 1.0, 2.0))


def _linear(lateness_s: float, alpha: float, beta: float) -> float:
    return alpha * lateness_s + beta


def _step(lateness_s: float, alpha: float, beta: float) -> float:  # noqa: ARG001
    return 0.0


def _exponential(lateness_s: float, alpha: float, beta: float) -> float:
    return beta * math.exp(alpha * lateness_s / beta)


_functions: dict[str, UtilityFunction] = {LINEAR: _linear, "step": _step, "exponential": _exponential}


def time_utility_functions() -> Mapping[str, UtilityFunction]:
    """Returns the functions that are registered in this process, by name: ``linear`` is Eq. (1) of TimelyLLM.

    ``step`` is worth nothing after ERT (a firm deadline); ``exponential`` begins to fall as the linear one does but
    never falls below 0.
    """
    return MappingProxyType(_functions)


def register_time_utility(name: str, function: UtilityFunction) -> None:
    """Makes ``TimeUtility(..., function=name)`` fall along ``function``.

    The function must be pure, finite for every lateness > 0, and must never rise with it; what exceeds ``beta`` counts
    as ``beta``. That is checked at sampled points here, and again with the parameters of each request.

    Raises:
        PlannerError: INVALID_TIME_UTILITY if the name is taken or the function breaks its contract.
    """
    if not name.isidentifier() or name in _functions:
        raise _invalid(f"{name!r} is taken or is no identifier; choose another name for the function")
    for alpha, beta in _CHECKED_WITH:
        _check(name, function, alpha, beta)
    _functions[name] = function


def _find(name: str) -> UtilityFunction:
    """Returns a function by its name; other packages' are registered when they are first asked for."""
    if name not in _functions:
        if (entry := _declared().get(name)) is None:
            raise _invalid(f"no time utility function {name[:80]!r}; known are {', '.join(_functions)}")
        try:
            function = entry.load()
        except Exception as error:  # whatever its package does when it is imported
            raise _invalid(f"{name!r} of another package cannot be loaded: {error!r:.200}") from error
        register_time_utility(name, function)
    return _functions[name]


@lru_cache(maxsize=1)
def _declared() -> Mapping[str, EntryPoint]:
    """Returns the functions of other packages. Looked up once: it takes milliseconds, and any client may ask."""
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


@lru_cache(maxsize=4096)
def _is_known(name: str, alpha: float, beta: float) -> bool:
    """Returns True, or raises if there is no such function or it breaks its contract with these parameters."""
    _check(name, _find(name), alpha, beta)
    return True


def _check(name: str, function: UtilityFunction, alpha: float, beta: float) -> None:
    above = beta
    for lateness_s in _CHECKED_AT_S:
        try:
            utility = float(function(lateness_s, alpha, beta))
        except Exception as error:  # it is anybody's
            raise _invalid(f"{name!r} fails {lateness_s:g} s after ERT: {error}") from error
        if not math.isfinite(utility) or min(beta, utility) > above:
            raise _invalid(
                f"{name!r} must be finite and never rise with time; with alpha={alpha:g}, beta={beta:g} it is "
                f"{utility:g} {lateness_s:g} s after ERT and {above:g} shortly before"
            )
        above = min(beta, utility)


def _invalid(problem: str) -> PlannerError:
    return PlannerError(ErrorCode.INVALID_TIME_UTILITY, f"time utility: {problem}")


@dataclass(frozen=True, slots=True)
class TimeUtility:
    """``TUF(t) = min(beta, alpha (t - ERT) + beta)``, Eq. (1) of TimelyLLM, or another function that never rises.

    Attributes:
        ert_s: Expected response time; until then the utility is ``beta``. Finite, >= 0.
        alpha: Slope after ``ert_s``, in utility per second. Finite, <= 0.
        beta: Utility of a response in time. Finite, > 0.
        function: Name of a registered function (``register_time_utility``) that tells how it falls after ``ert_s``.

    Raises:
        PlannerError: INVALID_TIME_UTILITY if a parameter is outside its range or the function is unknown.
    """

    ert_s: float
    alpha: float
    beta: float
    function: str = LINEAR

    def __post_init__(self) -> None:
        in_range = self.ert_s >= 0 and self.alpha <= 0 and self.beta > 0
        if not (in_range and all(map(math.isfinite, (self.ert_s, self.alpha, self.beta)))):
            raise _invalid(f"ert_s must be finite and >= 0, alpha <= 0, beta > 0; got {self}")
        if self.function != LINEAR:
            _is_known(self.function, self.alpha, self.beta)

    def __call__(self, response_time_s: float) -> float:
        """Returns the utility, which may be negative, of a response after ``response_time_s`` seconds."""
        return self.after_ert(response_time_s - self.ert_s)

    def after_ert(self, lateness_s: float) -> float:
        """Returns the utility of a response ``lateness_s`` after ERT: ``beta`` if it is not late."""
        if lateness_s <= 0:
            return self.beta
        return min(self.beta, _find(self.function)(lateness_s, self.alpha, self.beta))

    def loss_per_s(self, lateness_s: float) -> float:
        """Returns what one that is late by ``lateness_s`` loses per second from now on; >= 0.

        Of Eq. (1) this is ``-alpha``; of another function, the mean over the next ``LOSS_HORIZON_S``, so that a jump
        counts before it comes.
        """
        if self.function == LINEAR:
            return -self.alpha
        from_s = max(0.0, lateness_s)
        return (self.after_ert(from_s) - self.after_ert(from_s + LOSS_HORIZON_S)) / LOSS_HORIZON_S

    @property
    def is_linear(self) -> bool:
        """Whether it is Eq. (1): then late ones lose at a constant rate."""
        return self.function == LINEAR

    def suspended(self) -> "TimeUtility":
        """Returns TUF_1 for later segments: same slope and worth, ERT = 0 (TimelyLLM, section 4.2)."""
        return replace(self, ert_s=0.0)


# TimelyLLM, section 7.1. Its alpha for urgent tasks is printed rounded; the cut-off time of 0.5 s is kept exactly.
NORMAL = TimeUtility(ert_s=1.0, alpha=-2.0, beta=1.0)
URGENT = TimeUtility(ert_s=0.2, alpha=-2.0 / 0.3, beta=2.0)
CHAT = NORMAL
