"""Trainer and sampler agree: on what a version samples, and across an update with turns in flight.

The policy is trained for a step first, so that an adapter is not zero. Then turns begin under version 1,
the trainer goes on to version 2, and they end under it, their cache computed anew. What every token of
either version was sampled with is compared with the trainer's logprobs of that version.
"""

import time

import numpy as np
from benchmarks.gpu.sampler import (
    KEY,
    ask,
    finish,
    opened,
    prompts_of,
    requests,
    scratch_of,
    settings,
)
from benchmarks.gpu.shapes import SHAPES, built
from benchmarks.gpu.step import Setting
from benchmarks.gpu.training import Model, batch_of, random_batch
from numpy.typing import NDArray

from warren_gpu_worker.sampler.engines.port import Engine, Request
from warren_gpu_worker.weights import fetch_policy

N_TURNS, N_PROMPT, N_TOKENS, N_BEFORE = 16, 32, 48, 20
_SHARE = 0.35

Floats = NDArray[np.float32]


def run(setting: Setting, shape: str, update: str, dtype: str) -> None:
    folder = built(shape, setting.scratch, setting.device)
    own = settings(folder, setting.device, update, dtype, share=_SHARE)
    engine = opened(folder, own)
    work = scratch_of(setting, "exactness", shape, update, dtype)
    model = Model(folder, work, update, device=setting.device, dtype=dtype)
    first = random_batch(SHAPES[shape].vocabulary, N_TURNS, N_PROMPT, N_TOKENS)
    model.update(first)
    _load(engine, model)
    at_rest = requests(shape, N_TURNS, N_PROMPT, N_TOKENS)
    ask(engine, at_rest)
    finish(engine)
    setting.report(what="one version", **_gaps(model, at_rest, 1), **_NONE)
    _in_flight(setting, engine, model, shape)


_NONE: dict[str, float | None] = {
    "s from optimizer step to first token": None,
    "of them loading": None,
}


def _in_flight(setting: Setting, engine: Engine, model: Model, shape: str) -> None:
    asked = requests(shape, N_TURNS, N_PROMPT, N_TOKENS, first_id=1000)
    ask(engine, asked)
    for _ in range(N_BEFORE):
        engine.step()
    before = _gaps(model, asked, 1)
    model.update(random_batch(SHAPES[shape].vocabulary, N_TURNS, N_PROMPT, N_TOKENS))
    began_s = time.perf_counter()
    loading_s = _load(engine, model, recompute=True)
    while engine.has_work and not any(2 in request.versions for request in asked):
        engine.step()
    took_s = time.perf_counter() - began_s
    finish(engine)
    times = {"s from optimizer step to first token": took_s, "of them loading": loading_s}
    setting.report(what="in flight, before", **before, **_NONE)
    setting.report(what="in flight, after", **_gaps(model, asked, 2), **times)


def _load(engine: Engine, model: Model, *, recompute: bool = False) -> float:
    """The newest version; seconds in the sampler's engine."""
    policy = model.publish()
    files = fetch_policy(policy.url)
    began_s = time.perf_counter()
    engine.load(KEY, policy.version, files, recompute=recompute)
    return time.perf_counter() - began_s


def _gaps(model: Model, asked: list[Request], version: int) -> dict[str, float | int]:
    """Of the tokens of this version, which must be the model's own."""
    sampled = [request.ids_T for request in asked]
    batch = batch_of(prompts_of(asked), sampled, [request.logprobs_T for request in asked])
    trained_N = np.flatnonzero(batch.mask_N)
    is_of_version_N = np.concatenate([request.versions_T for request in asked]) == version
    if not is_of_version_N.any():
        raise SystemExit(f"no token is of version {version}")
    theirs_N = batch.logprobs_N[trained_N][is_of_version_N].astype(np.float64)
    ours_N = model.logprobs_N(batch)[trained_N][is_of_version_N].astype(np.float64)
    gaps_N = np.abs(ours_N - theirs_N)
    log_ratios_N = ours_N - theirs_N
    return {
        "tokens": int(gaps_N.size),
        "mean logprob": float(theirs_N.mean()),
        "largest gap": float(gaps_N.max()),
        "mean gap": float(gaps_N.mean()),
        "KL (k3)": float((np.exp(log_ratios_N) - 1 - log_ratios_N).mean()),
    }
