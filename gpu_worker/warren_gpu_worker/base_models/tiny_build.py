# pyright: reportUnknownMemberType=false
# (transformers leaves parts of its interface untyped)
"""Builds one folder of the tiny family: `python -m …tiny_build FOLDER EMBEDDING_STD CONTEXT_LENGTH`.

Invariant: the folder is complete or absent, also when two processes build it at once or one is
killed while building. The recipe is R1 of Warren's toy experiments.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from warren_gpu_worker.base_models.tiny import Member

CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz+-*=<>?.,:|#_XO \n"
SPECIAL_TOKENS = ("<pad>", "<eos>", "<bos>")
PAD, EOS, BOS = range(3)

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
)
"""Everything raw, `<eos>` after the policy's turns: `<bos>?5<eos>>7<eos>`."""

_SEED = 0


def build(folder: Path, member: Member) -> None:
    """Build next to `folder` and move into place; whoever comes second throws its copy away."""
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _make_model(member).save_pretrained(draft)
        _make_tokenizer(member.context_length).save_pretrained(draft, save_jinja_files=False)
        draft.chmod(0o755)
        os.rename(draft, folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _make_model(member: Member) -> Qwen3ForCausalLM:
    config = Qwen3Config(
        vocab_size=len(SPECIAL_TOKENS) + len(CHARACTERS),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=192,
        max_position_embeddings=member.context_length,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=BOS,
        dtype="float32",
    )
    torch.manual_seed(_SEED)
    model = Qwen3ForCausalLM(config)
    torch.nn.init.normal_(model.model.embed_tokens.weight, std=member.embedding_std)
    return model


def _make_tokenizer(context_length: int) -> PreTrainedTokenizerFast:
    vocabulary = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *CHARACTERS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        unk_token="<pad>",
        clean_up_tokenization_spaces=False,
        model_max_length=context_length,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


if __name__ == "__main__":
    build(Path(sys.argv[1]), Member(float(sys.argv[2]), int(sys.argv[3])))
