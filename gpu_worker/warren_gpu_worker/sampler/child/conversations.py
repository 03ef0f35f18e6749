"""Whole conversations as tokens, with a mask of what is learned.

The tokens are those that the tokenizer's own chat template gives for the conversation, no others. Learned is what a message
says, with the end of its turn: characters are found by rendering stand-ins in the place of contents, and a token counts if
it begins among them. A template that writes a content otherwise than it is (it drops reasoning, say) is refused for that
conversation, since nobody could tell what of it is learned.

Texts that are no chat are laid end to end and tokenized as one; the end of the turn follows, and is learned.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.messages import Message

_MEMO_ENTRIES = 1024

Span = tuple[int, int]
"""Of characters: the first, and the first after the last."""


class Conversations:
    """Methods raise `TemplateError` and `ValueError`; `_T` are the tokens of one conversation."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._end = renderer.text([renderer.end_of_turn])
        self._pieces = lru_cache(_MEMO_ENTRIES)(self._pieces_of)

    def tokens(
        self,
        messages: Sequence[Message],
        learned: Sequence[int],
        *,
        is_plain: bool = False,
        thinking: bool | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Ids (T,) and mask (T,)."""
        if is_plain:
            return self._plain(messages, learned)
        text, spans = self._chat(messages, thinking)
        ids_T, starts_T = self._tokenized(text, is_plain=False)
        return ids_T, _mask(starts_T, [spans[i] for i in learned])

    def _plain(
        self, messages: Sequence[Message], learned: Sequence[int]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        contents = [message[1] for message in messages]
        ids_T, starts_T = self._tokenized("".join(contents), is_plain=True)
        ends = np.cumsum([0, *map(len, contents)])
        mask_T = _mask(starts_T, [(int(ends[i]), int(ends[i + 1])) for i in learned])
        end = self._renderer.end_of_turn
        if ids_T.size and int(ids_T[-1]) == end:
            mask_T[-1] = 1
            return ids_T, mask_T
        return np.append(ids_T, np.int32(end)), np.append(mask_T, np.uint8(1))

    def _chat(self, messages: Sequence[Message], thinking: bool | None) -> tuple[str, list[Span]]:
        """The text, and where in it each content lies, with the end of its turn."""
        whole = self._renderer.whole(messages, thinking=thinking)
        pieces = self._pieces(tuple(message[0] for message in messages), thinking)
        for contents in (
            [message[1] for message in messages],
            [message[1].strip() for message in messages],  # as many templates do
        ):
            text, spans = _laid(pieces, contents, self._end)
            if text == whole:
                return text, spans
        raise ValueError("the chat template writes what is said otherwise than it is")

    def _pieces_of(self, roles: tuple[str, ...], thinking: bool | None) -> list[str]:
        """What the template puts before, between and behind contents of these roles."""
        stand_ins = [f"WARREN{i}STANDIN" for i in range(len(roles))]
        pairs = list(zip(roles, stand_ins, strict=True))
        rest = self._renderer.whole(pairs, thinking=thinking)
        pieces: list[str] = []
        for stand_in in stand_ins:
            before, found, rest = rest.partition(stand_in)
            if not found:
                raise ValueError("the chat template leaves out what somebody said")
            pieces.append(before)
        return [*pieces, rest]

    def _tokenized(
        self, text: str, *, is_plain: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        try:
            return self._renderer.tokenized(text, is_plain=is_plain)
        except NotImplementedError as error:
            raise ValueError(
                "the tokenizer has no character offsets (not a fast tokenizer)"
            ) from error


def _laid(pieces: Sequence[str], contents: Sequence[str], end: str) -> tuple[str, list[Span]]:
    text, spans = pieces[0], list[Span]()
    for content, after in zip(contents, pieces[1:], strict=True):
        start = len(text)
        ends = start + len(content) + (len(end) if after.startswith(end) else 0)
        spans.append((start, ends))
        text += content + after
    return text, spans


def _mask(starts_T: NDArray[np.int32], spans: Sequence[Span]) -> NDArray[np.uint8]:
    """1 for the tokens that begin in one of these."""
    mask_T = np.zeros(starts_T.size, np.uint8)
    for start, end in spans:
        mask_T[(starts_T >= start) & (starts_T < end)] = 1
    return mask_T
