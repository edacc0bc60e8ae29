# SPDX-License-Identifier: Apache-2.0
"""Whether an instruction orders anything: or asks, reports, denies, supposes, or quotes somebody else.

A model that was taught orders reads "have you landed?" and "I never said land" as one: the word is there, and the
model is sure of it. Recognised are common forms, by how their clauses begin; what is not recognised counts as an order.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llm_planner.planning.instruction.names import bare_words
from llm_planner.planning.instruction.quantities import with_plain_amounts
from llm_planner.planning.untrusted import ascii_letters, plain_task

_APOSTROPHES = re.compile(r"['\u2019]")
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
    r"\b(?:(?:(?:dont|do not|never|without|(?<!does )(?<!did )not) (?:\w+ )?(?:actually|really) "
    r"(?:do|doing|try|mov(?:e|ing))"
    r"|(?:dont|do not|without) (?:try|demonstrate)|without (?:do|try)ing|no need to (?:show|try)|not asking you to"
    r"|(?:dont|do not) do(?= (?:it|anything),? (?:but )?(?:i )?(?:just|only)\b))"
    r"(?: (?:it|that|this|so|anything|me)){0,2}(?= ?(?:[.,;!?]|$))"
    r"|(?:just|only) (?:answer|say|tell|explain)\b.{0,80}\b(?:dont|do not) do (?:it|that|anything)\b"
    r"|(?:just|only|merely|purely) (?:asking|wondering|curious|a (?:question|joke)|(?:kidding|joking)(?=[ .!]*$))"
    r"\b(?! (?:you|that|if|for|whether|politely|nicely|of|mark)\b)|(?:hypothetical|theoretical)(?:ly)?\b"
    r"|(?:just|only|purely) in theory\b|out of (?:curiosity|interest)\b(?=.*\?)"
    r"|(?:not|isnt) an order\b(?= ?(?:[.,;!?]|$)| to\b))"
    r"|(?:^|[.,;!?] )(?:so |but |please )*(?:(?:just|only) answer(?! yes)|an answer will do)\b"
)
"""What says that nothing is to be done, whatever is spoken of."""
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
_QUOTATION = re.compile(
    r"""("[^"]*(?:"|$)|(?<!\w)'(?!(?:em|cause|cos|til|n|scuse|tis|bout)\b)(?:[^']|'(?=\w)){1,300}'(?!\w))"""
)
_OWN_WORDS = re.compile(
    r"^\W*$|\b(?:i|we|im|ive)(?: \w+)? (?:said|mean|meant|told you) ,|\b(?:say|tell|ask|announc\w+|greet|holler|shout"
    r"|yell|sing|signal|speak|repeat|hear|whisper|message|do (?:\w+ )?(?:that|it|this|as|what))\b"
)
"""Around a quotation: it is what the speaker says himself, or what is to be said or done."""
_ACT = (
    r"(?:do|obey|go|fly|move|come|get|head|step|slide|shift|back|forward|up|down|left|right|rise|climb|drop|descend"
    r"|land|take|turn|rotate|spin|face|follow|approach|return|open|close|release|let|pick|put|place|push|bring"
    r"|grab|fetch|lift|lay|set|throw|give|hand|pass|make)\b"
)
_MAY_ORDER = re.compile(
    r"(?:^|[-.,;!?] |\b(?:and|but|so|then|please|now|just|(?:can|could|would) you|you (?:can|should|must|may)|you to) )"
    + _ACT
)
_ORDERED_THEN = re.compile(rf"(?:, (?:and |then |please )*|\blike you to |^(?:can|could|would) you ){_ACT}")
_DEMANDS = re.compile(r"\b(?:must|should|shall|to) \w")


class Said(NamedTuple):
    """What an instruction says to the robot.

    Attributes:
        words: Of the speaker, in lower case and without apostrophes; amounts are plain.
        quoted: The words of each quotation of somebody else, which are not in ``words``.
        no_order: Why nothing is ordered; empty if something is, or may be.
    """

    words: str
    quoted: Sequence[frozenset[str]]
    no_order: str


def said_in(instruction: str) -> Said:
    """Returns what an instruction says.

    Args:
        instruction: As it came; untrusted.
    """
    plain = plain_task(instruction[:4096].replace(": ", ", "))
    text = ascii_letters(with_plain_amounts(plain)).lower()
    around = " ".join(_QUOTATION.sub(" , ", text).replace("'", "").split())
    is_own = _OWN_WORDS.search(around) is not None
    quotations = [] if is_own else [each.strip("'\" ") for each in _QUOTATION.findall(text)]
    orders = (each for each in quotations if _MAY_ORDER.search(each) or _DEMANDS.search(each))  # others are labels
    quoted = [frozenset(bare_words(each)) for each in orders]
    words = around if quoted else " ".join(text.replace("'", "").split())
    no_order = _why_no_order(words)
    if quoted and not no_order and not _MAY_ORDER.search(around):
        no_order = "only a quotation orders that"
    return Said(words, quoted, no_order)


def said_besides(instruction: str, texts: Iterable[str]) -> str:
    """Returns the words of an instruction, in lower case and without apostrophes, but for what a plan says itself."""
    said = _bare(instruction[:4096])
    for text in texts:
        said = said.replace(_bare(text), " ")
    return " ".join(said.split())


def _bare(text: str) -> str:
    return " ".join(_APOSTROPHES.sub("", text.lower()).split())


def _why_no_order(said: str) -> str:
    """Returns why an instruction orders nothing; empty if it does, or may.

    Args:
        said: Without apostrophes, in lower case.
    """
    if _NOT_FOR_REAL.search(said):
        return "the instruction speaks of it, and says not to do it"
    said = _HYPOTHETICAL.sub(lambda m: m[0] if _ORDERED_THEN.search(m[0]) else " , what happens ,", said)
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
