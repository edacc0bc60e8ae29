# SPDX-License-Identifier: Apache-2.0
"""Prepares requests for a language model: prompt, shared prefix, grammar, and the session that reads the answer."""

from collections.abc import Callable, Collection
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend, Tokenizer
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.segment import carried_out, first_of_statement, num_open_blocks, statement_text
from llm_planner.core.step import SamplingParams, Sequence
from llm_planner.language.parser import IncrementalParser
from llm_planner.language.syntax import Statement
from llm_planner.language.texts import with_spaces
from llm_planner.planning.failure_context import FailureContext, ReplanContext
from llm_planner.planning.grammar import continued, lark_grammar
from llm_planner.planning.in_words import in_words
from llm_planner.planning.instruction.directions import ways_out, ways_to_things
from llm_planner.planning.instruction.shown_scene import is_clear, may_need_all, shown_scene
from llm_planner.planning.instruction.spelling import Spelling
from llm_planner.planning.instruction.stop_words import immediate_plan
from llm_planner.planning.instruction.verdict import PlanCheck
from llm_planner.planning.prompt import PromptStyle
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.planning.safety.harm import harm_of
from llm_planner.planning.safety.mentioned import Mentioned
from llm_planner.planning.second_look import SecondLook
from llm_planner.planning.session import PlanSession, Progress
from llm_planner.robots.duration import expected_duration
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import RobotModel
from llm_planner.robots.skill_names import skill_names
from llm_planner.serving.preparation import Prepared, Replan
from llm_planner.serving.prompt_encoder import EncodedPrompt, PromptEncoder, PromptMarkup

_MAX_GRAMMARS = 64  # sets of skills that goals allow and robots support


def is_trained_for(model: RobotModel, trained_models: Collection[str] | None) -> bool:
    """Returns whether plans may be written for a robot model: by the model as it is, or with an adapter for it."""
    return trained_models is None or model.name in trained_models or model.adapter is not None


class PlanPreparer:
    """Prepares requests for a language model.

    Args:
        backend: Holds the prefix store.
        tokenizer: The model's.
        library: Robot models.
        style: How to ask this kind of model.
        markup: What the model wants around the prompt.
        replan_context: What the model has in sight when a plan goes on another way.
        min_confidence: How sure it must be of each statement, 0 to 1; else the goal is not understood.
        checks: Returns what holds the plan of a request against its instruction; None for nothing (scripted plans).
        trained_models: Names of the robot models that the model was trained for; None for any. It may also write plans
            for one that has an adapter.
    """

    def __init__(  # noqa: PLR0913 (one argument per thing that it combines)
        self,
        *,
        backend: Backend,
        tokenizer: Tokenizer,
        library: RobotLibrary,
        style: PromptStyle = PromptStyle.COMPACT,
        markup: PromptMarkup | None = None,
        sampling: SamplingParams | None = None,
        replan_context: ReplanContext = ReplanContext.KEEP,
        min_confidence: float = 0.0,
        checks: Callable[[RobotModel, PlanRequest], Seq[PlanCheck]] | None = None,
        trained_models: Collection[str] | None = None,
    ) -> None:
        self._backend = backend
        self._tokenizer = tokenizer
        self._library = library
        self._encoder = PromptEncoder(tokenizer=tokenizer, style=style, markup=markup or PromptMarkup())
        self._sampling = sampling or SamplingParams()
        self._replan_context = replan_context
        self._min_confidence = min_confidence
        self._checks = checks
        self._trained_models = trained_models
        self._grammars: dict[tuple[str, frozenset[str] | None, bool], str] = {}

    def prepare(self, request: PlanRequest) -> Prepared:
        """Returns the request ready to be scheduled; loads the robot model's prefix if it is the first of its kind.

        Raises:
            PlannerError: UNKNOWN_ROBOT_MODEL, INVALID_ROBOT_MODEL, UNTRAINED_ROBOT_MODEL or HARMFUL_REQUEST if the
                model would have to write, INVALID_ARGUMENT for skills that the robot model does not have, or the
                gate's code for ``request.delivered``.
        """
        model = self._library.get(request.robot_model)
        request = _with_skill_names(model, request)
        seen = request.scene
        if not request.plan:
            request = self.as_shown(model, request)
        allowed = _allowed_skills(model, request)
        mentioned = None
        if seen.strip():
            texts = (*_scenes(request), request.instruction, *model.places)
            mentioned = Mentioned(texts, seen=" ".join((seen, *model.places)), said=request.instruction)
        can_ask = bool(request.plan) or not is_clear(request.scene, request.instruction, model)
        given_plan = request.plan or immediate_plan(model, request.instruction)
        # A plan that is given is read from its beginning, also if a part of it was delivered before a restart.
        as_read = replace(request, delivered=(), failures=()) if given_plan else request
        new_session = partial(self._session, model, as_read, allowed, mentioned, can_ask=can_ask)
        session = new_session()
        at_once = _behind(len(request.delivered), session.write(given_plan)) if given_plan else None
        if not given_plan and not is_trained_for(model, self._trained_models):
            raise self._untrained(model)
        if not given_plan and request.urgency is not Urgency.URGENT and (order := harm_of(request.instruction, model)):
            problem = f"this planner plans no harm: {order[:80]!r}; ask for something else"
            raise PlannerError(ErrorCode.HARMFUL_REQUEST, problem)
        reader = session if given_plan else self._reader(model, request, session, new_session)
        num_replans = sum(segment.is_replan for segment in request.delivered)
        so_far = replace(request, failures=request.failures[:num_replans])
        keeps = self._replan_context is ReplanContext.KEEP
        scene = request.scene if keeps else _scenes(so_far)[-1]
        done = self._conversation(so_far) if keeps else (self._encoder.encode_plan(_done(so_far)), 0)
        delivered_ids, num_inserted = done
        writable = self._writable(model, request, allowed)
        grammar = self._grammar(model, writable, can_ask=can_ask)
        num_open = num_open_blocks(request.delivered)
        if given_plan:  # no model reads it: it needs no room for a scene, and nobody waits for a prefix
            prompt, prefix_id, num_cached = self._encode(model, request, ""), None, 0
        else:
            prompt, prefix_id = self._encode(model, request, scene), f"{model.name}/{self._encoder.style.value}"
            num_cached = self._backend.load_prefix(prefix_id, prompt.static_ids, model.adapter)
        sequence = Sequence(
            request_id=request.request_id,
            prompt_token_ids=(*prompt.static_ids, *prompt.dynamic_ids, *delivered_ids),
            prefix_id=prefix_id,
            num_cached_tokens=num_cached,
            grammar=grammar,
            first_grammar=continued(grammar, num_open) if request.delivered else None,
            num_open_blocks=num_open,
            adapter=model.adapter,
            sampling=self._sampling,
        )
        if request.time_budget_s is not None:
            sequence = self._with_measures(sequence, prompt, request)
        return Prepared(
            sequence,
            reader,
            num_delivered_tokens=len(delivered_ids) - num_inserted,
            num_inserted_tokens=num_inserted,
            # A person gave this plan: if it fails, the model writes no other one.
            begin_replan=None if given_plan else partial(self._begin_replan, reader, mentioned),
            stop_skill=model.stop_skill,
            at_once=at_once,
        )

    def as_shown(self, model: RobotModel, request: PlanRequest) -> PlanRequest:
        """Returns the request with that of its scenes which its task needs: prompt, gate and checks know no more."""
        show = partial(shown_scene, instruction=request.instruction, model=model)
        failures = tuple(
            failure
            if failure.situation is None
            else replace(failure, situation=replace(failure.situation, scene=show(failure.situation.scene)))
            for failure in request.failures
        )
        return replace(request, scene=show(request.scene), failures=failures)

    def can_spare(self, model: RobotModel, request: PlanRequest) -> bool:
        """Returns whether a plan can spare some of the scene to keep a time budget: left out, or evicted.

        It cannot where the task may need any of it: with a quarter of the KV evicted, 8 % of inventories were right
        instead of 81 % (docs/time_budgets.md), and a plan that has half of the things looks whole.
        """
        return not may_need_all(request.scene, request.instruction, model)

    def _untrained(self, model: RobotModel) -> PlannerError:
        known = ", ".join(sorted(self._trained_models or ()))
        return PlannerError(
            ErrorCode.UNTRAINED_ROBOT_MODEL,
            f"this checkpoint was trained for the robot models {known} and cannot plan for {model.name!r}; serve a "
            "chat checkpoint, which reads what a robot can do: --model DIRECTORY (engine.model), see "
            "docs/first_model.md",
        )

    def _encode(self, model: RobotModel, request: PlanRequest, scene: str) -> EncodedPrompt:
        is_urgent = request.urgency is Urgency.URGENT
        return self._encoder.encode(model, request.instruction, scene, request.unsupported_skills, is_urgent=is_urgent)

    def _session(
        self,
        model: RobotModel,
        request: PlanRequest,
        allowed: frozenset[str] | None,
        mentioned: Mentioned | None,
        *,
        can_ask: bool,
    ) -> PlanSession:
        """Returns what reads the plan."""
        is_urgent = request.urgency is Urgency.URGENT
        has_spaces = self._encoder.style is not PromptStyle.COMPACT
        spelling = Spelling(request.instruction, request.scene, model.places, can_search=model.can_search)

        def reads(statement: Statement) -> Statement:
            return spelling.apply(statement if has_spaces else with_spaces(statement))

        new_gate = partial(
            SafetyGate,
            model,
            request.start_pose,
            allowed=allowed,
            unsupported=request.unsupported_skills,
            mentioned=mentioned,
        )
        new_session = partial(
            PlanSession, tokenizer=self._tokenizer, expected_duration=partial(expected_duration, model)
        )

        def is_admissible(plan: str) -> bool:
            return new_session(parser=IncrementalParser(), gate=new_gate()).write(plan).error is None

        return new_session(
            # The first segment of an emergency is its answer, on which the robot's reflex relies: a whole statement.
            parser=IncrementalParser(opens_blocks=request.takes_open_blocks and not (request.plan_only or is_urgent)),
            gate=new_gate(),
            delivered=request.delivered,
            failures=request.failures,
            min_confidence=self._min_confidence,
            reads=reads,
            checks=self._checks(model, request) if self._checks is not None else (),
            can_hold=request.time_budget_s is None and not is_urgent,
            is_admissible=is_admissible,
            equivalent_skills=ways_out(model, request.instruction) if is_urgent else ways_to_things(model),
            can_ask=can_ask,
            in_words=partial(in_words, model),
            missing=mentioned.missing if mentioned is not None else lambda _: "",
        )

    def _reader(
        self, model: RobotModel, request: PlanRequest, session: PlanSession, new_session: Callable[[], PlanSession]
    ) -> PlanSession | SecondLook:
        """Returns what reads the plan: with a second look, where there is time for one and nothing of it is done.

        Not in an engine that keeps the KV itself, which cannot go on behind other tokens than it wrote.
        """
        is_timed = request.time_budget_s is not None or request.urgency is Urgency.URGENT
        if request.delivered or is_timed or self._backend.info.keeps_kv:
            return session
        return SecondLook(
            session,
            new_session,
            eos_token_ids=self._tokenizer.eos_token_ids,
            min_confidence=self._min_confidence,
            in_words=partial(in_words, model),
        )

    def _begin_replan(
        self, session: PlanSession | SecondLook, mentioned: Mentioned | None, request: PlanRequest
    ) -> Replan:
        """Begins another plan around the last failure of a request."""
        model = self._library.get(request.robot_model)
        request = self.as_shown(model, _with_skill_names(model, request))
        failure = request.failures[-1]
        segment = session.begin_replan(failure)
        if mentioned is not None and failure.situation is not None:
            mentioned.add(failure.situation.scene)
        if self._replan_context is ReplanContext.KEEP:
            return Replan(segment, self._encoder.encode_failure(_failure_context(request)))
        prompt = self._encode(model, request, _scenes(request)[-1])
        done_ids = self._encoder.encode_plan(_done_before(request, failure.index))
        return Replan(segment, (*prompt.static_ids, *prompt.dynamic_ids, *done_ids), keeps_context=False)

    def _conversation(self, request: PlanRequest) -> tuple[Seq[int], int]:
        """Returns what the model wrote and read behind the prompt before a restart, and how much of it was read."""
        token_ids: list[int] = []
        num_failures = num_inserted = 0
        for number, segment in enumerate(request.delivered):
            if segment.is_replan:
                num_failures += 1
                then = replace(request, delivered=request.delivered[:number], failures=request.failures[:num_failures])
                inserted = self._encoder.encode_failure(_failure_context(then))
                token_ids += inserted
                num_inserted += len(inserted)
            token_ids += self._encoder.encode_plan(segment.text)
        return token_ids, num_inserted

    def _with_measures(self, sequence: Sequence, prompt: EncodedPrompt, request: PlanRequest) -> Sequence:
        """Returns the sequence with what may be left out or evicted to keep a time budget: parts of the scene.

        Rules, skills and task stay.
        """
        model = self._library.get(request.robot_model)
        if not self.can_spare(model, request):
            return sequence
        droppable = self._encoder.droppable_spans(prompt, request.instruction)
        evictable = (self._encoder.scene_span(prompt),) if self._backend.info.can_evict else ()
        return replace(sequence, droppable=droppable, evictable=evictable)

    def _writable(
        self, model: RobotModel, request: PlanRequest, allowed: frozenset[str] | None
    ) -> frozenset[str] | None:
        """Returns the skills that the model can spell; None for all.

        A chat model has read what this robot cannot do, and the grammar keeps it from trying. The bundled model has
        not: kept from the skill that it wants, it would take another one. So it may write it, and the gate refuses.
        """
        if self._encoder.style is not PromptStyle.INSTRUCT or not request.unsupported_skills:
            return allowed
        return (frozenset(model.skills) if allowed is None else allowed).difference(request.unsupported_skills)

    def _grammar(self, model: RobotModel, allowed: frozenset[str] | None, *, can_ask: bool) -> str:
        """Returns the grammar of a plan; what follows delivered segments is a plan again."""
        key = model.name, allowed, can_ask
        if key not in self._grammars:
            if len(self._grammars) >= _MAX_GRAMMARS:
                self._grammars.clear()
            self._grammars[key] = lark_grammar(model, allowed=allowed, can_ask=can_ask)
        return self._grammars[key]


def _behind(num_delivered: int, progress: Progress) -> Progress:
    return replace(progress, segments=progress.segments[num_delivered:])


def _with_skill_names(model: RobotModel, request: PlanRequest) -> PlanRequest:
    """Returns the request with the robot model's names in the place of aliases.

    Raises:
        PlannerError: INVALID_ARGUMENT for skills that the robot model does not have.
    """
    unsupported = skill_names(model, request.unsupported_skills, "unsupported_skills")
    allowed = request.allowed_skills
    if allowed is not None:
        allowed = frozenset(skill_names(model, sorted(allowed), "allowed_skills"))
    return replace(request, unsupported_skills=unsupported, allowed_skills=allowed)


def _allowed_skills(model: RobotModel, request: PlanRequest) -> frozenset[str] | None:
    """Returns what a plan may use: what the goal allows, and in an emergency only what the robot model allows there."""
    if request.urgency is not Urgency.URGENT:
        return request.allowed_skills
    if request.allowed_skills is None:
        return model.urgent_skills
    return model.urgent_skills & request.allowed_skills


def _scenes(request: PlanRequest) -> list[str]:
    """Returns what the robot saw: when it asked, and whenever a segment had failed."""
    return [request.scene, *(f.situation.scene for f in request.failures if f.situation is not None)]


def _done(request: PlanRequest) -> str:
    """Returns what was delivered, without what failed or became void."""
    done = carried_out(request.delivered, [failure.index for failure in request.failures])
    return "".join(segment.text for segment in done)


def _done_before(request: PlanRequest, index: int) -> str:
    """Returns the same of what lies before the top-level statement that a segment is part of."""
    return _done(replace(request, delivered=request.delivered[: first_of_statement(request.delivered, index)]))


def _failure_context(request: PlanRequest) -> FailureContext:
    """Returns the last failure of a request: of a whole top-level statement, also where it came in parts."""
    failure, scenes = request.failures[-1], _scenes(request)
    before = _scenes(replace(request, failures=request.failures[:-1]))
    return FailureContext(
        instruction=request.instruction,
        scene=scenes[-1],
        scene_before=before[-1],
        done=_done_before(request, failure.index),
        failed=statement_text(request.delivered, failure.index),
        reason=failure.reason,
    )
