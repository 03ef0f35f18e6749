"""One episode on a host, for a server whose clients have the policy.

Invariants: at most one call is under way. What was said is remembered, so that a host whose process died
takes the episode through it again and goes on; one that can't be taken there is `EpisodeFailed`, as is
whatever else ends an episode without an outcome: never a reward.
"""

import asyncio
from functools import partial

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed, Refused
from warren_env_worker.host.request import Request
from warren_schemas.episode import EpisodeSpec, FailureKind
from warren_schemas.transcript import ChatMessage, Transcript, Turn

_ERROR = FailureKind.ENVIRONMENT_ERROR


class EpisodeFailed(Exception):
    """The text is one sentence for a person."""

    def __init__(self, reason: str, kind: FailureKind = FailureKind.CANCELLED) -> None:
        super().__init__(reason)
        self.kind = kind


class Episode:
    def __init__(self, host: Host, spec: EpisodeSpec, *, lists_ids: bool = False) -> None:
        """With `lists_ids` its beginning tells the ids of all tasks of its split."""
        self._lists_ids = lists_ids
        self._host = host
        self._spec = spec
        self._slot: int | None = host.open()
        self._said = Transcript()
        self._waiting: asyncio.Future[Answer] | None = None

    @property
    def is_live(self) -> bool:
        return self._slot is not None

    async def begin(self) -> Observed:
        """Raises `EpisodeFailed`, as `act` does."""
        shown = await self._ask(None)
        self._said = Transcript(reset_digest=shown.digest)
        return shown

    async def act(self, action: str) -> Observed:
        """What follows from the policy's words."""
        said = ChatMessage(role="assistant", content=action)
        asked = self._said.model_copy(update={"messages": (*self._said.messages, said)})
        shown = await self._ask(asked)
        turn = Turn(digest=shown.digest)
        self._said = asked.model_copy(update={"turns": (*asked.turns, turn)})
        if shown.is_over:
            self.close()
        return shown

    def close(self) -> None:
        """Give the host its slot back; whoever waits is told."""
        if self._slot is None:
            return
        self._host.close(self._slot)
        self._slot = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(EpisodeFailed("the episode was ended"))

    async def _ask(self, said: Transcript | None) -> Observed:
        if self._slot is None:
            raise EpisodeFailed("the episode was ended")
        self._waiting = asyncio.get_running_loop().create_future()
        answer = partial(_settle, self._waiting)
        self._host.submit_request(
            Request(self._slot, self._spec, said, answer, lists_ids=self._lists_ids)
        )
        got = await self._waiting
        if isinstance(got, Refused):
            self.close()
            raise EpisodeFailed(got.reason, got.kind)
        if got.after is not None or got.earlier or got.ids:
            self.close()
            raise EpisodeFailed(
                "it goes back to an earlier turn, rewards one or shows tokens, which this protocol has no words for",
                _ERROR,
            )
        return got


def _settle(waiting: "asyncio.Future[Answer]", answer: Answer) -> None:
    if not waiting.done():
        waiting.set_result(answer)
