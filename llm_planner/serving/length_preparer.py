# SPDX-License-Identifier: Apache-2.0
"""Adds to a prepared request how long its plan will be."""

from concurrent.futures import Executor
from dataclasses import dataclass, replace

from llm_planner.core.request import PlanRequest
from llm_planner.prediction.length import LengthDistribution, LengthPredictor
from llm_planner.serving.awaited_length import AwaitedLength
from llm_planner.serving.preparation import Prepared, Preparer


@dataclass(frozen=True, slots=True)
class LengthPreparer:
    """Prepares requests and begins to predict how long plans will be, where something is decided by that.

    A prediction takes a core for some milliseconds, beside an engine that may need it.

    Args:
        plans: Prepares them.
        predictor: Of the model that will be asked.
        executor: Runs predictions in parallel with the engine, one after the other.
        predicts_all: Whether the scheduling policy decides by lengths; if not, time budgets alone do.
    """

    plans: Preparer
    predictor: LengthPredictor
    executor: Executor
    predicts_all: bool

    def prepare(self, request: PlanRequest) -> Prepared:
        """Returns the request ready to be scheduled; how much is to be generated is told later, if it can be."""
        prepared = self.plans.prepare(request)
        is_wanted = self.predicts_all or request.time_budget_s is not None
        if not is_wanted or prepared.sequence.adapter is not None:  # with one, plans are others than it has read
            return prepared
        num_delivered, prompt_ids = prepared.num_delivered_tokens, prepared.sequence.prompt_token_ids
        asked_ids = prompt_ids[: len(prompt_ids) - num_delivered - prepared.num_inserted_tokens]

        def predict() -> LengthDistribution:
            return self.predictor.predict(asked_ids).limited_to(request.max_tokens).remaining(num_delivered)

        return replace(prepared, length=AwaitedLength.begin(predict, self.executor))
