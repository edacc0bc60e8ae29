"""The page docs/benchmarks/encounters.md from the document of ``bench.encounters``."""

from pathlib import Path
from typing import Any

_HEAD = """# Encounters: do they collide?

Written by `llm-planner bench encounters`, commit `{commit}` (`+`: with changes). Simulated: MuJoCo, in virtual time
([physics.md](../physics.md)); no drone was flown.

A Tello flies straight ahead (even seeds) or hovers (odd seeds). A person of 0.5 x 0.5 x 1.75 m walks at 1-2 m/s
through the place where the drone will be after 3-4.5 s, from any direction, missing its middle by 0.2 m (standard
deviation), and walks on for 4 m. The drone flies in gusts of 0.3 m/s (standard deviation), its odometry drifts, its
orders take effect after about 0.3 s.

| planner | n | collisions | unseen | hovering | asked | in time | flown | to its end | reflex | least | median gap |
|---|---|---|---|---|---|---|---|---|---|---|---|
{rows}

`unseen`: collisions in encounters from seed {tuned} on; the reflex was tuned while the earlier ones were known.
`hovering`: collisions of drones that hovered. `in time`: answers within the budget; `flown`: of these, those by which
the drone flew 0.3 m or more before anything else happened; `to its end`: those whose first segment it flew to its end.
`reflex`: encounters in which it acted, at any moment. The gap is from the person's box to the middle of the drone,
whose own radius is about 0.1 m.

## What planned

The real loop in the encounter's time: scheduler (`{policy}`), grammar, safety gate and the bundled model
`{model}`, which wrote every answer. An engine step takes what profile `{profile}` says (measured on a
CPU), not what the machine needs that ran this. The drone asks in words: "a person is walking toward you from the left".

- **in time**: the planner is idle when it is asked. The median budget was {budget_s} s, the median answer came after
  {answer_s} s (the longest after {longest_s} s), the way there and back and the robot's ticks of 20 ms included.
- **late**: the engine hangs for {stall_s:g} s in the first step of the answer.
- **dead**: nobody hears the question.
- **nobody**: no planner and no reflex: what would have happened.

## What the drone knows

A ring of range finders of 5 m, 20 times a second ([physics.md](../physics.md): assumed, no real Tello has it), with
rays that others hide. A speed is the difference of sightings, believed after three. It asks for help once somebody who
goes on like that would come within 0.4 m in the next 4 s; the budget is what is left until the reflex would act
({ahead_s:g} s before), less 0.1 s. The reflex acts on what would come within 0.4 m in {ahead_s:g} s if both go on as
they do (a motion that is leaving already counts as leaving), on what is nearer than 0.8 m, and when the budget is over.
It knows nothing of where the person means to go.

## How to read it

- An urgent goal ends the errand, and the drone brakes: that alone resolves most encounters in flight. The drones that
  hover are the test.
- The bundled model flees straight away from who comes, by 1.5 m, as it was trained to. Somebody who walks on comes near
  again, or catches up with a drone that flies at 0.85 m/s; then the reflex takes over and steps aside. Asking for a
  step to the side instead would need another model.
- Who is noticed so late that the reflex would act at once gives the planner 0.1 s all the same; these are the answers
  in time that were not flown.
"""


def write_page(document: dict[str, Any], page: Path) -> None:
    """Writes the page."""
    setup, conditions = document["setup"], document["conditions"]
    in_time = conditions[0]
    text = _HEAD.format(
        commit=setup["commit"],
        rows="\n".join(map(_row, conditions)),
        policy=setup["policy"],
        model=setup["model"],
        profile=setup["profile"],
        stall_s=setup["stall_s"],
        ahead_s=setup["ahead_s"],
        tuned=setup["tuned_seeds"],
        budget_s=in_time["median_budget_s"],
        answer_s=in_time["median_answer_s"],
        longest_s=in_time["longest_answer_s"],
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")


def _row(condition: dict[str, Any]) -> str:
    cells = (
        condition["planner"],
        condition["encounters"],
        condition["collisions"],
        f"{condition['collisions_unseen']} of {condition['encounters_unseen']}",
        condition["collisions_hovering"],
        condition["asked"],
        condition["answered_in_time"],
        condition["flown"],
        condition["flown_to_the_end"],
        condition["with_reflex"],
        f"{condition['least_gap_m']:.2f} m",
        f"{condition['median_gap_m']:.2f} m",
    )
    return "| " + " | ".join(map(str, cells)) + " |"
