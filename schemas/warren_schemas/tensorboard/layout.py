"""The charts that TensorBoard's Custom Scalars tab begins with, and the cards that are pinned: reward first."""

import json
import re
from urllib.parse import quote

from warren_schemas.metrics.registry import tensorboard_tag

LAYOUT: dict[str, dict[str, tuple[str, ...]]] = {
    "Reward": {
        "reward in training": ("reward/mean",),
        "reward in evaluation": ("evaluation/reward_mean",),
        "best and worst": ("reward/max", "reward/min"),
        "groups without a signal": ("group/all_same_frac",),
    },
    "Environment": {
        "what environments report": ("env/{metric}",),
        "the same in evaluation": ("evaluation/env/{metric}",),
        "tokens in an episode": ("seq/response_len", "seq/response_len_max"),
        "turns and cut episodes": ("seq/turns", "seq/truncated_frac"),
        "why episodes end": ("seq/stop_frac/{reason}", "seq/turns_cut_frac"),
        "tokens without an alternative": ("seq/single_candidate_frac",),
    },
    "Update": {
        "divergence": ("policy/kl_k3", "policy/kl_reference"),
        "entropy": ("policy/entropy",),
        "clipped, and effective sample size": ("policy/clip_frac", "policy/ess_frac"),
        "norm of the gradient": ("policy/grad_norm",),
        "loss": ("policy/loss",),
        "loss in SFT, and of what it holds out": ("sft/policy/loss", "sft/evaluation_loss"),
        "staleness": ("stale/lag_mean", "stale/lag_max"),
    },
    "Time": {
        "seconds of a step": (
            "time/wait_s", "time/update_s", "time/publish_s", "time/checkpoint_s", "time/step_s",
        ),
        "tokens per second": ("rollout/tokens_s",),
        "episodes per second": ("rollout/episodes_s",),
        "waiting messages": (
            "queue/generate", "queue/interact/{environment}", "queue/compare/{environment}", "queue/results",
        ),
        "seconds of an episode": (
            "episode/duration_s", "episode/reset_s", "episode/sampler_wait_s", "episode/sampling_s",
            "episode/step_s",
        ),
        "the trainer's part": ("time/training_s", "time/trainer_wait_s"),
        "failed episodes": ("episode/failed_total", "episode/failed_total/{kind}"),
        "groups not trained on": ("group/dropped_total/{reason}",),
    },
}  # fmt: skip
"""Charts by category and title; each shows these tags of all runs."""

PINNED = (
    "reward/mean", "evaluation/reward_mean", "policy/loss_per_token", "policy/kl_k3", "policy/entropy",
    "time/step_s", "rollout/tokens_s",
)  # fmt: skip


def pattern(tag: str) -> str:
    """The tag in TensorBoard, as a regular expression that fits nothing else."""
    parts = re.split(r"(\{\w+\})", tensorboard_tag(tag))
    words = [".+" if part.startswith("{") else re.escape(part) for part in parts]
    return f"^{''.join(words)}$"


def page_url(address: str) -> str:
    """Where to begin to look: all curves, with the most telling ones pinned above them."""
    cards = [{"plugin": "scalars", "tag": tensorboard_tag(tag)} for tag in PINNED]
    words = json.dumps(cards, separators=(",", ":"))
    return f"{address}/?pinnedCards={quote(words, safe='')}#timeseries"
