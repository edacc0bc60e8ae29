# SPDX-License-Identifier: Apache-2.0
"""Numbered error codes, one per way to fail, and the exception that carries them.

The hundreds digit says where to fix it:

    1xx  the request         refused at admission; nothing was generated
    2xx  the plan            the model wrote something that must not reach a robot
    3xx  the execution       the robot or its client failed, or fell silent
    4xx  the time            a budget could not be, or was not, met
    5xx  the server          installation, model, configuration, memory, crash
    6xx  a decision          the goal was cancelled or superseded

The numbers are part of the ROS interface (``PlanTask.Result.error_code``): never renumber.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """One number per way to fail; 0 is success."""

    NONE = 0

    EMPTY_INSTRUCTION = 100
    INSTRUCTION_TOO_LONG = 101
    INVALID_ENCODING = 102
    UNKNOWN_ROBOT_MODEL = 103
    INVALID_TIME_BUDGET = 104
    INVALID_TIME_UTILITY = 105
    ROBOT_BUSY = 106
    PROMPT_TOO_LONG = 107
    OVERLOADED = 108
    INVALID_MAX_TOKENS = 109
    NOT_ACTIVE = 110
    INVALID_ROBOT_ID = 111
    INVALID_URGENCY = 112
    UNKNOWN_GOAL = 113
    INVALID_POSE = 114
    TOO_MANY_GOALS = 115
    INVALID_OVERRUN = 116
    INVALID_WORLD = 117
    UNTRAINED_ROBOT_MODEL = 118
    HARMFUL_REQUEST = 119

    PLAN_SYNTAX = 200
    UNKNOWN_SKILL = 201
    INVALID_ARGUMENT = 202
    ARGUMENT_OUT_OF_RANGE = 203
    GEOFENCE_VIOLATED = 204
    PLAN_TOO_LONG = 205
    LOOP_TOO_LONG = 206
    EMPTY_PLAN = 207
    PLAN_TRUNCATED = 208
    NOT_UNDERSTOOD = 209
    SKILL_NOT_ALLOWED = 210
    UNASKED_SKILL = 211
    UNKNOWN_OBJECT = 212

    SKILL_FAILED = 300
    ROBOT_SILENT = 301
    CLIENT_GONE = 302
    NOT_ACHIEVED = 303

    BUDGET_INFEASIBLE = 400
    BUDGET_EXCEEDED = 401
    PLAN_PARTIAL = 402
    LOAD_SHED = 403

    ENGINE_FAILED = 500
    MODEL_NOT_FOUND = 501
    CHECKPOINT_INVALID = 502
    UNSUPPORTED_ARCHITECTURE = 503
    TOKENIZER_MISSING = 504
    INVALID_CONFIG = 505
    INVALID_ROBOT_MODEL = 506
    OUT_OF_MEMORY = 507
    SHUTTING_DOWN = 508
    DUPLICATE_NODE = 509
    SERVER_UNREACHABLE = 510
    EVICTION_UNSUPPORTED = 511
    INVALID_FILE = 512
    NOT_INSTALLED = 513
    VERSION_MISMATCH = 514
    ADDRESS_IN_USE = 515

    CANCELLED = 600
    SUPERSEDED = 601
    STOPPED = 602


ACHIEVED = frozenset({ErrorCode.NONE, ErrorCode.PLAN_PARTIAL})
"""How a goal ends whose plan was carried out, as far as it goes: all other ends have no utility."""


def is_of_the_plan(code: ErrorCode) -> bool:
    """Returns whether a goal ended because of what the model wrote (2xx)."""
    return code // 100 == 2


def code_name(number: int) -> str:
    """Returns the name of an error code for people; of a number that this version does not know, ``unknown (N)``."""
    try:
        return ErrorCode(number).name
    except ValueError:
        return f"unknown ({number})"


def ending_words(name: str) -> str:
    """Returns how a goal ended, in words, from the name of its code."""
    return "done" if name == ErrorCode.NONE.name else name.lower().replace("_", " ")


class PlannerError(Exception):
    """An expected failure: a number for programs and a sentence for people.

    Args:
        code: Which way it failed.
        message: What happened and what to do next, without a trailing stop.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} [{self.code.name} {int(self.code)}]"

    def __reduce__(self) -> tuple[type["PlannerError"], tuple[ErrorCode, str]]:
        return PlannerError, (self.code, self.message)
