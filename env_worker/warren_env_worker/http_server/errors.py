"""What a request is refused with."""

from collections.abc import Mapping

from warren_env_worker.served_episode import EpisodeFailed
from warren_schemas.episode import FailureKind

_OF_THE_ASKER = (FailureKind.ENVIRONMENT_CONFIG, FailureKind.UNKNOWN_ENVIRONMENT)


class Refusal(Exception):
    """`error` is one sentence for a person."""

    def __init__(self, status: int, error: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.headers = dict(headers or {})


def refusal_of(failed: EpisodeFailed) -> Refusal:
    """By whose doing it was: 422 ends the asker's run, 500 fails the episode."""
    return Refusal(422 if failed.kind in _OF_THE_ASKER else 500, str(failed))
