"""`config.json` of a base model, and what the other JSON files must not say.

Invariants
- Only families that trainers and samplers load by the code of their libraries pass. A field that nobody here knows is
  refused: it could make a library load something else.
- The config alone tells the name and the shape of each tensor.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, Self, cast

import orjson
from pydantic import Field, JsonValue, ValidationError, model_validator

from warren_schemas.base import Frozen, Listed
from warren_schemas.base_models.files import CONFIG_FILE, BadBaseModel
from warren_schemas.text.explain import explain

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
"""By `model_type`: decoders of one build, which differ in biases and norms."""
_CODE = ("auto_map", "trust_remote_code", "custom_pipelines", "custom_generate")
"""Keys by which a file names code that comes with it."""

_Size = Annotated[int, Field(ge=1, le=2**20)]
_TokenId = Annotated[int, Field(ge=-1, le=2**31 - 1)]
_Positive = Annotated[float, Field(gt=0, le=1e12)]
Shapes = dict[str, tuple[int, ...]]


class BaseModelConfig(Frozen):
    """All that the file may say."""

    model_type: Literal["llama", "mistral", "qwen2", "qwen3"]
    architectures: Annotated[Listed[str], Field(min_length=1, max_length=1)]
    vocab_size: Annotated[int, Field(ge=1, le=2**24)]
    hidden_size: _Size
    intermediate_size: _Size
    num_hidden_layers: Annotated[int, Field(ge=1, le=1024)]
    num_attention_heads: Annotated[int, Field(ge=1, le=4096)]
    num_key_value_heads: Annotated[int, Field(ge=1, le=4096)]
    head_dim: _Size | None = None
    max_position_embeddings: Annotated[int, Field(ge=1, le=2**31 - 1)]
    rms_norm_eps: _Positive
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    hidden_act: Literal["silu"] = "silu"
    attention_dropout: Annotated[float, Field(ge=0, le=1)] = 0.0
    initializer_range: _Positive = 0.02
    use_cache: bool = True
    bos_token_id: _TokenId | None = None
    eos_token_id: _TokenId | Listed[_TokenId] | None = None
    pad_token_id: _TokenId | None = None
    rope_theta: _Positive | None = None
    rope_scaling: dict[str, JsonValue] | None = None
    rope_parameters: dict[str, JsonValue] | None = None
    sliding_window: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    use_sliding_window: bool = False
    max_window_layers: Annotated[int, Field(ge=0, le=1024)] | None = None
    layer_types: Listed[Literal["full_attention", "sliding_attention"]] | None = None
    pretraining_tp: Literal[1] = 1
    dtype: Literal["float32", "float16", "bfloat16"] | None = None
    torch_dtype: Literal["float32", "float16", "bfloat16"] | None = None
    transformers_version: str | None = None

    @model_validator(mode="after")
    def _is_of_one_build(self) -> Self:
        expected = ARCHITECTURES[self.model_type]
        if self.architectures != (expected,):
            raise ValueError(f"architectures of {self.model_type} is [{expected}]")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError("num_attention_heads must be a multiple of num_key_value_heads")
        if self.head_dim is None and self.model_type == "qwen3":
            raise ValueError("head_dim is missing")
        if self.head_dim is None and self.hidden_size % self.num_attention_heads:
            raise ValueError("hidden_size must be a multiple of num_attention_heads")
        if self.layer_types is not None and len(self.layer_types) != self.num_hidden_layers:
            raise ValueError("layer_types must have an entry for each of num_hidden_layers")
        return self

    @property
    def architecture(self) -> str:
        return self.architectures[0]

    def shapes(self) -> Shapes:
        """Of all tensors by name, the head too."""
        width = self.hidden_size
        found: Shapes = {
            "model.embed_tokens.weight": (self.vocab_size, width),
            "model.norm.weight": (width,),
            HEAD: (self.vocab_size, width),
        }
        for number in range(self.num_hidden_layers):
            for name, shape in self._of_layer():
                found[f"model.layers.{number}.{name}"] = shape
        return found

    def _of_layer(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        width, inner = self.hidden_size, self.intermediate_size
        head = self.head_dim or width // self.num_attention_heads
        asked, answered = self.num_attention_heads * head, self.num_key_value_heads * head
        linear = {
            "self_attn.q_proj": (asked, width),
            "self_attn.k_proj": (answered, width),
            "self_attn.v_proj": (answered, width),
            "self_attn.o_proj": (width, asked),
            "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width),
            "mlp.down_proj": (width, inner),
        }
        for name, shape in linear.items():
            yield f"{name}.weight", shape
            if self._has_bias(name):
                yield f"{name}.bias", shape[:1]
        yield "input_layernorm.weight", (width,)
        yield "post_attention_layernorm.weight", (width,)
        if self.model_type == "qwen3":
            yield "self_attn.q_norm.weight", (head,)
            yield "self_attn.k_norm.weight", (head,)

    def _has_bias(self, name: str) -> bool:
        if self.model_type == "qwen2":
            return name.startswith("self_attn.") and not name.endswith("o_proj")
        if self.model_type == "mistral":
            return False
        is_attention = name.startswith("self_attn.")
        return self.attention_bias if is_attention else self.mlp_bias


HEAD = "lm_head.weight"
"""Left out where `tie_word_embeddings` says that it is the embedding."""


def read_config(text: bytes) -> BaseModelConfig:
    """Raises `BadBaseModel`."""
    fields = read_json(CONFIG_FILE, text)
    if not isinstance(fields, dict):
        raise BadBaseModel(f"{CONFIG_FILE} must be a JSON object")
    kind = fields.get("model_type")
    if kind not in ARCHITECTURES:
        raise BadBaseModel(
            f"{CONFIG_FILE}: model_type is {str(kind)[:100]!r}, and base models that users bring are of"
            f" {', '.join(ARCHITECTURES)}"
        )
    try:
        return BaseModelConfig.model_validate_json(text, strict=True)
    except ValidationError as error:
        lines = explain(error, BaseModelConfig)[:3]
        raise BadBaseModel(f"{CONFIG_FILE}: {'; '.join(lines)}") from error


def read_json(name: str, text: bytes) -> JsonValue:
    """A file of JSON that names no code. Raises `BadBaseModel`."""
    try:
        found = cast("JsonValue", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise BadBaseModel(f"{name} is not JSON: {error}") from error
    left = [found]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict):
            for key in _CODE:
                if key in node:
                    raise BadBaseModel(
                        f"{name}: {key}: code that comes with a model is never run here; save it in the form that"
                        " transformers itself has for it"
                    )
            left += node.values()
    return found
