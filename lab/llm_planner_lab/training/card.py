# SPDX-License-Identifier: Apache-2.0
"""The model card: what a planner model is, and the figures that were measured on it."""

from dataclasses import dataclass

from transformers import LlamaConfig

from llm_planner_lab.tasks.sample import SEQUENCES
from llm_planner_lab.templates import render
from llm_planner_lab.training.evaluate import Evaluation
from llm_planner_lab.training.understanding import Begun

PAPER_FAMILIES = {
    "look_for": "Look for the cat",
    "check_or": "Check for keys or wallets",
    "check_on": "Check the book on the cabinet",
    "find_under": "Find a toy under the bed",
    "find_tool": "Find a tool for cutting paper",
    "avoid_injury": "Avoiding human injury",
    "prevent_collision": "Preventing potential collision",
    "evade_animal": "Evading animal pursuit",
    "stack": "Object stacking",
    "clean_desk": "Desk cleaning",
    "sort_food": "Fruit and vegetable classification",
}


def model_card(
    evaluations: dict[str, Evaluation],
    people: "People",
    *,
    network: LlamaConfig,
    num_parameters: int,
    training: str,
    command: str,
) -> str:
    """Returns the model card as Markdown.

    Args:
        evaluations: What was measured on generated tasks, by the heading of its column.
        people: What was measured on sentences of authors that training never saw.
        network: Shape of the network.
        num_parameters: Weights, each counted once.
        training: Sentences on the run that made the model, and on how many authors' sentences it drew.
        command: What measured the figures.
    """
    families = next(iter(evaluations.values())).scores
    return render(
        "model_card",
        evaluations=evaluations,
        titles={name: _title(name) for name in families},
        people=people,
        network=network,
        num_parameters=num_parameters,
        training=training,
        command=command,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Figures on sentences of held-out authors.

    Attributes:
        shares: By grade, as ``understanding.shares`` returns them, at ``min_confidence``.
        begun: As ``understanding.begun`` returns it, for statements that are executed as they come.
        curve: As ``understanding.risk_coverage`` returns it.
        min_confidence: The model's default.
    """

    shares: dict[str, dict[str, float]]
    begun: Begun
    curve: list[dict[str, float]]
    min_confidence: float


def _title(family: str) -> str:
    if family in PAPER_FAMILIES:
        return f"{family} ({PAPER_FAMILIES[family]})"
    return f"{family} (2 to 4 clauses)" if family in SEQUENCES else family
