# SPDX-License-Identifier: Apache-2.0
"""Where an instruction wants things, against where its plan puts them.

"Stack red on blue" must not end with blue on red, and "put the cup next to the plate" must not end with the cup on the
plate: an arm puts a thing on or into another one, or pushes it up to one, and has no skill for any other place. Nor
does what goes to a thing go behind it. Judged are the words before a thing that the instruction names, and the thing
that stands before them, if one does: "the cup is next to the plate, put it on that" says two things of the plate.
What has one stated goal ("the good plate is for the carton") is brought nowhere else.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.mentions import marked
from llm_planner.planning.instruction.names import acted_on, bare_words
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.planning.untrusted import scene_names
from llm_planner.robots.effect import Approach, GoTo, Grasp, MoveTool, Place, Push
from llm_planner.robots.model import RobotModel

_SIDE = (
    r"(?:in front of|behind|beyond|underneath|beneath|under|below|(?:in )?between|opposite|around|across from"
    r"|(?:(?:on|to|at) )?the (?:left|right|other side) of|(?:left|right) of)"
)
_BESIDE = (
    r"(?:next to|beside|alongside|against|adjacent to|by(?! (?:any|hand|no)\b)|near(?:er)?(?: to)?|closer?(?: to)?"
    r"|(?:at|by|to|on) the (?:side|edge) of)"
)
_AWAY = r"(?:off(?: of)?|out of|from)"
_ON = r"(?:(?:on|in|at) (?:to )?(?:the )?top of|upon|onto|on|into|inside|in|within|toward|to|atop)"
_RELATION = rf"(?:(?P<side>{_SIDE})|(?P<beside>{_BESIDE})|(?P<away>{_AWAY})|(?P<on>{_ON}))"
_DETERMINER = r"(?:the|an?|my|your|our|his|her|their|thi|that|those|these|some)"  # as ``bare_words`` have them
_PARTS = (
    "and|then|but|or|while|if|unless|which|who|not|no|never|before|after|instead|so|because"
    rf"|{_SIDE}|{_BESIDE}|{_AWAY}|{_ON}"
)
_WORD = rf"(?: (?!(?:{_PARTS}|that)\b)\w+)"
"""A word that begins neither another relation nor another part of the sentence: "blue", "carefully", "goes"."""
_OF_THE_THING = (
    rf"(?: (?!(?:{_PARTS}|{_DETERMINER}|of|left|right|it|them|both|is|are|was|were|be|been|for|come|go|will|can"
    r"|should|must|have|has|put|place|pick|take|throw|lay|set|move|push|bring|get)\b)\w+)"
)
_UP_TO_IT = rf"\b(?: {_DETERMINER})?{_OF_THE_THING}{{0,2}}(?: of(?: {_DETERMINER})?{_OF_THE_THING}?)? @(\d+)\b"
"""From a relation to its thing: " the big @1", " the corner of the @1"."""
_TO_A_PLACE = r"(?: (?:to|in|at|on) an? (?:place|spot|position|point))?"
_STANDS_IN = re.compile(_RELATION + _UP_TO_IT)
_IS_WHAT = re.compile(rf"@(\d+){_WORD}{{0,3}}{_TO_A_PLACE} $")
_IS_THE_ONE = re.compile(
    r"\b(?:one|thing|whatever|what)(?: (?:that|which|is|are|lie|stand|sit|you see|just|directly))* $"
)
_COMES_FIRST = re.compile(r"(?:^|[,;] |\b(?:and|then|please|put|place|lay|set|stick|stack|pop) )$")
_IS_WHAT_BEHIND = re.compile(rf"{_WORD}{{0,4}} @(\d+)\b")
_COVERED = re.compile(r"\b(?:cover|top|cap|crown|fill|load|stuff)(?: \w+){0,2}? @(\d+) with(?: \w+){0,3} @(\d+)\b")
_IT = r"(?:it|them|that|these|those|thi)"
_IS_IT = re.compile(rf"(?<!\bdo )\b{_IT}{_WORD}{{0,3}} $")
_ON_IT = re.compile(
    rf"(?:@(\d+){_OF_THE_THING}{{0,3}} )?(?<!next )(?<!close )(?<!closer )(?<!nearer )"
    rf"\b(?:(?:on|in) top(?! of)|{_ON} (?:{_IT}|there|each other)\b(?! \w* ?@))"
)
_BESIDE_IT = re.compile(
    rf"@(\d+){_OF_THE_THING}{{0,3}} (?:(?P<side>{_SIDE})|(?P<beside>{_BESIDE})) {_IT}(?= [,;]| and| then)"
)
_LIST = re.compile(r"@\d+(?:(?: ,)?(?: and| or)?(?: (?:the|an?|my|your|both))? @\d+){1,8}\b")
_TAKEN_UP = re.compile(
    r"\b(?:it|them|they|these|those|both|all|everything|together|whole|lot)\b|\bth(?:at|i)(?= (?:[,;]|to|on|in|away))"
)
"""What may be a thing that was mentioned before."""
_TURNED_ROUND = re.compile(
    r"\b(?:swap\w*|switch|exchang\w+|trade|revers\w+|opposite|vice|other way|upside|turn|back|again|return|replac\w+"
    r"|undo|uncover|unstack|place of|its place|in place)\b"
)
"""What makes of one order another one."""
_GOES = re.compile(
    r"(?<!may )(?<!nobody )(?<!not )(?<!dont )(?<!never )"
    r"\b(?:go|fly|move|hover|get|come|head|stand|park|travel|sneak|slip|squeeze|hide|position|wait|stay)"
    r"(?: (?:right|straight|back|round|around|down|up|directly|slowly|carefully|just|yourself|itself)){0,3} $"
)
_STACKED = re.compile(r"\b(?:stack\w*|tower|pile|sandwich|layer|middle|(?:on|very|the) top(?! of)|other way)\b")
"""With these, what is under another thing may be said of what is put on it."""
_DESCRIBES = re.compile(
    r"\b(?:one|other|another|rest|same|each|every\w*|all|both|any\w*|some\w*|thing|what|whatever|where|whose|who"
    r"|it|them|they|those|these|more|next|new|not|isnt|without|\w{3,}est"
    r"|(?:small|bigg|tall|short|long|heavi|light|old|young|near|dark|wid|thick|clean|dirti|low|high)er|larger|closer|thinner)\b"
)
"""What may stand for a thing that is not named."""
_BINS = frozenset({"recycling", "compost", "trash", "rubbish", "garbage", "waste", "dustbin", "wastebasket"})
_IS_GOAL = re.compile(
    rf"(?:[,;]|\b(?:and|then|please|(?P<takes>take|get|carry|fetch|pick|lift|grab)"
    r"|(?:put|plac|lay|set|pop|stick|drop|mov|bring|slid|push|shov|chuck|throw|toss|transferr?|stack)(?:e|[pt]?ing)?)"
    rf"(?: up| both| all)?)(?: {_DETERMINER})?{_OF_THE_THING}{{0,2}} @\d+(?:(?: ,)?(?: and)?(?: {_DETERMINER})? @\d+)*"
    r"(?: (?:should|must|has to|have to|need to|want to|is to|are to|is meant to))?"
    r"(?:(?: all| both)? (?:go|come|belong|live|be put))?(?: back| over| straight)? $"
)
"""Before the word that says where a thing goes, in contrast to where it is."""
_IS_FOR = re.compile(
    rf"(?:[,;]|\band)(?: {_DETERMINER})?{_OF_THE_THING}{{0,2}} @(\d+) (?:is|are)(?: meant| intended)? for"
    rf"(?: {_DETERMINER})?{_OF_THE_THING}{{0,2}} @(\d+)(?= [,;]| and)"
)
_TARGET = re.compile(rf"(?:(?:go|belong) )?{_ON} (?:{_DETERMINER} )?(\w+) (\w+)\b")
"""Behind a thing: a place of two words that need not be in the scene."""
_MAY_CHANGE = re.compile(
    r"\b(?:no|nope|not|isnt|dont|never|sorry|actually|rather|instead|i mean|i meant|saying|scratch"
    r"|correction|or|if|unless|else|otherwise|except)\b"
)
"""With these, a thing may go elsewhere than one part of an instruction says."""
_NUMBER = re.compile(r"@(\d+)")
_NEAR = 64  # characters
_FEW = 4  # things


class _Said(NamedTuple):
    """That one of some things is to stand to one of others in a relation; none if the words do not say which.

    Attributes:
        at: Which mention is that of the others; -1 if none is.
        words: The relation as it was said.
        is_way: Whether the robot itself is to go there.
        is_reference: Whether it only tells which thing is meant: "the one left of the bottle".
        is_goal: Whether the thing is said to go there, and not to be there.
    """

    what: frozenset[str]
    relation: str
    where: frozenset[str] = frozenset()
    at: int = -1
    words: str = ""
    is_way: bool = False
    is_reference: bool = False
    is_goal: bool = False

    def may_be(self, what: str, where: str) -> bool:
        """Whether two things may be meant."""
        return (not self.what or what in self.what) and (not self.where or where in self.where)


@dataclass(slots=True)
class RelationCheck(PlanCheck):
    """Follows one plan call by call.

    Args:
        model: Of the robot: what its skills do.
        instruction: As it came; untrusted.
        scene: As the model is shown it.
    """

    model: RobotModel
    instruction: str
    scene: str
    _seen: frozenset[str] = field(init=False)
    _names: frozenset[str] = field(init=False)
    _mentions: Sequence[frozenset[str]] = field(init=False)
    _text: str = field(init=False)  # with a number for each mention
    _said: Sequence[_Said] = field(init=False)
    _used: set[str] = field(default_factory=set, init=False)  # where the plan has put something
    _is_open: bool = field(default=False, init=False)  # where the thing that is held goes decides

    def __post_init__(self) -> None:
        self._seen = frozenset(scene_names(self.scene)) - frozenset(self.model.places)
        self._names = self._seen.union(self.model.places)
        self._read()

    def feed(self, calls: Iterable[SkillCall], _text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        for call in calls:
            names = acted_on(self.model, call)
            if not self._names.issuperset(names):
                self._names = self._names.union(names)
                self._read()
            self.problem = self._problem_of(call, names)
            if self.problem:
                return Verdict.CONTRADICTED
        return Verdict.DOUBTFUL if self._is_open else Verdict.EXPLAINED

    def _problem_of(self, call: SkillCall, names: list[str]) -> str:
        """Returns why a call contradicts the instruction; empty if it does not."""
        if twin := next(filter(None, map(self._named_instead, names)), ""):
            return twin
        match self.model.skills[call.name].effect, names:
            case ((Approach() | GoTo() | MoveTool()), [where]):
                return self._goes_elsewhere(where)
            case Grasp(), [what]:
                nowhere = (each for each in self._said if each.relation in ("side", "beside"))
                self._is_open = any(not each.what or what in each.what for each in nowhere)
                return self._stays(what)
            case Push(), [what, where]:
                return self._stays(what) or self._stands_elsewhere(what, where, is_pushed=True)
            case Place(), [what, where]:
                self._is_open = False
                return self._stands_elsewhere(what, where, is_pushed=False)
            case _:
                return ""

    def _stands_elsewhere(self, what: str, where: str, *, is_pushed: bool) -> str:
        """Returns why a thing is not to be brought to another one; empty if it may be."""
        ways = [each for each in self._said if each.may_be(what, where)]
        self._used.add(where)
        is_passed_over = where in self._seen and not any(where in names for names in self._mentions)
        if is_passed_over and self._mentions and not _DESCRIBES.search(self._text):
            return f"the instruction says nothing of the {_plain(where)}"
        if any(each.relation in ("on", "for") or (is_pushed and each.relation == "beside") for each in ways):
            return ""
        other = next((each for each in ways if each.relation != "away"), None)
        if other and not (other.relation == "side" and _STACKED.search(self._text)):
            return f"no skill brings a thing {other.words!r} another one, only on or into it, or up to it"
        problem = self._goes_instead(what, where)
        if problem or where in self.model.places:
            return problem or self._throws_away(where) or self._is_side_of_another(what, where)
        is_turned = _TURNED_ROUND.search(self._text)
        if not is_turned and any(each.relation == "away" and each.what for each in ways):
            return f"the {_plain(what)} is to leave the {_plain(where)}"
        reverse = (each for each in self._said if each.relation == "on" and where in each.what and what in each.where)
        return f"the {_plain(where)} is to go to the {_plain(what)}" if any(reverse) and not is_turned else ""

    def _goes_instead(self, what: str, where: str) -> str:
        """Returns why a thing is not to go there: another place is stated, and only one; empty if it may."""
        if _MAY_CHANGE.search(self._text):
            return ""
        said, place = " ".join(bare_words(self.instruction)), bare_words(where)
        before, _, behind = said.partition(f"{' '.join(bare_words(what))} ")
        target = _TARGET.match(behind)
        is_kind = target and [target[2]] == place[1:] and " ".join(place) in before  # "steel crate ... brass crate"
        if target and is_kind and target[1] not in place:
            return f"the instruction says {target[1]} {target[2]}, and not {_plain(where)}"
        mentions = [at for at, names in enumerate(self._mentions) if what in names]
        goals = [each.where for each in self._said if each.is_goal and what in each.what]
        if len(mentions) != 1 or len(goals) != 1 or (where in self.model.places and "_" in where):  # an area
            return ""
        is_vague = len(self._mentions[mentions[0]]) > 1 and _DESCRIBES.search(self._text)
        is_passed_on = any(each.what & goals[0] for each in self._said)  # "put the cup on the tray in the sink"
        behind = self._text.partition(f"@{mentions[0]} ")[2]
        if is_vague or is_passed_on or _TAKEN_UP.search(behind) or _TURNED_ROUND.search(self._text):
            return ""
        return f"the {_plain(what)} is to go to the {_plain(min(goals[0]))}"

    def _named_instead(self, name: str) -> str:
        """Returns why a thing is not meant: the instruction names another one that only one word tells from it."""
        if name in self.model.places or any(name in names for names in self._mentions) or _DESCRIBES.search(self._text):
            return ""
        words = bare_words(name)
        for other in (next(iter(names)) for names in self._mentions if len(names) == 1):
            pairs = [*zip_longest(words, bare_words(other), fillvalue="")]
            if len(pairs) > 1 and sum(one != another for one, another in pairs) == 1:
                return f"the instruction says {_plain(other)}, and not {_plain(name)}"
        return ""

    def _throws_away(self, where: str) -> str:
        """Returns why the robot's own bin is not meant: the instruction names another one; empty if it may be."""
        if where != "bin" or any(where in names for names in self._mentions):
            return ""
        others = {name for names in self._mentions for name in names if name.partition("_")[0] in _BINS}
        other = next(iter(sorted(others - self._used)), "")
        return f"the instruction says {_plain(other)}, and nothing of the {where}" if other else ""

    def _is_side_of_another(self, what: str, where: str) -> str:
        """Returns why an area of the robot's own is not meant: a side of something else is; empty if it may be."""
        sides = (each for each in self._said if each.relation == "side" and what in each.what)
        others = (each.words for each in sides if each.where.isdisjoint(self.model.places))
        side = next((words for words in others if {"left", "right"} & {*words.split()} & {*where.split("_")}), "")
        return f"no skill brings a thing {side!r} another one, only on or into it, or up to it" if side else ""

    def _stays(self, name: str) -> str:
        """Returns why a thing is not to be moved: the instruction only says what goes there; empty if it may be."""
        mentions = [at for at, names in enumerate(self._mentions) if name in names]
        targets = {
            each.at for each in self._said if each.is_reference or (each.what and each.relation in ("on", "beside"))
        }
        if not mentions or not targets.issuperset(mentions) or _TURNED_ROUND.search(self._text):
            return ""
        if _TAKEN_UP.search(self._text.partition(f"@{mentions[0]} ")[2]):
            return ""
        return f"the instruction says what goes to the {_plain(name)} or is there, and not to move that"

    def _goes_elsewhere(self, where: str) -> str:
        """Returns why a robot is not to go to a thing; empty if it may."""
        ways = (each for each in self._said if each.is_way and each.relation == "side" and where in each.where)
        way = next((each for each in ways if each.words != "in front of"), None)  # it ends there, and faces the thing
        return f"no skill goes {way.words!r} a thing, only to it" if way else ""

    def _read(self) -> None:
        """Finds what the instruction says of the names that are known."""
        self._text, self._mentions = marked(self.instruction, self._names)
        self._said = [*self._stated()]

    def _stated(self) -> Iterator[_Said]:
        """Yields the relations that the instruction states."""
        text, first = self._text, 0  # the first mention that may be what the next relation is about
        lists = {int(number): found for found in _LIST.findall(text) for number in _NUMBER.findall(found)}
        for match in _STANDS_IN.finditer(text):
            relation, at = next(name for name in match.groupdict() if match[name]), int(match[match.lastindex or 0])
            before = text[max(0, match.start() - _NEAR) : match.start()]
            what: frozenset[str] = frozenset()
            found = None
            if _IS_IT.search(before):
                what = self._only_one(at)
            elif found := _IS_WHAT.search(before):
                what = self._listed(lists, int(found[1]), first)
            elif match["on"] != "to" and _COMES_FIRST.search(before):
                found = _IS_WHAT_BEHIND.match(text, match.end())
                what = self._mentions[int(found[1])] if found else what
            where = self._listed(lists, at, at) if relation == "side" else self._mentions[at]
            listed = lists.get(int(found[1]), found[0]) if found else ""
            numbers = [number for number in map(int, _NUMBER.findall(listed)) if number >= first]
            begins = _IS_GOAL.search(f"; {text}"[max(0, match.start() + 2 - _NEAR) : match.start() + 2])
            is_goal = (
                begins is not None
                and relation == "on"
                and (not begins["takes"] or match["on"] in ("to", "into", "onto", "toward"))
                and first in numbers
                and (len(numbers) == 1 or " and" in listed)  # "wash the cup, the fork goes in the box"
                and not text.startswith(" @", match.end())  # the name goes on
            )
            is_way = _GOES.search(before) is not None
            is_reference = relation == "side" and _IS_THE_ONE.search(before) is not None
            yield _Said(
                what, relation, where, at, match[relation], is_way=is_way, is_reference=is_reference, is_goal=is_goal
            )
            first = at + 1
        for match in _IS_FOR.finditer(f"; {text}"):
            yield _Said(self._mentions[int(match[1])], "for", self._mentions[int(match[2])], is_goal=True)
        for match in _COVERED.finditer(text):
            yield _Said(self._mentions[int(match[2])], "on", self._mentions[int(match[1])], int(match[1]))
        for match in _ON_IT.finditer(text):
            at = int(match[1] or 0)
            yield _Said(self._listed(lists, at, 0) if match[1] else frozenset(), "on", self._only_one(at))
        for match in _BESIDE_IT.finditer(text):
            relation, at = ("side" if match["side"] else "beside"), int(match[1])
            if earlier := frozenset().union(*self._mentions[max(0, at - _FEW) : at]):
                yield _Said(self._mentions[at], relation, earlier, words=match[relation])

    def _only_one(self, at: int) -> frozenset[str]:
        """Returns what "it" is if only one thing is mentioned before the mention ``at``; none else."""
        before = {*self._mentions[:at]}
        return before.pop() if len(before) == 1 else frozenset()

    def _listed(self, lists: Mapping[int, str], at: int, first: int) -> frozenset[str]:
        """Returns a thing that is mentioned with those that its list has from the ``first`` mention on."""
        others = [number for number in map(int, _NUMBER.findall(lists.get(at, ""))) if number >= first]
        return frozenset().union(*(self._mentions[number] for number in (at, *others)))


def _plain(name: str) -> str:
    return name.replace("_", " ")
