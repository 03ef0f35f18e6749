# pyright: reportUnknownMemberType=false
"""Engines on tiny models, and what their answers must agree with."""

import copy
import json
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engines.port import PolicyKey, Refusal, Request
from warren_gpu_worker.sampler.engines.transformers.engine import EngineLimits, TransformersEngine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.weights import PolicyFiles, view_policy
from warren_schemas.config import Sampling

EOS = 1
LIVE = PolicyKey("model_a")
OTHER = PolicyKey("model_b")
FREE = Sampling(max_tokens=6)


def tiny_engine(
    base: PreTrainedModel,
    *,
    max_batch: int = 64,
    max_batch_tokens: int = 65_536,
    policy_memory_bytes: int = 1 << 30,
    seed: int = 0,
    end_ids: Sequence[int] = (EOS,),
) -> TransformersEngine:
    """An engine that has the base model loaded as version 0 of `LIVE`."""
    engine = TransformersEngine(
        base,
        endings=Endings(end_ids, lambda ids: "".join(chr(ord("a") + i) for i in ids)),
        limits=EngineLimits(max_batch, max_batch_tokens, policy_memory_bytes),
        seed=seed,
    )
    engine.load(LIVE, 0, None)
    return engine


def prompt(rng: np.random.Generator, n_tokens: int) -> NDArray[np.int32]:
    """Random characters behind `<bos>`."""
    return np.concatenate([[2], rng.integers(3, 56, n_tokens - 1)]).astype(np.int32)


def run(engine: TransformersEngine) -> dict[int, Request | Refusal]:
    """Step until everything is answered."""
    answers: dict[int, Request | Refusal] = {}
    while engine.has_work:
        for answer in engine.step():
            assert answer.id not in answers
            answers[answer.id] = answer
    return answers


def completions(engine: TransformersEngine) -> dict[int, Request]:
    answers = run(engine)
    assert not [a for a in answers.values() if isinstance(a, Refusal)]
    return {i: a for i, a in answers.items() if isinstance(a, Request)}


def reference_logprobs(
    model: PreTrainedModel | PeftModel, request: Request, ids_T: NDArray[np.int32]
) -> torch.Tensor:
    """One plain forward pass without any cache: log-softmax (T, V) before each sampled token."""
    whole = np.concatenate([request.prompt_ids_T, ids_T])
    with torch.inference_mode():
        logits_TV = model(torch.from_numpy(whole.astype(np.int64))[None]).logits[0].float()
    temperature = request.sampling.temperature or 1.0
    return (logits_TV / temperature).log_softmax(-1)[request.prompt_ids_T.size - 1 : -1]


def assert_exact(
    model: PreTrainedModel | PeftModel,
    request: Request,
    done: Request | Refusal,
    atol: float = 1e-4,
) -> None:
    """The completion's logprobs are the model's own (of the policy that sampled all of it)."""
    assert isinstance(done, Request)
    logprobs_TV = reference_logprobs(model, request, done.ids_T)
    chosen = logprobs_TV.gather(1, torch.from_numpy(done.ids_T.astype(np.int64))[:, None])[:, 0]
    np.testing.assert_allclose(done.logprobs_T, chosen.numpy(), atol=atol)


def restricted(logprobs_V: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Probabilities after top-k, then top-p, written for one row by the book."""
    probs = logprobs_V.exp()
    if sampling.temperature == 0:
        return probs
    order = cast("list[int]", probs.argsort(descending=True).tolist())
    kept = order[: sampling.top_k or None]
    total = sum(float(probs[i]) for i in kept)
    nucleus: list[int] = []
    for i in kept:
        if sum(float(probs[j]) for j in nucleus) / total >= sampling.top_p:
            break
        nucleus.append(i)
    out = torch.zeros_like(probs)
    out[nucleus] = probs[nucleus] / probs[nucleus].sum()
    return out


def nudged(base: PreTrainedModel, seed: int, scale: float = 0.05) -> PolicyFiles:
    """Full weights that differ from the base model's."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        name: p.detach() + scale * torch.randn(p.shape, generator=generator)
        for name, p in base.named_parameters()
    }
    return PolicyFiles("full", tensors, None)


def with_weights(base: PreTrainedModel, files: PolicyFiles) -> PreTrainedModel:
    """A copy of the base model that has these full weights, made without the engine."""
    model = copy.deepcopy(base)
    with torch.no_grad():
        for name, tensor in files.tensors.items():
            model.get_parameter(name).copy_(tensor)
    return model


def adapter(base: PreTrainedModel, seed: int, rank: int = 4) -> tuple[PolicyFiles, PeftModel]:
    """A LoRA adapter with weights in both halves, and peft's own model that has it."""
    torch.manual_seed(seed)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    model = cast(PeftModel, get_peft_model(copy.deepcopy(base), config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.2)
    view = view_policy(model)
    tensors = {name: tensor.clone() for name, tensor in view.tensors.items()}
    return PolicyFiles("lora", tensors, json.loads(view.config)), model.eval()
