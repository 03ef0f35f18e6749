"""What an environment shows, as ORS has it: blocks of text and images."""

from collections.abc import Iterable, Sequence

from warren_env_worker.host.protocol import Message, Observed

Block = dict[str, object]


def blocks_of(messages: Iterable[Message]) -> list[Block]:
    return [block for message in messages for block in _blocks(message)]


def conversation(messages: Sequence[Message]) -> list[dict[str, object]]:
    """With the roles of ORS, where results of tools are the user's."""
    return [
        {"role": "user" if m[0] == "tool" else m[0], "blocks": _blocks(m), "detail": None}
        for m in messages
    ]


def output(shown: Observed) -> dict[str, object]:
    """What a call answers."""
    return {
        "blocks": blocks_of(shown.messages),
        "metadata": {"truncated": shown.is_truncated, "metrics": shown.metrics},
        "reward": shown.reward,
        "finished": shown.is_over,
    }


def _blocks(message: Message) -> list[Block]:
    images = message[2] if len(message) == 3 else ()
    shown: list[Block] = [
        {"type": "image", "data": data, "mimeType": kind, "detail": None} for kind, data in images
    ]
    return [*shown, {"type": "text", "text": message[1], "detail": None}] if message[1] else shown
