"""Messages of an episode's process to the fork server: answers, and that an episode is closed."""

from dataclasses import dataclass

import orjson

from warren_env_worker.host.protocol import Answer, unpack_answers


@dataclass(frozen=True, slots=True)
class Closed:
    """The episode is closed, after its last answer."""

    leftover: str | None
    """What it left behind; None: the process waits for the next episode."""


def pack_closed(closed: Closed) -> bytes:
    return orjson.dumps(closed)


def unpack_told(frame: bytes) -> list[Answer] | Closed:
    """Raises `TypeError` or `ValueError` for what is neither."""
    if frame.startswith(b"{"):
        return Closed(**orjson.loads(frame))
    return unpack_answers(frame)
