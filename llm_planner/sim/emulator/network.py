# SPDX-License-Identifier: Apache-2.0
"""Emulated Tellos on the network: one address each, the ports of the real thing, served by one thread."""

import heapq
import random
import selectors
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.robots.model import RobotModel
from llm_planner.sim.emulator.faults import Faults, FaultyNetwork
from llm_planner.sim.emulator.firmware import STATE_PERIOD_S, Answer, TelloFirmware

COMMAND_PORT, STATE_PORT = 8889, 8890
PERIOD_S = 0.005
MAX_LOGGED = 80  # characters of a command
MAX_READ, MAX_WAITING = 100, 1000  # datagrams of one drone: at once, and on their way to it
Client = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorSettings:
    """How drones are emulated.

    Attributes:
        time_scale: How much faster than real time.
        seed: Of all noise and faults; each drone adds its number.
        faults: Of the network and the drones.
        battery_percent: What the batteries hold.
        port: Where commands arrive.
        state_port: Where clients expect the state.
        log: Gets a line for every command that a drone obeys, and for every answer; None for no log.
    """

    time_scale: float = 1.0
    seed: int = 0
    faults: Faults = field(default_factory=Faults)
    battery_percent: float = 100.0
    port: int = COMMAND_PORT
    state_port: int = STATE_PORT
    log: Callable[[str], None] | None = None


@dataclass(slots=True)
class _Drone:
    """One drone and what is on its way to and from it: ``(due_s, number, datagram, client)``."""

    address: str
    firmware: TelloFirmware
    socket: socket.socket
    network: FaultyNetwork
    owner: Client | None = None
    state_due_s: float = 0.0
    to_robot: list[tuple[float, int, bytes, Client]] = field(default_factory=list)
    from_robot: list[tuple[float, int, bytes, Client]] = field(default_factory=list)


class TelloNetwork:
    """Serves drones until it is closed; a context manager.

    Args:
        model: Of the drones.
        addresses: One per drone; this machine must own them (all of 127.0.0.0/8 on Linux).
        clock: Source of monotonic time.
        settings: How the drones are emulated.

    Raises:
        PlannerError: INVALID_CONFIG if an address or port cannot be had.
    """

    def __init__(
        self,
        model: RobotModel,
        addresses: Sequence[str],
        *,
        clock: Clock,
        settings: EmulatorSettings | None = None,
    ) -> None:
        self._clock, self._born_s = clock, clock.now_s()
        self._settings = settings = settings or EmulatorSettings()
        self._selector, self._counter = selectors.DefaultSelector(), 0
        self._drones: list[_Drone] = []
        self._lock, self._is_closed = threading.Lock(), False
        try:
            for number, address in enumerate(addresses):
                rng = random.Random(settings.seed + number)
                firmware = TelloFirmware(model, rng, battery_percent=settings.battery_percent)
                endpoint = _bound(address, settings.port)
                drone = _Drone(address, firmware, endpoint, FaultyNetwork(settings.faults, rng))
                self._drones.append(drone)
                self._selector.register(drone.socket, selectors.EVENT_READ, drone)
        except PlannerError:
            self._free()
            raise
        self._thread = threading.Thread(target=self._run, name="tello-emulator", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the thread and frees the addresses."""
        self._is_closed = True
        if self._thread.is_alive():
            self._thread.join()
        self._free()

    @property
    def drones(self) -> tuple[TelloFirmware, ...]:
        """All drones, to look at; touch them only under ``lock``."""
        return tuple(drone.firmware for drone in self._drones)

    @property
    def lock(self) -> threading.Lock:
        """Held while drones change."""
        return self._lock

    def _free(self) -> None:
        for drone in self._drones:
            drone.socket.close()
        self._selector.close()

    def _now_s(self) -> float:
        return (self._clock.now_s() - self._born_s) * self._settings.time_scale

    def _run(self) -> None:
        while not self._is_closed:
            ready = self._selector.select(PERIOD_S)
            with self._lock:
                now_s = self._now_s()
                for key, _ in ready:
                    self._read(key.data, now_s)
                for drone in self._drones:
                    self._serve(drone, now_s)

    def _read(self, drone: _Drone, now_s: float) -> None:
        for _ in range(MAX_READ):
            try:
                datagram, client = drone.socket.recvfrom(2048)
            except (BlockingIOError, ConnectionError):  # nothing more; or the client is gone
                return
            if len(drone.to_robot) >= MAX_WAITING:
                continue
            for due_s, copy in drone.network.carry(datagram, now_s, is_from_robot=False):
                self._counter += 1
                heapq.heappush(drone.to_robot, (due_s, self._counter, copy, client))

    def _serve(self, drone: _Drone, now_s: float) -> None:
        empty_after_s = self._settings.faults.empty_after_s
        if empty_after_s is not None and now_s >= empty_after_s:
            drone.firmware.drain(0.0)
        while drone.to_robot and drone.to_robot[0][0] <= now_s:
            _, _, datagram, client = heapq.heappop(drone.to_robot)
            text = datagram.decode("utf-8", "replace")
            drone.owner = drone.owner or client
            self._note(drone, "<", text)
            for answer in drone.firmware.receive(text, client, now_s):
                self._answer(drone, answer, now_s)
        for answer in drone.firmware.tick(now_s):
            self._answer(drone, answer, now_s)
        if drone.firmware.is_sdk_mode and drone.owner is not None and now_s >= drone.state_due_s:
            drone.state_due_s = now_s + STATE_PERIOD_S
            self._post(drone, drone.firmware.state().encode(), (drone.owner[0], self._settings.state_port), now_s)
        while drone.from_robot and drone.from_robot[0][0] <= now_s:
            _, _, datagram, client = heapq.heappop(drone.from_robot)
            try:
                drone.socket.sendto(datagram, client)
            except OSError:  # no socket is open there: that is the client's business
                continue

    def _answer(self, drone: _Drone, answer: Answer, now_s: float) -> None:
        self._note(drone, ">", answer.text)
        self._post(drone, answer.text.encode(), answer.client, now_s)

    def _note(self, drone: _Drone, direction: str, text: str) -> None:
        """Logs a line; of what came from the network nothing but plain characters."""
        if self._settings.log is not None:
            self._settings.log(f"{drone.address} {direction} {ascii(text[:MAX_LOGGED])[1:-1]}")

    def _post(self, drone: _Drone, datagram: bytes, client: object, now_s: float) -> None:
        assert isinstance(client, tuple)
        for due_s, copy in drone.network.carry(datagram, now_s, is_from_robot=True):
            self._counter += 1
            heapq.heappush(drone.from_robot, (due_s, self._counter, copy, client))


def _bound(address: str, port: int) -> socket.socket:
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        endpoint.bind((address, port))
    except OSError as error:
        endpoint.close()
        hint = "is another emulator, or a driver that binds every address, running?"
        raise PlannerError(ErrorCode.ADDRESS_IN_USE, f"cannot listen on {address}:{port} ({error}); {hint}") from error
    endpoint.setblocking(False)
    return endpoint
