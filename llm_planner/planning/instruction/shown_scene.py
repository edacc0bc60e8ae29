# SPDX-License-Identifier: Apache-2.0
"""What of a scene a model is shown: what the task speaks of. What a model does not read cannot mislead it.

A scene is written by cameras, by other software, and by anybody who puts up a sign before a camera. The entries that
the task names are shown, and no others. Only a task that speaks of things without naming them ("all", "the other one",
"something to eat", "the fruit" where nothing is called so) is planned with all of it that can be the name of an object:
what has no word of an order or a sentence. One that names nothing in the scene may mean something by another word, and
is planned with the few names that are most like it; but if it has only words of orders and names ("go to the sofa"),
nothing else is meant, and no name is shown.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from llm_planner.planning.instruction.quantities import with_plain_amounts
from llm_planner.planning.plurals import singular
from llm_planner.planning.scene_entries import resemblance, trigrams
from llm_planner.planning.untrusted import (
    WITHIN_NAME,
    ascii_letters,
    plain_entry,
    plain_task,
    raw_entries,
    without_remarks,
)
from llm_planner.robots.model import RobotModel

_MAX_NAME_WORDS = 4
_MAX_UNASKED = 12  # names that are shown with a task that names none of them; more mislead (docs/safety.md)
_MAX_WORDS = 400  # of an entry that are searched for names: so the time is bounded, whatever a scene holds
_MAX_FOUND = 4096  # labels that a task remembers
_WORD = re.compile(r"[a-z]+|\d+")
_SAID_ALOUD = re.compile(
    r'"[^"]*"?|(?<!\w)\'[^\']*\'(?!\w)'
    r"|\b(?:say|says|announce|shout)\b"
    r"(?! (?:the names? of|what|which|who|how|where|whether|every|each|all (?:the|of|\d+)|everything (?:that|on|in))\b)"
    r"[^,.;:!?]*?(?=\b(?:and|then|after|before|while|when)\b|[,.;:!?]|$)"
)
"""Words that are said are no names of things, unless they ask for some: "say which crates are open"."""
_HAND_ME = re.compile(r"(?<!the )(?<!my )(?<!your )\bhand (?=(?:me|us|him|her|them|over)\b)")
"""An order, and no hand."""
_PLAIN = re.compile(r"[a-z0-9_ '.-]*")
_IDENTIFIER = re.compile(r"\s*((?=[a-z0-9_-]*[_0-9])[a-z][a-z0-9_-]*)")
"""What software writes for a name: ``chair_1``, ``red_box``, ``cup2``; what stands behind it says something of it."""
_ONE_WORD = re.compile(r"\s*(?:(?:an?|the)\s)?[a-z]+(?:\s+at)?[\s\d.-]*")
_THING = re.compile(r"\b(?:the|an?|my|your|our|this|that) ([a-z]+)")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _forms(verb: str) -> tuple[str, ...]:
    """Returns a verb as sentences bend it."""
    stem = verb.removesuffix("e")
    return verb, f"{verb}s", f"{verb}es", f"{stem}ing", f"{stem}ed", f"{verb}{verb[-1]}ing", f"{verb}{verb[-1]}ed"


_GRAMMAR = _set(
    "a an the this that my your his our i you we me us it its and or but nor so if unless because while when where why "
    "how than as though although until since before after of in on off at by to from with into onto over under above "
    "below near beside between behind through across along around about against toward towards out for per is are was "
    "were be been being am do does did done has had have would should could not no never nothing nobody cannot dont "
    "please now then instead immediately always only also too just away here there twice again already yet even "
    "ever their"
)
"""What joins words to a sentence: a name has none of them."""
_DEFINITE = _set("the my your his her our their")
_DETERMINERS = _DEFINITE | _set("a an this that these those")
_PREPOSITIONS = _set(
    "about above across against along around at behind below beside between by close for from in inside into like near "
    "next of off on onto over past through toward towards under with within without"
)
_POINTING = _set("it its that this there here where who with has have get gets")
"""With these, a thing is described or pointed at instead of being called by a name."""
_MANNERS = _set("quickly fast gently softly carefully cautiously slowly smoothly steadily quietly kindly simply safely")
"""How something is done: with these, nothing is said of which thing is meant."""
_NO_THING = re.compile(
    r"\b(?:(?:can|could|will|would|may) (?:you|i)"
    r"|a (?:(?:little|tiny|small) )?(?:bit|little|touch|tad|smidge|hair|fraction)"
    r"|(?<!the )(?:closer|nearer|first|last)"
    r"|(?<=\bon )(?:the )?top(?= of\b)|(?:both|the (?:pair|two|lot)) of(?= them\b)"
    r"|thanks|thank you|cheers|er|um|uh|hmm|oh|ok|okay|hey|hi|hello|well"
    r"|(?:love|mate|dear|buddy|pal|sir|madam)(?=\W*$))\b"
    r"|(?:(?<=\band )|(?<=\byou )|(?<=\bthen )|(?<=, )|(?<=\A))"
    r"(?:set|lay|pop|stick|hand|pass|fetch|slide|shift|nudge|snap|photograph)"
    r"(?= (?:the|an?|my|your|our|this|that|it)\b)"
)
"""What is said of no thing, and would be taken for one: who is spoken to, how much, and some orders."""
_NEGATIONS = _set("no not never nothing nobody cannot dont don without instead unless")
_LEAVES_OPEN = _set("or there here where when why wait")
_PLAIN_ORDERS = _set(
    "go fly land take turn rotate spin move hover wait stop start begin pick place put push pull lift drop grab grasp "
    "hold release open close say tell announce look find search face follow use make keep stay leave come return get "
    "give bring avoid approach head climb descend rise let need want reach"
)
_ORDERS = frozenset(form for verb in _PLAIN_ORDERS for form in _forms(verb))
_DIRECTIONS = _set("left right up down forward forwards back backward backwards ahead clockwise")
_AMOUNTS = _set("zero one two three four five six seven eight nine ten hundred cm m s deg degree second")
_FIELDS = _set("scene task plan")  # of a prompt
_NAMELESS = _set(
    "other others another rest one ones none neither everything everyone anything anyone something someone somebody he "
    "she him her thing things object objects item items stuff whatever whichever they them these those same different "
    "odd first second third last middle most least more less except"
)
"""What stands for things without naming them."""
_QUANTIFIERS = _set("all every each both either any some many few several one")
"""What says how many are meant of the things that are named next: "every cup", "all 12 of the cups"."""
_OF_QUANTIFIERS = _DEFINITE | _AMOUNTS | {"of"}
"""What may stand between a quantifier and a name."""
_REFERRING = _set("them they")
"""Behind a quantifier and a name, these stand for what it names: "take all cups and wash them"."""
_UNNAMED = _NAMELESS | _QUANTIFIERS | _set("what which who whose")
"""What speaks of things without naming them, if no name follows a quantifier."""
_WHOLES = frozenset(form for verb in _set("sort clean clear organise organize") for form in _forms(verb)) | _set(
    "tidy tidied tidying classify classified classification"
)
"""What is done to all that is there."""
_KINDS = _set(
    "fruit vegetable veg food rubbish trash garbage litter waste mess clutter junk dirt cutlery crockery tableware "
    "tool dish utensil toy stationery supply furniture clothe clothing laundry drink snack "
    "container electronic hardware"
)
"""What many things are: meant by it, if it is not the name of one."""
_NO_LABEL = _PLAIN_ORDERS | _GRAMMAR | _FIELDS
_NO_NOUNS = _GRAMMAR | _ORDERS | _DIRECTIONS | _AMOUNTS | _UNNAMED
_SUPERLATIVE = re.compile(
    r"\b(?!(?:chest|guest|forest|request|harvest|crest|priest|interest)\b)[a-z]{2,}est\b|\bthe [a-z]{2,}er of\b"
)


def shown_scene(scene: str, instruction: str, model: RobotModel) -> str:
    """Returns the entries of a scene that a model is shown with a task, in the form of ``plain_scene``.

    Args:
        scene: A list, or sentences; untrusted.
        instruction: What is to be done.
        model: Of the robot: the names of its skills are words of orders.
    """
    task = _Task.of(instruction, model)
    entries = _entries(scene, instruction, model)
    names = {entry.name for entry in entries}  # things have numbers, or none has: no ``cup`` next to ``cup_1``
    entries = [entry for entry in entries if f"{entry.name}_1" not in names]
    best = _best_likeness(entries)
    quantified = frozenset(itertools.chain.from_iterable(task.quantified(best).values()))  # all of them, not the likest
    named = {
        entry
        for entry in entries
        if any(place in quantified or best[place] == entry.likeness for place in entry.places)
    }
    labels = [entry for entry in entries if entry.is_label]
    if task.may_need_all(best):
        named.update(labels)
    elif not (named or task.is_definite):
        asked = trigrams(instruction)
        named.update(sorted(labels, key=lambda entry: -resemblance(entry.name, asked))[:_MAX_UNASKED])
    shown: dict[str, str] = {}
    for entry in entries:
        if entry in named:
            shown.setdefault(entry.name, entry.text)
    return ", ".join(shown.values())


def may_need_all(scene: str, instruction: str, model: RobotModel) -> bool:
    """Returns whether a task may need any entry of a scene, so that all of it is shown.

    It may where it speaks of things by other words than names ("all 12 things on the shelf", "the other one", "the
    fruit", "tidy up"): what is not named may be what is meant. Arguments as of ``shown_scene``.
    """
    task = _Task.of(instruction, model)
    return task.may_need_all(_best_likeness(_entries(scene, instruction, model)))


def is_clear(scene: str, instruction: str, model: RobotModel) -> bool:
    """Returns whether there is nothing to ask back about a task.

    Each of its words for a thing names one thing of the scene, and all others are those of orders, of how and how much,
    or of politeness, without a negation. Arguments as of ``shown_scene``; the scene is what that returns.
    """
    bare = _NO_THING.sub(" ", instruction.lower())
    task, named = _Task.of(bare, model), _named_in(scene, bare, model)
    meant = {place: _likeliest(entries) for place, entries in named.items()}
    single = {name for names in meant.values() if len(names) == 1 for name in names}
    is_one_each = bool(named) and all(
        len({entry.name for entry in entries} - (single - meant[place])) == 1  # "the pen in its pen case"
        for place, entries in named.items()
        if place + 1 not in named
    )
    said = {*task.said}
    unnamed = said & (_UNNAMED | _WHOLES) - (_REFERRING if len(single) > 1 else frozenset())
    is_plain = not (unnamed or _SUPERLATIVE.search(task.written) or said & (_NEGATIONS | _LEAVES_OPEN))
    unknown = {task.words[place] for place in task.nouns - named.keys()}
    return is_one_each and is_plain and unknown <= _MANNERS


def named_things(scene: str, instruction: str, model: RobotModel) -> tuple[frozenset[str], ...]:
    """Returns what a task names of a scene: for each thing, the names of the scene that may be meant.

    Not what only says where something is ("the cup next to the lamp"), and nothing where the task speaks of things
    without naming them. Arguments as of ``is_clear``.
    """
    task = _Task.of(instruction, model)
    if task.is_unnamed:
        return ()
    named = {
        place: entries
        for place, entries in _named_in(scene, instruction, model).items()
        if task.words[place] not in task.robot_words and max(entry.likeness for entry in entries) >= _NAMED
    }
    things: list[frozenset[str]] = []
    is_counted, last = False, -2
    for place, entries in sorted(named.items()):
        names = _likeliest(entries)
        is_same = place == last + 1  # another word of one name
        is_counted = is_counted if is_same else not task.is_circumstance(place, named)
        if is_counted:
            things.append(things.pop() | names if is_same else names)
        last = place
    return tuple(things)


def is_of_a_kind(instruction: str, model: RobotModel) -> bool:
    """Returns whether a task is about all things of a kind, whatever they are called: "clean the desk"."""
    task = _Task.of(instruction, model)
    return task.names_kind(()) or not _WHOLES.isdisjoint(task.said)


def ambiguous_things(scene: str, instruction: str, model: RobotModel) -> Mapping[str, frozenset[str]]:
    """Returns the things of a scene of which a task does not say which is meant, each with all that may be.

    "Go to the room" where the scene has ``room_a`` and ``room_b``. Only where the task calls one thing by words that
    fit several equally well and has, besides, only words of orders, of how it is done, and "it" for what is taken or
    looked at ("take the cup and put it down"): any other word may say which. Arguments as of ``is_clear``.
    """
    task = _Task.of(instruction, model)
    named = _named_in(scene, instruction, model)
    said, pairs = task.said, itertools.pairwise(("", *task.said))
    unknown = {said[place] for place in task.nouns - named.keys()}
    telling = {word for before, word in pairs if word != "it" or before not in _ORDERS | {"at"}}
    if task.is_unnamed or not (_NEGATIONS | _POINTING).isdisjoint(telling) or not unknown <= _MANNERS:
        return {}
    meant = {place: _likeliest(entries) for place, entries in named.items() if place + 1 not in named}
    rivals: dict[str, frozenset[str]] = {}
    for place, names in meant.items():
        purposes = (purpose for at, purpose in meant.items() if "for" in said[max(at - 2, 0) : at])
        is_said = any(purpose < names for purpose in purposes)  # "the oven for the pizzas"
        is_one = said[place] == task.words[place] and task.is_definite_at(place)
        if len(names) > 1 and is_one and not is_said:
            rivals |= dict.fromkeys(names, names)
    return rivals


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A name that a scene holds.

    Attributes:
        text: The name with its position, if it has one.
        places: Of the words in the task that name it.
        likeness: How well they do: of several for one word, the best is meant.
        is_label: Whether it can be the name of an object, whatever the task says.
    """

    text: str
    places: frozenset[int] = frozenset()
    likeness: int = 0
    is_label: bool = False

    @property
    def name(self) -> str:
        return self.text.partition(" ")[0]


_MENTIONED, _PARTLY, _NAMED, _EXACTLY, _BY_NUMBER = range(1, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """The words of an instruction, without those that the robot is to say.

    Attributes:
        said: In their order.
        written: The same as one text, with a space before and behind each.
        words: The same, in the singular.
        starts: Where each of ``words`` stands.
        no_nouns: Words that stand for no thing: those of orders, but for one that does here (``the lift``).
        skill_words: Of which the names of the robot's skills consist.
        robot_words: Of what the robot can do, in general: ``picture``, ``gripper``.
    """

    said: Sequence[str]
    written: str
    words: Sequence[str]
    starts: Mapping[str, Sequence[int]]
    no_nouns: frozenset[str]
    skill_words: frozenset[str]
    robot_words: frozenset[str]
    _found: dict[tuple[str, ...], frozenset[int]] = field(default_factory=dict, init=False)  # memory of ``_places``
    _in_any_order: dict[int, dict[tuple[str, ...], int]] = field(default_factory=dict, init=False)

    @staticmethod
    @lru_cache(maxsize=64)  # one goal asks for it several times
    def of(instruction: str, model: RobotModel) -> "_Task":
        text = ascii_letters(with_plain_amounts(plain_task(instruction))).lower()
        said = _WORD.findall(_SAID_ALOUD.sub(" ", _HAND_ME.sub(" ", text)).replace("'s", ""))
        words = [singular(word) for word in said]
        starts: dict[str, list[int]] = {}
        for place, word in enumerate(words):
            starts.setdefault(word, []).append(place)
        skills = model.skills.values()
        skill_words = frozenset(word for skill in skills for word in _WORD.findall(skill.name) if len(word) > 1)
        abilities = " ".join((*model.places, *(f"{skill.alias or ''} {skill.description}" for skill in skills)))
        return _Task(
            said=said,
            written=f" {' '.join(said)} ",
            words=words,
            starts=starts,
            no_nouns=(_NO_NOUNS | skill_words) - _ORDERS.intersection(_THING.findall(" ".join(said))),
            skill_words=skill_words,
            robot_words=frozenset(map(singular, _WORD.findall(abilities.lower()))),
        )

    @property
    def is_unnamed(self) -> bool:
        """Whether it speaks of things without naming them."""
        return not (_UNNAMED | _WHOLES).isdisjoint(self.said) or bool(_SUPERLATIVE.search(self.written))

    def may_need_all(self, best: Mapping[int, int]) -> bool:
        """Whether it speaks of things in other words than those that name some; ``best`` says how well, by place."""
        quantified = self.quantified(best)
        is_unnamed = any(
            word in _UNNAMED | _WHOLES
            and place not in quantified
            and not (word in _REFERRING and any(before < place for before in quantified))
            for place, word in enumerate(self.said)
        )
        return is_unnamed or bool(_SUPERLATIVE.search(self.written)) or self.names_kind(best)

    def quantified(self, best: Mapping[int, int]) -> dict[int, frozenset[int]]:
        """Returns where each quantifier stands whose things are all named, and where: "all 12 cups and plates"."""
        said = self.said
        found: dict[int, frozenset[int]] = {}
        for start, word in enumerate(said):
            if word not in _QUANTIFIERS:
                continue
            names: set[int] = set()
            place = start
            while place == start or (place < len(said) and said[place] in ("and", "or")):
                place += 1
                while place < len(said) and (said[place].isdigit() or said[place] in _OF_QUANTIFIERS):
                    place += 1
                first = place
                while place < len(said) and self._is_noun(said[place]):
                    place += 1
                if place == first or (names and said[place : place + 1] == ["it"]):
                    break  # of a thing without a name ("all of them"), or what follows "and" is no thing ("pack it")
                names.add(place - 1)
            if names and all(best.get(name, 0) >= _NAMED for name in names):
                found[start] = frozenset(names)
        return found

    def names_kind(self, named: Collection[int]) -> bool:
        """Whether it speaks of a kind of things, with a word that is not at one of the places ``named``.

        Not with one for the robot itself, where something else is named: "move the tool above the vial".
        """
        own = {place for word in self.robot_words for place in self.starts.get(word, ()) if self.said[place] == word}
        places = (place for kind in _KINDS.intersection(self.words) for place in self.starts[kind])
        return any(place not in named and not (named and place in own) for place in places)

    @property
    def is_definite(self) -> bool:
        """Whether it has only words of orders to this robot, and names ("the red sofa"): nothing else is meant."""
        nouns, is_name = self.nouns, False
        for place, word in enumerate(self.words):
            is_name = word in _DEFINITE or (place in nouns and is_name)
            if place in nouns and not is_name:
                return False
        return not nouns or _POINTING.isdisjoint(self.said)

    def is_definite_at(self, place: int) -> bool:
        """Whether the word there ends what "the", "my" or the like begins."""
        start = place
        while start > 0 and self._is_noun(self.said[start]):
            start -= 1
        return self.said[start] in _DEFINITE

    def is_circumstance(self, place: int, named: Collection[int]) -> bool:
        """Whether the thing that is named from this word on only says where another one is, or what it is for.

        Args:
            place: Of the word.
            named: Places of all words that name things.
        """
        said = self.said
        before = place - 1
        while before >= 0 and (said[before] in _DETERMINERS or (self._is_noun(said[before]) and before not in named)):
            before -= 1
        if before > 0 and said[before] == "to":
            before -= 1  # next to, close to
        return before >= 0 and said[before] in _PREPOSITIONS

    @property
    def nouns(self) -> frozenset[int]:
        """Where it has words that may stand for things, and are none of what the robot can do."""
        return frozenset(place for place, word in enumerate(self.words) if self._is_thing(word))

    def entries(self, text: str, *, has_identifiers: bool) -> Iterator[_Entry]:
        """Yields the names of one raw entry: its own, or where that is none, what the task says of its words."""
        bare = without_remarks(text)
        identifier = _IDENTIFIER.match(bare)
        plain = plain_entry(text)
        name = plain_entry(identifier[1]) if identifier else plain.partition(" ")[0]
        if not plain.startswith(f"{name} "):
            plain = name
        label = [singular(word) for word in _WORD.findall(name) if not word.isdigit()]
        phrase = _ONE_WORD if has_identifiers else _PLAIN
        is_name = identifier is not None or phrase.fullmatch(bare) is not None
        is_said = bool(self._places(label)) and _PLAIN_ORDERS.isdisjoint(label)
        own = [word for word in label if word not in WITHIN_NAME] if identifier else label  # man_with_hat
        if is_name and own and (is_said or _GRAMMAR.isdisjoint(own)):
            likeness, places = self._likeness(name, label, is_phrase=identifier is None)
            if likeness or not self._places_of_nouns(label):
                yield _Entry(text=plain, places=places, likeness=likeness, is_label=self._is_label(own))
                return
        yield from self._mentions(bare)

    def _likeness(self, name: str, label: Sequence[str], *, is_phrase: bool) -> tuple[int, frozenset[int]]:
        """Returns how well the task names something, and with which of its words."""
        words = _WORD.findall(name)
        if places := self._places(label):
            if f" {' '.join(words)} " not in self.written:
                return _NAMED, places
            return (_BY_NUMBER if len(words) > len(label) else _EXACTLY), places
        has_number = len(words) > len(label) and not self.starts.keys().isdisjoint(label)
        if has_number and (places := self._places_of_size(name)):
            return _BY_NUMBER, places
        is_partly = label[-1] in self.starts if is_phrase else _PLAIN_ORDERS.isdisjoint(label)
        places = self._places_of_nouns(label)
        return (_PARTLY, places) if places and (is_partly or self._is_noun(label[-1])) else (0, frozenset())

    def _places(self, label: Sequence[str]) -> frozenset[int]:
        """Returns where the task says these words one behind the other, if one of them may stand for a thing."""
        key = tuple(label)
        if key not in self._found:
            if len(self._found) >= _MAX_FOUND:  # the same task in many scenes
                self._found.clear()
            nouns = [at for at, word in enumerate(label) if self._is_noun(word)]
            starts = self.starts.get(label[0], ()) if nouns else ()
            said = [start for start in starts if self.words[start : start + len(label)] == label]
            self._found[key] = frozenset(start + at for start in said for at in nouns)
        return self._found[key]

    def _places_of_size(self, name: str) -> frozenset[int]:
        """Returns where the task says all words of a name in another order: "the 10 mm socket"."""
        words = tuple(sorted(_WORD.findall(with_plain_amounts(name.replace("_", " ")))))
        if (runs := self._in_any_order.get(len(words))) is None:  # of as many words, sorted, with where they stand
            starts = reversed(range(len(self.said) - len(words) + 1))
            runs = {tuple(sorted(self.said[start : start + len(words)])): start for start in starts}
            self._in_any_order[len(words)] = runs
        found = runs.get(words)
        places = () if found is None else range(found, found + len(words))
        return frozenset(place for place in places if self._is_noun(self.said[place]))

    def _places_of_nouns(self, label: Sequence[str]) -> frozenset[int]:
        return frozenset(place for word in label if self._is_thing(word) for place in self.starts.get(word, ()))

    def _mentions(self, text: str) -> Iterator[_Entry]:
        """Yields what the task names somewhere in a text."""
        found = list(itertools.islice(_WORD.finditer(text), _MAX_WORDS))
        words = [singular(match.group()) for match in found]
        start = 0
        while start < len(words):
            last = min(start + _MAX_NAME_WORDS, len(words)) if words[start] in self.starts else start
            end = next((end for end in range(last, start, -1) if self._is_mention(words[start:end])), start)
            if end == start:
                start += 1
                continue
            places = self._places(words[start:end])
            if (
                end < len(words)
                and words[end].isdigit()
                and text[found[end - 1].end() : found[end].start()] in ("", "_")
            ):
                end += 1
            if name := plain_entry(text[found[start].start() : found[end - 1].end()]):
                yield _Entry(text=name, places=places, likeness=_MENTIONED)
            start = end

    def _is_mention(self, words: Sequence[str]) -> bool:
        """Whether these words of a text are what the task calls a thing."""
        return self._is_thing(words[-1]) and _GRAMMAR.isdisjoint(words) and bool(self._places(words))

    def _is_thing(self, word: str) -> bool:
        """Whether a word may stand for a thing, and is none of what the robot can do."""
        return self._is_noun(word) and word not in self.robot_words

    def _is_noun(self, word: str) -> bool:
        """Whether a word may stand for a thing."""
        return len(word) > 1 and not word.isdigit() and word not in self.no_nouns

    def _is_label(self, label: Sequence[str]) -> bool:
        """Whether these words can be the name of an object, whatever the task says."""
        has_order = not (_NO_LABEL.isdisjoint(label) and self.skill_words.isdisjoint(label))
        return not has_order and any(map(self._is_noun, label))


def _best_likeness(entries: Iterable[_Entry]) -> dict[int, int]:
    """Returns how well a word of the task names what it names best, by the word's place."""
    best: dict[int, int] = {}
    for entry in entries:
        for place in entry.places:
            best[place] = max(best.get(place, 0), entry.likeness)
    return best


def _likeliest(entries: Sequence[_Entry]) -> frozenset[str]:
    """Returns the names of those that a word fits best."""
    best = max(entry.likeness for entry in entries)
    return frozenset(entry.name for entry in entries if entry.likeness == best)


@lru_cache(maxsize=8)  # one goal asks for them several times
def _entries(scene: str, instruction: str, model: RobotModel) -> Sequence[_Entry]:
    """Returns the names that a scene holds."""
    task, texts = _Task.of(instruction, model), list(dict.fromkeys(raw_entries(scene)))
    has_identifiers = any(map(_IDENTIFIER.match, texts))
    return [entry for text in texts for entry in task.entries(text, has_identifiers=has_identifiers)]


def _named_in(scene: str, instruction: str, model: RobotModel) -> Mapping[int, Sequence[_Entry]]:
    """Returns what a task names of a scene, by the place of the word that does."""
    named: dict[int, list[_Entry]] = {}
    for entry in _entries(scene, instruction, model):
        for place in entry.places:
            named.setdefault(place, []).append(entry)
    return named
