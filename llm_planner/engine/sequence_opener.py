# SPDX-License-Identifier: Apache-2.0
"""Checks a sequence that is handed to the engine, and opens it."""

from collections.abc import Collection
from collections.abc import Sequence as Seq
from collections.abc import Set as AbstractSet

from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.step import Sequence
from llm_planner.engine.grammar import GrammarCompiler, GrammarError, Matcher
from llm_planner.engine.lookahead import Lookahead
from llm_planner.engine.prefix_store import PrefixStore
from llm_planner.engine.sequence_state import SequenceState


class RequestError(Exception):
    """One request cannot go on; the others can."""


class SequenceOpener:
    """Makes the engine's state of a sequence: grammar where it stood, shared prefix, drafter."""

    def __init__(
        self,
        grammars: GrammarCompiler,
        prefixes: PrefixStore,
        lookahead: Lookahead,
        *,
        vocab_size: int,
        info: BackendInfo,
        adapters: Collection[str] = (),
    ) -> None:
        self._grammars = grammars
        self._prefixes = prefixes
        self._lookahead = lookahead
        self._vocab_size = vocab_size
        self._info = info
        self._adapters = adapters

    def open(self, sequence: Sequence) -> SequenceState:
        """Returns the state of a sequence, with nothing computed but its shared prefix.

        Raises:
            RequestError: If it cannot be run.
        """
        if not sequence.prompt_token_ids:
            raise RequestError("the prompt is empty")
        token_ids = [*sequence.prompt_token_ids, *sequence.output_token_ids]
        self.check_token_ids(token_ids)
        self.check_adapter(sequence.adapter)
        state = SequenceState(
            request_id=sequence.request_id,
            token_ids=token_ids,
            sampling=sequence.sampling,
            grammar=sequence.grammar,
            adapter=sequence.adapter,
            matcher=self._matcher(sequence.first_grammar or sequence.grammar),
            drafter=self._lookahead.drafter(sequence),
        )
        if not state.catch_up(sequence.output_token_ids):
            raise RequestError("the tokens that it brings back do not match its grammar")
        if sequence.num_cached_tokens:
            self._share_prefix(state, sequence)
        return state

    def insert(self, state: SequenceState, token_ids: Seq[int], eos_token_ids: AbstractSet[int]) -> None:
        """Appends tokens to a sequence, behind all that it wrote but the token that ended it; it starts to write again.

        From here on it is a sequence of its own whose prompt is all of this, and whose KV is there already as far as
        it was computed. The token that ended it never was.

        Raises:
            RequestError: If it cannot be run.
        """
        has_ended = state.is_finished and state.token_ids[-1] in eos_token_ids
        prompt = (*(state.token_ids[:-1] if has_ended else state.token_ids), *token_ids)
        self.check_token_ids(prompt)
        sequence = Sequence(
            request_id=state.request_id,
            prompt_token_ids=prompt,
            num_cached_tokens=state.num_shared_blocks * self._info.block_size,
            sampling=state.sampling,
            grammar=state.grammar,
            adapter=state.adapter,
        )
        state.restart(prompt, self._matcher(state.grammar), self._lookahead.drafter(sequence))

    def check_token_ids(self, token_ids: Seq[int]) -> None:
        """Raises RequestError for tokens that the model cannot take."""
        info = self._info
        if len(token_ids) > info.max_model_len:
            is_memory = info.max_model_len == info.num_kv_blocks * info.block_size
            why = f", all that {info.num_kv_blocks} KV blocks hold; raise engine.num_kv_blocks" if is_memory else ""
            raise RequestError(f"{len(token_ids)} tokens exceed max_model_len {info.max_model_len}{why}")
        if min(token_ids) < 0 or max(token_ids) >= self._vocab_size:
            raise RequestError(f"a token is outside the vocabulary of {self._vocab_size}")

    def check_adapter(self, adapter: str | None) -> None:
        """Raises RequestError for an adapter that is not loaded."""
        if adapter is not None and adapter not in self._adapters:
            raise RequestError(f"adapter {adapter!r} is not loaded")

    def _share_prefix(self, state: SequenceState, sequence: Sequence) -> None:
        num_cached, prompt = sequence.num_cached_tokens, sequence.prompt_token_ids
        prefix = self._prefixes.get(sequence.prefix_id or "")
        if prefix is None or not 0 < num_cached <= len(prefix.token_ids) or num_cached % self._info.block_size:
            raise RequestError(f"prefix {sequence.prefix_id!r} does not hold {num_cached} tokens in whole blocks")
        if prefix.adapter != sequence.adapter:
            raise RequestError(f"prefix {sequence.prefix_id!r} was computed with another adapter")
        if num_cached >= len(prompt) or prefix.token_ids[:num_cached] != prompt[:num_cached]:
            raise RequestError(f"the prompt does not start with prefix {sequence.prefix_id!r} and go on")
        state.blocks = self._prefixes.share(prefix, num_cached)
        state.num_shared_blocks = len(state.blocks)
        state.advance(num_cached)

    def _matcher(self, grammar: str | None) -> Matcher | None:
        if grammar is None:
            return None
        try:
            return self._grammars.matcher(grammar)
        except GrammarError as error:
            raise RequestError(str(error)) from error
