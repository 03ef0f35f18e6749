# pyright: basic, reportMissingImports=false, reportUnknownMemberType=false
# (trl and datasets live in an environment of their own, so their types are not there to be checked)
"""TRL's side: its GRPOTrainer on the CPU, generating with transformers. See `setup_trl.sh`.

256 completions for each generation, four optimizer steps on them, the recipe's loss (`dapo` is the
token mean; no KL term), and everything off that costs time and that the recipe does not ask for:
gradient checkpointing, saving, progress bars, reports.
"""

import argparse
import random
import tempfile
from collections import deque
from pathlib import Path

from benchmarks.episodes import recipe, task
from benchmarks.episodes.meter import Reading
from benchmarks.episodes.recipe import Figures
from benchmarks.episodes.supervised import load_tokenizer, prompt_text, warmed_up
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Marks(TrainerCallback):
    """Readings after the first round and after the last step."""

    def __init__(self) -> None:
        self.first: Reading | None = None
        self.end: Reading | None = None

    def on_step_end(self, args, state, control, **_kwargs) -> None:
        if state.global_step == recipe.STEPS_PER_ROUND:
            self.first = Reading.now()
        if state.global_step == state.max_steps:
            self.end = Reading.now()


def make_config(folder: str, n_steps: int, seed: int) -> GRPOConfig:
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        seed=seed,
        max_steps=n_steps,
        per_device_train_batch_size=recipe.EPISODES_PER_STEP,
        steps_per_generation=recipe.STEPS_PER_ROUND,
        num_generations=recipe.GROUP_SIZE,
        max_completion_length=task.MAX_TOKENS,
        temperature=1.0,
        loss_type="dapo",
        beta=0.0,
        epsilon=1 - recipe.CLIP_LOW,
        epsilon_high=recipe.CLIP_HIGH - 1,
        learning_rate=recipe.LEARNING_RATE,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=recipe.RISE_STEPS,
        adam_beta1=recipe.BETA1,
        adam_beta2=recipe.BETA2,
        adam_epsilon=recipe.EPS,
        weight_decay=0.0,
        max_grad_norm=recipe.CLIP_NORM,
        gradient_checkpointing=False,
        logging_steps=10,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )


def questions(n: int, seed: int) -> list[str]:
    rng = random.Random(f"questions/{seed}")
    return [task.question(rng) for _ in range(n)]


def measure(folder: Path, n_samples: int, seed: int) -> Figures:
    tokenizer = load_tokenizer(folder)
    asked = questions(n_samples // recipe.GROUP_SIZE, seed)
    prompts = [prompt_text(tokenizer, question) for question in asked]
    window: deque[tuple[float, bool]] = deque(maxlen=recipe.REWARD_WINDOW)

    def reward(completions: list[str], asked: list[str], **_columns: object) -> list[float]:
        rewards = [task.reward(q, said) for q, said in zip(asked, completions, strict=True)]
        exact = [task.answer(q) == said for q, said in zip(asked, completions, strict=True)]
        window.extend(zip(rewards, exact, strict=True))
        return rewards

    marks = Marks()
    with tempfile.TemporaryDirectory() as output:
        GRPOTrainer(
            model=warmed_up(folder, tokenizer, seed),
            processing_class=tokenizer,
            reward_funcs=reward,
            train_dataset=Dataset.from_dict({"prompt": prompts, "asked": asked}),
            args=make_config(output, n_samples // recipe.EPISODES_PER_STEP, seed),
            callbacks=[marks],
        ).train()
    assert marks.first and marks.end
    return Figures(
        n_samples=n_samples - recipe.EPISODES_PER_ROUND,
        cpu_s=marks.end.cpu_s - marks.first.cpu_s,
        wall_s=marks.end.wall_s - marks.first.wall_s,
        reward=sum(reward for reward, _ in window) / len(window),
        exact=sum(exact for _, exact in window) / len(window),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.episodes.trl_side", description=__doc__)
    parser.add_argument("base_model", type=Path, help="folder of warren/tiny")
    parser.add_argument("--samples", type=int, default=51_200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(measure(options.base_model, options.samples, options.seed).to_line(), flush=True)


if __name__ == "__main__":
    main()
