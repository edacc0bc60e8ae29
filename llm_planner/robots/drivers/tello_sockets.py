# SPDX-License-Identifier: Apache-2.0
"""UDP to one Tello: commands to its port 8889, its state on local port 8890; and one driver per drone."""

import socket

from llm_planner.core.errors import ErrorCode, PlannerError

COMMAND_PORT, STATE_PORT = 8889, 8890
MAX_DATAGRAM = 2048
MAX_READ = 100  # datagrams at once, so that a flood keeps no control loop busy: the kernel drops the rest


class TelloSockets:
    """The transport of a ``TelloLine``. Nothing that another address sends gets in.

    Several drivers on one machine share port 8890: each socket is connected to its own drone, and the kernel sorts.

    Args:
        address: Of the drone.
        port: Where it takes commands; ``state_port`` where it sends its state.

    Raises:
        PlannerError: DUPLICATE_NODE if a driver on this machine has the drone, INVALID_CONFIG if the address or the
            port cannot be had.
    """

    def __init__(self, address: str, *, port: int = COMMAND_PORT, state_port: int = STATE_PORT) -> None:
        self._claim = _claimed(address, port)
        self._sockets: list[socket.socket] = [self._claim]
        try:
            self._commands = self._open(address, port, bind_port=0)
            self._states = self._open(address, 0, bind_port=state_port)  # 0: from whichever port of the drone
        except OSError as error:
            self.close()
            raise PlannerError(
                ErrorCode.ADDRESS_IN_USE,
                f"no way to a Tello at {address} ({error}); is UDP port {state_port} taken by another program?",
            ) from error

    def send(self, text: str) -> None:
        """Sends a command; a network that is down is noticed by what does not come back."""
        try:
            self._commands.send(text.encode())
        except OSError:
            return

    def answers(self) -> list[str]:
        """Returns the answers that came since the last call."""
        return _read(self._commands)

    def states(self) -> list[str]:
        """Returns the state lines that came since the last call."""
        return _read(self._states)

    def close(self) -> None:
        """Frees the ports and the claim."""
        for endpoint in self._sockets:
            endpoint.close()

    def _open(self, address: str, port: int, *, bind_port: int) -> socket.socket:
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sockets.append(endpoint)
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        endpoint.bind(("", bind_port))
        endpoint.connect((address, port))
        endpoint.setblocking(False)
        return endpoint


def _claimed(address: str, port: int) -> socket.socket:
    """Returns what holds the drone until it is closed, or this process ends: a name that can be had once a machine."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0llm_planner/tello/{address}:{port}")
    except OSError as error:
        claim.close()
        raise PlannerError(
            ErrorCode.DUPLICATE_NODE,
            f"another driver on this machine flies the Tello at {address}; stop it, or give this one another address",
        ) from error
    return claim


def _read(endpoint: socket.socket) -> list[str]:
    texts: list[str] = []
    while len(texts) < MAX_READ:
        try:
            texts.append(endpoint.recv(MAX_DATAGRAM).decode("ascii", "replace"))
        except OSError:  # nothing more; or no process listens at the drone's port: the next silence shows it
            break
    return texts
