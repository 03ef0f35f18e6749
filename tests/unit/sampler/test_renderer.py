# pyright: reportUnknownMemberType=false
"""Rendering appends: what was sampled is never tokenized again, what is new is tokenized once."""

from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tokenizers import (
    CHATML,
    LLAMA3,
    NO_END,
    QWEN3,
    SYSTEM_LAST,
    byte_tokenizer,
)
from transformers import PreTrainedTokenizerBase

from warren_gpu_worker.base_models import load_tokenizer
from warren_gpu_worker.sampler.child.renderer import Renderer, TemplateNotExtendable
from warren_gpu_worker.sampler.messages import FinishedTurn, Message
from warren_gpu_worker.sampler.supervisor.transcripts import extended
from warren_schemas.episode import FinishReason
from warren_schemas.transcript import ChatMessage, Transcript

TEMPLATES = {"chatml": CHATML, "qwen3": QWEN3, "llama3": LLAMA3}


@pytest.fixture(scope="session")
def tokenizers(tiny_models: dict[str, str]) -> dict[str, PreTrainedTokenizerBase]:
    made: dict[str, PreTrainedTokenizerBase] = {
        name: byte_tokenizer(template) for name, template in TEMPLATES.items()
    }
    return {**made, "tiny": load_tokenizer(tiny_models["warren/tiny"])}


def whole(tokenizer: PreTrainedTokenizerBase, chat: list[Message]) -> list[int]:
    """The template's own rendering of everything, tokenized at once."""
    rendered = tokenizer.apply_chat_template(
        [{"role": message[0], "content": message[1]} for message in chat],
        tokenize=False,
        add_generation_prompt=True,
    )
    return cast("list[int]", tokenizer(cast(str, rendered), add_special_tokens=False)["input_ids"])


WORDS = st.text(st.sampled_from("ab7 >\n"), min_size=1, max_size=6).map(lambda s: f"x{s}x")
"""Without spaces at the ends, which some templates trim."""


@pytest.mark.parametrize("name", ["tiny", "chatml", "qwen3", "llama3"])
@settings(max_examples=60, deadline=None)
@given(system=st.booleans(), observations=st.lists(WORDS, min_size=1, max_size=5), data=st.data())
def test_increments_add_up_to_the_full_render(
    tokenizers: dict[str, PreTrainedTokenizerBase],
    name: str,
    system: bool,
    observations: list[str],
    data: st.DataObject,
) -> None:
    tokenizer = tokenizers[name]
    renderer = Renderer(tokenizer, [])
    chat: list[Message] = [("system", "play")] if system else []
    chat.append(("user", observations[0]))
    ids = renderer.open(chat).tolist()
    assert ids == whole(tokenizer, chat)
    for observation in observations[1:]:
        said = data.draw(WORDS)
        ids += renderer.encode(said).tolist()
        ids += renderer.extend(renderer.end_of_turn, [("user", observation)]).tolist()
        chat += [("assistant", said), ("user", observation)]
        assert ids == whole(tokenizer, chat)


@pytest.mark.parametrize("name", ["tiny", "chatml", "qwen3", "llama3"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_mask_covers_exactly_the_sampled_tokens(
    tokenizers: dict[str, PreTrainedTokenizerBase], name: str, data: st.DataObject
) -> None:
    tokenizer = tokenizers[name]
    renderer = Renderer(tokenizer, [])
    transcript = Transcript(messages=(ChatMessage(role="user", content=data.draw(WORDS)),))
    sampled: list[list[int]] = []
    any_id = st.integers(0, len(tokenizer) - 1)
    for version in range(data.draw(st.integers(1, 4))):
        before = transcript.tokens.ids_T
        turn = random_turn(renderer, transcript, data.draw(st.lists(any_id, min_size=1)), version)
        transcript = extended(transcript, turn)
        sampled.append(turn.ids_T.tolist())
        tokens = transcript.tokens
        assert tokens.ids_T[: before.size].tolist() == before.tolist()
        assert tokens.ids_T[tokens.mask_T == 1].tolist() == [i for ids in sampled for i in ids]
        assert (tokens.logprobs_T[tokens.mask_T == 0] == 0).all()
        assert (tokens.logprobs_T[tokens.mask_T == 1] < 0).all()
        assert ((tokens.versions_T == -1) == (tokens.mask_T == 0)).all()
        assert transcript.n_rendered == len(transcript.messages)
        new = ChatMessage(role="user", content=data.draw(WORDS))
        transcript = transcript.model_copy(update={"messages": (*transcript.messages, new)})


def random_turn(
    renderer: Renderer, transcript: Transcript, ids: list[int], version: int
) -> FinishedTurn:
    """Any tokens at all, as an untrained policy makes them; the last may end the turn or not."""
    new = [(m.role, m.content) for m in transcript.messages[transcript.n_rendered :]]
    tokens_T = transcript.tokens.ids_T
    prompt_ids_T = renderer.extend(int(tokens_T[-1]), new) if tokens_T.size else renderer.open(new)
    return FinishedTurn(
        id=0,
        prompt_ids_T=prompt_ids_T,
        ids_T=np.array(ids, np.int32),
        logprobs_T=np.full(len(ids), -0.5, np.float32),
        versions_T=np.full(len(ids), version, np.int32),
        text=renderer.text(ids),
        finish=FinishReason.LENGTH,
    )


@pytest.mark.parametrize("name", ["tiny", "chatml", "qwen3", "llama3"])
def test_a_turn_that_was_cut_gets_its_end(
    tokenizers: dict[str, PreTrainedTokenizerBase], name: str
) -> None:
    renderer = Renderer(tokenizers[name], [])
    after_end = renderer.extend(renderer.end_of_turn, [("user", ">")]).tolist()
    after_cut = renderer.extend(renderer.encode("7")[0], [("user", ">")]).tolist()
    assert after_cut == [renderer.end_of_turn, *after_end]


def test_what_the_template_puts_behind_the_end_of_a_turn_is_not_lost() -> None:
    renderer = Renderer(byte_tokenizer(CHATML), [])
    added = renderer.text(renderer.extend(renderer.end_of_turn, [("user", "y")]).tolist())
    assert added == "\n<|im_start|>user\ny<|im_end|>\n<|im_start|>assistant\n"


def test_several_new_messages_and_tool_results_are_rendered_together() -> None:
    renderer = Renderer(byte_tokenizer(QWEN3), [])
    ids_T = renderer.extend(renderer.end_of_turn, [("tool", "42"), ("user", "go on")])
    turns = "<|im_start|>user\n42<|im_end|>\n<|im_start|>user\ngo on<|im_end|>\n"
    assert renderer.text(ids_T.tolist()) == f"\n{turns}<|im_start|>assistant\n"


def test_the_tiny_template_reads_as_promised(
    tokenizers: dict[str, PreTrainedTokenizerBase],
) -> None:
    renderer = Renderer(tokenizers["tiny"], [1])
    ids = renderer.open([("user", "?")]).tolist()
    ids += renderer.encode("5").tolist()
    ids += renderer.extend(renderer.end_of_turn, [("user", ">")]).tolist()
    ids += renderer.encode("7").tolist()
    assert renderer.text(ids) == "<bos>?5<eos>>7<eos>"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (None, "no chat template"),
        (NO_END, "does not end the assistant's turn"),
        (SYSTEM_LAST, "writes earlier turns anew"),
        ("{{ 'hidden<|im_end|>' }}", "hides what the assistant said"),
    ],
)
def test_templates_that_cannot_be_extended_are_refused(template: str | None, reason: str) -> None:
    with pytest.raises(TemplateNotExtendable, match=reason):
        Renderer(byte_tokenizer(template), [])


def test_row_57_thinking_is_on_or_off_as_the_run_says(
    tokenizers: dict[str, PreTrainedTokenizerBase],
) -> None:
    tokenizer = tokenizers["qwen3"]
    renderer = Renderer(tokenizer, [])
    asked: list[Message] = [("user", "why?")]

    def prompts(thinking: bool | None) -> list[str]:
        opened = renderer.open(asked, thinking=thinking)
        extended = renderer.extend(renderer.end_of_turn, asked, thinking=thinking)
        return [cast(str, tokenizer.decode(ids.tolist())) for ids in (opened, extended)]

    assert prompts(None) == prompts(True)
    assert prompts(False) == [words + "<think>\n\n</think>\n\n" for words in prompts(True)]
