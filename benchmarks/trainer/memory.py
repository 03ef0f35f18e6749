# pyright: reportUnknownMemberType=false
"""The most memory that one step has: `python -m benchmarks.trainer.memory warren|naive`.

A random two-layer Qwen3 with a vocabulary of 16,384, and 64 sequences of 512 tokens, 32,768 in all. `naive` is what
a plain loop does: all logits, their log-softmax, the chosen ones.
"""

import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_schemas.config import FullUpdate, ImportanceSamplingLoss
from warren_schemas.ids import ModelId
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import ForwardBackward, ModelSpec, OpDone, OptimStep

VOCABULARY, N_ROWS, LENGTH = 16_384, 64, 512
BASE, MODEL = "large-vocabulary", ModelId("model_benchmark")


def build(folder: Path) -> None:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=384,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=True,
        dtype="float32",
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)


def token_batch() -> TokenBatch:
    rng, n = np.random.default_rng(0), N_ROWS * LENGTH
    return TokenBatch(
        ids_N=rng.integers(0, VOCABULARY, n, dtype=np.int32),
        lengths_B=np.full(N_ROWS, LENGTH, np.int32),
        mask_N=np.ones(n, np.uint8),
        logprobs_N=np.full(n, -10.0, np.float32),
        weights_N=(rng.normal(size=n) / n).astype(np.float32),
    )


def warren(folder: Path) -> None:
    with TemporaryDirectory() as checkpoints:
        engine = Engine(EngineConfig({BASE: str(folder)}, checkpoints))
        spec = ModelSpec(base_model=BASE, update=FullUpdate())
        engine.open(MODEL, spec, checkpoint_url=None, next_op=1)
        op = ForwardBackward(loss=ImportanceSamplingLoss(), batch=token_batch())
        for number, body in enumerate((op, OptimStep(learning_rate=1e-4)), 1):
            assert isinstance(engine.apply(MODEL, number, body), OpDone)


def naive(folder: Path) -> None:
    model = Qwen3ForCausalLM.from_pretrained(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = token_batch()
    ids_BT = torch.from_numpy(batch.ids_N.astype(np.int64)).view(N_ROWS, LENGTH)
    weights_BT = torch.from_numpy(batch.weights_N).view(N_ROWS, LENGTH)
    logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
    logprobs_BTV = logits_BTV[:, :-1].log_softmax(-1)
    logprobs_BT = logprobs_BTV.gather(-1, ids_BT[:, 1:, None])[..., 0]
    loss = -((logprobs_BT + 10.0).exp() * weights_BT[:, 1:]).sum()
    loss.backward()
    optimizer.step()


def main() -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        build(Path(folder))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        {"warren": warren, "naive": naive}[sys.argv[1]](Path(folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(before / 1024, peak / 1024)


if __name__ == "__main__":
    main()
