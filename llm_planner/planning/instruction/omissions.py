# SPDX-License-Identifier: Apache-2.0
"""Things that an instruction names and its plan leaves out: code checks what a model may have passed over.

"Go to the bay window, the fireplace and the shelf" must not end at the fireplace. A thing counts if the scene has it
and the instruction names it as what something is done to or where to go, not where something else is. What may name
things that its plan does not need is not judged: an instruction that says what to leave, or takes something back, and
a motion with its reason ("come down, you are before the clock"), whose plan has none of them. Of "all the letters" it
must have each one that the scene has, by its number. A plan that goes to one thing twice, and not at all to another
one that is named, has taken one for the other ("fly to the door and to the window"); so has an arm that brings one
spoon twice. Of what is called by what it is like ("the red ones"), each thing counts that has the word in its name. A
plan that acts on what nobody spoke of, and leaves out what is named, has taken one for the other, too. A condition with
the same in both of its cases decides nothing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.mentions import marked
from llm_planner.planning.instruction.names import acted_on, bare_words
from llm_planner.planning.instruction.shown_scene import named_things
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.planning.untrusted import scene_names
from llm_planner.robots.effect import Approach, GoTo, MoveTool, Orient, Place, Push
from llm_planner.robots.model import RobotModel

_EXCEPTION = re.compile(
    r"\b(?:leave|leaves|leaving|keep|keeps|stays|except\w*|excluding|but|bar|ignore|avoid|skip|forget|careful|without|not|no"
    r"|naw|divvent|dinnae|never|nothing|\w+n't|(?:do|does|did|is|ca|wo)nt|instead|actually|mean|meant|rather|sorry|scratch"
    r"|belay|mind (?:the|your|that)|(?:is|are|s|re|i|you|we|have|ve|has) already|(?:am|is|are|m|s|re) still|was|were"
    r"|correction|pardon|er|cancel|(?:can|may|should|must|shall|to) stay|nobody|nowhere|let)\b"
)
_DESCRIBED = re.compile(
    r"(?<!is )(?<!are )(?<!if )(?<!that )\b(?:(?:the|an?) "
    r"(?:(?!(?:and|or|then|while|but|keep|start)\b)\w+ ){1,2}?(?:that is \w+ing|that \w+s"
    r"|(?:hold|wear|carry|contain|cover|block|hid|touch)ing|covers|blocks|hides|touches|contains)"
    r"|(?:person|man|woman|boy|girl|child) facing) (?=(?:the|an?|my|your|his|her|its|their)\b)"
)
"""What stands before a thing that only describes another: "the person holding ", "the plate that has "."""
_FACT = re.compile(
    r"(?:^|[,.;:!?] ?)(?:because )?(?:the|my|our|your) (?:\w+ )?\w+(?:'s| is| are) (?:too |very )?\w+"
    r"(?=$|[,.;:!?]| so\b)"
    r"(?!.*\b(?:it|its|them|they|that|those|this|these|one|ones|him|her)\b)"
)
"""What a thing is like ("the tray is full, "), if no word takes it up."""
_ASIDE = re.compile(
    r"\bwhile (?:i|we|he|she|they)\b[^,.;:!?]*"
    rf"|{_FACT.pattern}"
    r"|(?<!if )(?<!whether )\b(?:the|my|our|your|an?) (?:\w+ )?\w+(?:'?s| is| are) \w+ing\b"
    r"|\bso (?:that )?(?:i|we) (?:can|could)\b[^,.;:!?]*?(?=\b(?:and|then)\b|[,.;:!?]|$)"
    r"|\bbetween [^,.;:!?]*?(?=\bthere(?:'?s| is| are)\b)"
    r"|\bi(?:'?ll| will) (?:(?:look after|hold)\b[^,.;:!?]*?(?=\band\b|[,.;:!?]|$)"
    r"|(?:take|get|do|carry|bring|fetch)\b[^.;:!?]*?(?=\b(?:and|while) you (?:take|get|do|carry|bring|fetch|pick)\b))"
)
"""What is to become possible, where something is, what happens, and what the speaker does himself."""
_WORD = re.compile(r"[a-z0-9]+")
_ALL = r" (?:all|every|each|both) (?:(?:single|last|of|the|these|those|my|your|our|them) )*(?:\w+ )?"
_MARKS = re.compile(r"['\u2019]")
_NUMBER = re.compile(r"_\d+$")
_PRONOUN = re.compile(r"\b(?:ones?|others?|rest|it|them|that|those|this|these)\b")
_ONLY_SOME = re.compile(r"\b(?:(?:that|which) (?:are|is) not|(?:are|is)n.?t|without)\b")
_AGAIN = re.compile(r"\b(?:again|back|return|twice|thrice|times|more|repeat\w*|between)\b")
_TWICE_HERE = re.compile(
    rf"{_AGAIN.pattern}|\b(?:each|both|every|other|same|it|there|finish|end|laps?|rounds?|circuit|beg[ai]n|start\w*)\b"
    r"|\d\{|\?\w*_\d"
)
"""What allows to go to one thing twice, in an instruction or in a plan."""
_SAME_IN_EITHER_CASE = re.compile(
    r"\?(?P<asked>[^{}]+?)(?:==True)?\{(?P<done>[^{}]+)\}\?(?P=asked)==False\{(?P=done)\}"
    r"|\?(?P<denied>[^{}]+)==False\{(?P<made>[^{}]+)\}\?(?P=denied)(?:==True)?\{(?P=made)\}"
    r"|\?[^{}]+\{(?P<first>[^{}]+?)->\w+;\}(?P=first)(?:->\w+;)?$"
)
"""A condition that decides nothing."""
_CALLED = re.compile(
    r"\b(?:(?:photo(?:graph)?|picture|pic|shot|snap|image|look|view)s? (?:of|at)|find|see|face|snap|shoot|photograph"
    r"|film|take|get|visit|approach|pick|grab) (?:(?:the|my|our|your|his|its|their|an?) )?@(\d+)\b"
)
"""Orders to do something with a thing that is called by its name."""
_IS_DESCRIBED = re.compile(
    r"\b(?:some|any|every)(?:thing|one|body|where)\b|\b(?:the|an?)(?: \w+)? ones?\b|n['\u2019]?t\b|\b\w+er of\b"
    r"|\b(?:it|that|those|these|which|who|what\w*|where|things?|all|each|every|both|rest|remain\w*|last|left|next|bar|but"
    r"|except\w*|apart|skip|leave|others?|another|not|no|nearest|closest|only)\b"
)
"""With these, a thing may be meant that has no name."""
_ONES = re.compile(
    r"(?<!leave )(?<!keep )(?<!but )(?<!except )(?<!not )(?<!of )(?<!toward )(?<!towards )"
    r"\b(?:(?:the|all) (?P<ones>\w+) ones"
    r"|(?:what|whatever|everything)(?:s| that is| is| looks) (?P<what>\w+))\b"
    r"(?! (?:stay|remain|may|can|should stay|alone|where|in|on|at|to you|from)\b)"
)
"""What is alike: "the red ones", "what is dirty". What is named besides may be left, or be all that is meant."""
_CHANGED = re.compile(r"\b(?:no|actually|sorry|instead|mean|meant|scratch|rather|just|only one)\b")


@dataclass(slots=True)
class OmissionCheck(PlanCheck):
    """Follows one plan to its end.

    Args:
        model: Of the robot.
        instruction: As it came; untrusted.
        scene: As the model is shown it.
    """

    model: RobotModel
    instruction: str
    scene: str
    _texts: list[str] = field(default_factory=list, init=False)
    _visits: Counter[tuple[str, ...]] = field(default_factory=Counter, init=False)  # by skill and things

    def feed(self, calls: Iterable[SkillCall], text: str, /) -> Verdict:
        """Notes another statement; what it leaves out may come later."""
        self._texts.append(text)
        for call in calls:
            effect = self.model.skills[call.name].effect
            if isinstance(effect, (Approach, GoTo, MoveTool, Orient, Place, Push)):
                self._visits[call.name, *acted_on(self.model, call)] += 1
        return Verdict.EXPLAINED

    def finish(self) -> Verdict:
        """Returns how the whole plan stands: it must speak of each thing that the instruction names."""
        text = "".join(self._texts)
        plan = _words(text)
        if _SAME_IN_EITHER_CASE.search(text):
            return self.contradicted("the plan does the same in either case")
        if problem := self._goes_twice(plan) or self._leaves_one_out(plan) or self._acts_on_another(plan):
            return self.contradicted(problem)
        kind = self._all_of_a_kind()
        exception = _EXCEPTION.search(self.instruction.lower())
        if exception and self._may_leave(kind, self.instruction[exception.end() :]):
            return Verdict.EXPLAINED
        things = kind or self._named()
        left_out = [names for names in things if not _has(plan, names)]
        told = [names for names in self._told() if names not in things]
        if not left_out or (len(left_out) == len(things) and not any(_has(plan, names) for names in told)):
            return Verdict.EXPLAINED
        return self.contradicted(f"the plan leaves out the {_plain(left_out[0])}")

    def _goes_twice(self, plan: str) -> str:
        """Returns to what a plan goes twice instead of to something else; empty if it does not."""
        if passed_over := self._passed_over(plan):
            return f"the plan goes to one thing twice, and leaves out the {_plain(passed_over)}"
        twice = self._named_once()
        return f"the plan goes to the {_plain([twice])} twice, which the instruction names once" if twice else ""

    def _leaves_one_out(self, plan: str) -> str:
        """Returns which of the things that are alike a plan leaves out: "the red ones"; empty for none."""
        if _CHANGED.search(self.instruction.lower()):
            return ""
        said = {*bare_words(self.instruction)}
        for found in _ONES.finditer(_words(_MARKS.sub("", self.instruction))):
            adjective = found["ones"] or found["what"]
            names = ((name, {*bare_words(name)}) for name in scene_names(self.scene))
            alike = [name for name, words in names if adjective in words and said.isdisjoint(words - {adjective})]
            done = [name for name in alike if _has(plan, [name])]
            if 0 < len(done) < len(alike):
                return f"the plan leaves out the {_plain([next(name for name in alike if name not in done)])}"
        return ""

    def _passed_over(self, plan: str) -> frozenset[str]:
        """Returns what a thing may be that the instruction names, where the plan goes to another one twice instead."""
        if max(self._visits.values(), default=0) < 2 or _AGAIN.search(self.instruction.lower()):
            return frozenset()
        _, mentions = marked(self.instruction, scene_names(self.scene))
        twice = {name for visit, times in self._visits.items() if times > 1 for name in visit[1:]}
        kinds = (names - {name} for names in mentions for name in names & twice)  # "the spoons"
        others = (frozenset({name}) for kind in kinds for name in sorted(kind))
        return next((names for names in (*mentions, *others) if not _has(plan, names)), frozenset())

    def _named_once(self) -> str:
        """Returns a thing to which the plan goes twice, though nothing is said of that; empty if there is none."""
        said = bare_words(self.instruction)
        twice = (visit[1] for visit, times in self._visits.items() if times > 1 and self._goes(visit))
        if any(_TWICE_HERE.search(text) for text in (self.instruction.lower(), *self._texts)):
            return ""
        return next((name for name in twice if said.count(bare_words(name)[-1]) == 1), "")

    def _goes(self, visit: Sequence[str]) -> bool:
        return isinstance(self.model.skills[visit[0]].effect, (GoTo, MoveTool))

    def _acts_on_another(self, plan: str) -> str:
        """Returns what is wrong with a plan that acts on things of the scene of which the instruction has no word."""
        seen = frozenset(scene_names(self.scene))
        done = {name for visit in self._visits for name in visit[1:]}.difference(self.model.places)
        text, mentions = marked(self.instruction, seen)
        is_another = bool(mentions and done) and done <= seen and done.isdisjoint(frozenset().union(*mentions))
        if not is_another or _IS_DESCRIBED.search(self.instruction.lower()):
            return ""
        called = (mentions[int(index)] for index in _CALLED.findall(text))
        left_out = next((names for names in called if not _has(plan, names)), None)
        return f"the plan leaves out the {_plain(left_out)}, and acts on what nobody named" if left_out else ""

    def _may_leave(self, kind: Sequence[frozenset[str]], behind: str) -> bool:
        """Returns whether the words behind an exception may mean one of a kind: not where they name another thing."""
        _, left = marked(behind, scene_names(self.scene))
        of_the_kind = frozenset().union(*kind)
        is_another = bool(left) and all(names.isdisjoint(of_the_kind) for names in left)
        may_describe = _PRONOUN.search(behind.lower()) or _ONLY_SOME.search(self.instruction.lower())
        return not (kind and is_another) or may_describe is not None

    def _told(self) -> Sequence[frozenset[str]]:
        """Returns the things that the instruction tells something of: what they are like."""
        facts = " ".join(match[0] for match in _FACT.finditer(self.instruction.lower().replace("\u2019", "'")))
        return named_things(self.scene, facts, self.model) if facts else []

    def _named(self) -> Sequence[frozenset[str]]:
        """Returns the things that the instruction names, but for those of asides and descriptions of others."""
        said = self.instruction.lower().replace("\u2019", "'")
        asked = named_things(self.scene, _ASIDE.sub(" ", _DESCRIBED.sub(r"\g<0>with ", said)), self.model)
        return [names for names in named_things(self.scene, self.instruction, self.model) if names in asked]

    def _all_of_a_kind(self) -> list[frozenset[str]]:
        """Returns each thing of a kind of which the instruction wants all: those that only a number tells apart."""
        said = f" {' '.join(bare_words(self.instruction))} "
        kinds: dict[str, list[frozenset[str]]] = {}
        for name in scene_names(self.scene):
            kind = " ".join(bare_words(_NUMBER.sub("", name)))
            kinds.setdefault(kind, []).append(frozenset({name}))
        several = ((kind, things) for kind, things in kinds.items() if kind and len(things) > 1)
        return next((things for kind, things in several if re.search(f"{_ALL}{re.escape(kind)} ", said)), [])


def _has(plan: str, names: Iterable[str]) -> bool:
    return any(_words(name) in plan for name in names)


def _plain(names: Iterable[str]) -> str:
    return min(names).replace("_", " ")


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.lower()))} "
