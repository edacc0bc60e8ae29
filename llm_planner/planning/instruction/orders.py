# SPDX-License-Identifier: Apache-2.0
"""Whether an instruction orders that a robot acts at all, in which case, and how often.

A model that was taught orders reads "have you landed?" and "I never said land" as one: the word is there, and the
model is sure of it. So a plan does nothing for questions about what the robot did or will do, for denials, reports and
pretences, if nothing else is said, for what is only supposed or not meant, and for what somebody else is quoted with.
"Go, but not if somebody is there" must not be planned as "go if somebody is there".
Recognised are common forms, by their beginnings; what is not recognised is judged by the other checks alone.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from llm_planner.core.skill import ArgumentType, SkillCall
from llm_planner.planning.instruction.names import acted_on, bare_words, name_words
from llm_planner.planning.instruction.quantities import with_plain_amounts
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.planning.untrusted import ascii_letters, plain_task
from llm_planner.robots.effect import (
    Approach,
    Ask,
    Delay,
    GoTo,
    Gripper,
    MoveTool,
    NoEffect,
    Perceive,
    Replan,
    Say,
    Scan,
    Stop,
    Translate,
    Turn,
)
from llm_planner.robots.model import RobotModel

_LOOKS = (Ask, Delay, NoEffect, Perceive, Replan, Say, Scan, Stop)
"""What a robot does without acting on anything."""
_TRAVELS = (Approach, GoTo, Translate)
_CLAUSE = re.compile(r"[.,;:!?]+|\b(?:and|but|so|then)\b")
_LEAD = r"(?:(?:and|but|so|well|oh|hey|ok|okay|no|wait|robot|drone|tello|arm) )*"
_ROBOT = r"(?:you|it|the (?:drone|robot|arm|tello))"
_SOMEBODY = r"(?:i|we|he|she|they|nobody|no one|somebody|someone|anybody|anyone|who)"
_OTHERS = (
    r"(?:he|she|they|my (?:brother|sister|mother|father|mom|mum|dad|friend|boss|wife|husband|son|daughter|colleague)"
    r"|the other (?:drone|robot|arm|one))"
)
_DONE = r"(?:(?!need|want|ask|order|proceed|speed|feed|succeed|exceed)\w+ed|flew|went|took|fell|broke|lost)"
"""A verb in the past, other than what passes on an order: "he asked you to land"."""
_ADVERBS = r"(?:(?:just|already|almost|nearly|never|really|only|accidentally) )*"
_QUESTION = re.compile(
    rf"{_LEAD}(?:"
    rf"(?:did|have|has|had|were|was) (?:{_ROBOT}|{_SOMEBODY}) (?!(?:still|got|seen|see|found|any|an?|the)\b)\w+"
    rf"|(?:are|is) {_ROBOT} (?:going to|about to|\w+ing)\b(?! able)"
    rf"|(?:do|does) {_ROBOT} (?:have to|need to|always|ever)\b"
    rf"|why (?:did|have|has|had|are|is|were|was|do|does|would|will) {_ROBOT}\b"
    rf"|who (?:on earth )?(?:told|said|made|let|put|took|\w+ed)\b|where (?:did|have|has|had) {_ROBOT}\b"
    rf"|when (?:will|did|do|does|are|is|was|were|have|had|would) {_ROBOT}\b"
    rf"|how (?:do|does|did|can|could|would|should) (?:i|we|one|you)\b"
    r"|what (?:happens|happened|(?:would|will|might|could) (?:happen|become|go wrong)|does \w+ mean)\b"
    r"|explain (?:how|why|to me)\b"
    r"|(?:is|would) it (?:be )?(?:time|safe|dangerous|allowed|hard|wise|risky|likely|an? (?:good|bad) idea)"
    rf" (?:for {_ROBOT} )?(?:to|if|that|the)\b"
    r"|is (?:the|your) gripper (?:open|closed|shut|empty)\b"
    r"|should (?:i|we|you (?:be \w+ing|have))\b|do you (?:think|reckon|believe) (?:i|we|you) should\b"
    r"|(?:would|will) (?:it|that|anything|anybody|anyone|(?:the|my) (?!drone|robot|arm|tello)\w+) "
    r"(?!(?:be|kill|please|mind|bother|trouble|hurt)\b)"
    r")"
)
_REPORT = re.compile(
    rf"{_LEAD}(?:"
    rf"{_SOMEBODY} (?:did not|didnt|never|have not|havent|has not|hasnt) (?:say|said|tell|told|ask|asked|order)\b"
    rf"|(?:nobody|no one|who) (?:said|told|asked|ordered)\b"
    rf"|i (?:told|asked|ordered|warned) {_ROBOT} (?:not|never) to\b"
    rf"|{_ROBOT} (?:{_ADVERBS}{_DONE}|(?:almost|nearly) \w+"
    r"|(?:were not|was not|werent|wasnt) (?:supposed|meant|told|allowed) to"
    r"|(?:should not|could not|must not|shouldnt|couldnt) have"
    rf"|(?:have|has) {_ADVERBS}{_DONE})\b"
    rf"|{_OTHERS} {_ADVERBS}(?:{_DONE}|has|have|had)\b"
    r"|(?:i|we) (?:already|just|have already|ve already)\b"
    r"|(?:its|it is|it was|thats|that is|that was) (?:supposed|meant) to (?:be|stay)\b"
    r"|(?:(?:i|we) (?:will|shall)|i am going to|ill|im going to) (?!need|want|like|be|have|take)\w+"
    r"|(?:i am|im|we are|were) not ready\b"
    r"|(?!.*\benough\b)(?:i (?:hope|trust|assume|presume|suppose|take it)(?: that)? )?"
    rf"(?:{_ROBOT} (?:have|has|had|did)(?: not|nt)"
    rf"|(?:{_ROBOT} (?:are|is|were|was)(?: not|nt)|youre not)(?: \w+){{0,4}}? (?:\w+ing|about to)"
    rf"|{_ROBOT} (?:would|could|ca)n?t (?:be|have been) \w+ing)\b"
    r"|i (?:wonder|was wondering) (?:what|why|who|how|when)\b.* you\b"
    r"|(?:get|be|stand|stay) ready (?:to|for)\b"
    r"|(?:pretend|imagine|suppose)\b"
    r")"
)
_NEVER = (
    r"(?:(?:really|certainly|definitely|simply) )?(?:did not|didnt|do not|dont|would not|wouldnt|never|have never"
    r"|have not|havent|would never|am not|not|no longer)(?: (?:ever|actually|really|at all))*"
)
_WANTS = r"(?:want|wants|wanted|need|needs|needed|wish|wished|asked|ask|ordered)"
_MOVED = r"(?:the|that|this|my|any|an?|your|those|these) (?:\w+ ){1,4}?(?:to be )?\w+(?:ed|en|wn)\b"
_DENIAL = re.compile(
    rf"{_LEAD}(?:(?:its|it is|it was|thats|that is|it isnt|it wasnt|that isnt)(?: (?:not|just|simply))*"
    r" (?:true|right|a lie|wrong|false|untrue|correct|nonsense|a mistake|the case) that\b"
    rf"|(?:{_SOMEBODY}|im|ive) {_NEVER} (?:say|saying|said|ask|asking|asked|order|ordering|ordered|claim|claimed|tell"
    r"|telling|told|request|requested|mean|meant)\b"
    rf"|(?:i|we|id|wed) {_NEVER} (?:{_WANTS} (?:{_MOVED}|you to(?! be\b))|did$)"
    r"|(?:by no means|in no way|under no circumstances|at no point|since when|when) (?:do|did|have) (?:i|we)\b"
    rf"|(?:nobody|no one|who) (?:says|said|claims|claimed|told you)(?: that)? (?:i|we) {_WANTS}\b"
    r"|(?:did|have|had) (?:i|we|any(?:body|one)|some(?:body|one)) (?:ever )?(?:say|said|tell|told|ask|order)(?:ed)?\b"
    r"|do i (?:look|sound|seem) (?:like|as if|as though)\b"
    rf"|(?:nobody|no one) {_WANTS}\b|(?:there is|theres) (?:absolutely )?no (?:need|reason)\b|no need (?:for you )?to\b"
    r"|you (?:need not|neednt|do not have to|dont have to|do not need to|dont need to)(?! be\b)\b)"
)
"""What denies that something is wanted, whatever words it has besides."""
_IF = (
    r"(?:if (?:you|i|we|it) (?:were(?! you\b)(?: to)?|was to|did|had|ever|fell|flew|went|let go|told|said|took|lost|hit"
    r"|broke|(?!finish|need|want)\w+ed)|(?:supposing|assuming) (?:you|i|we|it)|(?:were|had) (?:you|i|we) (?:to )?\w+)\b"
)
_WHAT = r"(?:what|who|where|which|how)\b(?! about\b| \w+ it would\b)"
_WOULD = r"(?:would|will|could|might)(?:nt)? (?!you\b|we\b|i\b|it (?:be|bother|kill|trouble)\b)\w+"
_HYPOTHETICAL = re.compile(
    rf"(?:^|[.,;!?] )(?:{_LEAD}{_WOULD}|[^.,;!?]{{0,60}}?\b{_WHAT})[^.;!?]{{0,200}}?\b{_IF}[^.;!?]*"
    rf"|\b{_IF}[^.;!?]{{0,200}}?(?:, (?:then |so )?(?:{_WHAT}|{_WOULD})|\b(?:would|could|might)(?! you \w)\b)[^.;!?]*"
)
"""What is asked of a case that nobody speaks of as real: "what would break if you were to let go now?"."""
_DISPUTES = re.compile(
    r"\b(?:(?:(?:he|she|that|it)(?:s| is| was)|they(?:re| are| were))(?: \w+)? (?:wrong|mistaken|joking"
    r"|nonsense|rubbish|silly|daft|mad|crazy|not (?:right|true))|id rather not"
    r"|i (?:disagree|think not|doubt it|(?:do not|dont)(?: agree| think so| believe \w+)?(?= ?(?:[.,;!?]|$)))"
    r"|(?:ignore|(?:dont|do not) listen to|never mind|no (?:notice|heed)(?: of)?) (?:it|him|her|them|that))"
)
_DISPUTED = re.compile(
    r"(?:^|[.,;!?] )[^.,;!?]{0,80}?(?<!\bi )(?<!\bwe )\b(?:says?|said|thinks?|thought|reckons?|believes?|claims?"
    rf"|insists?|suggests?|swears?|wants?|convinced|would (?:have|like)|apparently)\b.{{0,200}}?{_DISPUTES.pattern}"
)
"""What others think, and the speaker does not."""
_NOT_FOR_REAL = re.compile(
    r"\b(?:(?:(?:dont|do not|never|without|not) (?:\w+ )?(?:actually|really) (?:do|doing|try|mov(?:e|ing))"
    r"|(?:dont|do not|without) (?:try|demonstrate)|without (?:do|try)ing|no need to (?:show|try)|not asking you to"
    r"|(?:dont|do not) do(?= (?:it|anything),? (?:but )?(?:i )?(?:just|only)\b))"
    r"(?: (?:it|that|this|so|anything|me)){0,2}(?= ?(?:[.,;!?]|$))"
    r"|(?:just|only) (?:answer|say|tell|explain)\b.{0,80}\b(?:dont|do not) do (?:it|that|anything)\b"
    r"|(?:just|only|merely|purely) (?:asking|wondering|curious|a (?:question|joke)|(?:kidding|joking)(?=[ .!]*$))"
    r"\b(?! (?:you|that|if|for)\b)|(?:hypothetical|theoretical)(?:ly)?\b|in theory\b|out of (?:curiosity|interest)\b"
    r"|(?:not|isnt) an order\b)|(?:^|[.,;!?] )(?:so |but |please )*(?:(?:just|only) answer(?! yes)|an answer will do)\b"
)
"""What says that nothing is to be done, whatever is spoken of."""
_AT_ONCE = re.compile(
    r"\bat the (?:very )?same (?:time|moment|instant)\b|\bsimultaneous(?:ly)?\b"
    r"|\bwhile (?:you )?(?:also )?(?:go|fly|mov|turn|climb|ris|descend|back)\w*"
)
_FOREVER = re.compile(
    r"\b(?:go|going|fly|flying|keep|carry|move|moving|turn|turning|spin|spinning|climb|climbing|continue|wait|rise|repeat"
    r"|circle|back|forward|left|right|up|down|do|doing)\b(?: \w+){0,6} (?:forever|for ever|endlessly|indefinitely"
    r"|infinitely|for (?:all )?eternity|without (?:end|ever stopping)"
    r"|until (?:the end of time|you (?:crash|die)))\b"
)
_ITS_OWN = r"(?:your|ur|the (?:drone|robot|arm|tello)s)(?: (?:own|current|remaining|exact|present|flight))*"
_THE = (
    r"(?:(?:what|how)(?:s| is)(?: the)?|(?:tell me|check|report|say) the)"
    r"(?: (?:own|current|remaining|exact|present|flight))*"
)
_ITS_STATE = (
    r"batter(?:y|ies)|charge|altitude|height|speed|velocity|position|location|coordinates|signal|wifi|firmware"
    r"|serial|heading|payload|flight time"
)
_ASKS_OF_ITSELF = re.compile(
    rf"\b(?:{_ITS_OWN} (?:{_ITS_STATE})\b(?! (?:pack|rack|charger)\b)"
    rf"|{_THE} (?:{_ITS_STATE})\b(?! (?:of|on|in|at|shown|pack|rack|charger)\b)(?! \w+ (?:of|on|in|shown)\b)"
    rf"|how (?:high|fast|full|much (?:{_ITS_STATE}|power|juice))(?: \w+){{0,3}} you\b|where are you\b"
    r"|are you (?:charged|low on|full|hot|running (?:low|out)))"
)
_STATE = re.compile(rf"\b(?:{_ITS_STATE}|you|your|power|juice|how (?:high|fast))\b")
"""What a camera does not see: how the robot itself is."""
_PRONOUN = r"(?:i|you|he|she|it|we|they|nobody)"
_AUXILIARY = r"(?:do|does|did|have|has|had|am|is|are|was|were|wo|would|will|could|can|should)"
_REMARK = re.compile(
    r"(?:(?:please|thanks|thank you|ok|okay|hey|no|yes|well|oh|sorry|really|you know|again|yet|already|today|right now"
    r"|(?:that|this|it) (?:is|was) (?:wrong|bad|not (?:right|good))|robot|drone|tello|arm|\d+"
    rf"|i (?:hope|trust|suppose|think|take it)|surely|{_PRONOUN} (?:\w+ly )?{_AUXILIARY}(?: ?not|n?t)"
    rf"|(?!do it\b){_AUXILIARY}(?: ?not|n?t)? {_PRONOUN})(?: |$))*"
)
"""A clause that orders nothing beside what it stands with."""
_ASKED_FOR = re.compile(
    r"\b(?:you (?:can|may|could|should|must)|want|wanted|need|wish|like|now|instead|again)\b(?! (?:not|never)\b)"
)
"""In a question or a report: words that may order something all the same ("I already told you to land now")."""
_NOT_IF = re.compile(r"\b(?:not|never|dont) (?:ever )?(?:if|when|whenever|while|in case)\b(?! (?:not|possible)\b)")
_UNTIL_GONE = re.compile(
    r"\b(?:once|after|when|until|till|as soon as) (?:the|that|this|my|your|his|her|he|she|they|everybody|everyone|all) "
    r"(?:\w+ ){0,2}?(?:has|have|is|are) (?:left|gone|away)\b(?! (?:in|into|on|onto|to|down)\b)"
)
_IN_A_CASE = re.compile(r"\b(?:if|when|while|until|till|before|unless)\b")
_STAY = re.compile(
    r"(?:\b(?:and|but)|,) (?:please )?(?:do not|dont|never|without) mov(?:e|ing)(?: (?:at all|an inch|anywhere))?"
    r" ?(?=$|[.!])"
)
_OPPOSITE = re.compile(
    r"\b(?:do|the) (?:exact )?opposite (?:of|to) (?!the (?:side|end|corner|wall)\b)"
    r"|^(?:please )?undo (?:that|it|this|what|the last|your last|\d+)\b"
    r"|(?:(?:^|[-.,;!?] )(?:(?:no|oh|ah|oops|sorry|wait|hang|on|actually|i|ive|its|it|is|thats|that|mean|meant|had|have"
    r"|got|get|put|said|rather|them|those|these|two|2|names|silly|me)[ ,]+)+(?:the )?(?:wrong way (?:a?round|about)"
    r"|back to front|(?:mixed|muddled|confused|swap|switch|reverse) (?:that|it|them|those|up)(?: up)?)"
    r"|\b(?:sorry|oops|silly me|mean|meant|was|its)(?: (?:it|that|those|them))?[ ,]+(?:the )?(?:other way"
    r" a?(?:round|bout)|vice versa|(?<=the )reverse))(?=(?:[ .,!?]|\b(?:please|again|sorry|2|two|my mistake)\b)*$)"
)
_TOO_NEAR = re.compile(
    r"(?:(?:(?:^|[.,;!?] |\b(?:you|youre|(?:that|this|it)(?: i)?s|being?|get|go|come|fly|stay|hover)\b(?: \w+){0,3} )"
    r"(?:\w+ ){0,2}?(?:too|awfully|less)|\b(?:not|being|(?:do|did|are|were|could|would)nt|cant)(?: \w+){0,2} "
    r"(?:so|that|as)) (?:close|near)(?: to| by)?|\b(?:further|farther)(?: \w+)? from|\bcrowd(?:ing)?"
    r"|\b(?:more|some) (?:distance|space|room) (?:to|from|between you and)"
    r"|\bgive(?=(?: \w+){2,3} (?:a bit |some |a little )?(?:more )?(?:room|space)\b))"
    r" ((?:(?!(?:to|and|then|so|but)\b)\w+ ?){1,3})"
)
"""What the robot is, or would be, nearer to than somebody wants."""
_TIMES = re.compile(r"\b(\d{1,6}) times\b")
_CORRECTED = re.compile(r"\b(?:no|nope|sorry|actually|rather|make (?:it|that)|enough|plenty|once|twice|thrice|more)\b")
_QUOTATION = re.compile(r"""("[^"]*(?:"|$)|(?<!\w)'(?:[^']|'(?=\w)){1,300}'(?!\w))""")
_OWN_WORDS = re.compile(
    r"^\W*$|\b(?:i|we|im|ive)(?: \w+)? (?:said|mean|meant|told you) ,|\b(?:say|tell|ask|announc\w+|greet|holler|shout"
    r"|yell|sing|signal|speak|repeat|hear|whisper|message|do (?:\w+ )?(?:that|it|this|as|what))\b"
)
"""Around a quotation: it is what the speaker says himself, or what is to be said or done."""
_MAY_ORDER = re.compile(
    r"(?:^|[-.,;!?] |\b(?:and|but|so|then|please|now|just|(?:can|could|would) you|you (?:can|should|must|may)|you to) )"
    r"(?:do|obey|go|fly|move|come|get|head|step|slide|shift|back|forward|up|down|left|right|rise|climb|drop|descend"
    r"|land|take|turn|rotate|spin|face|follow|approach|return|open|close|release|let|pick|put|place|push|bring"
    r"|grab|fetch|lift|lay|set|throw|give|hand|pass|make)\b"
)
_LOOP = re.compile(r"(?<![\w.])(\d+)\{")
_NOBODY = frozenset(f"{which}{what}" for which in ("any", "some", "every", "no") for what in ("one", "body", "thing"))


@dataclass(slots=True)
class OrderCheck(PlanCheck):
    """Follows one plan statement by statement.

    Args:
        model: Of the robot: what its skills do.
        instruction: As it came; untrusted.
    """

    model: RobotModel
    instruction: str
    _said: str = field(init=False)
    _no_order: str = field(init=False)
    _quoted: Sequence[frozenset[str]] = field(init=False)  # the words of each quotation
    _cases: list[str] = field(default_factory=list, init=False)  # the conditions of blocks that are open
    _done: list[object] = field(default_factory=list, init=False)  # what the plan has done so far
    _is_guarded: bool = field(default=False, init=False)  # an earlier statement waits, or ends the plan

    def __post_init__(self) -> None:
        text = self.instruction[:4096].replace(": ", ", ")
        text = ascii_letters(with_plain_amounts(plain_task(text))).lower()
        around = " ".join(_QUOTATION.sub(" , ", text).replace("'", "").split())
        is_own = _OWN_WORDS.search(around) is not None
        self._quoted = [] if is_own else [frozenset(bare_words(each)) for each in _QUOTATION.findall(text)]
        self._said = around if self._quoted else " ".join(text.replace("'", "").split())
        self._no_order = _why_no_order(self._said)
        if self._quoted and not self._no_order and not _MAY_ORDER.search(around):
            self._no_order = "only a quotation orders that"

    def feed(self, calls: Iterable[SkillCall], text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        if text == "}":
            self._cases[-1:] = []
            return Verdict.EXPLAINED
        calls = list(calls)
        case, _, block = text[1:].partition("{") if text.startswith("?") else ("", "", text)
        effects = [skill.effect for call in calls if (skill := self.model.skill(call.name)) is not None]
        self.problem = (
            self._unnamed(calls)
            or self._unseen(calls)
            or self._without_order(effects)
            or self._misplaced(calls)
            or self._impossible(effects)
            or self._miscounted(text)
            or self._in_wrong_case([*self._cases, case], effects, block)
        )
        if text.startswith("?") and text.endswith("{"):
            self._cases.append(case)
        if self.problem:
            return Verdict.CONTRADICTED
        return Verdict.DOUBTFUL if self._done and _AT_ONCE.search(self._said) else Verdict.EXPLAINED

    def restarted(self) -> "OrderCheck":
        """Returns the check of a replan: what nobody orders stays so."""
        return OrderCheck(self.model, self.instruction)

    def _unnamed(self, calls: Iterable[SkillCall]) -> str:
        """Returns why a call speaks of nothing that can be seen; empty if it does not."""
        for call in calls:
            skill = self.model.skill(call.name)
            for argument, value in zip(skill.arguments if skill else (), call.arguments, strict=False):
                if argument.type is ArgumentType.IDENTIFIER and value in _NOBODY:
                    return f"{value!r} is the name of no thing"
        return ""

    def _misplaced(self, calls: Iterable[SkillCall]) -> str:
        """Returns why the robot is not sent to a thing: it is quoted only, or too near; empty if it may be."""
        for call in calls:
            skill = self.model.skill(call.name)
            for name in acted_on(self.model, call):
                words, said = {*name_words(name)}, bare_words(self._said)
                quoted = (each for each in self._quoted if words & each and not each <= words)  # not what is on a label
                if any(quoted) and words.isdisjoint(said):
                    return f"only a quotation speaks of the {name.replace('_', ' ')}"
                near = _TOO_NEAR.search(self._said)
                if near and skill and isinstance(skill.effect, (Approach, GoTo, MoveTool)):
                    elsewhere = bare_words(_TOO_NEAR.sub(" ", self._said))
                    if not words.isdisjoint(bare_words(near[1])) and words.isdisjoint(elsewhere):
                        return f"the instruction wants more distance from the {name.replace('_', ' ')}"
        return ""

    def _unseen(self, calls: Iterable[SkillCall]) -> str:
        """Returns why a question is none for a camera: it is about the robot itself; empty if it may be one."""
        skills = ((self.model.skill(call.name), call) for call in calls)
        asked = [str(call.arguments[0]) for skill, call in skills if skill and isinstance(skill.effect, Ask)]
        is_of_itself = any(map(_STATE.search, asked)) and _ASKS_OF_ITSELF.search(self._said)
        return "a camera does not see how the robot itself is; look at its dashboard" if is_of_itself else ""

    def _without_order(self, effects: Iterable[object]) -> str:
        """Returns why what a statement does is not ordered; empty if it is, or does nothing."""
        acts = [effect for effect in effects if not isinstance(effect, _LOOKS)]
        if acts and self._no_order:
            return self._no_order
        if acts and _OPPOSITE.search(self._said):
            return "what the opposite is, only a person can say"
        if (
            not _IN_A_CASE.search(self._said)
            and _STAY.search(self._said)
            and any(isinstance(effect, _TRAVELS) for effect in acts)
        ):
            return "the instruction says to move, and not to"
        return ""

    def _impossible(self, effects: Iterable[object]) -> str:
        """Returns why no plan does what is ordered: two opposites at once, or one thing for ever; empty if one may."""
        for effect in effects:
            if not isinstance(effect, (NoEffect, Perceive, Replan, Say, Stop)) and _FOREVER.search(self._said):
                return "no plan goes on for ever; say how far, how long or how often"
            if _opposite(effect) in self._done and _AT_ONCE.search(self._said):
                return "nothing can be done at the same time as its opposite"
            self._done.append(effect)
        return ""

    def _miscounted(self, text: str) -> str:
        """Returns why a statement repeats something another number of times than stated; empty if it does not."""
        times, loops = {int(number) for number in _TIMES.findall(self._said)}, [*map(int, _LOOP.findall(text))]
        if len(times) != 1 or not loops or _CORRECTED.search(self._said):
            return ""
        (stated,) = times
        if any(abs(stated - done) <= 1 for done in (math.prod(loops), *loops)):  # the last one may stand by itself
            return ""
        return f"the plan does it {math.prod(loops)} times, and the instruction says {stated}"

    def _in_wrong_case(self, cases: Iterable[str], effects: Iterable[object], block: str) -> str:
        """Returns why a statement acts where the instruction says not to; empty if it does not."""
        effects = list(effects)
        acts = any(not isinstance(effect, _LOOKS) for effect in effects)
        cases = [case for case in cases if case]
        if not acts:
            is_end = bool(cases) and ("->" in block or "fail(" in block)
            self._is_guarded |= is_end or any(isinstance(effect, Delay) for effect in effects)
            return ""
        if _NOT_IF.search(self._said) and not self._is_guarded and not any("==False" in case for case in cases):
            return "the instruction says when not to do that"
        if _UNTIL_GONE.search(self._said) and not self._is_guarded and not cases:
            return "the instruction says to wait for something"
        return ""


def _opposite(effect: object) -> object:
    """Returns what undoes an effect; ``...`` if nothing does."""
    match effect:
        case Translate(axis=(x, y, z)):
            return replace(effect, axis=(-x, -y, -z))
        case Turn():
            return replace(effect, direction=-effect.direction)
        case Gripper():
            return Gripper(is_open=not effect.is_open)
        case _:
            return ...


def _why_no_order(said: str) -> str:
    """Returns why an instruction orders nothing; empty if it does, or may.

    Args:
        said: Without apostrophes, in lower case.
    """
    if _NOT_FOR_REAL.search(said):
        return "the instruction speaks of it, and says not to do it"
    said = _HYPOTHETICAL.sub(" , what happens ,", said)
    said = _DISPUTED.sub(", nobody said that ,", said) if _DISPUTES.search(said) else said
    clauses = [clause.strip() for clause in _CLAUSE.split(said)]
    clauses = [clause for clause in clauses if clause and not _REMARK.fullmatch(clause)]
    rest = [clause for clause in clauses if not _DENIAL.match(clause)]
    for judged, why in ((clauses, "tells of"), (rest, "denies")):
        told = [_QUESTION.match(clause) or _REPORT.match(clause) for clause in judged]
        if clauses and all(match and not _ASKED_FOR.search(match.string, match.end()) for match in told):
            is_question = any(match and match.re is _QUESTION for match in told)
            return "that is a question, and no order" if is_question else f"that {why} something, and orders nothing"
    return ""
