"""Models of the protocol's clients, made by the names that the clients give them.

Invariant: the same name is the same model, however often it is asked for.
"""

from warren_gateway.access.caller import Viewer
from warren_gateway.base_models.problems import UnusableBaseModel
from warren_gateway.runs.service import KeyReused
from warren_gateway.store.tables import TinkerSession
from warren_gateway.tinker.paths import SavedWeightsPath, key_of, model_name
from warren_gateway.tinker.runs import Trained
from warren_gateway.trainable.service import Models
from warren_schemas.config import FullUpdate, LoraUpdate, Update
from warren_schemas.http.trainable import BeginFrom, CreateModel
from warren_schemas.tinker.answers import WeightsInfo
from warren_schemas.tinker.requests import (
    CreateModelAsked,
    LoadNew,
    LoraConfig,
    OptimizerAsked,
)
from warren_schemas.training import ModelSpec

IDLE_S = 600.0
"""A client that is silent for so long has its models saved and closed."""
DETERMINISTIC = "deterministic"
"""Tag of a session whose models share no batches: the protocol has no place for it, and a recipe's user sets tags."""
_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")


class CantCreate(ValueError):
    """There can be no such model here; says why."""


async def created(
    models: Models, viewer: Viewer, session: TinkerSession, asked: CreateModelAsked
) -> str:
    """The model's name. Raises `CantCreate`, and what `Models.create` raises."""
    _require_adamw(asked.optimizer_config)
    name = model_name(asked.session_id, asked.model_seq_id)
    body = CreateModel(
        base_model=asked.base_model,
        update=_update(asked.lora_config),
        seed=_seed(asked.lora_config),
        deterministic=DETERMINISTIC in session.tags,
        name=name,
        key=key_of(name),
        metadata=asked.user_metadata,
        idle_s=IDLE_S,
    )
    return await _created(models, viewer, body, name)


async def created_from(
    models: Models,
    viewer: Viewer,
    session: TinkerSession,
    asked: LoadNew,
    source: Trained,
    path: SavedWeightsPath,
) -> str:
    """Like the model that the checkpoint is of. Raises `CantCreate`, and what `Models.create` raises."""
    _require_adamw(asked.optimizer_config)
    if asked.base_model not in (None, source.spec.base_model):
        raise CantCreate(f"{path} is of {source.spec.base_model}, not of {asked.base_model}")
    name = model_name(asked.session_id, asked.model_seq_id)
    body = CreateModel(
        base_model=source.spec.base_model,
        update=source.spec.update,
        seed=source.spec.seed,
        deterministic=DETERMINISTIC in session.tags,
        name=name,
        key=key_of(name),
        begin_from=BeginFrom(checkpoint=f"{source.id}/{path.name}", optimizer=asked.optimizer),
        metadata=asked.user_metadata,
        idle_s=IDLE_S,
    )
    return await _created(models, viewer, body, name)


async def _created(models: Models, viewer: Viewer, body: CreateModel, name: str) -> str:
    try:
        await models.create(viewer, body)
    except KeyReused as error:
        raise CantCreate(f"{name} was made before, of something else") from error
    except UnusableBaseModel as error:
        raise CantCreate(str(error)) from error
    return name


def _require_adamw(optimizer: OptimizerAsked | None) -> None:
    if optimizer is not None and optimizer.type != "adamw":
        raise CantCreate(f"The optimizer {optimizer.type} is not offered here; adamw is")


def _update(lora: LoraConfig | None) -> Update:
    """Adapters are on the layers' linear modules; the unembedding has none."""
    if lora is None:
        return FullUpdate()
    if not (lora.train_mlp or lora.train_attn):
        raise CantCreate("With train_mlp and train_attn off nothing would be trained")
    exclude = () if lora.train_attn else _ATTENTION
    return LoraUpdate(rank=lora.rank, exclude=exclude if lora.train_mlp else _MLP)


def weights_told(spec: ModelSpec) -> WeightsInfo:
    """What was asked for when such a model was made."""
    update = spec.update
    if update.kind == "full":
        return WeightsInfo(base_model=spec.base_model, is_lora=False)
    return WeightsInfo(
        base_model=spec.base_model,
        is_lora=True,
        lora_rank=update.rank,
        train_unembed=False,
        train_mlp=not set(_MLP) <= set(update.exclude),
        train_attn=not set(_ATTENTION) <= set(update.exclude),
    )


def _seed(lora: LoraConfig | None) -> int:
    return 0 if lora is None or lora.seed is None else lora.seed
