"""How long will the next segment take to generate: learned from the steps as they happen."""


class SmoothedBound:
    """An upper estimate of a noisy quantity: smoothed mean plus twice the smoothed mean deviation.

    The estimator of TCP's retransmission timer (Jacobson 1988), with its gains of 1/8 and 1/4.

    Args:
        initial: The bound before anything was observed.

    Attributes:
        bound: The estimate.
    """

    __slots__ = ("_deviation", "_mean", "bound")

    def __init__(self, initial: float) -> None:
        self.bound = initial
        self._mean: float | None = None
        self._deviation = 0.0

    def observe(self, value: float) -> None:
        """Learns from one observation >= 0."""
        if self._mean is None:
            self._mean, self._deviation = value, value / 2
        else:
            error = value - self._mean
            self._mean += error / 8
            self._deviation += (abs(error) - self._deviation) / 4
        self.bound = self._mean + 2 * self._deviation


class GenerationPace:
    """Learns seconds per step and steps per segment, for all generations together."""

    def __init__(self) -> None:
        self._step_s = SmoothedBound(0.05)
        self._segment_steps = SmoothedBound(32.0)

    def observe_step(self, duration_s: float) -> None:
        """Learns from one step in which at least one generation decoded."""
        self._step_s.observe(duration_s)

    def observe_segment(self, num_steps: int) -> None:
        """Learns from one complete segment of ``num_steps``."""
        self._segment_steps.observe(num_steps)

    @property
    def segment_time_s(self) -> float:
        """Expected generation time of the next segment, on the cautious side; G(s_k) of TimelyLLM, Eq. (4)."""
        return self._step_s.bound * self._segment_steps.bound
