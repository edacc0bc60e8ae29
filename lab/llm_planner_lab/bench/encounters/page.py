# SPDX-License-Identifier: Apache-2.0
"""The page docs/benchmarks/encounters.md from the document of ``bench.encounters``."""

from pathlib import Path
from typing import Any

from llm_planner_lab.bench.encounters.kinds import Asking

_HEAD = """# Encounters: do they collide?

Written by `llm-planner bench encounters`, commit `{commit}` (`+`: with changes). Simulated: MuJoCo, in virtual time
([physics.md](../physics.md)); no drone was flown.

A Tello flies straight ahead (even seeds) or hovers (odd seeds). A {name} of {size} m comes at 1-2 m/s
through the place where the drone will be then, from any direction, missing its middle by {aim_m:.2g} m (standard
deviation), and goes on for 4 m. The drone flies in gusts of 0.3 m/s (standard deviation), its odometry drifts, its
orders take effect after about 0.3 s. Two sets of encounters, seeds {first} to {last}.
{seen}

| set | n | begins at least | 5 % under | median | at most |
|---|---|---|---|---|---|
{begins}

Distances from the middle of the drone to the middle of the {name}. `far`: outside the range of the drone's sensors,
5 m, so that it notices the {name} coming into range; every direction is as likely, so a {name} that overtakes a
flying drone is fast. `near`: 3 m or more from the meeting point, the only set of earlier versions of this page; some of
its encounters begin right next to the drone.

## Collisions

| set | planner | asked | n | collisions | hovering | reflex | least gap | 5 % under | median |
|---|---|---|---|---|---|---|---|---|---|
{collisions}

`hovering`: collisions of drones that hovered. `reflex`: encounters in which it acted, at any moment. The gap is from
the box of the {name} to the middle of the drone, whose own radius is about 0.1 m.

- **in time**: the planner is idle when it is asked. The median budget was {budget_s} s, the median answer came after
  {answer_s} s (the longest after {longest_s} s), the way there and back and the robot's ticks of 20 ms included.
- **no reflex**: as in time, and the reflex is switched off: what the answer is worth by itself.
- **late**: the engine hangs for {stall_s:g} s in the first step of the answer.
- **dead**: no planner receives the question.
- **nobody**: no planner and no reflex: what would have happened.

## Answers in time, and what became of them

| set | asked | n | asks | in time | used | flown | to its end | then reflex | over | overridden | not begun | clear |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
{answers}

An answer is **used** if the robot begins it and carries it out to its end, or until the danger is over.

- `asks`: the drone asked. In other encounters the {name} did not come near, or the reflex acted at the moment in which
  it was noticed ({before}).
- `flown`: the drone flew 0.3 m or more by the answer.
- `to its end`: it carried all of its segments out. `then reflex`: of these, those after which the reflex acted all the
  same.
- `over`: not to its end, but until after the moment in which the two were nearest.
- `overridden`: the reflex broke it off before. `not begun`: the reflex had acted before the answer came.
- `clear`: of the overridden and those not begun, answers that keep 0.4 m clear without the reflex; the same encounter
  with the reflex switched off says so. The others were bad ways: the reflex was right.

## The question

The drone asks in words. **passes**: on which side of the drone, across its own way, the {name} will be when they are
nearest: "{passes}". **comes from**: "{comes}". The bundled model flees
straight away from the side that it is told. Told from which side the {name} comes, the drone flies along its way at
0.85 m/s, and a faster {name} catches up; told on which side the {name} will pass, the drone steps aside.

## What planned

The real loop in the encounter's time: scheduler (`{policy}`), grammar, safety gate and the bundled model
`{model}`, which wrote every answer. An engine step takes what profile `{profile}` says (measured on a
CPU), not what the machine needs that ran this.

## What the drone knows

A ring of range finders of 5 m, 20 times a second ([physics.md](../physics.md): assumed, no real Tello has it), with
rays that others hide. A speed is the difference of sightings, believed after three. It asks for help once something
would come within 0.4 m in the next 4 s, both going on as they do; the budget is what is left until the reflex would act
({ahead_s:g} s before), less 0.1 s. The reflex acts on what would come within 0.4 m in {ahead_s:g} s by the same
forecast, on what is nearer than 0.8 m, and when the budget is over; it does not interrupt a motion, the planner's or
its own, if nothing else would keep clearer. It knows nothing of where the {name} means to go. An urgent goal ends the
errand, and the drone brakes: that alone resolves most encounters in flight.
"""


def write_page(document: dict[str, Any], page: Path) -> None:
    """Writes the page."""
    setup, rows = document["setup"], document["conditions"]
    first, last = setup["first_seed"], setup["first_seed"] + setup["num_seeds"] - 1
    answers = [row for row in rows if row["planner"] == "in time"]
    in_time = answers[0]
    text = _HEAD.format(
        **{key: setup[key] for key in ("commit", "name", "aim_m", "policy", "model", "profile", "stall_s", "ahead_s")},
        size=" x ".join(f"{side:g}" for side in setup["size_m"]),
        first=first,
        last=last,
        seen=_seen(first, last, setup["tuned_seeds"]),
        begins="\n".join(map(_begin_row, document["begins"])),
        collisions="\n".join(map(_collision_row, rows)),
        answers="\n".join(map(_answer_row, answers)),
        before="; ".join(f"{row['begin']}, {row['asking']}: {row['reflex_before_asking']}" for row in answers),
        passes=_question(document, Asking.PASSES),
        comes=_question(document, Asking.COMES),
        budget_s=in_time["median_budget_s"],
        answer_s=in_time["median_answer_s"],
        longest_s=in_time["longest_answer_s"],
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")


def _seen(first: int, last: int, tuned: int) -> str:
    if first >= tuned:
        return f"Reflex and question were tuned on seeds below {tuned}: these had not been looked at."
    if last < tuned:
        return f"Reflex and question were tuned while these were known (seeds below {tuned})."
    return f"Reflex and question were tuned while those below {tuned} were known."


def _question(document: dict[str, Any], asking: Asking) -> str:
    """Returns the first of these questions."""
    told = (trial["instruction"] for trial in document["trials"] if trial["asking"] == asking.value)
    return next(filter(None, told), "")


def _begin_row(row: dict[str, Any]) -> str:
    ways = (f"{row[key]:.1f} m" for key in ("least_m", "twentieth_m", "median_m", "most_m"))
    cells = (row["begin"], f"{row['encounters']}", *ways)
    return "| " + " | ".join(cells) + " |"


def _collision_row(row: dict[str, Any]) -> str:
    is_asked = row["planner"] != "nobody"
    keys = ("encounters", "collisions", "collisions_hovering", "with_reflex")
    gaps = (f"{row[key]:.2f} m" for key in ("least_gap_m", "twentieth_gap_m", "median_gap_m"))
    asking = row["asking"] if is_asked else ""
    return "| " + " | ".join((row["begin"], row["planner"], asking, *(str(row[key]) for key in keys), *gaps)) + " |"


def _answer_row(row: dict[str, Any]) -> str:
    asked = ("encounters", "asked", "answered_in_time")
    became = ("used", "flown", "ended", "ended_then_reflex", "danger_over", "overridden", "not_begun")
    cells = (str(row[key]) for key in (*asked, *became, "not_used_though_clear"))
    return "| " + " | ".join((row["begin"], row["asking"], *cells)) + " |"
