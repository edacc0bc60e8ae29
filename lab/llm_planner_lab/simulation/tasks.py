# SPDX-License-Identifier: Apache-2.0
"""The eleven tasks of LRTrace (TimelyLLM, Table 2), each with several plans that pass the safety gate; and a chat.

Drone plans have about 20 tokens, arm plans about 100 (TimelyLLM, section 6). They are written by hand in the manner of
the published ones: a search is one block, an evasion begins with the move that takes the robot away. Task 12 is the
chat of section 7.4.2: its "plan" is a story.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from llm_planner.core.request import Urgency
from llm_planner_lab.simulation.stories import story


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to ask, and the plan that answers."""

    instruction: str
    plan: str
    scene: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One task type; ``number`` is the trace id of Table 2, or 12 for a chat."""

    number: int
    title: str
    robot_model: str
    urgency: Urgency
    variants: tuple[Variant, ...]


def _search(name: str, scene: str, extra: str = "") -> Variant:
    return Variant(f"look for the {name}", f"?s({name}){{g({name});{extra}->True;}}->False;", scene)


def _stack(*boxes: str) -> Variant:
    """Stacks the boxes, each on the one before, after a look at each."""
    pairs = zip(boxes[1:], boxes, strict=False)
    plan = "".join(f"?iv({box}){{pick({box});place({box},{below});}}" for box, below in pairs)
    return Variant("stack the boxes", f"{plan}home();say('the boxes are stacked');", ", ".join(boxes))


def _sort(places: Mapping[str, str], done: str, instruction: str) -> Variant:
    plan = "".join(f"pick({name});place({name},{place});" for name, place in places.items())
    return Variant(instruction, f"{plan}home();say('{done}');", ", ".join(places))


def _desk(place: str, *names: str) -> Variant:
    return _sort(dict.fromkeys(names, place), "the desk is clean", "clean the desk")


def _classify(fruits: tuple[str, ...], vegetables: tuple[str, ...]) -> Variant:
    places = {**dict.fromkeys(fruits, "left_area"), **dict.fromkeys(vegetables, "right_area")}
    return _sort(places, "fruits left, vegetables right", "put the fruits left and the vegetables right")


def _stories(count: int) -> tuple[Variant, ...]:
    return tuple(Variant("tell me a story", story(random.Random(f"story {number}"))) for number in range(count))


_BOXES = ("red_box", "blue_box", "green_box", "yellow_box", "white_box", "black_box")

TASKS: Mapping[int, Task] = {
    task.number: task
    for task in (
        Task(
            1,
            "Look for the cat",
            "tello",
            Urgency.NORMAL,
            (
                _search("cat", "chair_1, table_1", "l('found it');"),
                Variant("find the cat", "4{?iv(cat){g(cat);->True;}tc(90);}->False;", "sofa_1"),
                Variant("where is the cat?", "?s(cat){o(cat);l('here is the cat');->True;}->False;", "plant_2"),
            ),
        ),
        Task(
            2,
            "Check for keys or wallets",
            "tello",
            Urgency.NORMAL,
            (
                Variant("check for keys or wallets", "?iv(keys)|iv(wallet){l('yes');->True;}l('no');->False;", "bag_1"),
                Variant("are there keys or a wallet?", "l('checking');?iv(keys){l('keys');}?iv(wallet){l('wallet');}"),
                Variant("keys or wallets?", "_1=p('are there keys or a wallet?');l(_1);->_1;", "table_1"),
            ),
        ),
        Task(
            3,
            "Check the book on the cabinet",
            "tello",
            Urgency.NORMAL,
            (
                Variant("check the book on the cabinet", "?s(cabinet){g(cabinet);_1=iv(book);->_1;}->False;"),
                Variant("is the book on the cabinet?", "g(cabinet);mu(40);?iv(book){l('it is');->True;}->False;"),
                Variant("look at the book", "mu(60);?s(book){a(book);tp();->True;}->False;", "cabinet_1"),
            ),
        ),
        Task(
            4,
            "Find a toy under the bed",
            "tello",
            Urgency.NORMAL,
            (
                Variant("find a toy under the bed", "g(bed);md(60);?s(toy){o(toy);tp();->True;}->False;", "bed_1"),
                Variant("is a toy under the bed?", "?s(bed){g(bed);md(50);_1=iv(toy);->_1;}->False;", "bed_1"),
                Variant("look under the bed for a toy", "md(60);tc(45);?iv(toy){l('a toy');->True;}->False;", "bed_1"),
            ),
        ),
        Task(
            5,
            "Find a tool for cutting paper",
            "tello",
            Urgency.NORMAL,
            (
                Variant("find a tool for cutting paper", "_1=sa('a tool for cutting paper');?_1!=False{g(_1);}->_1;"),
                Variant("what cuts paper here?", "_1=sa('a tool that cuts paper');l(_1);->_1;", "desk_1"),
                _search("scissors", "desk_1, paper_1", "tp();"),
            ),
        ),
        Task(
            6,
            "Avoiding human injury",
            "tello",
            Urgency.URGENT,
            (
                Variant("a person walks toward you", "mb(150);mu(50);l('person close');h();", "person_1"),
                Variant("a child runs at you", "mu(100);mb(100);l('a child');h();", "child_1"),
                Variant("a person is close on the left", "mr(150);tu(90);l('person left');h();", "person_1"),
            ),
        ),
        Task(
            7,
            "Preventing potential collision",
            "tello",
            Urgency.URGENT,
            (
                Variant("you are about to hit the wall", "mb(100);tc(180);l('wall');mf(50);", "wall_1"),
                Variant("a ball flies at you", "ml(150);d(1);mr(150);l('ball');", "ball_1"),
                Variant("another drone comes from above", "md(40);mb(150);l('drone above');h();", "drone_2"),
            ),
        ),
        Task(
            8,
            "Evading animal pursuit",
            "tello",
            Urgency.URGENT,
            (
                Variant("a dog chases you", "mu(100);mf(300);tc(180);l('dog');", "dog_1"),
                Variant("a bird attacks from behind", "mf(300);md(50);tu(90);l('bird');", "bird_1"),
                Variant("the cat jumps at you", "mu(80);mb(100);l('cat');h();", "cat_1"),
            ),
        ),
        Task(
            9,
            "Object stacking",
            "indy7",
            Urgency.NORMAL,
            (_stack(*_BOXES[:5]), _stack(*reversed(_BOXES[:4]), "cup"), _stack(*_BOXES[1:])),
        ),
        Task(
            10,
            "Desk cleaning",
            "indy7",
            Urgency.NORMAL,
            (
                _desk("bin", "cup", "pen", "paper", "can", "bottle", "box", "tape"),
                _desk("basket", "book", "phone", "keys", "glue", "ruler", "mug", "pen", "clip"),
                _desk("drawer", "pen", "pencil", "eraser", "stapler", "ruler", "tape", "marker"),
            ),
        ),
        Task(
            11,
            "Fruit and vegetable classification",
            "indy7",
            Urgency.NORMAL,
            (
                _classify(("apple", "pear", "lemon", "banana"), ("carrot", "onion", "potato")),
                _classify(("orange", "plum", "kiwi"), ("leek", "tomato", "pepper")),
                _classify(("peach", "melon", "grape", "lime"), ("radish", "beet", "corn")),
            ),
        ),
        Task(12, "Story telling", "tello", Urgency.CHAT, _stories(24)),
    )
}
