# SPDX-License-Identifier: Apache-2.0
"""Orders that act at once, without a model: stop, hold still, let go.

Only a sentence that is such an order as a whole counts, at most with a report of what happens ("stop, you're hurting
me"). What goes on ("stop at the door", "don't move the cup") is a task.
"""

import re
import unicodedata

from llm_planner.robots.effect import Gripper
from llm_planner.robots.model import RobotModel

_FILLERS = frozenset(
    re.findall(
        r"\w+",
        "please now right there here ok okay hey oi robot drone arm buddy lad mate guys everyone all immediately "
        "instantly this instant just i said say for god s sake goodness already quick quickly fast and "
        "then the a will you can could would me us stupid thing damn hell heaven exactly where are it that "
        "everything so no oh ah uh um yes hang literally of asap today what ever doing re your easy big love "
        "sweetheart darling honey thank thanks omg dude bro enough keep danger current mission task motion motions "
        "movement movements ouch ow argh fuck fucking bloody goddamn sir mister dear pet "
        "son friend pls u r youre yourself dead",
    )
)
_STILL = (
    r"(?:right )?"
    r"(?:put|(?:very |perfectly )?still|there|here|where you are|in (?:place|position)|your position|quiet|motionless)"
)
_MOTION = r"(?:moving|flying|turning|spinning|rotating|going|drifting|climbing|descending)"
_HALT = r"(?:sto+p+|halt|fre+ze)"
_STOP = (
    rf"{_HALT}(?: there)? (?:for )?a (?:sec|second|moment)",
    rf"(?:sto+p+|quit|cease) (?:it|that|everything|{_MOTION})",
    r"(?:(?:emergency|full) )?sto+p+(?: (?:right )?(?:there|here|where you are))?",
    r"halt|fre+ze|abort|cease|who+a+|woa+h|cancel|enough|e stop|estop|knock it off|cut it out|that s (?:far )?enough",
    r"hold(?: (?:on|up|it|still|fire|position|your position|that|everything))?|stand (?:still|by)",
    r"(?:pause|hang on|hang tight|wait(?: up)?)\b(?! for\b)",
    rf"(?:stay|remain)(?: {_STILL})?|keep {_STILL}",
    (
        r"(?:do not|don t|dont|never) (?:you )?(?:dare )?(?:move|moving|budge|go|stir|fly)"
        r"(?: (?:an inch|another inch|a muscle|at all|any (?:more|further)))?|no (?:moving|flying)"
    ),
    r"(?:do not|don t|dont) touch (?:that|it|anything)|leave (?:it|that)(?: alone)?|(?:nobody|no one|nothing) moves?",
    r"not (?:a|an|one|another) (?:muscle|millimetre|millimeter|step|centimetre|inch|move)(?: further)?",
)
_RELEASE = (
    r"let go(?: of (?:me|him|her|it|(?:my|his|her) \w+))?|let (?:me|him|her|it|them|that|this|(?:my|his|her) \w+) go",
    r"release(?: (?:it|me|him|her|that))?|drop it",
)
_ORDER = re.compile(rf"\b(?:(?P<stop>{'|'.join(_STOP)})|(?P<release>{'|'.join(_RELEASE)}))\b")
_ASIDE = re.compile(
    r"\b(?:at (?:once|all)|(?:right )?this (?:very )?(?:second|minute)|"
    r"(?:drone|robot|arm) (?:\d{1,2}|one|two|three|four))\b"
)
_CALL = (
    rf"(?:{_HALT}(?: (?:it|that|there|everything|{_MOTION}|where you are|the (?:arm|drone|robot)))?|please|now|at once|"
    r"immediately|dead|right (?:there|now)|robot|drone|arm|oi|hey|oh|ouch|ow|love|dear|mate|dude|whoa)"
)
_NO_REPORT = (
    r"(?:at|by|near|in|on|under|over|above|behind|beside|before|for|from|to|with|where|what|as|soon|next|short|"
    r"\w+ing)\b|"
    r".*\b(?:then|and|so|but|until|till|unless|if|when|once|after|before|while|instead|where|soon|which|who|enough|"
    r"want|wish|need you|supposed|meant|mean|please|land|take|pick|grab|bring|fetch|place|push|turn|go|fly|come|follow|"
    r"open|close|say|tell|picture|photo|show|find|look|looking|\d+|(?:is|are|has|have|am|s|m|re|ve) to|left|"
    r"right(?! (?:in|into|under|underneath|beneath|by|there|across|over|above|next|at|near|on|behind|below|now))|"
    r"grip|gripper|claws?|jaws?|pinched|jammed|stuck|glove|lanyard|"
    r"(?:fingers?|thumb)(?! (?:(?:is|are|right) )*(?:under|underneath|near)))\b"
)
"""What asks for something else, or may mean that the gripper holds somebody, whom a stop does not free."""
_STATE = (
    r"(?:\w{3,}in[g]?|about|bout|gonna|got|gone|in|on|at|by|under|underneath|beneath|over|above|near|right|too|so|all|not|"
    r"out|off|loose|caught|fallen|broken|burnt|wrong|moved|put|dropped|spilt|spilled|crawled|leaned|wrapped)"
)
_HARM = r"(?:hit|hurt|knock|break|crush|smash|spill|wake|squash|burn|crash|clip|kill|drop|scare|squeeze)"
_OWN = r"(?:my|his|her|our|their|the|a|an|some|somebody|someone|one|your|\w+ s)"
_REPORT = (
    r"there ?(?:s|is|are|comes) \w.*",
    rf"(?:you|they|he|she|it|i) ?(?:re|are|ve|have|has|s|is|m|am) (?:\w+ly )?{_STATE}\b.*",
    rf"(?:you|it|they|he|she) ?(?:ll|will|(?:re|are|s|is) (?:going to|gonna)) {_HARM}\b.*",
    r"that s .*|i (?:must think|(?:dropped|lost|heard|forgot) .*)",
    rf"{_OWN} (?:(?!that\b)\w+ ){{0,5}}?(?:is|are|has|have) \w.*|(?:(?!that\b)\w+ ){{1,4}}?s {_STATE}\b.*",
    r"(?:(?!that\b)\w+ ){2,5}?(?:burns|cracks|falls|reaches|leans|smokes|spilled|dropped)\b.*",
    r"my (?:hand|arm|foot|leg|head|hair|face|eye|sleeve)s?",
)
_REPORTED = re.compile(rf"(?P<order>(?:{_CALL} ){{0,12}})(?!{_NO_REPORT})(?:{'|'.join(_REPORT)})")
"""A halt, if any, and behind it what happens and orders nothing: "stop there's a child"."""
_BODY = (
    r"(?:hands?|fingers?|thumbs?|hair|sleeves?|arms?|wrists?|skin|gloves?|scarf|tie|lanyard|necklace|shirt|coat|apron)"
)
_GRIPPED = re.compile(
    r"\byou (?:(?:re|r|are|ve|have) )?(?:just )?"
    r"(?:got|hold|holding|crush\w*|squeez\w*|pinch\w*|grip\w*|grabbed|caught|trapped) (?:on to |hold of )?"
    rf"(?:my|his|her|our|their|the|\w+ s) (?:\w+ ){{0,2}}?{_BODY}\b"
    rf"|\b{_BODY} (?:\w+ ){{0,3}}?in (?:your|the) (?:grip|gripper|claws?|jaws?|fingers?|hand)\b"
)
"""What only a gripper that opens can end: "stop, you've got my hand"."""
_MAX_CHARACTERS = 4096
_TO_BE_SAID = re.compile(
    r"\W*(?:(?:please|now|ok|okay|hey|robot|drone|just|then|and|can|could|will|would|you)\W+)*"
    r"say(?:\s+|\s*:\s*|[\s,:]*[\"'\u2018\u201c\u201e\u00ab]\s*)\w"
)
"""What begins like this names words to say: "say nobody move" is to be said, "say, stop" is an order."""


def is_stop(instruction: str) -> bool:
    """Returns whether an instruction (untrusted) orders a robot to stop, and at most to let go besides."""
    return "stop" in _orders(instruction)


def immediate_plan(model: RobotModel, instruction: str) -> str:
    """Returns the plan of an order that acts at once; empty if the instruction is no such order.

    Args:
        model: Of the robot: its stop skill, and what opens its gripper.
        instruction: Untrusted.
    """
    orders = _orders(instruction)
    if "release" in orders:
        opens = (
            name for name, skill in model.skills.items() if isinstance(skill.effect, Gripper) and skill.effect.is_open
        )
        if opening := next(opens, ""):
            return f"{opening}();"
    return f"{model.stop_skill}();" if "stop" in orders else ""


def _orders(instruction: str) -> set[str]:
    """Returns which orders an instruction consists of, ``stop`` and ``release``; none if it says anything else."""
    if len(instruction) > _MAX_CHARACTERS or _TO_BE_SAID.match(instruction.lower()):
        return set()
    plain = unicodedata.normalize("NFKD", instruction).lower().replace("'", " ")
    clauses = [" ".join(re.findall(r"[a-z]+|\d+", clause)) for clause in re.split(r"[.,;:!?\n\u2014]", plain)]
    plain_words, is_halt = " ".join(clauses), False
    for index, clause in enumerate(clauses):
        report = _REPORTED.fullmatch(clause)
        told = report["order"] if report else clause
        is_halt = is_halt or re.search(rf"\b{_HALT}\b", told) is not None
        if report and is_halt:
            clauses[index] = told
    said = " ".join(clauses)
    if is_halt and _GRIPPED.search(plain_words) and not re.search(r"\b(?:don t|dont|never|not)\b", said):
        return {"stop", "release"}
    text = " ".join(_ASIDE.sub(" ", said).split())
    if any(word not in _FILLERS for word in _ORDER.sub(" ", text).split()):
        return set()
    return {kind for match in _ORDER.finditer(text) if (kind := match.lastgroup)}
