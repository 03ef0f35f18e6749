"""What happened in a live episode so far, for the environment's own `score`.

Nothing is kept where nobody asks for it: texts and images of long episodes weigh much.
"""

from collections.abc import Mapping, Sequence

from warren.environment import ChatMessage
from warren.episode_transcript import Ending, EpisodeTranscript
from warren_env_worker.host.protocol import Message
from warren_schemas.images import Image


class EpisodeRecord:
    def __init__(self, *, is_kept: bool) -> None:
        self._is_kept = is_kept
        self._messages: list[ChatMessage] = []
        self._rewards: list[float | None] = []
        self._metrics: dict[str, float] = {}

    def show(self, messages: Sequence[Message], ids: Sequence[int]) -> None:
        """What the policy is shown next."""
        if self._is_kept:
            self._messages += [_message(each) for each in messages]
            if ids:
                self._messages.append(ChatMessage(role="user", content="", n_tokens=len(ids)))

    def act(
        self,
        action: str,
        reward: float | None,
        metrics: Mapping[str, float],
        earlier: Sequence[tuple[int, float]],
    ) -> None:
        """What the policy said, and what it got for that."""
        if not self._is_kept:
            return
        self._messages.append(ChatMessage(role="assistant", content=action))
        self._rewards.append(reward)
        for number, given in earlier:
            self._rewards[number - 1] = given
        self._metrics |= metrics

    def transcript(self, ending: Ending) -> EpisodeTranscript:
        return EpisodeTranscript(
            tuple(self._messages), tuple(self._rewards), dict(self._metrics), ending
        )


def _message(shown: Message) -> ChatMessage:
    role, content, *rest = shown
    images = tuple(Image(media_type=kind, base64=data) for kind, data in (rest[0] if rest else ()))
    return ChatMessage(role=role, content=content, images=images, is_quoted=role == "assistant")
