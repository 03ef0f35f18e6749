"""The policy's side: it says the same at each turn, and keeps the record of the episode as the flow does."""

import asyncio
from dataclasses import dataclass, field

import numpy as np
from pydantic import JsonValue
from tests.support.conversations import EOS

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed
from warren_env_worker.host.request import Request
from warren_schemas.config import Sampling
from warren_schemas.episode import EpisodeSpec, PolicyRef, TaskRef
from warren_schemas.ids import GroupId, ModelId
from warren_schemas.transcript import ChatMessage, Tokens, Transcript, Turn

N_SAMPLED = 16
SAID = "!" * N_SAMPLED
"""What the policy says at each turn, a token for each character."""
ACTION = ChatMessage(role="assistant", content=SAID)


def spec(config: dict[str, JsonValue], max_turns: int) -> EpisodeSpec:
    return EpisodeSpec(
        group=GroupId("group_1"),
        member=0,
        environment="asking",
        environment_config=config,
        task=TaskRef(index=0),
        seed=1,
        policy=PolicyRef(model=ModelId("model_1"), base_model="none", min_version=0),
        sampling=Sampling(),
        max_turns=max_turns,
    )


@dataclass
class Player:
    host: Host
    spec: EpisodeSpec
    slot: int = field(init=False)

    def __post_init__(self) -> None:
        self.slot = self.host.open()

    async def play(self) -> None:
        shown = await self._ask(None)
        transcript = _shown(Transcript(reset_digest=shown.digest), shown)
        while not shown.is_over:
            said = transcript.model_copy(
                update={
                    "messages": (*transcript.messages, ACTION),
                    "tokens": _sampled(transcript.tokens),
                }
            )
            shown = await self._ask(said)
            turns = (*said.turns, Turn(reward=shown.reward, digest=shown.digest))
            transcript = _shown(said.model_copy(update={"turns": turns}), shown)
        self.host.close(self.slot)

    async def _ask(self, transcript: Transcript | None) -> Observed:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.host.submit_request(Request(self.slot, self.spec, transcript, answered.set_result))
        answer = await answered
        assert isinstance(answer, Observed), answer
        return answer


def _shown(transcript: Transcript, shown: Observed) -> Transcript:
    new = tuple(ChatMessage(role=message[0], content=message[1]) for message in shown.messages)
    if shown.ids:
        new = (ChatMessage(role="user", content="", n_tokens=len(shown.ids)),)
    ids = shown.ids or [EOS] * sum(len(message.content) for message in new)
    messages, tokens = (*transcript.messages, *new), transcript.tokens.prompted(ids)
    return transcript.model_copy(update={"messages": messages, "tokens": tokens})


def _sampled(before: Tokens) -> Tokens:
    more = before.prompted([EOS + 1] * N_SAMPLED)
    mask_T = np.append(before.mask_T, np.ones(N_SAMPLED, np.uint8))
    return more.model_copy(update={"mask_T": mask_T})
