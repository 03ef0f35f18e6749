# pyright: basic, reportMissingImports=false, reportUnknownMemberType=false
# (trl and datasets live in an environment of their own, so their types are not there to be checked)
"""TRL's update: `python -m benchmarks.trainer.trl_side FOLDER` in `.venv-trl`; see `setup_trl.sh`.

Its GRPOTrainer with its own training loop; what it would have generated is given to it, so nothing
but forward, backward and optimizer step is left, and what its loop does around them.
"""

import sys
import tempfile
import time

import torch
from benchmarks.trainer import batch
from datasets import Dataset
from transformers import AutoTokenizer, Qwen3ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Given(GRPOTrainer):
    """Takes its samples from `batch` instead of generating and scoring."""

    def _generate_and_score_completions(self, inputs):
        prompts, completions = (torch.from_numpy(ids).long() for ids in batch.tokens())
        return {
            "prompt_ids": prompts,
            "prompt_mask": torch.ones_like(prompts),
            "completion_ids": completions,
            "completion_mask": torch.ones_like(completions),
            "advantages": torch.from_numpy(batch.advantages()),
            "old_per_token_logps": torch.from_numpy(batch.sampler_logprobs()),
            "num_items_in_batch": torch.tensor(completions.numel()),
        }


class Clock(TrainerCallback):
    def __init__(self) -> None:
        self.marks: dict[int, float] = {}

    def on_step_end(self, args, state, control, **_kwargs) -> None:
        self.marks[state.global_step] = time.process_time()


def config(folder: str) -> GRPOConfig:
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        max_steps=batch.STEPS + batch.WARM_STEPS,
        per_device_train_batch_size=batch.N_ROWS,
        steps_per_generation=1,
        num_generations=16,
        max_completion_length=batch.N_COMPLETION,
        loss_type="dapo",
        beta=0.0,
        epsilon=1 - batch.CLIP_LOW,
        epsilon_high=batch.CLIP_HIGH - 1,
        learning_rate=batch.LEARNING_RATE,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=batch.CLIP_NORM,
        gradient_checkpointing=False,
        logging_strategy="no",
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )


def main() -> None:
    torch.set_num_threads(1)
    folder, clock = sys.argv[1], Clock()
    with tempfile.TemporaryDirectory() as output:
        Given(
            model=Qwen3ForCausalLM.from_pretrained(folder),
            processing_class=AutoTokenizer.from_pretrained(folder),
            reward_funcs=lambda completions, **_columns: [0.0] * len(completions),
            train_dataset=Dataset.from_dict({"prompt": ["?"] * 16 * batch.N_ROWS}),
            args=config(output),
            callbacks=[clock],
        ).train()
    cpu_s = clock.marks[batch.STEPS + batch.WARM_STEPS] - clock.marks[batch.WARM_STEPS]
    print(batch.STEPS * batch.N_TOKENS / cpu_s, flush=True)


if __name__ == "__main__":
    main()
