"""Warren's update: `python -m benchmarks.trainer.warren_side FOLDER`; the child's engine, op by op."""

import sys
import time
from tempfile import TemporaryDirectory

import numpy as np
import torch
from benchmarks.trainer import batch

from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_schemas.config import FullUpdate, PpoLoss
from warren_schemas.ids import ModelId
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import ForwardBackward, ModelSpec, OpDone, OptimStep

BASE, MODEL = "warren/tiny", ModelId("model_benchmark")


def token_batch() -> TokenBatch:
    prompts, completions = batch.tokens()
    nothing = np.zeros(prompts.shape, np.float32)
    weights = np.repeat(batch.advantages()[:, None], batch.N_COMPLETION, 1) / completions.size

    def joined(prompt: np.ndarray, completion: np.ndarray) -> np.ndarray:
        return np.concatenate([prompt, completion], axis=1).ravel()

    return TokenBatch(
        ids_N=joined(prompts, completions).astype(np.int32),
        lengths_B=np.full(batch.N_ROWS, batch.N_PROMPT + batch.N_COMPLETION, np.int32),
        mask_N=joined(nothing, np.ones_like(weights)).astype(np.uint8),
        logprobs_N=joined(nothing, batch.sampler_logprobs()).astype(np.float32),
        weights_N=joined(nothing, weights).astype(np.float32),
    )


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)  # as the trainer's child has it
    setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)  # noqa: B010
    loss = PpoLoss(clip_low=batch.CLIP_LOW, clip_high=batch.CLIP_HIGH)
    update = ForwardBackward(loss=loss, batch=token_batch())
    step = OptimStep(learning_rate=batch.LEARNING_RATE, clip_norm=batch.CLIP_NORM)
    began_cpu_s = 0.0
    with TemporaryDirectory() as checkpoints:
        engine = Engine(EngineConfig({BASE: sys.argv[1]}, checkpoints))
        spec = ModelSpec(base_model=BASE, update=FullUpdate())
        engine.open(MODEL, spec, checkpoint_url=None, next_op=1)
        for n in range(batch.STEPS + batch.WARM_STEPS):
            if n == batch.WARM_STEPS:
                began_cpu_s = time.process_time()
            for number, op in ((2 * n + 1, update), (2 * n + 2, step)):
                outcome = engine.apply(MODEL, number, op)
                assert isinstance(outcome, OpDone), outcome
    print(batch.STEPS * batch.N_TOKENS / (time.process_time() - began_cpu_s), flush=True)


if __name__ == "__main__":
    main()
