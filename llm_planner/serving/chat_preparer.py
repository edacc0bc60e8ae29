# SPDX-License-Identifier: Apache-2.0
"""Prepares requests of urgency CHAT: an answer in words instead of a plan (TimelyLLM, section 7.4.2)."""

from dataclasses import dataclass, field

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.step import SamplingParams, Sequence
from llm_planner.language.prose import ProseUnit
from llm_planner.planning.chat import ChatSession
from llm_planner.planning.prompt import PromptStyle, chat_prompt
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.preparation import Prepared, Preparer
from llm_planner.serving.prompt_encoder import PromptEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPreparer:
    """Prepares chats, and leaves all other requests to the preparer of plans.

    The prompt of a chat is short, so it has no prefix of its own in the store; the robot model lends its description
    and its adapter.

    Attributes:
        plans: Prepares everything that is no chat.
        library: Robot models.
        encoder: Of the model. One that was trained to write plans and nothing else refuses chats.
        unit: What a segment of an answer is.
    """

    plans: Preparer
    library: RobotLibrary
    encoder: PromptEncoder
    sampling: SamplingParams = field(default_factory=SamplingParams)
    unit: ProseUnit = ProseUnit.SENTENCE

    def prepare(self, request: PlanRequest) -> Prepared:
        """Returns the request ready to be scheduled.

        Raises:
            PlannerError: INVALID_URGENCY for a chat with a model that cannot; else as the preparer of plans.
        """
        if request.urgency is not Urgency.CHAT:
            return self.plans.prepare(request)
        if self.encoder.style is PromptStyle.COMPACT:
            raise PlannerError(
                ErrorCode.INVALID_URGENCY,
                "this model was trained to write plans and cannot chat; serve a chat checkpoint (engine.model), or "
                "ask for a plan",
            )
        model, tokenizer = self.library.get(request.robot_model), self.encoder.tokenizer
        prompt = self.encoder.wrap(chat_prompt(model, request.instruction, request.scene))
        delivered_ids = tokenizer.encode("".join(segment.text for segment in request.delivered))
        sequence = Sequence(
            request_id=request.request_id,
            prompt_token_ids=(*prompt.static_ids, *prompt.dynamic_ids, *delivered_ids),
            adapter=model.adapter,
            sampling=self.sampling,
        )
        session = ChatSession(tokenizer=tokenizer, unit=self.unit, num_delivered=len(request.delivered))
        return Prepared(sequence, session, len(delivered_ids))
