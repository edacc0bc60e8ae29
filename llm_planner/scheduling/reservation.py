# SPDX-License-Identifier: Apache-2.0
"""Reserved slots: which generations run at once, in what order, and in how large a batch at most."""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass

from llm_planner.scheduling.policies.interface import GenerationView, Policy, Rank


@dataclass(frozen=True, slots=True)
class Reservation:
    """A slot that is reserved for a generation.

    Attributes:
        order: Rank among reservations: the first one is kept first.
        max_co_batched: Most others that run in a step with it.
    """

    order: int
    max_co_batched: int


class Reservations:
    """The reservations in force, by request id. While there are any, no other prompt is computed, but those let in.

    Attributes:
        let_in: Ids of generations without a reservation whose prompts are computed all the same.
    """

    def __init__(self) -> None:
        self.let_in: Collection[str] = ()
        self._live: dict[str, Reservation] = {}
        self._num_made = 0

    def __bool__(self) -> bool:
        return bool(self._live)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._live

    @property
    def live(self) -> Mapping[str, Reservation]:
        """By request id."""
        return self._live

    def make(self, request_id: str, max_co_batched: int) -> None:
        """Reserves a slot; a generation that has one already keeps its place in the order."""
        known = self._live.get(request_id)
        if known is None:
            self._num_made += 1
        order = self._num_made if known is None else known.order
        self._live[request_id] = Reservation(order, max_co_batched)

    def end(self, request_id: str) -> None:
        """Ends a reservation, if there is one."""
        self._live.pop(request_id, None)

    def num_slots(self, max_num_seqs: int) -> int:
        """Returns how many generations may run in a step; never fewer than one."""
        limits = (reservation.max_co_batched for reservation in self._live.values())
        return max(1, min(max_num_seqs, min(limits, default=max_num_seqs) + 1))

    def holds_back(self, generation: GenerationView) -> bool:
        """Returns whether its prompt must wait for those that have a reserved slot."""
        request_id = generation.request.request_id
        is_free = generation.is_decoding or request_id in self._live or request_id in self.let_in
        return bool(self._live) and not is_free


class ReservedFirst:
    """A policy's order, behind those that hold a reservation.

    Args:
        policy: Ranks all others.
        reservations: In the order in which they were made.
    """

    def __init__(self, policy: Policy, reservations: Reservations) -> None:
        self._policy = policy
        self._reservations = reservations
        self.name = policy.name
        self.suspends = policy.suspends
        self.streams = policy.streams

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns the policy's rank, behind all reservations."""
        live = self._reservations.live
        if live and (reservation := live.get(generation.request.request_id)) is not None:
            return (0.0, reservation.order)
        return (1.0, *self._policy.rank(generation, now_s))

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns the policy's sub_queue, or that of the reservations."""
        reservation = self._reservations.live.get(generation.request.request_id)
        return self._policy.sub_queue(generation) if reservation is None else (ReservedFirst, (reservation.order,))
