# pyright: reportUnknownMemberType=false
"""What an optimizer step costs: tokens/s, share of the GPU's rate, peak memory; a checkpoint and a policy."""

import os
import shutil
import time

import torch
from benchmarks.gpu.sampler import scratch_of
from benchmarks.gpu.shapes import SHAPES, built
from benchmarks.gpu.step import Setting
from benchmarks.gpu.training import Model, random_batch

from warren_schemas.training import SaveState

FOR_S = 6.0
"""Steps are counted for so long, and one at least."""
_CHECKPOINTED = ("qwen3-1.7b", "qwen3-4b", "qwen3-8b")
"""Their activations are computed again in the backward pass."""
_STATE_BYTES = {"full": 12, "lora": 0}
"""Of a checkpoint, for each parameter of the base model."""


def run(setting: Setting, shape: str, update: str) -> None:
    of = SHAPES[shape]
    folder = built(shape, setting.scratch, setting.device)
    rows = (16, 512, 1536) if setting.on_gpu else (16, 24, 24)
    batch = random_batch(of.vocabulary, *rows)
    work = scratch_of(setting, "update", shape, update)
    began_s = time.perf_counter()
    model = Model(
        folder,
        work,
        update,
        device=setting.device,
        dtype="bfloat16" if setting.on_gpu else "float32",
        checkpoint_activations=shape in _CHECKPOINTED,
    )
    loaded_s = time.perf_counter() - began_s
    model.update(batch)
    n_steps, took_s = _timed(model, batch, setting)
    n_tokens = n_steps * int(batch.ids_N.size)
    lengths = batch.lengths_B.tolist()
    flops = of.training_flops(lengths, int(batch.mask_N.sum()), full=update == "full")
    peak = float(os.environ.get("WARREN_GPU_TFLOPS") or 0) * 1e12
    setting.report(
        **{
            "tokens/s": n_tokens / took_s,
            "s for a step": took_s / n_steps,
            "MFU": n_steps * flops / took_s / peak if peak else None,
            "peak GiB": torch.cuda.max_memory_allocated() / 1024**3 if setting.on_gpu else None,
            "s to load": loaded_s,
        }
    )
    began_s = time.perf_counter()
    policy = model.publish()
    published_s = time.perf_counter() - began_s
    setting.report(**{"policy MiB": policy.size_bytes / 1024**2, "s to publish": published_s})
    needed = _STATE_BYTES[update] * of.n_parameters
    if shutil.disk_usage(work).free > 1.2 * needed:
        began_s = time.perf_counter()
        done = model.apply(SaveState(name="measured"))
        saved_s = time.perf_counter() - began_s
        setting.report(**{"checkpoint MiB": done.checkpoint_bytes / 1024**2, "s to save": saved_s})
    else:
        setting.report(**{"no checkpoint: it needs GiB on the disk": needed / 1024**3})
    shutil.rmtree(work, ignore_errors=True)


def _timed(model: Model, batch: "object", setting: Setting) -> tuple[int, float]:
    from warren_schemas.token_batch import TokenBatch

    assert isinstance(batch, TokenBatch)
    _wait(setting)
    began_s, n_steps = time.perf_counter(), 0
    while n_steps == 0 or time.perf_counter() - began_s < (FOR_S if setting.on_gpu else 1.0):
        model.update(batch)
        n_steps += 1
    _wait(setting)
    return n_steps, time.perf_counter() - began_s


def _wait(setting: Setting) -> None:
    if setting.on_gpu:
        torch.cuda.synchronize()
