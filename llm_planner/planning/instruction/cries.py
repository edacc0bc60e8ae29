# SPDX-License-Identifier: Apache-2.0
"""What people cry at a robot that is at work: "make it stop", "ow, get off me", "look out", "sotp!!".

Only for a robot that would refuse any other instruction. There, an unneeded stop costs little: whatever has a word for
stop in it is a cry, unless it is evidently something else ("don't stop", "the bus stop", "stop at the door").
"""

import re
from collections.abc import Iterable, Sequence

DO_NOT = r"(?:do not|don t|dont)"
_STOP = r"(?:s+t+o+p+|s t o p|st op|s+t+a+h*p+|sotp+|stpo+|tsop+|sopt+|s+topit|halt|freeze+)"
_ABROAD = re.compile(
    r"alto|parad?|pare|detente|basta|anhalten|aufhoren|stopp|warte|schluss|arretez?|ferma|fermati|stoj|stoi|dur|tomare|"
    r"autsch|aua|aie|ay"
)
"""Words of other languages for stop, if nothing else is said: "para" and "dur" stand in other sentences as well."""
_WITH_IT = re.compile(rf"por|favor|bitte|ya|toi|no|{_STOP}")
_SOMEONE = r"(?:me|us|him|her|them|(?:my|his|our|their) \w+)"
_SOMETHING = (
    rf"(?:{_SOMEONE}|(?:the|a|that|this|your|some|somebody s|someone s) (?:\w+ s )?\w+|"
    r"someone|somebody|anyone|anybody|people|everyone)"
)
_ROBOT = (
    r"(?:drones?|robots?|arms?|things?|machines?|\w*copters?|motors?|propell[eo]rs?|props?|rotors?|blades?|engines?|"
    r"gripper|claw|hand|flight|mission|tasks?|job|plan|program|motions?|movements?|attack\w*|nonsense|madness|fuck|hell|"
    r"shit)"
)
_BODY_OF_SOMEONE = (
    r"(?:me|us|him|(?:my|his|her|our|their|(?:the|a) (?:kid|child|baby|man|woman|girl|boy|cat|dog) s) (?:\w+ )?"
    r"(?:hands?|fingers?|thumbs?|arms?|wrists?|hair|plaits?|braids?|ponytail|head|face|ears?|nose|legs?|foot|feet|toes?|sleeves?|scarf"
    r"|shirt|coat))\b"
)
_LIVING = (
    r"(?:someone|somebody|people|(?:the |a |my |his |her |that |some )?(?:kids?|child(?:ren)?|baby|babies|toddlers?|"
    r"man|men|woman|women|person|persons|boys?|girls?|dogs?|cats?|puppy|kitten|nurse|patient|daughter|son))"
)
_VERB = (
    r"(?:fly|go|move|turn|rotate|climb|rise|descend|head|pick|put|place|push|drive|bring|fetch|take|find|search|follow|"
    r"look|say|tell|open|close|grab|hover|land|give|photograph)"
)
_TASK = re.compile(
    rf"(?:(?:please|now|robot|drone|arm|ok|okay|then|and|can|could|you|slowly|carefully) )*{_VERB}\b(?! off\b)"
)
_TO_BE_SAID = re.compile(r"(?<!\bi )\b(?:say|tell|shout|yell|announce)\b.*")
_ORDER = re.compile(rf"\b(?:{_STOP}|abort|anhalten|aufhoren|arretez)\b")
_NO_ORDER = re.compile(
    r"(?<!why )(?<!if you )\b(?:(?:do|does) not|don t|dont|doesn t|never|without|not|no)"
    rf"(?: (?:you|ever|even)){{0,2}} {_STOP}\b|"
    r"\b(?:bus|tram|train|taxi|pit|door|next|last|first|final|every|each|one|end|short|brief|non|to the|at the|"
    rf"(?<!to )a) {_STOP}\b(?! it)|"
    r"(?<!\bi )\b(?:say|saying|says|shouts?|shouting|reads?|called|named|type|write|words?)(?: \w+){0,2} "
    rf"{_STOP}\b|"
    r"\b(?:when|whenever|if|once|after|until|till|where|while|which|who|did|does)(?! you (?:do not|don t))"
    rf"(?: \w+){{1,2}} {_STOP}\b|"
    rf"\bthen {_STOP}\b|"
    rf"\b{_VERB}(?: \w+){{1,12}} and {_STOP}\b(?! (?:it|that|this|him))|"
    rf"\b{_STOP} (?:signs?|button|key|light|line|switch|lever|watch|valve|point)\b|"
    rf"\b{_STOP} (?:right )?(?:at(?! (?:once|all))|in (?:front|the (?!name|air)|\d|a|my|his|her)|"
    r"when(?! i say)|once|after|before (?:the|a|my)|near|above|beside|behind|between|outside|inside|next to|"
    r"within|as soon as|until|short of|halfway|by|over|facing|"
    r"for (?:\d|a (?!sec|moment)|two|three|ten|the (?!love))|\d)\b|"
    rf"\b{_STOP} (?:\w+ ){{1,2}}from \w+ing\b|"
    rf"\b{_STOP} (?:recording|filming|streaming|talking|speaking|singing|beeping|buzzing|playing|humming|"
    r"counting|sending|logging|blinking|laughing|asking|telling|taking (?:pictures|photos)|whatever is)\b|"
    rf"\b{_STOP} (?:the|that|this|your|an?|my|his|our|their|every|some)"
    rf"(?! (?:\w+ ){{0,2}}?{_ROBOT}\b(?! s )) \w+"
)
"""Where a word for stop is no order to this robot, within a clause."""
_HURTING = (
    r"(?:hurt|crush|squeez|kill|pinch|chok|cutt|break|burn|strangl|suffocat|attack|scratch|scar|hitt|tear|pull)ing"
)
_BLOW = (
    r"(?:hit(?:ting)?|crash(?:ing)?|run(?:ning)? (?:into|over)|fall(?:ing)? on(?:to)?|kill|hurt|crush|squash|injure|"
    r"cut|knock|clip)"
)
_CRY = re.compile(
    r"\b(?:ow+|o+uch+|a+r+gh+|yikes|a{2,}h+|a{4,}|e{2,}k|mayday|nooo*|(?P<call>no|hey|oi|help|wait)(?: (?P=call))+|"
    r"look out(?! (?:of|to|at|over|through|onto)\b)|watch out|mind out|that s enough$|"
    r"cut it out|knock it off|quit (?:it|that|moving|flying)|make (?:it|him|her|that) quit|hold everything|"
    r"hold your horses|kill it|pull the plug|unplug it|hit the brakes?|"
    rf"(?:get|take) (?:it|this|that)(?: thing)? off(?: of)? {_SOMEONE}|release {_SOMEONE}|drop (?:me|him|her)|"
    rf"(?:it|you|thing|drone|robot|arm) (?:(?:has|have|s|ve|just|almost|nearly) )*(?:grabbed|squashed|scratched|hit|"
    rf"cut|crushed|pinched|caught|got|has|have) {_BODY_OF_SOMEONE}|"
    rf"you (?:almost|nearly) \w+|(?:you|it) (?:re|are|s|is) (?:\w+ )?on {_BODY_OF_SOMEONE}|"
    rf"(?:can t|cannot|can not) (?:get|move|pull) {_BODY_OF_SOMEONE}(?: out)?|"
    rf"(?:get|stay|keep|go|move|come) (?:off|away from)(?: of)? {_SOMEONE}|get (?:it|that thing) (?:off|away|out)|"
    rf"leave {_SOMEONE} alone|let go let go|let go of {_SOMEONE}|let (?:me|us|him|her|them) (?:go|out)"
    r"(?! (?:first|ahead|past|by|through|home|to|in|on|the)\b)|"
    rf"put (?:me|us|him|her) down|{DO_NOT} (?:you )?dare|(?:it|that|this) hurts|"
    rf"(?:re|are|r|is|s|keeps?) (?:\w+ly )?{_HURTING} {_SOMETHING}|"
    rf"(?:you|it|that|thing|drone|robot|arm) (?:(?:re|are|s|is|m) )?(?:will|ll|gonna|going to|about to) {_BLOW}|"
    rf"(?:re|are|s|is) (?:coming|flying|heading|moving|going) (?:right |straight )?(?:at|for|into) {_SOMETHING}|"
    rf"(?:turn|switch|shut|power) (?:off|down) (?:(?:the|your|those|all|it|that) )+{_ROBOT}|"
    rf"(?:turn|switch|shut) (?:it|yourself|(?:the|that) {_ROBOT}) (?:off|down)|(?:power|shut) (?:it )?(?:off|down)$|"
    rf"(?:kill|cut) (?:the|your|all) (?:power|{_ROBOT})|"
    rf"land (?:(?:that|this|the) (?:\w+ )?{_ROBOT}|now|immediately|at once)|"
    r"for (?:the love of )?(?:god|heaven|christ|fuck|pete|goodness|crying) ?s? (?:sakes?|out loud))\b"
)
"""What is cried, wherever it stands in a clause."""
_AMOUNT = r"(?:\d+|seconds|minutes?|(?:centi)?met(?:re|er)s?|feet|foot|yards?|inch(?:es)?|cm|bit|touch|little)"
_WARNING = re.compile(
    r"(?:(?:please|now|no|hey|oi|oh|careful|robot|drone|arm) )*(?:"
    rf"(?:{DO_NOT}|never) (?:you )?(?:(?:touch|scratch|bump|pinch|wake|{_BLOW}) (?:{_SOMETHING}|it|that)\b|"
    r"(?:move|budge)(?! (?:the|my|your|his|that|this|it|an?|to|in|up|down|on|back|forwards?|left|right|by|past|over|"
    rf"out|\d+)\b))|careful$|help(?: {_SOMEONE})?$|danger$|emergency$|enough$|back off$|"
    r"back off(?= (?:me|him|her|us|now|you)\b)|"
    rf"(?:hang on|hold (?:on|still|it))(?! to\b)(?!.*\b{_AMOUNT}\b))"
)
"""What is a cry where no task is given along with it: "don't hit her", "hang on, that's my cup"."""
_CLAUSE = re.compile(
    r"(?:(?:please|now|hey|oi|oh|dude|man|robot|drone|arm|just|so|no|stupid|god|my god|jesus) )*(?:"
    r"(?:(?:that s |you re |it s |way )*too (?:close|fast|low|much|hard|tight))|"
    rf"(?:watch|mind|careful|careful with|beware of|look out for) {_LIVING}|"
    rf"(?:somebody|someone|please) help(?: {_SOMEONE})?|help (?:it|you|he|she|i|my)\b.*|"
    rf"{_BODY_OF_SOMEONE}(?: {_BODY_OF_SOMEONE})*|"
    r"(?:oh |holy |jesus |god |my |what the |damn |shit |fuck |crap )*(?:shit|fuck|crap|damn|hell|god|christ)|"
    r"what (?:the \w+ )?are you doing|(?:get|go) away|get out of (?:my|his|her|the) (?:face|way|hair)|"
    rf"{DO_NOT}(?: do (?:that|it|this))?|not (?:there|that one|so fast|like that)|slow down|easy(?: easy)*|"
    r"(?:wait )?(?:(?:just )?a|one(?! minute)) (?:sec|second|minute|moment)|time out|switch off|brakes?|"
    rf"(?:there (?:s|is|are) )?{_LIVING}(?: (?:is|are|s))?(?: \w+)? (?:(?:right )?(?:there|here)|"
    r"(?:under|behind|below|beneath|above|near|beside|next to|in front of) you|in (?:the|your) (?:way|cell|path))|"
    r"(?:it|that|the \w+) (?:is|s) (?:falling|slipping|tipping|breaking|smoking|burning)(?: (?:over|down|off|out))?|"
    r"i (?:am|m) (?:stuck|trapped)(?: (?:in|under) .*)?)(?: (?:please|now|man|dude))*"
)
"""What is a cry as a clause of its own, where no task is given along with it: "my hand!", "what are you doing"."""
_PUTS_BACK = re.compile(r"(?:(?:please|just|now) )*put (?:it|that|this|them) (?:down|back)(?: (?:now|please|again))*")
"""No task by itself: where is not said, and a robot that has stopped holds it still."""
_CALLS = re.compile(
    r"(?:no|hey|oi|help|wait)(?: (?:no|hey|oi|help|wait))+"
    r"|(?:(?:dude|oh|man|robot|drone|arm|please|hey) )*no(?: (?:dude|man|robot|please))*"
)


def is_cry(clauses: Iterable[str]) -> bool:
    """Returns whether clauses may be a cry at a robot to stop.

    Args:
        clauses: In lower case, of letters and digits and single spaces.
    """
    said = [clause for clause in clauses if clause]
    if any(_CRY.search(_TO_BE_SAID.sub(" ", clause)) or _ORDER.search(_NO_ORDER.sub(" ", clause)) for clause in said):
        return True
    whole = " ".join(said)
    if _CALLS.fullmatch(whole) or _is_abroad(whole.split()):
        return True
    if any(_TASK.match(clause) and not _PUTS_BACK.fullmatch(clause) for clause in said):
        return False
    return any(_WARNING.match(clause) or _CLAUSE.fullmatch(clause) for clause in said)


def _is_abroad(words: Sequence[str]) -> bool:
    """Returns whether somebody orders a stop in another language, and says nothing else."""
    is_said = any(map(_ABROAD.fullmatch, words))
    return is_said and all(_ABROAD.fullmatch(word) or _WITH_IT.fullmatch(word) for word in words)
