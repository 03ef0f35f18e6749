# pyright: reportUnknownMemberType=false
"""500 random transcripts in each of three template families: no sampled token is tokenized again.

Turns think, call tools, are cut off in the middle, and are made of tokens that the tokenizer would
not have chosen for the same words; tool results and questions follow. Every sampled word holds a
mark that nothing else holds, so a text that goes to the tokenizer with a mark in it is a breach.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from tests.support.tokenizers import byte_tokenizer, family_template
from transformers import PreTrainedTokenizerFast

from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.messages import FinishedTurn, Message
from warren_gpu_worker.sampler.supervisor.transcripts import extended
from warren_schemas.episode import FinishReason
from warren_schemas.transcript import ChatMessage, Transcript

N_TRANSCRIPTS = 500
MARK = "@"
ENDS = {"qwen3": "<|im_end|>", "llama3": "<|eot_id|>", "mistral": "</s>"}


class Overheard(PreTrainedTokenizerFast):
    """Remembers what it tokenized."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.heard: list[str] = []

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        self.heard.append(arguments[0])
        return super().__call__(*arguments, **settings)


@dataclass
class Chat:
    """A transcript in the making."""

    rng: np.random.Generator
    renderer: Renderer
    tokenizer: Overheard
    thinking: bool | None
    transcript: Transcript

    def new(self) -> tuple[Message, ...]:
        messages = self.transcript.messages[self.transcript.n_rendered :]
        return tuple((m.role, m.content) for m in messages)

    def take_turn(self) -> None:
        """The policy speaks: rendering first, then tokens of its own choice."""
        before = self.transcript.tokens.ids_T
        if before.size:
            last = int(before[-1])
            prompt_T = self.renderer.extend(last, self.new(), thinking=self.thinking)
        else:
            prompt_T = self.renderer.open(self.new(), thinking=self.thinking)
        words = a_turn(self.rng)
        ids = [self.byte_id(b) for b in words.encode()]
        is_cut = bool(self.rng.random() < 0.3)
        ids_T = np.array(ids if is_cut else [*ids, self.renderer.end_of_turn], np.int32)
        turn = FinishedTurn(
            id=0,
            prompt_ids_T=prompt_T,
            ids_T=ids_T,
            logprobs_T=np.full(ids_T.size, -0.5, np.float32),
            versions_T=np.zeros(ids_T.size, np.int32),
            text=words,
            finish=FinishReason.LENGTH if is_cut else FinishReason.STOP,
        )
        self.transcript = extended(self.transcript, turn)
        after = self.transcript.tokens
        start = before.size + prompt_T.size
        assert after.ids_T[: before.size].tolist() == before.tolist()
        assert after.ids_T[start:].tolist() == ids_T.tolist()
        assert after.mask_T[before.size : start].sum() == 0
        assert after.mask_T[start:].all()

    def byte_id(self, byte: int) -> int:
        character = {10: "Ċ", 32: "Ġ"}.get(byte, chr(byte))
        return cast(int, self.tokenizer.convert_tokens_to_ids(character))

    def answer(self) -> None:
        """The environment speaks: a question, or results of tools."""
        if self.rng.random() < 0.5:
            said = [ChatMessage(role="user", content=some_words(self.rng))]
        else:
            n_results = int(self.rng.integers(1, 3))
            said = [
                ChatMessage(role="tool", content=some_words(self.rng)) for _ in range(n_results)
            ]
        messages = (*self.transcript.messages, *said)
        self.transcript = self.transcript.model_copy(update={"messages": messages})


def some_words(rng: np.random.Generator) -> str:
    """Without spaces at the ends, which some templates trim; `ab` is one token where it is told."""
    return "x" + "".join(rng.choice(list("ab7 >\n"), rng.integers(1, 8))) + "x"


def a_turn(rng: np.random.Generator) -> str:
    words = f"{MARK}{some_words(rng)}{MARK}"
    if rng.random() < 0.5:
        words = f"<think>\n{MARK}{some_words(rng)}\n</think>\n\n{words}"
    if rng.random() < 0.5:
        call = f'{{"name": "{MARK}add", "arguments": {{"a": "{some_words(rng)!r}"}}}}'
        words += f"\n<tool_call>\n{call}\n</tool_call>"
    return words


def opening(rng: np.random.Generator) -> tuple[ChatMessage, ...]:
    system = (ChatMessage(role="system", content=some_words(rng)),) if rng.random() < 0.5 else ()
    return (*system, ChatMessage(role="user", content=some_words(rng)))


def as_the_template_writes_it(chat: Chat) -> str:
    """The template's own rendering; stand-ins keep it from dropping what the policy thought."""
    stand_ins: dict[str, str] = {}
    messages: list[dict[str, str]] = []
    for message in chat.transcript.messages:
        content = message.content
        if message.role == "assistant":
            content = f"STANDIN{len(stand_ins)}END"
            stand_ins[content] = message.content
        messages.append({"role": message.role, "content": content})
    rendered = cast(str, chat.tokenizer.apply_chat_template(messages, tokenize=False))
    for stand_in, words in stand_ins.items():
        rendered = rendered.replace(stand_in, words)
    return rendered


@pytest.mark.parametrize("family", sorted(ENDS))
def test_no_sampled_token_is_tokenized_again(family: str) -> None:
    tokenizer = cast(Overheard, byte_tokenizer(family_template(family), Overheard))
    renderer = Renderer(tokenizer, [])
    assert renderer.text([renderer.end_of_turn]) == ENDS[family]
    tokenizer.heard.clear()
    n_retold = 0
    for seed in range(N_TRANSCRIPTS):
        rng = np.random.default_rng(seed)
        thinking = (None, True, False)[seed % 3]
        chat = Chat(rng, renderer, tokenizer, thinking, Transcript(messages=opening(rng)))
        for turn in range(int(rng.integers(1, 5))):
            if turn:
                chat.answer()
            chat.take_turn()
        ids = chat.transcript.tokens.ids_T.tolist()
        text = renderer.text(ids).removesuffix(ENDS[family])
        if thinking is not False:  # what says "don't think" stays before each turn
            whole = as_the_template_writes_it(chat).rstrip("\n").removesuffix(ENDS[family])
            assert text == whole, f"seed {seed}"
        n_retold += ids != retold(tokenizer, renderer.text(ids))
        tokenizer.heard = [heard for heard in tokenizer.heard if MARK in heard]
        assert tokenizer.heard == [], f"seed {seed}"
    assert n_retold > N_TRANSCRIPTS // 2, "these transcripts would show no difference"


def retold(tokenizer: Overheard, text: str) -> list[int]:
    """What tokenizing the transcript's text again would give."""
    ids = PreTrainedTokenizerFast.__call__(tokenizer, text, add_special_tokens=False)
    return cast("list[int]", ids["input_ids"])
