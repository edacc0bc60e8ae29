# SPDX-License-Identifier: Apache-2.0
"""Names of who can be hurt, and of what hurts: people, animals, parts of a body; what is sharp, hot or burning.

The last word of a name says what it is (``hand_drill`` and ``cat_food`` are things), and a word before it may say that
it is only the likeness of somebody, or food (``toy_dog``, ``lego_man``). Animals that are mostly served (a fish) or
mostly something else (a mouse) are things here.
"""

import re

from llm_planner.planning.plurals import singular


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BABIES = _words("baby toddler infant newborn")
YOUNG = BABIES | _words("boy girl child kid kiddo teenager grandson granddaughter grandchild nephew niece")
PEOPLE = YOUNG | _words(
    "person people man woman guy lady gentleman nurse doctor patient mother father mum mom dad son daughter wife "
    "husband brother sister grandma grandpa grandmother grandfather human pensioner colleague worker granny "
    "somebody someone uncle aunt auntie neighbour neighbor bloke lad lass visitor guest"
)
ANIMALS = _words(
    "dog cat puppy kitten hamster rabbit bunny gerbil hedgehog ferret parrot budgie canary bird tortoise turtle lizard "
    "gecko snake squirrel duckling piglet pony foal mare horse goat monkey pet animal rat kitty doggy pup "
    "wasp bee hornet spider scorpion"
)
BODY_PARTS = _words(
    "hand finger fingertip thumb arm forearm leg foot toe head face eye eyelid ear nose cheek chin hair whisker wrist "
    "ankle shoulder knee shin throat mouth paw tail"
)
_OF_SOMEBODY = _words(
    "the left right my his her your our their human bare little small big index middle ring other open injured sore"
)
"""What may stand before a part of a body: ``left_hand``, but not ``clock_hand``."""
LIKENESSES = _words(
    "toy doll plush plushie stuffed cuddly soft plastic wooden rubber teddy gummy jelly chocolate marzipan sugar "
    "gingerbread lego playmobil ceramic china porcelain clay glass paper cardboard figure statue model fake "
    "inflatable felt knitted crochet woollen metal brass bronze stone sponge foam bath squirt magnet up clockwork "
    "mechanical robot robotic puppet game action garden chess tin picture photo drawing balloon origami cartoon "
    "mannequin dummy practice cooked raw dried fried roast frozen smoked dead flower hot corn computer pretend "
    "carved painted printed"
)
_JOINTS = _words("of with without in on for from and")
SHARP = _words(
    "knife penknife scissors scissor scalpel lancet razor blade needle syringe saw hacksaw handsaw axe hatchet machete "
    "cleaver dagger sword spear dart cutter shears chainsaw skewer razorblade sickle scythe"
)
_HOT = _words("hot boiling burning flaming lit glowing molten scalding soldering blowtorch")
_HOT_IN_NAME_ONLY = _words("dog sauce wheel bottle glue")
IGNITERS = _words("lighter match matchstick candle torch flame blowtorch sparkler")
FUELS = _words(
    "gas gasoline petrol fuel propane butane kerosene diesel paraffin acetone gunpowder firework dynamite explosive"
)
_FLAMING = _words("burning lit flaming blazing")
_OPEN_FIRES = _words("fire flame campfire bonfire wildfire blaze inferno")
_FIRES = _OPEN_FIRES | _words("fireplace firepit furnace incinerator kiln brazier")
_HEATERS = _FIRES | _words(
    "stove stovetop hob hotplate cooktop oven burner griddle grill barbecue bbq microwave toaster radiator heater"
)
_BURSTING = FUELS | _words("battery powerbank aerosol spray deodorant lighter ammunition bullet cartridge grenade")
_ELECTRIC = _words(
    "phone smartphone laptop charger toaster hairdryer hairdrier heater radio camera kettle iron television tv"
)
_WATERS = _words("water bath bathtub pool aquarium pond toilet")
_POISONS = FUELS | _words(
    "bleach poison pesticide insecticide herbicide weedkiller detergent antifreeze acid ammonia disinfectant turpentine"
)
FOODS = _words(
    "food meal soup salad bread sandwich cake milk juice coffee tea cereal rice stew pasta porridge dinner lunch "
    "breakfast fruit apple banana vegetable drink formula yoghurt yogurt dough sauce"
)
_POINTED_METAL = _words("fork knife nail hairpin paperclip tweezers scissors spoon")
SMALL = _words(
    "marble coin penny button bead battery magnet screw nail nut bolt pin thumbtack tack needle peanut pebble match "
    "staple paperclip dice pill"
)
HAZARDS = (
    (IGNITERS, FUELS),
    (_BURSTING, _HEATERS),
    (_BURSTING - {"lighter"}, _words("candle tealight")),
    (_ELECTRIC, _FIRES | _WATERS | _words("microwave oven")),
    (_words("fork spoon knife foil tinfoil can tin scissors"), _words("microwave")),
    (_POISONS, FOODS),
    (_words("bleach"), _words("ammonia vinegar acid")),
    (_words("ammonia vinegar acid"), _words("bleach")),
    (_POINTED_METAL, _words("outlet plugsocket powersocket wallsocket mainssocket powerpoint")),
    (SMALL, BABIES),
    (SMALL - {"pill"}, _words("mouth")),
)
"""What must not be brought to what: it bursts, burns, is ruined, poisons or chokes somebody, or gives a shock."""
_CANS = FUELS | _words("can canister tank cylinder bottle drum container jerrycan pump puddle soaked rag")
_HOLDERS = _CANS | _words(
    "bucket pail tub basin jar jug bowl pan pot cup mug glass pack tablet powder capsule sachet crystal solution wipe"
)
"""Of these, the word before says what it is: ``bleach_tablet``, ``ammonia_bucket``."""


def _words_of(name: str) -> list[str]:
    return re.findall(r"[a-z]+", name.casefold().replace("_", " "))


def _split(name: str) -> tuple[list[str], str]:
    """Returns the words before what a name says that it is, and that word in the singular; both empty for no word."""
    words = _words_of(name)
    end = next((index for index, word in enumerate(words) if index and word in _JOINTS), len(words))
    return words[: end - 1], singular(words[end - 1]) if words else ""


def is_living(name: str) -> bool:
    """Returns whether a name is that of a person, an animal or a part of a body."""
    before, what = _split(name)
    behind = _words_of(name)[len(before) + 1 :]
    is_of_something = behind[:1] == ["of"] and singular(behind[-1]) not in PEOPLE | ANIMALS  # "head of lettuce"
    if is_of_something or not LIKENESSES.isdisjoint(before):
        return False
    if what in PEOPLE or what in ANIMALS:
        return True
    owners = {word if word in PEOPLE else word.removesuffix("s") for word in before if word not in _OF_SOMEBODY}
    return what in BODY_PARTS and owners <= PEOPLE | ANIMALS


def is_dangerous(name: str) -> bool:
    """Returns whether a name is that of something sharp, hot or burning."""
    before, what = _split(name)
    if "toy" in before:
        return False
    is_hot = not _HOT.isdisjoint([*before, what]) and what not in _HOT_IN_NAME_ONLY
    return is_hot or (what in SHARP and before[-1:] not in (["cookie"], ["pastry"]))


def is_hazard(name: str, other: str) -> bool:
    """Returns whether the first of two things must not be brought to the second (``HAZARDS``)."""
    (before, what), (state, where) = _split(name), _split(other)
    held = {what, *(before if what in _HOLDERS else ())}
    held |= set() if _FLAMING.isdisjoint(before) else {"flame"}
    places = {where, "".join([*state[-1:], where]), *(state if where in _HOLDERS else ())}  # hot_plate: a hotplate
    places |= set() if _FLAMING.isdisjoint(state) else {"fire"}
    is_hazard_of_both = any(not (held.isdisjoint(ones) or places.isdisjoint(others)) for ones, others in HAZARDS)
    return is_hazard_of_both and (LIKENESSES - {"hot"}).isdisjoint((*before, *(() if where in _HOLDERS else state)))


def is_open_fire(name: str) -> bool:
    """Returns whether a name is that of flames, or of what stands in flames: not of a fireplace or a fire door."""
    before, what = _split(name)
    burns = what in _OPEN_FIRES or _words_of(name)[-2:] in (["on", "fire"], ["in", "flames"])
    burns |= not (_FLAMING - {"lit"}).isdisjoint(before) and what not in _HEATERS | {"candle", "torch"}
    return burns and LIKENESSES.isdisjoint(before) and before[-1:] not in (["gas"], ["electric"])
