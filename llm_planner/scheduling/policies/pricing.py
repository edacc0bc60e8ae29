"""What the policies that weigh utility against time have in common: due times, worth, and estimates of time."""

from typing import Protocol

from llm_planner.scheduling.policies.interface import GenerationView


class Forecast(Protocol):
    """Estimates of the engine's pace, learned while it runs."""

    @property
    def network_latency_s(self) -> float:
        """One-way delay between planner and robot."""
        ...

    def generation_time_s(self, generation: GenerationView) -> float:
        """Returns how long its next segment takes if it runs from now on: G(s_k) of TimelyLLM, Eq. (4); > 0."""
        ...


class NominalForecast:
    """Before anything is known: the 90 ms per segment and 8 ms of network of TimelyLLM, section 7."""

    network_latency_s = 0.008

    def generation_time_s(self, generation: GenerationView) -> float:  # noqa: ARG002
        """Returns a constant."""
        return 0.09


class PricedPolicy:
    """Base of policies that suspend, deliver segments at once, and look at utility and time.

    Attributes:
        forecast: Where estimates come from; the scheduler sets its own.
    """

    suspends = True
    streams = True

    def __init__(self, forecast: Forecast | None = None) -> None:
        self.forecast: Forecast = forecast or NominalForecast()

    def due_s(self, generation: GenerationView) -> float:
        """Returns when its next segment must leave the planner so as not to lose utility.

        ERT after the arrival for the first segment, the moment when the robot becomes idle for later ones, whose ERT
        is 0 (TimelyLLM, section 4.2), both less the way to the robot.
        """
        if generation.num_segments == 0:
            due_s = generation.arrival_s + generation.request.time_utility.ert_s
        else:
            due_s = generation.robot_idle_at_s
        return due_s - self.forecast.network_latency_s

    def slack_s(self, generation: GenerationView, now_s: float) -> float:
        """Returns for how long it could still pause without losing utility; negative if it loses already."""
        return self.due_s(generation) - now_s - self.forecast.generation_time_s(generation)

    def utility(self, generation: GenerationView, now_s: float) -> float:
        """Returns TUF(W(s_k; t)): what its next segment will be worth if it runs from now on."""
        time_utility = generation.request.time_utility
        lateness_s = -self.slack_s(generation, now_s)
        return min(time_utility.beta, time_utility.beta + time_utility.alpha * lateness_s)
