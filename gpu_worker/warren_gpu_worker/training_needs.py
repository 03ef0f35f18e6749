# pyright: reportUnknownMemberType=false
# (transformers leaves parts of its interface untyped)
"""What training a base model takes of a device's memory: for trainers, and for samplers that leave it to one.

Invariants: neither torch nor a weight is loaded; weights are counted, and what a pass takes is an estimate from the
model's configuration, since it depends on the sequences.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from transformers import AutoConfig, PreTrainedConfig

from warren_gpu_worker.base_models.size import count_parameters

FULL_BYTES = 16
"""For each parameter: weight, gradient and Adam's two moments, in float32."""
ALONE = 0.9
"""Share of a GPU's memory that sampler and trainer have together."""
GIB = 1024**3
_WIDTHS, _FEED_FORWARD_WIDTHS = 12, 4
"""Of a token, what a layer keeps for the backward pass: inputs of norms and projections, queries, keys, values; what the
feed-forward part computes."""
_HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class TrainingNeeds:
    weight_bytes: int
    """With full parameters, gradient and optimizer state too."""
    pass_bytes: int
    """Activations of one pass, about."""

    @property
    def all_bytes(self) -> int:
        return self.weight_bytes + self.pass_bytes


def needs_of(
    folder: str, bytes_per_weight: int, n_tokens: int, *, recomputes: bool
) -> TrainingNeeds:
    """`n_tokens` of a pass; `recomputes`: activations are computed again in the backward pass.

    Raises `OSError` or `ValueError` (from transformers) when the folder holds no model.
    """
    found = cast(PreTrainedConfig, AutoConfig.from_pretrained(folder, local_files_only=True))
    config = found.get_text_config()
    width, n_layers = int(config.hidden_size), int(config.num_hidden_layers)
    feed_forward = int(getattr(config, "intermediate_size", None) or 4 * width)
    layer_bytes = _HALF_BYTES * (_WIDTHS * width + _FEED_FORWARD_WIDTHS * feed_forward)
    kept = layer_bytes + n_layers * _HALF_BYTES * width if recomputes else n_layers * layer_bytes
    return TrainingNeeds(count_parameters(Path(folder)) * bytes_per_weight, kept * n_tokens)
