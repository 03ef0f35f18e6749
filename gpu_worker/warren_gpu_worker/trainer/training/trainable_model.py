# pyright: reportUnknownMemberType=false
"""One model under training: its weights, its optimizer, its gradient so far.

Full updates train every weight; a LoRA update trains an adapter on a base that stays as it is, and
models with the same base share it in memory (each has modules of its own around the same tensors).

Invariants:
- The same spec and base folder give the same weights, bit by bit.
- A LoRA model never writes to its base.
- No randomness: modules are in eval mode, so there is no dropout, and trainer and sampler agree.
"""

import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import cast

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn
from transformers import PreTrainedModel

from warren_gpu_worker.base_models.families import SEEING, no_adapters_on
from warren_gpu_worker.trainer.training.critic import attach_critic, is_critic
from warren_gpu_worker.trainer.training.last_layer import LastLayer, narrow
from warren_gpu_worker.trainer.training.logprobs import MAX_LOGITS
from warren_gpu_worker.trainer.training.packing import PackedRows, call_packed, prepare
from warren_gpu_worker.trainer.training.ranks import ALONE, Ranks
from warren_gpu_worker.trainer.training.sequence_parallel import why_not_split
from warren_gpu_worker.trainer.training.sharding import Trunk, shard
from warren_gpu_worker.weights import PolicyView, view_policy
from warren_schemas.config import LoraUpdate
from warren_schemas.training import ModelSpec


class SpecError(ValueError):
    """No model can be made from this spec; says why."""


@dataclass(frozen=True, slots=True)
class Network:
    """The parts of a causal language model that training needs.

    Legend: B rows, T positions, M of the B x T positions, H hidden size.
    """

    causal: PreTrainedModel
    decoder: nn.Module
    head: nn.Module
    vocabulary: int
    max_tokens: int
    autocast_dtype: torch.dtype | None
    """Full updates keep float32 weights and compute in this."""
    ranks: Ranks
    """The processes that compute it between them."""
    narrowing: LastLayer = field(default_factory=LastLayer)
    critic: nn.Module | None = None
    image_token: int | None = None
    """Stands for images, which nothing here looks at; None: the model reads text alone."""
    max_logits: int = MAX_LOGITS
    """Most float32 logits that exist at once."""
    packs: bool = False
    """Rows go through the decoder without padding."""
    splits: bool = False
    """Each rank computes a part of every row, in place of some rows."""

    @property
    def device(self) -> torch.device:
        return self.causal.device

    def hidden_BTH(self, input_ids_BT: Tensor, places_M: Tensor | None = None) -> Tensor:
        """Hidden states before the head; rows are padded to the right, so no mask is needed.

        Those outside of `places_M` are of no use, if it is given.
        """
        self.narrowing.ask(places_M, input_ids_BT.numel())
        output = self.decoder(input_ids=input_ids_BT, use_cache=False)
        return cast("Tensor", output.last_hidden_state)

    def hidden_1PH(self, packed: PackedRows, places_M: Tensor) -> Tensor:
        """The same of packed rows; the places are among their positions (of all, where those are split)."""
        if (split := packed.split) is None:
            self.narrowing.ask(places_M, packed.ids_1P.numel())
        else:
            places_M = places_M.sort().values
            self.narrowing.ask(places_M[split.own_among(places_M)] - split.first, split.n_own)
        return call_packed(self.decoder, packed)

    def end_pass(self) -> None:
        """All is computed that depends on hidden states, gradients too."""
        self.narrowing.places_M = None
        if isinstance(self.decoder, Trunk):
            self.decoder.end_pass()


@dataclass(slots=True)
class TrainableModel:
    """Everything that ops change."""

    spec: ModelSpec
    network: Network
    parameters: dict[str, nn.Parameter]
    """What is trained, by the names that policy files use; the critic's by names of its own."""
    policy: PolicyView
    optimizer: torch.optim.AdamW
    version: int = 0
    """Optimizer steps so far."""
    last_op: int = 0
    n_backward: int = 0
    """forward_backward ops since the last optimizer step."""
    window_failure: str | None = None
    """Why one of them failed; the next optimizer step fails with it."""
    reference: dict[str, Tensor] | None = field(default=None, repr=False)
    """The weights that KL penalties compare with, by the names of `parameters`."""
    base: PreTrainedModel | None = field(default=None, repr=False)
    """The shared base of a LoRA model, kept alive for others."""

    @property
    def policy_parameters(self) -> dict[str, nn.Parameter]:
        """Those that make the policy."""
        return {name: p for name, p in self.parameters.items() if not is_critic(name)}

    @property
    def critic_parameters(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self.parameters.items() if is_critic(name)}

    def drop_gradient(self) -> None:
        """Begin a new window."""
        self.optimizer.zero_grad(set_to_none=True)
        self.n_backward = 0
        self.window_failure = None


def build_full(
    spec: ModelSpec,
    base: PreTrainedModel,
    autocast: torch.dtype | None,
    ranks: Ranks = ALONE,
    *,
    packs: bool = False,
    splits: bool = False,
) -> TrainableModel:
    """Train all weights of `base`, which must be nobody else's. Raises `SpecError`.

    `packs`: its rows go without padding, if the model can do that. `splits`: they are split over the ranks.
    """
    base.requires_grad_(True)
    network = _network(spec, base, autocast, ranks, packs=packs, splits=splits)
    policy = _without_critic(view_policy(base))
    return _trainable(spec, network, dict(base.named_parameters()), policy, None)


def build_lora(
    spec: ModelSpec,
    base: PreTrainedModel,
    ranks: Ranks = ALONE,
    *,
    packs: bool = False,
    splits: bool = False,
) -> TrainableModel:
    """Train an adapter around the tensors of `base`, which several ranks take apart.

    `packs` and `splits` as for `build_full`. Raises `SpecError`.
    """
    update = cast("LoraUpdate", spec.update)
    base.requires_grad_(False)
    shared = base if ranks.size == 1 else None
    adapted = _adapt(base if shared is None else share(base), spec, update)
    causal = cast("PreTrainedModel", adapted.get_base_model())
    network = _network(spec, causal, None, ranks, packs=packs, splits=splits)
    policy = _without_critic(view_policy(adapted))
    own = [(n, p) for n, p in causal.named_parameters() if p.requires_grad]
    trained = [p for n, p in own if not is_critic(n)]
    parameters = dict(zip(policy.tensors, trained, strict=True))
    parameters |= {n: p for n, p in own if is_critic(n)}
    return _trainable(spec, network, parameters, policy, shared)


def _without_critic(policy: PolicyView) -> PolicyView:
    tensors = {n: t for n, t in policy.tensors.items() if not is_critic(n.split(".model.", 1)[-1])}
    return replace(policy, tensors=tensors)


def share(base: PreTrainedModel) -> PreTrainedModel:
    """A copy of the modules around the same tensors."""
    tensors = chain(base.parameters(), base.buffers())
    return copy.deepcopy(base, {id(tensor): tensor for tensor in tensors})


def _adapt(model: PreTrainedModel, spec: ModelSpec, update: LoraUpdate) -> PeftModel:
    targets = update.targets if isinstance(update.targets, str) else list(update.targets)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=update.rank,
        lora_alpha=cast("int", update.alpha),
        target_modules=targets,
        exclude_modules=no_adapters_on(model.config.model_type, update.exclude),
    )
    with torch.random.fork_rng():
        torch.manual_seed(spec.seed if update.seed is None else update.seed)
        try:
            adapted = cast("PeftModel", get_peft_model(model, config))
        except ValueError as error:
            raise SpecError(f"LoRA can't be applied to {spec.base_model}: {error}") from error
    config.base_model_name_or_path = spec.base_model  # not the folder on this machine
    return adapted.eval()


def _trainable(
    spec: ModelSpec,
    network: Network,
    parameters: dict[str, nn.Parameter],
    policy: PolicyView,
    base: PreTrainedModel | None,
) -> TrainableModel:
    optimizer = torch.optim.AdamW(parameters.values(), lr=0.0, fused=True)
    return TrainableModel(spec, network, parameters, policy, optimizer, base=base)


def _network(
    spec: ModelSpec,
    causal: PreTrainedModel,
    autocast: torch.dtype | None,
    ranks: Ranks,
    *,
    packs: bool,
    splits: bool,
) -> Network:
    decoder = cast("nn.Module", causal.get_decoder())
    head = cast("nn.Module", causal.get_output_embeddings())
    vocabulary = cast("nn.Embedding", causal.get_input_embeddings()).num_embeddings
    max_tokens = cast("int", causal.config.get_text_config().max_position_embeddings)
    network = Network(causal, decoder, head, vocabulary, max_tokens, autocast, ranks)
    ids_BT = torch.arange(4, device=network.device)[None, :] % vocabulary
    _check_head(network, ids_BT)
    network = replace(network, narrowing=narrow(decoder, network.hidden_BTH, ids_BT))
    if packs:
        with torch.autocast(network.device.type, autocast, enabled=autocast is not None):
            network = replace(network, packs=prepare(decoder, network.hidden_BTH, ids_BT))
    if splits:
        _check_split(spec, network)
        network = replace(network, splits=True)
    if causal.config.model_type in SEEING:
        network = replace(network, image_token=int(causal.config.image_token_id))
    if spec.critic:
        hidden_size = cast("int", causal.config.get_text_config().hidden_size)
        critic = attach_critic(causal, hidden_size, causal.device)
        network = replace(network, critic=critic)
    if ranks.size == 1:
        return network
    return replace(network, decoder=shard(causal, decoder, ranks))


def _check_split(spec: ModelSpec, network: Network) -> None:
    reason = why_not_split(network.causal.config.get_text_config(), network.ranks.size)
    if not network.packs:
        reason = "it has layers that can't be computed of packed sequences (sliding windows, for example)"
    if reason is not None:
        raise SpecError(f"sequences of {spec.base_model} can't be split: {reason}")


@torch.no_grad()
def _check_head(network: Network, ids_BT: Tensor) -> None:
    """Some architectures do more than apply the head (scale or cap the logits): refuse them."""
    expected = network.causal(input_ids=ids_BT, use_cache=False).logits
    if not torch.equal(expected, network.head(network.hidden_BTH(ids_BT))):
        kind = type(network.causal).__name__
        raise SpecError(f"{kind} can't be trained: its logits are not its head's output")
