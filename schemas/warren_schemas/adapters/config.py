"""`adapter_config.json`, as far as it decides what an adapter computes.

Invariants
- Client and gateway check by this module alone, so what the one lets pass the other takes.
- A feature that changes what an adapter computes is applied by samplers and trainers alike, or refused; so is a field
  that nobody here knows, unless it is off.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, cast

import orjson
from pydantic import Field, JsonValue, ValidationError

from warren_schemas.base import Frozen, Listed
from warren_schemas.text.explain import explain

CONFIG_FILE = "adapter_config.json"
MAX_CONFIG_BYTES = 256 * 1024
MAX_RANK = 1024
_MAX_MODULES = 10_000

_MERGED = "an adapter that starts like this fits base weights that were changed with it; convert it to a plain LoRA first"
_PLAIN_STARTS = (True, "gaussian", "orthogonal", "eva")
_UNSUPPORTED = {
    "use_dora": "DoRA's magnitudes are not applied here",
    "use_rslora": "the scale alpha / sqrt(rank) is not applied here; retrain, or set lora_alpha to alpha * sqrt(rank) and this to"
    " false",
    "use_qalora": "QALoRA is not applied here",
    "use_bdlora": "block-diagonal adapters are not applied here",
    "modules_to_save": "whole modules beside the adapter are not applied here",
    "trainable_token_indices": "trained tokens are not applied here",
    "target_parameters": "adapters of bare parameters are not applied here",
    "lora_bias": "biases are not applied here",
    "fan_in_fan_out": "transposed weights are not applied here",
    "layers_to_transform": "an adapter has to be on every layer",
    "layer_replication": "replicated layers are not made here",
    "rank_pattern": "one rank has to hold for all modules",
    "alpha_pattern": "one alpha has to hold for all modules",
    "alora_invocation_tokens": "activated LoRA is not applied here",
}
_IRRELEVANT = frozenset(
    {
        "auto_mapping", "corda_config", "ensure_weight_tying", "eva_config", "exclude_modules", "inference_mode", "layers_pattern",
        "loftq_config", "lora_dropout", "lora_ga_config", "megatron_core", "peft_version", "qalora_group_size", "revision",
        "runtime_config", "task_type",
    }
)  # fmt: skip
"""They say how an adapter was trained or is found, and change nothing of what it computes."""


class BadAdapter(ValueError):
    """This is no adapter that can be used here; says what is wrong and where."""


class AdapterConfig(Frozen):
    """What decides what an adapter computes: nothing else of the file is kept."""

    rank: Annotated[int, Field(ge=1, le=MAX_RANK)]
    alpha: Annotated[float, Field(gt=0)]
    """Adapters are scaled by alpha / rank."""
    targets: tuple[str, ...] = ()
    """Names of the modules, or of their ends; empty where the weights alone tell them."""
    base_model: str | None = None
    """As the file calls it."""


class _PeftConfig(Frozen):
    """The fields of PEFT's `LoraConfig` that are left once all that is off is left out."""

    peft_type: Literal["LORA"]
    r: Annotated[int, Field(ge=1, le=MAX_RANK)]
    lora_alpha: Annotated[float, Field(gt=0)]
    target_modules: (
        Annotated[Listed[str], Field(min_length=1, max_length=_MAX_MODULES)] | str | None
    ) = None
    bias: Literal["none"] = "none"
    base_model_name_or_path: str | None = None


def parsed_config(text: bytes) -> dict[str, JsonValue]:
    """The fields of the file. Raises `BadAdapter`."""
    if len(text) > MAX_CONFIG_BYTES:
        raise BadAdapter(f"{CONFIG_FILE} has more than {MAX_CONFIG_BYTES} bytes")
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadAdapter(f"{CONFIG_FILE} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadAdapter(f"{CONFIG_FILE} must be a JSON object")
    return cast("dict[str, JsonValue]", fields)


def read_config(fields: Mapping[str, JsonValue]) -> AdapterConfig:
    """What the file says of the adapter. Raises `BadAdapter`."""
    given = {name: value for name, value in fields.items() if not _is_off(value)}
    for name, reason in _UNSUPPORTED.items():
        if name in given:
            raise BadAdapter(f"{CONFIG_FILE}: {name}: {reason}")
    kept = {name: value for name, value in given.items() if name not in _IRRELEVANT}
    if kept.pop("init_lora_weights", True) not in _PLAIN_STARTS:
        raise BadAdapter(f"{CONFIG_FILE}: init_lora_weights: {_MERGED}")
    try:
        read = _PeftConfig.model_validate_json(orjson.dumps(kept), strict=True)
    except ValidationError as error:
        raise BadAdapter(f"{CONFIG_FILE}: {'; '.join(explain(error, _PeftConfig)[:3])}") from error
    except orjson.JSONEncodeError as error:
        raise BadAdapter(f"{CONFIG_FILE} is nested too deeply") from error
    # An expression would have to be evaluated; the weights tell the same.
    named = read.target_modules if isinstance(read.target_modules, tuple) else ()
    return AdapterConfig(
        rank=read.r,
        alpha=read.lora_alpha,
        targets=tuple(sorted(set(named))),
        base_model=read.base_model_name_or_path,
    )


def config_text(config: AdapterConfig, targets: tuple[str, ...], base_model: str) -> bytes:
    """The file as samplers and trainers get it: written anew, so that nothing else of the user's reaches PEFT."""
    fields = {
        "base_model_name_or_path": base_model,
        "bias": "none",
        "inference_mode": True,
        "lora_alpha": config.alpha,
        "peft_type": "LORA",
        "r": config.rank,
        "target_modules": list(targets),
        "task_type": "CAUSAL_LM",
    }
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)


def _is_off(value: JsonValue) -> bool:
    return value is None or value is False or value in ("", [], {})
