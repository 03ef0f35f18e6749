# pyright: reportUnknownMemberType=false
"""Whole conversations: the template's own tokens, and a mask of what is said by the roles that are learned."""

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tokenizers import CHATML, LLAMA3, QWEN3, byte_tokenizer
from transformers import PreTrainedTokenizerBase

from warren_gpu_worker.base_models import load_tokenizer
from warren_gpu_worker.sampler.child.conversations import Conversations
from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.messages import Message

NAMES = ["tiny", "chatml", "qwen3", "llama3"]


@pytest.fixture(scope="session")
def tokenizers(tiny_models: dict[str, str]) -> dict[str, PreTrainedTokenizerBase]:
    made: dict[str, PreTrainedTokenizerBase] = {
        name: byte_tokenizer(template)
        for name, template in {"chatml": CHATML, "qwen3": QWEN3, "llama3": LLAMA3}.items()
    }
    return {**made, "tiny": load_tokenizer(tiny_models["warren/tiny"])}


def _dicts(chat: list[Message]) -> list[dict[str, str]]:
    return [{"role": message[0], "content": message[1]} for message in chat]


def _learned(tokenizer: PreTrainedTokenizerBase, ids: list[int], mask: list[int]) -> list[str]:
    """What stands in each run of learned tokens."""
    runs: list[list[int]] = []
    for i, token in enumerate(ids):
        if mask[i]:
            if i and mask[i - 1]:
                runs[-1].append(token)
            else:
                runs.append([token])
    return [cast(str, tokenizer.decode(run)) for run in runs]


WORDS = st.text(st.sampled_from("ab7 >\n"), min_size=1, max_size=6).map(lambda s: f"x{s}x")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(system=st.booleans(), said=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4))
def test_tokens_are_those_of_the_template_and_what_the_assistant_said_is_learned(
    tokenizers: dict[str, PreTrainedTokenizerBase],
    name: str,
    system: bool,
    said: list[tuple[str, str]],
) -> None:
    tokenizer = tokenizers[name]
    renderer = Renderer(tokenizer, [])
    chat: list[Message] = [("system", "be brief")] if system else []
    for question, answer in said:
        chat += [("user", question), ("assistant", answer)]
    learned = [i for i, message in enumerate(chat) if message[0] == "assistant"]
    ids_T, mask_T = Conversations(renderer).tokens(chat, learned)
    expected = tokenizer.apply_chat_template(_dicts(chat), tokenize=True, return_dict=False)
    assert ids_T.tolist() == expected
    end = renderer.text([renderer.end_of_turn])
    told = _learned(tokenizer, ids_T.tolist(), mask_T.tolist())
    assert told == [answer + end for _, answer in said]


MARKED = {
    "chatml": (
        "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}",
        (
            "{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}"
            "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}"
            "{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}"
        ),
    ),
    "tiny": (
        "{{ message['content'] }}{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}",
        (
            "{% if message['role'] == 'assistant' %}{% generation %}"
            "{{ message['content'] + eos_token }}{% endgeneration %}{% else %}"
            "{{ message['content'] }}{% endif %}"
        ),
    ),
}
"""What these templates write for a message, and the same with what the assistant says marked."""


@pytest.mark.parametrize("name", MARKED)
def test_the_mask_is_that_of_a_template_which_marks_what_the_assistant_says(
    tokenizers: dict[str, PreTrainedTokenizerBase], name: str
) -> None:
    """The one of transformers' own `return_assistant_tokens_mask`."""
    tokenizer = tokenizers[name]
    template = cast(str, tokenizer.chat_template)
    marked = template.replace(*MARKED[name])
    assert marked != template
    chat: list[Message] = [
        ("system", "sums"), ("user", "1 + 1?"), ("assistant", "2"), ("user", "2 + 2?"),
        ("assistant", "4, I think"),
    ]  # fmt: skip
    ids_T, mask_T = Conversations(Renderer(tokenizer, [])).tokens(chat, [2, 4])
    found = tokenizer.apply_chat_template(
        _dicts(chat),
        chat_template=marked,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    assert ids_T.tolist() == found["input_ids"]  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert mask_T.tolist() == found["assistant_masks"]  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.mark.parametrize("name", NAMES)
def test_other_roles_are_learned_if_chosen(
    tokenizers: dict[str, PreTrainedTokenizerBase], name: str
) -> None:
    tokenizer = tokenizers[name]
    renderer = Renderer(tokenizer, [])
    chat: list[Message] = [("user", "hm"), ("assistant", "hm"), ("user", "user")]
    ids_T, mask_T = Conversations(renderer).tokens(chat, [0, 2])
    end = renderer.text([renderer.end_of_turn])
    told = _learned(tokenizer, ids_T.tolist(), mask_T.tolist())
    end = "" if name == "tiny" else end  # whose template ends the turns of the policy alone
    assert told == ["hm" + end, "user" + end]


def test_plain_texts_are_laid_end_to_end(tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    tokenizer = tokenizers["tiny"]
    renderer = Renderer(tokenizer, [])
    pair: list[Message] = [("user", "1 + 1 ="), ("assistant", " 2")]
    ids_T, mask_T = Conversations(renderer).tokens(pair, [1], is_plain=True)
    assert ids_T[:-1].tolist() == tokenizer("1 + 1 = 2")["input_ids"]
    assert ids_T[-1] == renderer.end_of_turn
    told = _learned(tokenizer, ids_T.tolist(), mask_T.tolist())
    assert told == [" 2" + renderer.text([renderer.end_of_turn])]


def test_what_a_template_drops_is_not_guessed_at(
    tokenizers: dict[str, PreTrainedTokenizerBase],
) -> None:
    chat: list[Message] = [
        ("user", "?"),
        ("assistant", "<think>hm</think>5"),
        ("user", "!"),
        ("assistant", "6"),
    ]
    with pytest.raises(ValueError, match="writes what is said otherwise"):
        Conversations(Renderer(tokenizers["qwen3"], [])).tokens(chat, [1, 3])
