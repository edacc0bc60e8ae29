# SPDX-License-Identifier: Apache-2.0
"""Verbs that a model was not taught: "thread the needle" must not end in grasping it.

A small model writes a plan for whatever it is told. Where it does not know the verb, it does something else with the
thing. So nothing is done to a thing that the instruction has behind a verb with which no order of its training had one.
Most of what a robot cannot do is said so ("peel the apple", "squash that wasp"), and code need not know any of it.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.mentions import marked
from llm_planner.planning.instruction.names import COLOURS, acted_on, bare_words
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.planning.untrusted import scene_names
from llm_planner.robots.model import RobotModel

_BEFORE_A_THING = bare_words(
    "the a an my your his her our their its this that these those all every both each of some any"
)
_VERB = re.compile(
    r"(?:^|[,;] |\b(?:and|then|please|kindly|you|to|now|just|so|or) )"
    rf"([a-z]+) (?:(?:{'|'.join(_BEFORE_A_THING)}) )*@(\d+)"
)
_SHORTEST, _CLOSE = 5, 0.8  # letters; of ``difflib``: "pour" is no misspelled "your"
_NO_VERBS = {
    *_BEFORE_A_THING,
    *COLOURS,
    *bare_words("not never no neither except but bar without only yes ok okay well"),
}
"""What stands where a verb could: "stack the brown and red bowls"."""


def verbs_of_things(instruction: str, names: Collection[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields what begins a clause with a thing behind it, as "push" does in "push the cup", and what the thing may be.

    Args:
        instruction: As it came; untrusted.
        names: Of things.
    """
    text, mentions = marked(instruction, names)
    for word, index in _VERB.findall(text):
        if word not in _NO_VERBS:
            yield word, mentions[int(index)]


@dataclass(slots=True)
class VerbCheck(PlanCheck):
    """Follows one plan call by call.

    Args:
        model: Of the robot.
        instruction: As it came; untrusted.
        scene: As the model is shown it.
        taught: The verbs of things in the orders that the model was trained on, as ``verbs_of_things`` has them.
    """

    model: RobotModel
    instruction: str
    scene: str
    taught: Collection[str]
    _names: frozenset[str] = field(init=False)
    _unknown: list[tuple[str, frozenset[str]]] | None = field(default=None, init=False)  # None until it is needed

    def __post_init__(self) -> None:
        self._names = frozenset(scene_names(self.scene))

    def feed(self, calls: Iterable[SkillCall], _text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        things = {name for call in calls for name in acted_on(self.model, call)}
        for verb, meant in self._unknown_verbs(things) if things else ():
            if not things.isdisjoint(meant):
                thing = min(things & meant).replace("_", " ")
                return self.contradicted(f"this robot has not learned to {verb} the {thing}")
        return Verdict.EXPLAINED

    def _unknown_verbs(self, things: Collection[str]) -> list[tuple[str, frozenset[str]]]:
        """Returns the unknown verbs of the instruction with what they stand before; read again for things not seen."""
        if self._unknown is None or not self._names.issuperset(things):
            self._names = self._names.union(things)
            verbs = verbs_of_things(self.instruction, self._names)
            self._unknown = [(verb, meant) for verb, meant in verbs if not self._is_taught(verb)]
        return self._unknown

    def _is_taught(self, verb: str) -> bool:
        """Returns whether a verb is taught, or a misspelled one that is ("sllide"); of short words nobody can tell."""
        long = [taught for taught in self.taught if len(taught) >= _SHORTEST]
        return verb in self.taught or bool(difflib.get_close_matches(verb, long, n=1, cutoff=_CLOSE))
