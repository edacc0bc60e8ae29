# SPDX-License-Identifier: Apache-2.0
"""The model card: what a planner model is, and the figures that were measured on it."""

from dataclasses import dataclass

from llm_planner_lab.tasks.frames import HELD_OUT_AUTHORS, corpus, of_authors
from llm_planner_lab.tasks.sample import SEQUENCES
from llm_planner_lab.training.evaluate import Evaluation, FamilyScore
from llm_planner_lab.training.network import NetworkConfig

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
    network: NetworkConfig,
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
        training: Sentences on the run that made the model.
        command: What measured the figures.
    """
    any_evaluation = next(iter(evaluations.values()))
    return _CARD.format(
        parameters=f"{num_parameters / 1e6:.1f}",
        layers=network.num_hidden_layers,
        hidden=network.hidden_size,
        heads=network.num_attention_heads,
        kv_heads=network.num_key_value_heads,
        vocabulary=network.vocab_size,
        positions=network.max_position_embeddings,
        training=training,
        command=command,
        seed=any_evaluation.seed,
        table=_table(evaluations),
        num_authors=len({frame.author for frame in of_authors(corpus(), HELD_OUT_AUTHORS, is_in=False)}),
        num_sentences=people.shares["all"]["n"],
        min_confidence=people.min_confidence,
        people=_people(people.shares),
        curve=_curve(people.curve),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Figures on sentences of held-out authors.

    Attributes:
        shares: By grade, as ``understanding.shares`` returns them, at ``min_confidence``.
        curve: As ``understanding.risk_coverage`` returns it.
        min_confidence: The model's default.
    """

    shares: dict[str, dict[str, float]]
    curve: list[dict[str, float]]
    min_confidence: float


def _people(shares: dict[str, dict[str, float]]) -> str:
    lines = ["| grade | sentences | right | executed and wrong | not understood |", "|---|" + "---:|" * 4]
    for name, row in shares.items():
        cells = (f"{100 * row[verdict]:.1f} %" for verdict in ("right", "wrong", "not understood"))
        lines.append(f"| {name} | {row['n']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _curve(curve: list[dict[str, float]]) -> str:
    lines = ["| `min_confidence` | executed | right | wrong | wrong of the executed |", "|---:|" + "---:|" * 4]
    for row in curve:
        cells = (f"{100 * row[name]:.1f} %" for name in ("coverage", "right", "wrong", "risk"))
        lines.append(f"| {row['threshold']:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _table(evaluations: dict[str, Evaluation]) -> str:
    columns = list(evaluations)
    families = next(iter(evaluations.values())).scores
    lines = [
        "| family | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * len(columns),
        *(_row(_title(name), [evaluations[column].scores[name] for column in columns]) for name in families),
        _row("**all**", [evaluations[column].total for column in columns]),
    ]
    return "\n".join(lines)


def _title(family: str) -> str:
    if family in PAPER_FAMILIES:
        return f"{family} ({PAPER_FAMILIES[family]})"
    return f"{family} (2 to 4 clauses)" if family in SEQUENCES else family


def _row(title: str, scores: list[FamilyScore]) -> str:
    cells = (f"{100 * score.success:.0f} % ({score.num_achieved}/{score.num_tasks})" for score in scores)
    return f"| {title} | " + " | ".join(cells) + " |"


_CARD = """---
license: apache-2.0
language: en
library_name: llm_planner
---
# planner-small

Plans for two robots, a Tello drone and an Indy7 arm: it reads an instruction and, if there is one, a scene, and writes
MiniSpec. A default for `llm_planner` that runs on any CPU, not a general model: English, these two robots, the skills
of their robot models, the kinds of tasks in the table. It was trained from nothing; for anything else use an
instruction-tuned checkpoint (`model:=PATH`), which gets a full prompt with all skills. Other robot models are refused
(UNTRAINED_ROBOT_MODEL): `robot_models` in `planner.json` names those that it was trained for.

Llama architecture: {parameters} M parameters in bfloat16, {layers} layers of {hidden}, {heads} heads
({kv_heads} for keys and values), {vocabulary} tokens, {positions} positions. The prompt is `robot NAME`, `scene: ...`,
`task: ...`, `plan:`, one line each, all in lower case (`llm_planner.planning.prompt.compact_prompt`).

## Sentences of authors that training never saw

{num_sentences} sentences of five whole authors (lab/corpus/README.md), each executed in the kinematic simulator and
compared with what the author's own plan leaves. *plain*: one or two skills; *everyday*: two or three clauses,
conditions; *hard*: questions, corrections, negations, "the other one", what is impossible or unclear; *danger*:
warnings, sent as URGENT. With `min_confidence` {min_confidence:g}, the default in `planner.json`:

{people}

Risk and coverage: shares of all sentences.

{curve}

`llm-planner evaluate` measures this again, for this or any other model.

## Our templates: success on held-out tasks

A plan counts if it passes parser and safety gate and, **executed in the kinematic simulator**, meets the goal test of
its task. Generated as in service: grammar, greedy decoding, float32 on CPU. Held out means: a template that training
never drew (a new sentence of known words, for the families that have enough templates), a combination of names and
numbers that it never drew, real words that it never saw, and noise (politeness, typing errors in 12 %, capitals). Seed
{seed}.

{table}

Measured by

```
{command}
```

With n tasks and share p, the standard error is sqrt(p (1 - p) / n): 3 points at 95 % of 50.

## Data and recipe

Two thirds of the tasks are sentences of {num_authors} authors (lab/corpus), with their slots filled, mirrored and joined; one
third is generated by `llm_planner_lab.tasks`: the families above, both robots, scenes from none to 200 objects as plain
lists, with positions, remarks, and sentences that pose as orders; half of all names are invented words. No text from
anywhere else.
{training}
docs/training.md tells what was learned, docs/first_model.md how to train your own.

## Limits

- It is small. Long-winded requests, rare words and other languages end with NOT_UNDERSTOOD, or in a wrong plan of which
  it is sure (the table above); the safety gate keeps a wrong plan inside the robot's limits, not sensible.
- Scenes near 200 objects are harder than short ones; compare the columns.
- It takes nothing that neither the scene nor the instruction names: "clean the desk" needs a scene.
- The first of several listed objects of one kind is taken.

## Licence

Apache-2.0, weights and data generator alike.
"""
