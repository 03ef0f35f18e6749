"""Tokenizers with the chat templates of well-known families, made locally and byte by byte."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Qwen2.5: a newline follows each end of turn, and tool results are turns of their own."""

QWEN3 = (
    "{%- set ns = namespace(last=-1) -%}"
    "{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}"
    "{%- endif -%}{%- endfor -%}"
    "{%- for m in messages -%}"
    "{{- '<|im_start|>' + ('user' if m.role == 'tool' else m.role) + '\\n' -}}"
    "{%- if m.role == 'assistant' and loop.index0 > ns.last -%}"
    "{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}"
    "{{- m.content.split('</think>')[-1].lstrip('\\n') if m.role == 'assistant' else m.content -}}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}"
    "{%- if enable_thinking is defined and enable_thinking is false -%}"
    "{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}{%- endif -%}"
)
"""Qwen3: reasoning is dropped from turns that a user message follows, and can be switched off."""

LLAMA3 = (
    "{{ bos_token }}"
    "{% for m in messages %}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim }}"
    "{{ '<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
"""Llama 3: nothing between an end of turn and the next header; contents are trimmed."""

NO_END = "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}assistant: "
"""Turns end with a plain newline, which no policy is trained to stop at."""

SYSTEM_LAST = (
    "{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% for m in messages %}{% if m.role == 'user' %}"
    "{{ '[INST]' + (system + '\\n' if loop.last else '') + m.content + '[/INST]' }}"
    "{% elif m.role == 'assistant' %}{{ m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
)
"""Mistral 0.3: the system message moves along to the last user message."""

_SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>",
    "<|start_header_id|>", "<|end_header_id|>", "<s>", "</s>",
    "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
)  # fmt: skip


def family_template(name: str) -> str:
    """The chat template of a family, from its file."""
    return (Path(__file__).parent / "templates" / f"{name}.jinja").read_text()


def byte_tokenizer(
    template: str | None, kind: type[PreTrainedTokenizerFast] = PreTrainedTokenizerFast
) -> PreTrainedTokenizerFast:
    """One token for each byte, and the special tokens of all families."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("a", "b"), ("Ċ", "Ċ"), ("Ġ", "a")]
    entries = [*alphabet, *("".join(pair) for pair in merges)]
    inner = Tokenizer(models.BPE({entry: i for i, entry in enumerate(entries)}, merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = kind(
        tokenizer_object=inner,
        bos_token="<s>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(_SPECIAL),
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = template
    return tokenizer
