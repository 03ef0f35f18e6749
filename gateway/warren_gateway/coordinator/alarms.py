"""Alarms: what is likely wrong with a run, from the metrics of its steps of training.

One table says of each alarm what must hold, for how many steps in a row, what that means, and what to try
next; it is pure. `limits.stop_on` names alarms that end the run.

Invariant: an alarm is told once it has held for its number of steps, then after twice as many and so on, and
not again before it has ceased; the streaks are stored with every change, whoever drives the run.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from warren_gateway.coordinator.rollouts.failure_limits import OF_ENVIRONMENTS, by_kind
from warren_gateway.coordinator.state.alarms import AlarmState
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_schemas.config import AlarmName
from warren_schemas.events import WarningRaised

WINDOW = 16
"""Steps that are remembered of what an alarm compares with."""
REMEMBERED = ("policy/grad_norm", "reward/mean")
_FAILED = "episode/environment_failed_frac"


@dataclass(frozen=True, slots=True)
class Known:
    """What an alarm is judged by."""

    metrics: Mapping[str, float]
    """Of the step."""
    recent: Mapping[str, Sequence[float]]
    """Of `REMEMBERED`, those of the steps before."""
    vocabulary_size: int
    """Of the model; 0 where no trainer has told it."""

    def above(self, tag: str, bound: float) -> bool:
        """Whether the step reports this, and no less."""
        return self.metrics.get(tag, -math.inf) >= bound

    def below(self, tag: str, bound: float) -> bool:
        return self.metrics.get(tag, math.inf) <= bound


@dataclass(frozen=True, slots=True)
class Alarm:
    name: AlarmName
    n_steps: int
    """In a row, before it is told."""
    tags: tuple[str, ...]
    """The figures that are told."""
    holds: Callable[[Known], bool]
    cause: str
    advice: str


def _is_uniform(known: Known) -> bool:
    size = known.vocabulary_size
    return size > 1 and known.above("policy/entropy", 0.95 * math.log(size))


def _is_same_reward(known: Known) -> bool:
    before, metrics = known.recent.get("reward/mean", ()), known.metrics
    is_one = metrics.get("reward/max", math.inf) - metrics.get("reward/min", 0.0) < 1e-6
    return is_one and bool(before) and abs(before[-1] - metrics["reward/mean"]) < 1e-6


def _lacks_format(known: Known) -> bool:
    """Environments say the share of answers that is `unreadable` to them, or that is `answered`."""
    named = [(tag.rpartition("/")[2], v) for tag, v in known.metrics.items() if tag[:4] == "env/"]
    return any((n == "unreadable" and v >= 0.5) or (n == "answered" and v <= 0.5) for n, v in named)


def _disagree(known: Known) -> bool:
    is_on_policy = known.metrics.get("stale/lag_max") == 0.0
    return is_on_policy and known.above("policy/kl_k3", 0.01)


def _explodes(known: Known) -> bool:
    """One such step alone is no alarm: off-policy, runs that learn have a KL estimate near 1, or a norm 70 times
    the median, now and then."""
    before, norm = known.recent.get("policy/grad_norm", ()), known.metrics.get("policy/grad_norm")
    is_far = len(before) >= 4 and norm is not None and norm > 100 * statistics.median(before)
    return is_far or known.above("policy/ratio_max", 1e4) or known.above("policy/kl_k3", 1.0)


ALARMS = (
    Alarm(AlarmName.ENTROPY_HIGH, 4, ("policy/entropy",), _is_uniform,
          "the policy chooses almost uniformly among all tokens: it knows nothing, or has fallen apart",
          "Look at what it says; begin with `sft` or another base model, or lower optimizer.learning_rate"),
    Alarm(AlarmName.ENTROPY_LOW, 8, ("policy/entropy",), lambda k: k.below("policy/entropy", 0.003),
          "the policy is certain of every token: it has stopped exploring",
          "Raise algorithm.entropy_coefficient or sampling.temperature, or go back to an older checkpoint"),
    Alarm(AlarmName.SINGLE_CANDIDATE, 8, ("seq/single_candidate_frac",), lambda k: k.above("seq/single_candidate_frac", 0.9),
          "top_p, top_k or min_p leave a single token to sample nearly everywhere: nothing is explored there, and nothing learned",
          "Truncate less, or set algorithm.kl, which brings back what the first policy said; an entropy bonus moves nothing there"),
    Alarm(AlarmName.REWARD_CONSTANT, 8, ("reward/mean",), _is_same_reward,
          "every episode gets one and the same reward: what grades may always say the same",
          "Grade a good and a bad answer by hand with `warren env check module:Class`, and look at the episodes"),
    Alarm(AlarmName.NOBODY_FINISHES, 4, ("seq/truncated_frac",), lambda k: k.above("seq/truncated_frac", 1.0),
          "a limit ends every episode, and its environment none",
          "See seq/stop_frac for which limit: raise max_turns, sampling.max_tokens or max_total_tokens"),
    Alarm(AlarmName.FORMAT, 8, ("reward/mean",), _lacks_format,
          "at least half of the answers lack the format that the environment asks for",
          "Look at what it says; say the format in the prompt, raise sampling.max_tokens, or begin with `sft`"),
    Alarm(AlarmName.DISAGREEMENT, 3, ("policy/kl_k3",), _disagree,
          "trainer and sampler give the same tokens different probabilities, though no version lies between",
          "Compare base models, dtypes and attention of the two; set algorithm.tis_cap to correct for what is left"),
    Alarm(AlarmName.EXPLODING, 3, ("policy/grad_norm", "policy/ratio_max", "policy/kl_k3"), _explodes,
          "the gradient's norm or the ratio is orders of magnitude above what it was",
          "Lower optimizer.learning_rate, set optimizer.clip_norm, or lower algorithm.max_staleness"),
    Alarm(AlarmName.GATE_CLOSED, 3, ("time/trainer_wait_s",), lambda k: k.above("time/trainer_wait_s", 60.0),
          "batches wait for the trainer for over a minute, and sampling stands still behind them",
          "Add trainers, or raise algorithm.max_staleness; see `warren workers` for who else trains there"),
    Alarm(AlarmName.ENVIRONMENT_FAILS, 3, (_FAILED,), lambda k: k.above(_FAILED, 0.25),
          "the environment fails in a quarter of the attempts or more",
          "See `warren trajectories` for the reasons and episode/failed_total/KIND for how many of each"),
)  # fmt: skip
"""`zero_variance` is told by the module of that name, with what the batch was like."""


def note_step(state: CoordinatorState, metrics: dict[str, float]) -> dict[str, float]:
    """A step of training is published: tell what is due; the metrics of alarms that have ever held."""
    alarms = state.alarms
    metrics = {**metrics, **_failed_frac(state)}
    known = Known(metrics, alarms.recent, state.learning.policy.vocabulary_size)
    for alarm in ALARMS:
        if alarm.holds(known):
            _count(state, alarm, metrics)
        elif alarm.name in alarms.streaks and not metrics.keys().isdisjoint(alarm.tags):
            alarms.streaks[alarm.name] = 0  # a step without an update says nothing of the policy
    _remember(alarms, metrics)
    held = {a.name: alarms.streaks.get(a.name, 0) >= a.n_steps for a in ALARMS}
    told = {f"alarm/{name}": float(held[AlarmName(name)]) for name in alarms.streaks}
    return {**metrics, **told}


def tell(state: CoordinatorState, name: AlarmName, message: str) -> None:
    """Raise an alarm, which may end the run."""
    state.emit(WarningRaised(message=message, alarm=name))
    if name in state.config.limits.stop_on and state.alarms.stop_reason is None:
        state.alarms.stop_reason = f"limits.stop_on has {name}: {message}"


def _count(state: CoordinatorState, alarm: Alarm, metrics: Mapping[str, float]) -> None:
    streaks = state.alarms.streaks
    streaks[alarm.name] = n = streaks.get(alarm.name, 0) + 1
    times, rest = divmod(n, alarm.n_steps)
    if rest == 0 and times.bit_count() == 1:
        steps = "in the last step" if n == 1 else f"for {n} steps"
        values = ", ".join(f"{tag} {metrics[tag]:.4g}" for tag in alarm.tags if tag in metrics)
        tell(state, alarm.name, f"{alarm.cause} {steps} ({values}). {alarm.advice}")


def _remember(alarms: AlarmState, metrics: Mapping[str, float]) -> None:
    for tag in REMEMBERED:
        if tag in metrics:
            alarms.recent[tag] = [*alarms.recent.get(tag, ()), metrics[tag]][-WINDOW:]


def _failed_frac(state: CoordinatorState) -> dict[str, float]:
    """Attempts that failed by their environment's doing, among all that ended since the step before."""
    alarms, failures = state.alarms, by_kind(state.rollouts)
    n_ended = state.rollouts.n_episodes
    n_failed = sum(failures.get(kind, 0) for kind in OF_ENVIRONMENTS)
    more_ended, more_failed = n_ended - alarms.n_ended, n_failed - alarms.n_failed
    alarms.n_ended, alarms.n_failed = n_ended, n_failed
    n = more_ended + more_failed
    return {_FAILED: more_failed / n} if n > 0 else {}
