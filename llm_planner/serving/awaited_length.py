# SPDX-License-Identifier: Apache-2.0
"""A predicted length that may still be in the making, in parallel with the engine's own work."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from llm_planner.prediction.length import LengthDistribution

_log = logging.getLogger(__name__)
LONGEST_WAIT_S = 5.0
"""A prediction takes milliseconds; the engine stands still while it waits for one."""


@dataclass(frozen=True, slots=True)
class AwaitedLength:
    """A prediction on another thread: a caller that does not need it at once does not wait for it.

    So TimeBill, section 5.1, hides it behind the prefill. One that fails, or takes longer than ``LONGEST_WAIT_S``, is
    as good as none, and the log says so.

    Attributes:
        predict: Makes it.
        future: Where it is being made.
    """

    predict: Callable[[], LengthDistribution]
    future: Future[LengthDistribution]

    @classmethod
    def begin(cls, predict: Callable[[], LengthDistribution], executor: Executor) -> "AwaitedLength":
        """Returns a prediction that is made as soon as the executor has come to it."""
        return cls(predict, executor.submit(predict))

    @classmethod
    def known(cls, length: LengthDistribution) -> "AwaitedLength":
        """Returns a prediction that was made before."""
        future: Future[LengthDistribution] = Future()
        future.set_result(length)
        return cls(lambda: length, future)

    @property
    def is_here(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.future.done()

    def cancel(self) -> None:
        """Takes it back unless it has begun: others wait behind it, and the end of the process waits for them all."""
        self.future.cancel()

    def wait(self) -> LengthDistribution | None:
        """Returns the prediction as soon as it is there; None if it failed.

        One that waits behind others is made here and now.
        """
        try:
            return self.predict() if self.future.cancel() else self.future.result(LONGEST_WAIT_S)
        except Exception as error:  # noqa: BLE001 (whatever it is, the plan needs no prediction)
            _log.warning("a length could not be predicted: %r", error)
            return None
