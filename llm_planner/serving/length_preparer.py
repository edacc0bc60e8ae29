"""Adds to a prepared request how long its plan will be."""

from dataclasses import dataclass, replace

from llm_planner.core.request import PlanRequest
from llm_planner.prediction.length import LengthPredictor
from llm_planner.serving.preparation import Prepared, Preparer


@dataclass(frozen=True, slots=True)
class LengthPreparer:
    """Prepares requests and predicts the lengths of their plans.

    Args:
        plans: Prepares them.
        predictor: Of the model that will be asked.
    """

    plans: Preparer
    predictor: LengthPredictor

    def prepare(self, request: PlanRequest) -> Prepared:
        """Returns the request ready to be scheduled, with the distribution of what is to be generated."""
        prepared = self.plans.prepare(request)
        num_delivered, prompt_ids = prepared.num_delivered_tokens, prepared.sequence.prompt_token_ids
        whole = self.predictor.predict(prompt_ids[: len(prompt_ids) - num_delivered]).limited_to(request.max_tokens)
        return replace(prepared, length=whole.remaining(num_delivered))
