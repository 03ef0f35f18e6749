# pyright: reportUnknownMemberType=false
"""Every engine on one model that all of them can run, and weights whose versions can be told apart.

In the attention of the model's layers nothing depends on the last layer's feed-forward part. So
weights that differ only there leave the cache alone, and a token's logprob tells exactly which
version made it, also when versions change in the middle of a turn.
"""

import copy
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peft import LoraConfig, PeftModel
from tests.support.patience import several_waits
from tests.support.sampling import prompt, reference_logprobs
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from warren_gpu_worker.base_models import load_base, load_tokenizer
from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.engines.choice import open_engine
from warren_gpu_worker.sampler.engines.port import Engine, PolicyKey, Refusal, Request
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.settings import EngineName, GpuWorkerSettings, VllmSettings
from warren_gpu_worker.weights import PolicyFiles
from warren_schemas.config import Sampling

EOS = 1
EXACT = 1e-3
"""Largest difference of a logprob from the trainer's, in float32."""
LAST_FEED_FORWARD = "model.layers.1.mlp.down_proj"
_ADAPTED = f"base_model.model.{LAST_FEED_FORWARD}"
_RANK, _ALPHA = 4, 8

needs_vllm = pytest.mark.skipif(
    find_spec("vllm") is None, reason="vLLM is not installed: `make install` puts it into .venv"
)
ENGINES = [
    pytest.param("transformers"),
    pytest.param("vllm", marks=[needs_vllm, several_waits]),
]


def build_even_model(
    folder: Path, like: str, *, width: int = 64, n_layers: int = 2, context_length: int = 512
) -> None:
    """A tiny model whose heads are wide enough for vLLM on a CPU, with the tokenizer of another."""
    config = Qwen3Config(
        vocab_size=56,
        hidden_size=width,
        num_hidden_layers=n_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=max(32, width // 4),
        intermediate_size=width * 3 // 2,
        max_position_embeddings=context_length,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=EOS,
        bos_token_id=2,
        dtype="float32",
    )
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config)
    torch.nn.init.normal_(model.model.embed_tokens.weight, std=0.2)
    model.save_pretrained(folder)
    load_tokenizer(like).save_pretrained(folder)


def settings_for(name: EngineName, folder: str, **changes: object) -> GpuWorkerSettings:
    return GpuWorkerSettings(
        base_models={"even": folder},
        engine=name,
        device="cpu",
        seed=0,
        max_batch=16,
        max_batch_tokens=16_384,
        vllm=VllmSettings(max_adapters=8, max_adapters_at_once=2, max_adapter_rank=8),
    ).model_copy(update=changes)


@contextmanager
def opened(
    name: EngineName, folder: str, vision: VisionInputs | None = None, **changes: object
) -> Generator[Engine]:
    """An engine in this process, whose text of a token id is a letter."""
    torch.set_num_threads(1)
    endings = Endings([EOS], lambda ids: "".join(chr(ord("A") + i) for i in ids))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # vLLM's own
        yield open_engine(folder, settings_for(name, folder, **changes), endings, vision)


class Bench:
    """An engine and the base model that it must agree with; every request gets an id of its own."""

    def __init__(self, engine: Engine, folder: str) -> None:
        self.engine = engine
        self.base: PreTrainedModel = load_base(folder)
        self.rng = np.random.default_rng(0)
        self._n_requests = 0
        self._n_models = 0
        self._refused: list[Refusal] = []

    def key(self, pinned: int | None = None) -> PolicyKey:
        """A policy that no other test has used."""
        self._n_models += 1
        return PolicyKey(f"model_{self._n_models}", pinned)

    def new_id(self) -> int:
        """Of a request that no other test has made."""
        self._n_requests += 1
        return self._n_requests

    def submit(
        self, policy: PolicyKey, sampling: Sampling, n_prompt: int = 8, n: int = 1
    ) -> list[Request]:
        requests: list[Request] = []
        for _ in range(n):
            ids_T = prompt(self.rng, n_prompt)
            requests.append(Request(self.new_id(), policy, ids_T, sampling))
        self._refused += self.engine.add_requests(requests)
        return requests

    def finish(self) -> dict[int, Request | Refusal]:
        """Step until everything is answered."""
        answers: dict[int, Request | Refusal] = {r.id: r for r in self._refused}
        self._refused.clear()
        while self.engine.has_work:
            answers |= {answer.id: answer for answer in self.engine.step()}
        return answers


@pytest.fixture(scope="module", params=ENGINES)
def bench(request: pytest.FixtureRequest, even_model: str) -> Iterator[Bench]:
    with opened(cast(EngineName, request.param), even_model) as engine:
        yield Bench(engine, even_model)


def completed(answer: Request | Refusal) -> Request:
    assert isinstance(answer, Request), answer
    return answer


def gaps(
    model: PreTrainedModel | PeftModel, request: Request, done: Request
) -> NDArray[np.float32]:
    """By how much each told logprob differs from the model's own."""
    logprobs_TV = reference_logprobs(model, request, done.ids_T)
    chosen_T = logprobs_TV.gather(1, torch.from_numpy(done.ids_T.astype(np.int64))[:, None])[:, 0]
    return np.abs(done.logprobs_T - chosen_T.numpy())


def gap(
    model: PreTrainedModel | PeftModel,
    request: Request,
    done: Request,
    tokens: slice = slice(None),
) -> float:
    """The largest of these differences over some tokens."""
    return float(gaps(model, request, done)[tokens].max(initial=0.0))


def last_layer_weights(base: PreTrainedModel, seed: int) -> PolicyFiles:
    """Full weights that leave the cache alone."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {name: p.detach().clone() for name, p in base.named_parameters()}
    changed = tensors[f"{LAST_FEED_FORWARD}.weight"]
    changed += 2.0 * torch.randn(changed.shape, generator=generator)
    return PolicyFiles("full", tensors, None)


def last_layer_adapter(base: PreTrainedModel, seed: int) -> PolicyFiles:
    """An adapter that leaves the cache alone."""
    config = LoraConfig(r=_RANK, lora_alpha=_ALPHA)
    generator = torch.Generator().manual_seed(seed)
    n_out, n_in = cast(torch.nn.Linear, base.get_submodule(LAST_FEED_FORWARD)).weight.shape
    plain = cast("dict[str, object]", config.to_dict())
    fields = {**plain, "target_modules": [LAST_FEED_FORWARD], "inference_mode": True}
    tensors = {
        f"{_ADAPTED}.lora_A.weight": torch.randn(_RANK, n_in, generator=generator),
        f"{_ADAPTED}.lora_B.weight": 2.0 * torch.randn(n_out, _RANK, generator=generator),
    }
    return PolicyFiles("lora", tensors, fields)


def merged(base: PreTrainedModel, files: PolicyFiles) -> PreTrainedModel:
    """A copy of the base model that has `last_layer_weights` or a `last_layer_adapter` in it."""
    model = copy.deepcopy(base)
    change_last_layer(model, base, files)
    return model


def change_last_layer(model: PreTrainedModel, base: PreTrainedModel, files: PolicyFiles) -> None:
    """Give a copy of the base model the one matrix that differs."""
    name = f"{LAST_FEED_FORWARD}.weight"
    if files.kind == "full":
        matrix = files.tensors[name]
    else:
        down, up = (files.tensors[f"{_ADAPTED}.lora_{half}.weight"] for half in "AB")
        matrix = base.get_parameter(name) + _ALPHA / _RANK * up @ down
    with torch.no_grad():
        model.get_parameter(name).copy_(matrix)
