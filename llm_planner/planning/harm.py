# SPDX-License-Identifier: Apache-2.0
"""Requests to do harm, which no model is asked to plan: to hit something, to fly at somebody or over a crowd.

A gate judges motions, and the flight to a thing is a motion like others; that it is meant as a blow stands in the words
of the request alone. Only plain orders are recognised: against others there are the gate, the driver's limits and the
distance that an approach keeps. Warnings ("it will hit you") and negations are no orders.
"""

import re

from llm_planner.planning.untrusted import ascii_letters, plain_task
from llm_planner.robots.model import RobotKind, RobotModel

_ROOM = r"(?:kitchen|\w*room|hall(?:way)?|corridor|garden|yard|house|garage|shed|office|building|shop|workshop|barn)"
_BLOW = (
    r"(?:collide with|crash into|smash into|slam into|bump into|ram|strike(?! (?:that|a pose)\b)|"
    r"hit(?! (?:me with|record|play|pause|(?:the )?brakes?|the lights|(?:the|a|that|your) (?:\w+ )?button)\b)|"
    rf"run into(?! (?:the|my|your|our) (?:\w+ )?{_ROOM}\b)|run over(?! (?:to|there|here|and)\b)|"
    r"make contact with|attack|injure|hurt)\b(?! (?:nobody|no one|nothing)\b(?! (?:but|except)\b))"
)
_PEOPLE = r"(?:crowds?|people|audience|spectators|bystanders|pedestrians)"
_NEARER = r"(?:to|towards?|near(?: to)?)"
_WAY = r"(?:at|into|through|over|above|across|among)"
_TRAVEL = r"(?:fly|flying|go|run|proceed|head|move|navigate|guide|hover|travel|dive|operate|descend)"
_SOMEBODY = (
    r"(?:him|her|them|me|us|(?:the|a|that|this|my|his|her) (?:man|woman|person|boy|girl|child|kid|baby|dog|cat))"
    r"(?! (?:height|level|side|eye))"
)
_CHILDREN = r"(?:the |those |these |some |my )?(?:kids?|child|children|toddlers?|baby|babies)"
_SOLID = r"(?:the |a |that )(?:\w+ )?(?:window|wall|mirror|windscreen|ceiling)"
_HEAD = r"(?:his|her|my|their|the (?:man|woman|boy|girl|child|kid|baby)s) (?:head|face|neck)"
_FREE = r"(?:(?!\b(?:not|never|without|avoid|away|keep|keeping)\b)[^.,;!?])"
_ORDERED = (
    r"(?:^|[.;,!?]|\b(?:and|then|please|to|drone|now|just|go|(?:can|could|will|would) you|"
    r"before \w+ing|without \w+))\s*(?:(?:directly|carefully|safely|just|then)\s+)*"
)
_NEGATED = re.compile(
    r"\b(?:(?:not|never|dont)(?! hesitate\b)|avoid|unless|try not to|(?:will|would)(?! you\b)|gonna|going to|"
    r"about to|if|(?:before|without)(?= (?:(?:you|it|we|they|he|she|can|could|ever|even|trying|having|to) )*$))\b"
)
_HARMFUL = (
    re.compile(rf"{_ORDERED}(?P<order>{_BLOW})"),
    re.compile(
        rf"\b(?P<order>{_TRAVEL})\b{_FREE}{{0,40}}?\b(?:{_NEARER} {_FREE}{{0,12}}?\b{_PEOPLE}\b"
        r"(?! (?:entrance|entry|door|exit|stairs|toilets?|lift|area|car ?park)\b)"
        rf"|{_WAY} (?:(?!\b{_NEARER} ){_FREE}){{0,12}}?\b{_PEOPLE}\b)(?! (?:while )?keep)"
    ),
    re.compile(
        rf"\b(?P<order>{_TRAVEL})(?: (?:straight|right|directly|fast|low))* "
        rf"(?:into {_SOLID}|(?:at|into) (?:{_SOMEBODY}|{_CHILDREN})|(?:over|above|through|across) {_CHILDREN})"
        rf"(?=\s*(?:$|[.,;!?]|(?:and|then|please|now|fast|at full)\b))"
    ),
    re.compile(rf"\b(?P<order>land(?:ing)?) on (?:{_HEAD}|him|her(?=\s*(?:$|[.,;!?]|and\b)))\b"),
)


def harm_of(instruction: str, model: RobotModel) -> str:
    """Returns which words of a request order a drone to do harm; empty if none do."""
    if model.kind is not RobotKind.DRONE:
        return ""
    text = ascii_letters(plain_task(instruction)).lower().replace("'", "")
    for pattern in _HARMFUL:
        for match in pattern.finditer(text):
            clause = re.split(r"[.;!?,]", text[: match.start("order")])[-1]
            if not _NEGATED.search(clause):
                return match.group().strip(" ,.;!?")
    return ""
