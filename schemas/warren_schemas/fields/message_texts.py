"""Texts of a message: what several items share, or what a worker has met before, stands in a text of its own and an
item says its number (`codec.frame` has the layout)."""

from pydantic import ValidationInfo

TEXTS = "texts"
"""Their key in the context of a validation, and in an item that has a list in texts."""


def text_at(number: int, info: ValidationInfo) -> bytes:
    """Raises `ValueError` where the message has no such text; nothing outside of messages has any."""
    texts: list[bytes] = [] if info.context is None else info.context[TEXTS]
    if number >= len(texts):
        raise ValueError(f"the message has no text {number}")
    return texts[number]
