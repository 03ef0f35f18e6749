"""Metrics of updates: what the trainer did, and how far the data was from the policy."""

from warren_schemas.metrics.metric import Metric, Section

TOKENS = "the step's trained tokens"
GROUPS = "the groups of the step's batch"

POLICY = Section(
    5,
    "Policy",
    "What the trainer reports. Trained tokens are those that the policy sampled, of episodes that carry"
    " a signal. Of a model that a client trains, a step is an `optim_step`, and its tokens are those that count in the"
    " `forward_backward` since the one before.",
    (
        Metric("policy/loss", "loss", f"sum over {TOKENS}, each already weighted (`algorithm.normalize`)",
               "What the step minimized; its height says little in reinforcement learning.",
               "small and around 0; in SFT it falls", "grows by orders of magnitude"),
        Metric("policy/tokens", "tokens", "count in the step", "Trained tokens.", "steady",
               "near 0: few groups carry a signal (group/all_same_frac)"),
        Metric("policy/loss_per_token", "loss", "policy/loss divided by policy/tokens; of a model that a client trains",
               "The loss, whatever the size of the batch. Of a loss of the client's own both stand for what the trainer"
               " made of its derivatives.", "with cross_entropy it falls", "grows by orders of magnitude"),
        Metric("policy/sequences", "sequences", "count in the step; of a model that a client trains",
               "What was trained on; a datum with several targets for a token counts as one for each of them.",
               "steady", "0: a step without a gradient"),
        Metric("policy/ratio_mean", "ratio", f"mean over {TOKENS}",
               "Trainer's probability of a token divided by the sampler's.",
               "1 on policy, near 1 otherwise", "away from 1 at step 1: trainer and sampler disagree"),
        Metric("policy/ratio_max", "ratio", f"largest over {TOKENS}", "The most extreme token.",
               "below 10", "hundreds: lower max_staleness or the learning rate"),
        Metric("policy/kl_k3", "nats", f"mean over {TOKENS} (the k3 estimate)",
               "Divergence of the trainer's policy from the one that sampled: the alarm to watch.",
               "below 0.01", "above 0.1, or rising steadily"),
        Metric("policy/clip_frac", "share, 0 to 1", f"mean over {TOKENS}",
               "Tokens that the loss's clip touched (cispo) or took the gradient from (ppo, gspo).",
               "0 on policy, below 0.2 otherwise", "above 0.3: steps are too large, or data too old"),
        Metric("policy/kl_reference", "nats", f"mean over {TOKENS}; with `algorithm.kl`",
               "Divergence of the policy from the one it started with, of all tokens.", "grows slowly, then levels off",
               "shoots up: raise algorithm.kl.coefficient"),
        Metric("policy/tis_truncated_frac", "share, 0 to 1", f"mean over {TOKENS}; with `algorithm.tis_cap`",
               "Tokens whose importance weight was capped.", "near 0", "above 0.1: data is too old"),
        Metric("policy/ess_frac", "share, 0 to 1", f"over {TOKENS}: (sum of ratios)^2 / (n * sum of squares)",
               "Effective sample size: how much of the data still counts after correction.",
               "1 on policy, above 0.8 otherwise", "below 0.5: most of the batch is lost"),
        Metric("policy/entropy", "nats", f"mean over {TOKENS}",
               "How undecided the policy is at each token, of all tokens, also where truncated sampling leaves few.",
               "falls slowly",
               "near 0 early: it stopped exploring; rises without end: it falls apart"),
        Metric("policy/grad_norm", "norm", "the step's gradient, before it was clipped",
               "How strongly the step pulls.", "steady, with small peaks",
               "rises by orders of magnitude, or is 0"),
        Metric("policy/learning_rate", "1", "as it was applied in the step",
               "The schedule's learning rate.", "as optimizer.schedule says", "0 before the end"),
        Metric("evaluation_loss", "nats", "mean over the learned tokens of `sft.evaluation_split` (at most `sft.evaluation_rows`"
               " of its rows); in SFT",
               "Negative log-likelihood of what is not learned: the figure to stop by.", "falls with sft/policy/loss",
               "rises while sft/policy/loss falls: take an earlier checkpoint, fewer epochs, or a lower learning rate",
               best="lowest"),
        Metric("evaluation_tokens", "tokens", "count; in SFT", "What evaluation_loss is a mean of.", "the same each time",
               "less than before: rows failed"),
        Metric("critic/value", "reward", f"mean over {TOKENS}; with `algorithm.critic`",
               "What the critic expects from here on.", "follows critic/return", "far from critic/return"),
        Metric("critic/return", "reward", f"mean over {TOKENS}; with `algorithm.critic`",
               "What the critic is trained towards.", "rises with the reward", "flat"),
        Metric("critic/squared_error", "reward squared", f"mean over {TOKENS}; with `algorithm.critic`",
               "Square of the difference of the two.", "falls at first, then stays low", "rises"),
    ),
)  # fmt: skip

STALENESS = Section(
    6,
    "Staleness",
    "How old the data of a step is, in optimizer steps; of each group its oldest token counts.",
    (
        Metric("stale/lag_mean", "optimizer steps", f"mean over {GROUPS}",
               "Trainer's policy version minus the one that sampled.",
               "0 on policy; below algorithm.max_staleness", "at max_staleness all the time"),
        Metric("stale/lag_max", "optimizer steps", f"largest over {GROUPS}", "The oldest group.",
               "at most algorithm.max_staleness", "never above it: that is refused"),
        Metric("replay/version_mean", "policy version", f"mean over {GROUPS}; in a replay",
               "Which policy of the recorded run sampled the batch.", "rises with the steps", "-"),
        Metric("replay/version_min", "policy version", f"smallest over {GROUPS}; in a replay",
               "The oldest of them.", "rises with the steps", "-"),
    ),
)  # fmt: skip
