# SPDX-License-Identifier: Apache-2.0
"""A Tello as the network sees it: Tello SDK 2.0 commands in, answers and state lines out. No sockets, no clock.

Sources: ``ok``, ``error`` and the landing after 15 s without a command are in the SDK guide; ``out of range``,
``error Not joystick`` and ``error Motor stop`` were seen by users of DJITelloPy (issues 236, 201 and 15), as were
velocities in decimetres per second (issue 96). What is not documented is marked as assumed.
"""

import math
import random
from dataclasses import dataclass

from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.motion import wrapped_deg
from llm_planner.sim.emulator.curve import arc
from llm_planner.sim.emulator.flight import Flight

AUTO_LAND_S = 15.0  # published: Tello SDK 2.0
STATE_PERIOD_S = 0.1  # assumed: 10 Hz
FLIGHT_TIME_S = 780.0  # published: 13 minutes on a full battery
IDLE_SHARE = 0.2  # of that consumption on the floor: assumed
EMPTY_PERCENT = 5.0  # at which it lands by itself: assumed
LEAST_CM, MOST_CM = 20, 500
DIRECTIONS = {
    "forward": (1, 0, 0),
    "back": (-1, 0, 0),
    "left": (0, 1, 0),
    "right": (0, -1, 0),
    "up": (0, 0, 1),
    "down": (0, 0, -1),
}
TURNS = {"cw": -1, "ccw": 1}
OK, ERROR, OUT_OF_RANGE = "ok", "error", "out of range"
NOT_NOW = "error Not joystick"
FLIPS, FLIP_PERCENT = "lrfb", 50.0  # published: it refuses to flip below half a battery
CURVE_MOST_CM_S, CURVE_RADIUS_M = 60, (0.5, 10.0)  # published: Tello SDK 2.0
NUM_CURVE_POINTS = 16
NO_PAD = {"mid": -1, "x": 0, "y": 0, "z": 0, "mpry": "0,0,0"}  # there is none to be seen


@dataclass(frozen=True, slots=True)
class Answer:
    """A text for the sender of the command."""

    client: object
    text: str


class TelloFirmware:
    """One drone. It obeys every sender of a datagram, as the real one does.

    Args:
        model: Of a drone; gives durations.
        rng: Source of all noise.
        pose: Where it starts.
        battery_percent: What the battery holds.
    """

    def __init__(
        self, model: RobotModel, rng: random.Random, *, pose: Pose | None = None, battery_percent: float = 100.0
    ) -> None:
        self._flight = Flight(model, rng, pose or Pose())
        self._battery_percent = battery_percent
        self._is_sdk_mode = False
        self._received_s = 0.0
        self._now_s = 0.0
        self._flown_s = 0.0
        self._asked_by: object = None  # the client that waits for the end of the motion; None for none
        self._is_landing = False
        self._looks_for_pads = False
        self.num_motions = 0

    @property
    def flight(self) -> Flight:
        """The body."""
        return self._flight

    @property
    def is_sdk_mode(self) -> bool:
        """Whether a client has sent ``command``: only then it answers, and sends its state."""
        return self._is_sdk_mode

    def drain(self, percent: float) -> None:
        """Leaves at most ``percent`` in the battery."""
        self._battery_percent = min(self._battery_percent, percent)

    def receive(self, text: str, client: object, now_s: float) -> list[Answer]:
        """Takes a command and returns what is said at once; a motion is answered by ``tick`` when it is over."""
        answers = self.tick(now_s)
        self._received_s = now_s
        name, *words = text.strip().lower().split() or [""]
        if name == "command":
            self._is_sdk_mode = True
            return [*answers, Answer(client, OK)]
        if not self._is_sdk_mode:
            return answers
        reply = self._obey(name, words, client, now_s)
        return answers if reply is None else [*answers, Answer(client, reply)]

    def tick(self, now_s: float) -> list[Answer]:
        """Goes on to ``now_s``; returns the answers that are due."""
        elapsed_s, self._now_s = max(0.0, now_s - self._now_s), now_s
        is_over = self._flight.advance(now_s)
        share = 1.0 if self._flight.is_flying else IDLE_SHARE
        self._flown_s += elapsed_s if self._flight.is_flying else 0.0
        self._battery_percent = max(0.0, self._battery_percent - 100.0 * share * elapsed_s / FLIGHT_TIME_S)
        answers = self._end(OK) if is_over else []
        if self._flight.is_flying and not self._is_landing:
            answers += self._mind_itself(now_s)
        if not self._flight.is_flying and not self._flight.is_moving:
            self._is_landing = False
        return answers

    def state(self) -> str:
        """Returns one line of the state stream."""
        pose, speed = self._flight.pose, self._flight.speed_m_per_s
        vgx, vgy, vgz = (round(10.0 * v) for v in speed)
        height_cm = 10 * round(10.0 * pose.z_m)  # in whole decimetres
        fields = {
            **(NO_PAD if self._looks_for_pads else {}),
            "pitch": 0,
            "roll": 0,
            "yaw": self._yaw_deg,
            "vgx": vgx,
            "vgy": vgy,
            "vgz": vgz,
            "templ": 60,
            "temph": 63,
            "tof": max(10, round(100.0 * pose.z_m)),
            "h": height_cm,
            "bat": self._battery,
            "baro": f"{pose.z_m:.2f}",
            "time": round(self._flown_s),
            "agx": "0.00",
            "agy": "0.00",
            "agz": "-1000.00",
        }
        return "".join(f"{name}:{value};" for name, value in fields.items()) + "\r\n"

    @property
    def _yaw_deg(self) -> int:
        return round(wrapped_deg(-self._flight.pose.yaw_deg))  # clockwise

    @property
    def _battery(self) -> int:
        return math.ceil(self._battery_percent)

    def _mind_itself(self, now_s: float) -> list[Answer]:
        """Lands when no command has come for long, unless it is still at work; and when the battery is empty."""
        if self._flight.is_moving:
            self._received_s = now_s
        is_empty = self._battery_percent <= EMPTY_PERCENT
        if not is_empty and now_s - self._received_s < AUTO_LAND_S:
            return []
        answers = self._end(ERROR)
        self._flight.land(now_s)
        self._is_landing = True
        return answers

    def _end(self, text: str) -> list[Answer]:
        """Answers the motion that was at work, if a client waits for it."""
        client, self._asked_by = self._asked_by, None
        return [] if client is None else [Answer(client, text)]

    def _obey(self, name: str, words: list[str], client: object, now_s: float) -> str | None:
        if name.endswith("?"):
            return self._query(name)
        if name in ("stop", "emergency"):
            return self._halt(now_s, is_motor_cut=name == "emergency")
        if name in ("keepalive", "streamon", "streamoff", "mon", "moff"):  # no pictures are sent
            self._looks_for_pads = name == "mon" or (self._looks_for_pads and name != "moff")
            return OK
        try:
            if name == "flip":
                return self._flip(words, client, now_s)
            return self._obey_numbers(name, [int(word) for word in words], client, now_s)
        except ValueError:
            return ERROR

    def _obey_numbers(self, name: str, numbers: list[int], client: object, now_s: float) -> str | None:
        if name == "rc" and len(numbers) == 4:
            self._steer(numbers)
            return None
        if name == "speed" and len(numbers) == 1:
            return self._set_speed(numbers[0])
        if name == "mdirection" and len(numbers) == 1:
            return OK if self._looks_for_pads and 0 <= numbers[0] <= 2 else ERROR
        return self._fly(name, numbers, client, now_s)

    def _query(self, name: str) -> str:
        pose = self._flight.pose
        answers = {
            "battery?": f"{self._battery}",
            "speed?": f"{self._flight.speed_cm_s}",
            "time?": f"{round(self._flown_s)}s",
            "height?": f"{round(10.0 * pose.z_m)}dm",
            "tof?": f"{max(100, round(1000.0 * pose.z_m))}mm",
            "baro?": f"{pose.z_m:.2f}",
            "temp?": "60~63C",
            "attitude?": f"pitch:0;roll:0;yaw:{self._yaw_deg};",
            "acceleration?": "agx:0.00;agy:0.00;agz:-1000.00;",
            "wifi?": "90",
            "sdk?": "20",
            "sn?": "0EMULATED00000",
        }
        return answers.get(name, f"unknown command: {name}")

    def _halt(self, now_s: float, *, is_motor_cut: bool) -> str:
        """Stops in the air; the interrupted motion is not answered (assumed)."""
        self._asked_by = None
        if self._is_landing and not is_motor_cut:
            return OK
        self._flight.stop(now_s)
        if is_motor_cut:
            self._flight.fall()
        return OK

    def _steer(self, numbers: list[int]) -> None:
        if not self._flight.is_moving and all(-100 <= number <= 100 for number in numbers):
            a, b, c, d = numbers
            self._flight.steer((a, b, c, d))

    def _set_speed(self, speed_cm_s: int) -> str:
        if not 10 <= speed_cm_s <= 100:
            return OUT_OF_RANGE
        self._flight.speed_cm_s = speed_cm_s
        return OK

    def _fly(self, name: str, numbers: list[int], client: object, now_s: float) -> str | None:
        """Begins a motion; returns None, or why it does not."""
        if name not in {"takeoff", "land", "go", "curve", *DIRECTIONS, *TURNS}:
            return f"unknown command: {name}"
        if self._is_landing or (self._flight.is_moving and name != "land"):
            return NOT_NOW
        if name in ("takeoff", "land"):
            problem = self._take_off_or_land(name, now_s)
        else:
            problem = self._curve(numbers, now_s) if name == "curve" else self._go(name, numbers, now_s)
        if problem is None:
            self._begun_for(client)
        return problem

    def _begun_for(self, client: object) -> None:
        """Notes which client gets an answer at the end of the motion that has begun."""
        self._asked_by = client
        self.num_motions += 1

    def _flip(self, words: list[str], client: object, now_s: float) -> str | None:
        """Begins to turn over; returns None, or why it does not."""
        if len(words) != 1 or words[0] not in FLIPS:
            return ERROR
        if not self._flight.is_flying or self._is_landing or self._flight.is_moving:
            return NOT_NOW
        if self._battery_percent < FLIP_PERCENT:
            return ERROR
        self._flight.flip(now_s)
        self._begun_for(client)
        return None

    def _take_off_or_land(self, name: str, now_s: float) -> str | None:
        if self._flight.is_flying == (name == "takeoff"):
            return ERROR
        if name == "land":
            self._flight.land(now_s)
        elif self._battery_percent <= 2 * EMPTY_PERCENT:
            return "error Motor stop"
        else:
            self._flight.take_off(now_s)
        return None

    def _go(self, name: str, numbers: list[int], now_s: float) -> str | None:
        if len(numbers) != (4 if name == "go" else 1):
            return ERROR
        if name in TURNS and not 1 <= numbers[0] <= 360:
            return OUT_OF_RANGE
        if name in DIRECTIONS and not LEAST_CM <= numbers[0] <= MOST_CM:
            return OUT_OF_RANGE
        if name == "go" and not _is_go_in_range(numbers):
            return OUT_OF_RANGE
        if not self._flight.is_flying:
            return NOT_NOW
        if name in TURNS:
            self._flight.turn(TURNS[name] * float(numbers[0]), now_s)
        elif name == "go":
            x, y, z, speed_cm_s = numbers
            self._flight.move([(x / 100.0, y / 100.0, z / 100.0)], now_s, speed_cm_s)
        else:
            along, left, up = (axis * numbers[0] / 100.0 for axis in DIRECTIONS[name])
            self._flight.move([(along, left, up)], now_s)
        return None

    def _curve(self, numbers: list[int], now_s: float) -> str | None:
        """Begins to fly an arc; returns None, or why it does not."""
        if len(numbers) != 7:
            return ERROR
        *through, speed_cm_s = numbers
        are_points_far = all(any(abs(n) >= LEAST_CM for n in point) for point in (through[:3], through[3:]))
        if not are_points_far or any(abs(n) > MOST_CM for n in through) or not 10 <= speed_cm_s <= CURVE_MOST_CM_S:
            return OUT_OF_RANGE
        x1, y1, z1, x2, y2, z2 = (n / 100.0 for n in through)
        found = arc((x1, y1, z1), (x2, y2, z2), NUM_CURVE_POINTS)
        if found is None or not CURVE_RADIUS_M[0] <= found[0] <= CURVE_RADIUS_M[1]:
            return ERROR
        if not self._flight.is_flying:
            return NOT_NOW
        self._flight.move(found[1], now_s, speed_cm_s)
        return None


def _is_go_in_range(numbers: list[int]) -> bool:
    *way, speed_cm_s = numbers
    is_far = any(abs(n) >= LEAST_CM for n in way)
    return is_far and all(abs(n) <= MOST_CM for n in way) and 10 <= speed_cm_s <= 100
