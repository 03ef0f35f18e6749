"""Metrics of time: where a step's seconds went, and what waits."""

from warren_schemas.metrics.metric import Metric, Section

TIME = Section(
    7,
    "Time",
    "Where the seconds go, by the gateway's clock. `time/step_s` is the sum of wait, update, publish and"
    " checkpoint. Sampling goes on beside training where `algorithm.max_staleness` is above 0. Left out in the"
    " first step after another gateway took the run over. Of a model that a client trains there are `time/step_s` and"
    " `time/training_s`, the first from one `optim_step`'s answer to the next.",
    (
        Metric("time/step_s", "seconds", "from the publication of the step before (or the stage's start)"
               " to that of this one",
               "How long a step takes.", "steady", "grows: the parts below say which"),
        Metric("time/wait_s", "seconds", "the part of time/step_s in which no batch was with the trainer",
               "The trainer waited for episodes.", "near 0 when asynchronous",
               "most of time/step_s: sampling or environments are the bottleneck"),
        Metric("time/update_s", "seconds", "the part from there until the optimizer step was answered",
               "Forward, backward and optimizer step, and waiting for a busy trainer.",
               "most of time/step_s when asynchronous", "grows while policy/tokens does not"),
        Metric("time/training_s", "seconds", "sum over the step's ops, without publishing and checkpoints",
               "Forward, backward and optimizer step by the trainer's own clock.",
               "most of time/update_s", "grows while policy/tokens does not"),
        Metric("time/trainer_wait_s", "seconds", "from when the batch's ops were in the log to the optimizer"
               " step's answer, less time/training_s",
               "Waiting for the trainer: behind earlier steps, other models and messages.",
               "small", "larger than time/training_s: trainers are short, or share their device with samplers"),
        Metric("time/publish_s", "seconds", "the part from there until the new policy was published",
               "Writing the weights where samplers find them.", "small beside time/update_s",
               "larger than it: the policy's storage is slow"),
        Metric("time/evaluation_s", "seconds", "the part from there until evaluation_loss was known; in SFT, in steps"
               " that are evaluated",
               "The loss over `sft.evaluation_split`.", "small beside the time between evaluations",
               "larger than that: raise sft.evaluate_every, or lower sft.evaluation_rows"),
        Metric("time/checkpoint_s", "seconds", "the part from there until the checkpoint was written;"
               " in steps that save one",
               "Writing weights and optimizer.", "small", "large: raise checkpoint.every_steps"),
        Metric("time/rollout_s", "seconds", "from the first start to the last end of the step's episodes",
               "How long the batch took to play, by the workers' clocks; it may overlap with other steps.",
               "steady", "far above episode/duration_s: episodes come one after the other, or one is very slow"),
        Metric("rollout/episodes_s", "episodes per second", "all that ended since the step before",
               "How fast episodes end.", "steady", "falls"),
        Metric("rollout/tokens_s", "tokens per second", "all that were sampled in episodes that ended"
               " since the step before",
               "How fast tokens come.", "steady; grows with samplers", "falls"),
    ),
)  # fmt: skip

QUEUES = Section(
    8,
    "Queues",
    "Messages that waited for a consumer when the step was published, looked at every 2 s.",
    (
        Metric("queue/generate", "messages", "of the base model, all runs together",
               "Turns that wait for a sampler.", "small", "grows: add samplers"),
        Metric("queue/interact/{environment}", "messages", "of the environment, all runs together",
               "Episodes that wait for an env worker.", "small", "grows: add env workers"),
        Metric("queue/compare/{environment}", "messages", "of the environment, all runs together; only where groups"
               " are compared",
               "Groups that wait to be compared by an env worker.", "small", "grows: add env workers, or a faster"
               " judge or service"),
        Metric("queue/results", "messages", "of the run", "The trainer's answers that wait for the gateway.",
               "0", "grows: the gateway is overloaded"),
    ),
)  # fmt: skip
