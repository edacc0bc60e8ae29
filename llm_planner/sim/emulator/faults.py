# SPDX-License-Identifier: Apache-2.0
"""A network between robot and driver that loses, delays and repeats datagrams, and a robot that talks nonsense."""

import random
from dataclasses import dataclass

GARBAGE = (b"\xff\xfe\x00garbage", b"", b"ok?", b"error", b"999999", b"bat:;h:nan;yaw:x;;", b"\x80" * 1500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong, each with its probability per datagram; nothing by default.

    Attributes:
        lost: A datagram never arrives.
        late: It arrives up to ``late_s`` later, so that others overtake it.
        duplicated: It arrives a second time, up to ``late_s`` later.
        garbage: The robot says something else instead.
        late_s: The longest delay.
        empty_after_s: Seconds after which the battery is suddenly empty; None for a battery that lasts.
        mute_after_s: Seconds after which the robot says nothing any more, neither answer nor state; None for never.
    """

    lost: float = 0.0
    late: float = 0.0
    duplicated: float = 0.0
    garbage: float = 0.0
    late_s: float = 2.0
    empty_after_s: float | None = None
    mute_after_s: float | None = None

    def __post_init__(self) -> None:
        shares = (self.lost, self.late, self.duplicated, self.garbage)
        if not all(0.0 <= share <= 1.0 for share in shares) or self.late_s < 0.0:
            raise ValueError("lost, late, duplicated and garbage must be in [0, 1], late_s >= 0")


class FaultyNetwork:
    """Decides when a datagram arrives, and how often.

    Args:
        faults: What goes wrong.
        rng: Decides when.
    """

    def __init__(self, faults: Faults, rng: random.Random) -> None:
        self._faults = faults
        self._rng = rng

    def carry(self, datagram: bytes, now_s: float, *, is_from_robot: bool) -> list[tuple[float, bytes]]:
        """Returns ``(due_s, datagram)`` for each copy that arrives."""
        faults, rng = self._faults, self._rng
        is_mute = faults.mute_after_s is not None and now_s >= faults.mute_after_s
        if (is_from_robot and is_mute) or rng.random() < faults.lost:
            return []
        if is_from_robot and rng.random() < faults.garbage:
            datagram = rng.choice(GARBAGE)
        due_s = now_s + (rng.uniform(0.0, faults.late_s) if rng.random() < faults.late else 0.0)
        copies = [(due_s, datagram)]
        if rng.random() < faults.duplicated:
            copies.append((now_s + rng.uniform(0.0, faults.late_s), datagram))
        return copies
