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
    """Prepares requests and begins to predict the lengths of their plans.

    Args:
        plans: Prepares them.
        predictor: Of the model that will be asked.
        executor: Runs predictions in parallel with the engine, one after the other.
    """

    plans: Preparer
    predictor: LengthPredictor
    executor: Executor

    def prepare(self, request: PlanRequest) -> Prepared:
        """Returns the request ready to be scheduled; how much is to be generated is told later, if it can be."""
        prepared = self.plans.prepare(request)
        if prepared.sequence.adapter is not None:  # its plans are other ones than those that the predictor has read
            return prepared
        num_delivered, prompt_ids = prepared.num_delivered_tokens, prepared.sequence.prompt_token_ids
        asked_ids = prompt_ids[: len(prompt_ids) - num_delivered - prepared.num_inserted_tokens]

        def predict() -> LengthDistribution:
            return self.predictor.predict(asked_ids).limited_to(request.max_tokens).remaining(num_delivered)

        return replace(prepared, length=AwaitedLength.begin(predict, self.executor))
