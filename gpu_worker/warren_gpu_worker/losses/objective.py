"""What an op minimizes: its loss, corrected for the sampler, with an entropy bonus and a KL penalty."""

from dataclasses import dataclass

from torch import Tensor

from warren_gpu_worker.losses.cispo import cispo
from warren_gpu_worker.losses.cross_entropy import cross_entropy
from warren_gpu_worker.losses.dro import dro
from warren_gpu_worker.losses.gspo import gspo
from warren_gpu_worker.losses.importance_sampling import importance_sampling
from warren_gpu_worker.losses.ppo import ppo
from warren_gpu_worker.losses.ratio import ratio_diagnostics
from warren_gpu_worker.losses.reference import charge_rewards, masked_estimate
from warren_gpu_worker.losses.sapo import sapo
from warren_gpu_worker.losses.tensors import LossValue, TokenTensors
from warren_gpu_worker.losses.truncation import truncated
from warren_schemas.config import (
    CispoLoss,
    CrossEntropyLoss,
    DroLoss,
    GspoLoss,
    ImportanceSamplingLoss,
    KlPenalty,
    Loss,
    PpoLoss,
    SapoLoss,
)


@dataclass(frozen=True, slots=True)
class Objective:
    """The options of an op, without its data."""

    loss: Loss
    kl: KlPenalty | None = None
    entropy_coefficient: float = 0.0
    tis_cap: float | None = None


def compute_objective(
    tokens: TokenTensors,
    objective: Objective,
    *,
    entropy: Tensor,
    reference_log_ratio_BT: Tensor | None = None,
) -> LossValue:
    """L(A - β k to go) + β Σ k - c H   (the KL stands in one of the two places)

    `entropy` is H of what masked tokens were sampled from, summed; `reference_log_ratio_BT` is log p - log p_ref
    and is needed for a KL penalty. Both p are of the whole vocabulary, however
    the tokens were sampled: where one was left alone, the penalty alone can bring another back.
    """
    is_policy_loss = not isinstance(objective.loss, CrossEntropyLoss)
    diagnostics = ratio_diagnostics(tokens) if is_policy_loss else {}
    penalty: Tensor | float = 0.0
    if (kl := objective.kl) is not None and reference_log_ratio_BT is not None:
        estimate_BT = masked_estimate(reference_log_ratio_BT, tokens.mask_BT, kl.estimator)
        diagnostics["kl_reference:sum"] = estimate_BT.detach().sum()
        if kl.place == "reward":
            tokens = charge_rewards(tokens, estimate_BT, kl)
        else:
            penalty = kl.coefficient * estimate_BT.sum()
    if objective.tis_cap is not None:
        tokens, capped = truncated(tokens, objective.tis_cap, objective.loss)
        diagnostics |= capped
    value = token_loss(tokens, objective.loss)
    if objective.entropy_coefficient:
        penalty = penalty - objective.entropy_coefficient * entropy
    return LossValue(value.loss + penalty, {**diagnostics, **value.diagnostics})


def token_loss(tokens: TokenTensors, loss: Loss) -> LossValue:
    """The loss that the config names."""
    match loss:
        case CrossEntropyLoss():
            return cross_entropy(tokens)
        case ImportanceSamplingLoss():
            return importance_sampling(tokens)
        case PpoLoss():
            return ppo(tokens, loss.clip_low, loss.clip_high)
        case GspoLoss():
            return gspo(tokens, loss.clip_low, loss.clip_high)
        case CispoLoss():
            return cispo(tokens, loss.clip_low, loss.clip_high)
        case SapoLoss():
            return sapo(tokens, loss.tau_pos, loss.tau_neg)
        case DroLoss():
            return dro(tokens, loss.beta)
