"""Names of algorithms and settings in the literature, and what to write for them in a config.

A paper's name often stands for a loss, an advantage and more at once; here each is a key of its own.
"""

import re
from collections.abc import Sequence

_MEANT = {
    "grpo": "GRPO here is `advantage: group_std` with `loss: ppo`: the defaults",
    "drgrpo": "Dr. GRPO here is `advantage: group_mean` with `loss: ppo`",
    "dapo": "DAPO here is `advantage: group_std` with `loss: ppo` and `normalize: tokens`: the defaults",
    "rloo": "RLOO here is `advantage: leave_one_out` with `loss: importance_sampling`",
    "reinforce": "REINFORCE here is `advantage: direct` with `loss: importance_sampling`",
    "reinforce++": "REINFORCE++ here is `advantage: batch_std` with `loss: ppo`",
    "a2c": "an actor with a critic is `critic: {}` with `loss: ppo`",
    "actorcritic": "an actor with a critic is `critic: {}` with `loss: ppo`",
    "gae": "GAE comes with a critic: `critic: {gae_lambda: 0.95}`",
    "pg": "the plain policy gradient is `loss: importance_sampling`",
    "policygradient": "the plain policy gradient is `loss: importance_sampling`",
    "vanilla": "the plain policy gradient is `loss: importance_sampling`",
    "tis": "truncated importance sampling is `tis_cap: 2.0`, with any loss",
    "sft": "supervised steps come before reinforcement learning: `sft: {steps: 100}`",
}
KEYS = {
    "warmup": "sft",
    "optimizer.warmup": "optimizer.warmup_steps",
    "lr": "optimizer.learning_rate",
    "lr_warmup_steps": "optimizer.warmup_steps",
    "lr_scheduler_type": "optimizer.schedule",
    "adam_beta1": "optimizer.beta1",
    "adam_beta2": "optimizer.beta2",
    "adam_epsilon": "optimizer.eps",
    "max_grad_norm": "optimizer.clip_norm",
    "grad_clip": "optimizer.clip_norm",
    "epochs": "limits.steps",
    "num_epochs": "limits.steps",
    "num_train_epochs": "limits.steps",
    "max_steps": "limits.steps",
    "total_steps": "limits.steps",
    "num_generations": "algorithm.group_size",
    "n_samples_per_prompt": "algorithm.group_size",
    "num_samples_per_prompt": "algorithm.group_size",
    "rollout_n": "algorithm.group_size",
    "sampling.n": "algorithm.group_size",
    "batch_size": "algorithm.groups_per_step",
    "train_batch_size": "algorithm.groups_per_step",
    "rollout_batch_size": "algorithm.groups_per_step",
    "kl_coef": "algorithm.kl.coefficient",
    "kl_coeff": "algorithm.kl.coefficient",
    "init_kl_coef": "algorithm.kl.coefficient",
    "entropy_coef": "algorithm.entropy_coefficient",
    "entropy_coeff": "algorithm.entropy_coefficient",
    "ent_coef": "algorithm.entropy_coefficient",
    "vf_coef": "algorithm.critic.value_coefficient",
    "gamma": "algorithm.critic.gamma",
    "lam": "algorithm.critic.gae_lambda",
    "lambda": "algorithm.critic.gae_lambda",
    "epsilon_low": "algorithm.loss.clip_low",
    "epsilon_high": "algorithm.loss.clip_high",
    "clip_ratio_low": "algorithm.loss.clip_low",
    "clip_ratio_high": "algorithm.loss.clip_high",
    "max_new_tokens": "sampling.max_tokens",
    "max_completion_length": "sampling.max_tokens",
    "max_response_length": "sampling.max_tokens",
    "model_name": "model.base",
    "model_name_or_path": "model.base",
    "base_model": "model.base",
    "lora_rank": "model.update.rank",
    "lora_r": "model.update.rank",
    "lora_alpha": "model.update.alpha",
    "target_modules": "model.update.targets",
    "env": "environments",
    "eval_steps": "evaluation.every_steps",
    "save_steps": "checkpoint.every_steps",
    "save_total_limit": "checkpoint.keep_last",
}
"""What other trainers call a setting, and our key for it, where spelling does not lead there. With its section where only
that tells what it means."""
EPOCHS = ("epochs", "num_epochs", "num_train_epochs")
OF_A_CLASS = (
    "reset_s", "step_s", "score_s", "load_s", "memory_mb", "episodes_per_process", "max_episodes", "observation_chars",
)  # fmt: skip
"""What an environment's class limits (`warren.environment.Limits`), and no config: a config has `limits` of its own."""
_PLACES = ("algorithm", "loss", "advantage")


def our_key(parents: Sequence[str | int], key: str) -> str | None:
    """Our key for what other trainers call so."""
    section = str(parents[-1]) if parents else ""
    return KEYS.get(f"{section}.{key}") or KEYS.get(key)


def meant_by(path: Sequence[str], given: object) -> str | None:
    """What to write in place of a word at this place; None where nothing is known of it."""
    if not isinstance(given, str):
        return None
    if "secrets" in path[:-1]:
        return "a secret's name has letters, digits and _ only, and begins with no digit"
    if not any(key in path for key in _PLACES):
        return None
    return _MEANT.get(re.sub(r"[^a-z0-9+]", "", given.lower()))
