# SPDX-License-Identifier: Apache-2.0
"""One world process for a fleet: it steps behind a clock, and drivers in other processes connect to it."""

import contextlib
import logging
import socketserver
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.robots.model import RobotModel
from llm_planner.sim.physics import wire
from llm_planner.sim.physics.port import LocalPort
from llm_planner.sim.physics.world import PhysicsWorld

_log = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
HELLO_TIMEOUT_S = 10.0  # for a connection to say which robot it drives
SPARE_CONNECTIONS = 16  # in addition to one for each robot
SLICE_S = 0.01  # of the world's time, stepped without serving a request
MOST_BEHIND_S = 0.5  # a machine that is too slow has a slower world, and does not hurry after it


class WorldServer:
    """Steps a world and serves its robots, one connection each, until closed.

    Args:
        world: With all robots in it; all other users must hold ``lock``.
        models: Of the robots, by name.
        clock: The world follows it.
        time_scale: How much faster than the clock.
        port: TCP, on loopback; 0 for any.

    Attributes:
        lock: Held while the world steps or obeys.
        world_id: Another one for each server.
    """

    def __init__(
        self,
        world: PhysicsWorld,
        models: Mapping[str, RobotModel],
        *,
        clock: Clock,
        time_scale: float = 1.0,
        port: int = 0,
    ) -> None:
        self.world, self.lock, self.world_id = world, threading.Lock(), uuid.uuid4().hex
        self._models, self._clock, self._time_scale = models, clock, time_scale
        self._taken: set[str] = set()
        self._is_closed = threading.Event()
        self._places = threading.BoundedSemaphore(len(models) + SPARE_CONNECTIONS)
        server = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True
            timeout: ClassVar[float | None] = HELLO_TIMEOUT_S

            def handle(self) -> None:
                if not server._places.acquire(blocking=False):
                    _log.warning("a connection to the world's port is refused: there are too many")
                    return
                try:
                    server.serve(self._read_line, self.wfile.write, lambda: self.connection.settimeout(None))
                finally:
                    server._places.release()

            def _read_line(self) -> bytes:
                return self.rfile.readline(wire.MAX_LINE_BYTES + 1)

        self._server = socketserver.ThreadingTCPServer((LOOPBACK, port), Handler, bind_and_activate=False)
        try:
            self._server.allow_reuse_address = self._server.daemon_threads = True
            self._server.server_bind()
            self._server.server_activate()
        except OSError as error:
            self._server.server_close()
            raise PlannerError(
                ErrorCode.DUPLICATE_NODE, f"port {port} on {LOOPBACK} is taken ({error}); is a world running already?"
            ) from error
        self._threads = [
            threading.Thread(target=self._server.serve_forever, name="world-port", daemon=True),
            threading.Thread(target=self._step, name="world-steps", daemon=True),
        ]

    @property
    def port(self) -> int:
        """Where drivers connect to."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Starts to step and to serve."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stops both; safe to call twice."""
        self._is_closed.set()
        self._server.shutdown()
        self._server.server_close()

    def serve(
        self,
        read_line: Callable[[], bytes],
        write: Callable[[bytes], Any],
        greeted: Callable[[], None] = lambda: None,
    ) -> None:
        """Obeys one connection until it ends; a robot whose driver has gone is made safe.

        Args:
            read_line: Returns the next line, or ``MAX_LINE_BYTES`` + 1 bytes of one that is longer; nothing at the end.
            write: Sends an answer.
            greeted: Called once the connection drives a robot.
        """
        name, port = "", None
        try:
            for line in iter(read_line, b""):
                wire.require_whole(line)
                try:
                    method, arguments = wire.read_order(line)
                    if method == "hello":
                        port, name = self._take(arguments[0], name), arguments[0]
                        greeted()
                        write(wire.answer(method, self.world_id))
                    else:
                        write(wire.answer(method, self._obey(port, method, arguments)))
                except PlannerError as error:
                    write(wire.refusal(error))
        except OSError:
            pass  # the client is gone: its robot is made safe below
        except PlannerError as error:
            _log.warning("a connection to the world's port is dropped: %s", error.message)
            with contextlib.suppress(OSError):
                write(wire.refusal(error))
        finally:
            if port is not None:
                with self.lock:
                    port.close()
                    self._taken.discard(name)

    def _take(self, name: str, held: str) -> LocalPort:
        """Gives a robot to a driver that asks for it."""
        with self.lock:
            if name not in self._models:
                known = ", ".join(self._models) or "none"
                raise PlannerError(ErrorCode.INVALID_CONFIG, f"the world has no robot {name!r}; it has: {known}")
            if name in self._taken or held:
                raise PlannerError(ErrorCode.DUPLICATE_NODE, f"{name} has a driver already; stop that one first")
            self._taken.add(name)
            return LocalPort(self.world, name, self._models[name])

    def _obey(self, port: LocalPort | None, method: str, arguments: tuple[Any, ...]) -> Any:
        if port is None:
            raise PlannerError(ErrorCode.INVALID_CONFIG, "say hello first")
        with self.lock:
            if method == "read":
                return port.read(self.world.time_s)
            try:
                if method == "grip":
                    return port.grip(is_open=arguments[0])
                return getattr(port, method)(*arguments)
            except (ValueError, ArithmeticError, LookupError) as error:  # of MuJoCo and numpy: what cannot be
                raise PlannerError(ErrorCode.INVALID_CONFIG, f"the world cannot {method}: {error!r}"[:300]) from error

    def _step(self) -> None:
        """Keeps the world as far as the clock is; where that is too much, the world is slower."""
        origin_s = self._clock.now_s() * self._time_scale - self.world.time_s
        while not self._is_closed.is_set():
            due_s = self._clock.now_s() * self._time_scale - origin_s
            behind_s = due_s - self.world.time_s
            if behind_s > MOST_BEHIND_S * self._time_scale:
                origin_s += behind_s
            if behind_s < SLICE_S:
                time.sleep(max(0.001, (SLICE_S - behind_s) / self._time_scale))
                continue
            with self.lock:
                self.world.advance(self.world.time_s + min(behind_s, SLICE_S))
