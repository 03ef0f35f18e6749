# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (transformers leaves parts of its interface untyped)
"""A tiny vision-language model, made from nothing, and images to show it."""

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image as Pillow
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from warren_gpu_worker.base_models.vision_inputs import Placed
from warren_gpu_worker.sampler.engines.port import Request

SPECIAL = ("<pad>", "<eos>", "<bos>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<v>")
PAD, EOS, BOS, BEGIN, END, IMAGE, _VIDEO = range(len(SPECIAL))
_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz+-*=<>?.,:|#_XO \n"
_N_VOCABULARY = len(SPECIAL) + len(_CHARACTERS)
_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
)
_SIDE = 28
"""Pixels of a token's side."""


@pytest.fixture(scope="session")
def seeing_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a Qwen2.5-VL with random weights that looks at what it is shown."""
    folder = tmp_path_factory.mktemp("seeing")
    _make_model().save_pretrained(folder)
    _make_tokenizer().save_pretrained(folder)
    processor = Qwen2VLImageProcessorPil(min_pixels=4 * _SIDE**2, max_pixels=16 * _SIDE**2)
    processor.save_pretrained(folder)
    return str(folder)


def _make_model() -> Qwen2_5_VLForConditionalGeneration:
    text = {
        "vocab_size": _N_VOCABULARY,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "max_position_embeddings": 512,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [4, 6, 6],
        },
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "bos_token_id": BOS,
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "num_heads": 2,
        "intermediate_size": 64,
        "out_hidden_size": 64,
        "window_size": 4 * 14,
        "fullatt_block_indexes": [1],
    }
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=IMAGE,
        video_token_id=_VIDEO,
        vision_start_token_id=BEGIN,
        vision_end_token_id=END,
        tie_word_embeddings=False,
        dtype="float32",
    )
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.15)
    return model


def _make_tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *_CHARACTERS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        unk_token="<pad>",
        additional_special_tokens=list(SPECIAL[3:]),
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


def noise(seed: int, width: int = 84, height: int = 56, kind: str = "PNG") -> bytes:
    """The file of a picture of random pixels; 84 x 56 of them are 3 x 2 tokens."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    file = BytesIO()
    Pillow.fromarray(pixels).save(file, kind)
    return file.getvalue()


def blank(width: int, height: int) -> bytes:
    """The file of a white picture, which is small however large the picture is."""
    file = BytesIO()
    Pillow.new("1", (width, height), 1).save(file, "PNG")
    return file.getvalue()


def in_base64(file: bytes) -> str:
    return base64.b64encode(file).decode()


def seeing_logprobs(
    model: PreTrainedModel, request: Request, ids_T: NDArray[np.int32]
) -> NDArray[np.float32]:
    """The model's own logprobs of tokens behind a prompt, with transformers' own positions."""
    whole = np.concatenate([request.prompt_ids_T, ids_T]).astype(np.int64)
    kinds_T = np.zeros(whole.size, np.int64)
    for each in request.pictures:
        kinds_T[each.start : each.start + each.picture.n_tokens] = 1
    with torch.inference_mode():
        logits_TV = _logits(
            model, torch.from_numpy(whole), torch.from_numpy(kinds_T), request.pictures
        )
        logprobs_TV = (logits_TV / (request.sampling.temperature or 1.0)).log_softmax(-1)
    before = logprobs_TV[request.prompt_ids_T.size - 1 : -1]
    chosen = before.gather(1, torch.from_numpy(ids_T.astype(np.int64))[:, None])[:, 0]
    return chosen.numpy()


def _logits(
    model: PreTrainedModel, ids_T: Tensor, kinds_T: Tensor, placed: Sequence[Placed]
) -> Tensor:
    """With images where `kinds_T` is 1, whatever the token is elsewhere."""
    embeds_TH = cast(nn.Embedding, model.get_input_embeddings())(ids_T)
    if not placed:
        where = torch.arange(ids_T.numel())[None]
        return model(inputs_embeds=embeds_TH[None], position_ids=where).logits[0]
    grids = torch.tensor([each.picture.grid for each in placed])
    pixels = torch.cat([torch.from_numpy(each.picture.pixels_PD) for each in placed])
    features = cast(Any, model).get_image_features(pixels, grids).pooler_output
    embeds_TH[kinds_T == 1] = torch.cat(list(features))
    where = rope_index(model, kinds_T, grids)[:, None]
    return model(inputs_embeds=embeds_TH[None], position_ids=where).logits[0]


def rope_index(model: PreTrainedModel, kinds_T: Tensor, grids: Tensor) -> Tensor:
    """The positions (3, T) that transformers gives tokens, of which those of kind 1 are images."""
    kinds = kinds_T[None]
    inner = cast(Any, model).model
    return inner.get_rope_index(kinds, kinds, image_grid_thw=grids)[0][:, 0]
