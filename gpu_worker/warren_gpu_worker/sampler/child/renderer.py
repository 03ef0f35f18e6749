# pyright: reportUnknownMemberType=false
# (transformers leaves parts of its interface untyped)
"""The renderer: chat messages -> the tokens that the engine has not seen yet, and back to text.

Token in, token out: what was sampled is never tokenized again, and a transcript's tokens only ever
grow. The first turn renders the whole chat. A later turn renders only what the chat template puts
after the policy's last words: the rest of that turn, the new messages, the opening of the next turn.
That text is found by rendering the new messages behind a stand-in for the policy's words, so it
depends on the new messages alone and the same short observation is rendered once.

A turn that the policy did not end itself (cut by length, or at a stop string) gets its end-of-turn
token here, as a token that was not sampled.

Invariant: what is returned is exactly what the template would have put there. That is checked on a
few chats when the model is loaded, and a template that can't be extended is refused. Reasoning that
a template would drop from earlier turns stays, since the policy did see it.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from jinja2 import TemplateError
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from warren_gpu_worker.base_models.vocabulary import vocabulary_digest
from warren_gpu_worker.sampler.messages import Message

_STAND_IN = "WARRENSTANDIN"
_MEMO_ENTRIES = 8192
_MEMO_CHARACTERS = 1024
"""Longer chats are rendered anew: they hardly come twice and would fill the memory."""
_MEMO_TOKENS = 64
"""Likewise for sampled turns that are read as text."""

_PROBED_OPENINGS: tuple[tuple[Message, ...], ...] = (
    (("user", "?"),),
    (("system", "play"), ("user", "?")),
    (("user", "?"), ("assistant", "5"), ("user", "<")),
)
_PROBED_ADDITIONS: tuple[tuple[Message, ...], ...] = (
    (("user", ">"),),
    (("user", "two\nlines"),),
)


_PROBED_IMAGE: Message = ("user", "what is it?", 1)


class TemplateNotExtendable(ValueError):
    """This chat template does not allow to append turns to tokens; says why."""


class Renderer:
    """Raises `TemplateNotExtendable` when the tokenizer's chat template can't be extended.

    `end_ids` are the tokens that end generation by the model's own configuration.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, end_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._end_of_turn = self._find_end_of_turn(end_ids)
        self._check()
        self.vocabulary = vocabulary_digest(tokenizer)
        """Digest of what its token ids stand for."""
        self._longest_token = max(len(token) for token in tokenizer.get_vocab())
        self._open_memo = lru_cache(_MEMO_ENTRIES)(self._open)
        self._continue_memo = lru_cache(_MEMO_ENTRIES)(self._continue)
        self._text_memo = lru_cache(_MEMO_ENTRIES)(self._text)

    @property
    def end_of_turn(self) -> int:
        """The token with which the policy ends its turn."""
        return self._end_of_turn

    def least_tokens(self, messages: Sequence[Message]) -> int:
        """How many tokens these messages have at least, told without tokenizing them."""
        return sum(len(message[1]) for message in messages) // self._longest_token

    def check_images(self, image_token: int) -> None:
        """Raises `TemplateNotExtendable` when the chat template can't show images."""
        try:
            self._check_one(_PROBED_OPENINGS[0], (_PROBED_IMAGE,))
            ids_T = self._open((_PROBED_IMAGE,))
        except (TemplateError, TypeError) as error:  # it takes contents for texts
            raise TemplateNotExtendable(f"the chat template takes no images: {error}") from error
        if int((ids_T == image_token).sum()) != 1:
            raise TemplateNotExtendable("the chat template has no place for an image")

    def open(
        self, messages: Sequence[Message], *, thinking: bool | None = None
    ) -> NDArray[np.int32]:
        """The tokens (T,) of a whole chat, up to where the policy speaks.

        `thinking` is the template's `enable_thinking`; None leaves it to the template.
        """
        chat = tuple(messages)
        return (self._open_memo if _is_short(chat) else self._open)(chat, thinking)

    def extend(
        self, last_id: int, messages: Sequence[Message], *, thinking: bool | None = None
    ) -> NDArray[np.int32]:
        """The tokens (T,) that follow the policy's turn, which ended with `last_id`.

        `messages` are those that came after it.
        """
        chat = tuple(messages)
        ids_T = (self._continue_memo if _is_short(chat) else self._continue)(chat, thinking)
        return ids_T[1:] if last_id == self._end_of_turn else ids_T

    def plain(self, text: str) -> NDArray[np.int32]:
        """The tokens (T,) of a text that is no chat, with what the tokenizer puts around a text."""
        return np.array(cast("list[int]", self._tokenizer(text)["input_ids"]), np.int32)

    def encode(self, text: str) -> NDArray[np.int32]:
        """The tokens (T,) of the policy's words as a turn of their own, with its end."""
        return np.append(self._ids(text), np.int32(self._end_of_turn))

    def text(self, ids: Sequence[int]) -> str:
        """Sampled tokens as text."""
        key = tuple(ids)
        return self._text_memo(key) if len(key) <= _MEMO_TOKENS else self._text(key)

    def whole(self, messages: Sequence[Message], *, thinking: bool | None = None) -> str:
        """A conversation as text, with nothing after its last message."""
        return self._render(tuple(messages), thinking=thinking, opens_turn=False)

    def tokenized(
        self, text: str, *, is_plain: bool = False
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The tokens (T,) of a text, and where in it each begins; a plain one gets what the tokenizer puts around a text."""
        found = self._tokenizer(text, add_special_tokens=is_plain, return_offsets_mapping=True)
        starts = [start for start, _ in cast("list[tuple[int, int]]", found["offset_mapping"])]
        ids = cast("list[int]", found["input_ids"])
        return np.array(ids, np.int32), np.array(starts, np.int32)

    def _open(self, chat: tuple[Message, ...], thinking: bool | None = None) -> NDArray[np.int32]:
        return self._ids(self._render(chat, thinking=thinking))

    def _continue(
        self, chat: tuple[Message, ...], thinking: bool | None = None
    ) -> NDArray[np.int32]:
        whole = (("user", "x"), ("assistant", _STAND_IN), *chat)
        return self._ids(self._after_stand_in(whole, thinking))

    def _text(self, ids: tuple[int, ...]) -> str:
        return cast(str, self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def _after_stand_in(self, chat: tuple[Message, ...], thinking: bool | None = None) -> str:
        _, found, after = self._render(chat, thinking=thinking).partition(_STAND_IN)
        if not found:
            raise TemplateNotExtendable("the chat template hides what the assistant said")
        return after

    def _render(
        self, chat: tuple[Message, ...], *, thinking: bool | None = None, opens_turn: bool = True
    ) -> str:
        settings: dict[str, Any] = {} if thinking is None else {"enable_thinking": thinking}
        rendered = self._tokenizer.apply_chat_template(
            cast("list[dict[str, str]]", [_part(message) for message in chat]),  # or lists
            tokenize=False,
            add_generation_prompt=opens_turn,
            **settings,
        )
        return cast(str, rendered)

    def _ids(self, text: str) -> NDArray[np.int32]:
        ids = cast("list[int]", self._tokenizer(text, add_special_tokens=False)["input_ids"])
        ids_T = np.array(ids, np.int32)
        ids_T.flags.writeable = False
        return ids_T

    def _find_end_of_turn(self, end_ids: Sequence[int]) -> int:
        """The token right after the assistant's words: one that ends generation, or a special one."""
        if not self._tokenizer.chat_template:
            raise TemplateNotExtendable("the tokenizer has no chat template")
        chat = (("user", "x"), ("assistant", _STAND_IN), ("user", "y"))
        ids_T = self._ids(self._after_stand_in(chat))
        ends = {*end_ids, *self._tokenizer.all_special_ids}
        if not ids_T.size or int(ids_T[0]) not in ends:
            raise TemplateNotExtendable(
                "the chat template does not end the assistant's turn with a special token"
            )
        return int(ids_T[0])

    def _check(self) -> None:
        """Compare increments with full renders of a few chats."""
        for before in _PROBED_OPENINGS:
            for after in _PROBED_ADDITIONS:
                self._check_one(before, after)

    def _check_one(self, before: tuple[Message, ...], after: tuple[Message, ...]) -> None:
        if not self._allows(before):
            return
        whole = self._render((*before, ("assistant", _STAND_IN), *after))
        head, _, tail = whole.partition(_STAND_IN)
        if not self._render(before).startswith(head):
            raise TemplateNotExtendable("the chat template writes earlier turns anew")
        ids_T = self._continue(after)
        if self._after_stand_in((("user", "x"), ("assistant", _STAND_IN), *after)) != tail:
            raise TemplateNotExtendable("what the chat template adds depends on earlier turns")
        if self._ids(whole)[-ids_T.size :].tolist() != ids_T.tolist():
            raise TemplateNotExtendable("the tokens of a new turn depend on earlier turns")

    def _allows(self, chat: tuple[Message, ...]) -> bool:
        """Some templates take no system message; then none will come through them."""
        try:
            self._render(chat)
        except TemplateError:
            return False
        return True


def _is_short(chat: tuple[Message, ...]) -> bool:
    return sum(len(message[1]) for message in chat) <= _MEMO_CHARACTERS


def _part(message: Message) -> dict[str, object]:
    """A message as templates take it: where there are images its content is a list."""
    if len(message) == 2:
        return {"role": message[0], "content": message[1]}
    images: list[dict[str, str]] = [{"type": "image"}] * message[2]
    return {"role": message[0], "content": [*images, {"type": "text", "text": message[1]}]}
