# SPDX-License-Identifier: Apache-2.0
"""A driver from outside: its values are held to what the skills return."""

import math
from dataclasses import replace

import numpy as np
import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import SkillCall
from llm_planner.language.parser import parse
from llm_planner.robots.driver import SkillResult, SkillStatus
from llm_planner.robots.interpreter import Interpreter
from llm_planner.robots.model import ReturnType
from llm_planner.robots.own_driver import MappedDriver, load_driver
from llm_planner.robots.world import World
from tests.robots.builders import LIBRARY

MODEL = LIBRARY.get("tello")
FAILED, SUCCEEDED = SkillStatus.FAILED, SkillStatus.SUCCEEDED


class Driver:
    """Succeeds at once, with a value."""

    pose = MODEL.start

    def __init__(self, value):
        self.value, self.started = value, []

    def start(self, call, _now_s):
        self.started.append(call.name)

    def tick(self, _now_s):
        return SkillResult(SUCCEEDED, self.value)

    def halt(self, now_s):
        pass


def mapped(value, returns=ReturnType.BOOLEAN):
    skills = {**MODEL.skills, "iv": replace(MODEL.skills["iv"], returns=returns)}
    return MappedDriver(replace(MODEL, skills=skills), Driver(value), World(), (), 0.0)


@pytest.mark.parametrize(
    ("returns", "given", "value"),
    [
        (ReturnType.BOOLEAN, True, True),
        (ReturnType.BOOLEAN, np.bool_(False), False),
        (ReturnType.NUMBER, 3, 3),
        (ReturnType.NUMBER, np.float32(0.5), 0.5),
        (ReturnType.NUMBER, np.longdouble(0.5), 0.5),
        (ReturnType.TEXT, np.str_("blue"), "blue"),
        (ReturnType.TEXT, "flur\udce9 über", "flur? über"),
        (ReturnType.TEXT, False, False),
        (ReturnType.NONE, "whatever", None),
        (ReturnType.NONE, None, None),
    ],
)
def test_a_value_is_that_of_the_skill(returns, given, value):
    driver = mapped(given, returns)
    driver.start(SkillCall("iv", ("cat",)), 0.0)
    result = driver.tick(0.1)
    assert result == SkillResult(SUCCEEDED, value)
    assert type(result.value) is type(value)
    assert driver.tick(0.2) == result


@pytest.mark.parametrize(
    ("returns", "given"),
    [
        *((ReturnType.BOOLEAN, value) for value in (None, "no cat", 1, math.nan, [True], np.array([True]))),
        *((ReturnType.NUMBER, value) for value in (None, True, "3", math.nan, -math.inf, np.float64("nan"), 10**400)),
        *((ReturnType.TEXT, value) for value in (None, True, 3, b"blue")),
    ],
)
def test_any_other_value_fails_the_call(returns, given):
    driver = mapped(given, returns)
    driver.start(SkillCall("iv", ("cat",)), 0.0)
    result = driver.tick(0.1)
    assert result.status is FAILED
    assert result.reason.startswith("iv returned ")
    assert driver.tick(0.2) == result


def test_a_reason_can_be_sent_whatever_it_holds(monkeypatch):
    driver = mapped(True)
    monkeypatch.setattr(
        driver._driver, "tick", lambda _: SkillResult(FAILED, reason="no file flur\udce9", is_permanent=True)
    )
    driver.start(SkillCall("iv", ("cat",)), 0.0)
    assert driver.tick(0.1) == driver.tick(0.2) == SkillResult(FAILED, reason="no file flur?", is_permanent=True)


@pytest.mark.parametrize("plan", ["?iv(cat){mf(100);}", "?iv(cat)==True{mf(100);}"])
@pytest.mark.parametrize(("given", "calls"), [(np.bool_(True), ["iv", "mf"]), (np.bool_(False), ["iv"])])
def test_a_condition_decides_alike_however_it_is_written(plan, given, calls):
    driver = mapped(given)
    interpreter = Interpreter(MODEL, driver)
    interpreter.start(parse(plan), 0.0)
    assert interpreter.tick(0.1).status is SUCCEEDED
    assert driver._driver.started == calls


class OnRequest(Driver):
    """Says per robot what it cannot do."""

    def __init__(self, model, address):
        super().__init__(True)

    @property
    def unsupported_skills(self):
        return ("tp",)

    def close(self):
        pass


class AsNone(OnRequest):
    unsupported_skills = None


class AsText(OnRequest):
    unsupported_skills = "see"


def test_unsupported_skills_may_be_a_property():
    assert load_driver(f"{__name__}:OnRequest", MODEL, "").unsupported_skills == ("tp",)


@pytest.mark.parametrize("name", ["AsNone", "AsText"])
def test_unsupported_skills_that_are_no_list_are_refused(name):
    with pytest.raises(PlannerError, match="not a list of names of skills") as refused:
        load_driver(f"{__name__}:{name}", MODEL, "")
    assert refused.value.code is ErrorCode.INVALID_CONFIG
