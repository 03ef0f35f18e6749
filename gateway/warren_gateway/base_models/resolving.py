"""From a base model as a config names it to what GPU workers call it, which is what a run records.

Invariant: a config that is stored names an uploaded base model only if its submitter may use it; that stays until the run
is over.
"""

from sqlmodel import Session

from warren_gateway.access.caller import Viewer
from warren_gateway.base_models.problems import NoSuchBaseModel, UnusableBaseModel
from warren_gateway.base_models.stored import exact_name
from warren_schemas.config import TrainConfig


def with_base(session: Session, viewer: Viewer, config: TrainConfig) -> TrainConfig:
    """The config with the exact name of its base model. Raises `UnusableBaseModel`."""
    exact = usable_base(session, viewer, config.model.base)
    if exact == config.model.base:
        return config
    return config.model_copy(update={"model": config.model.model_copy(update={"base": exact})})


def usable_base(session: Session, viewer: Viewer, base_model: str) -> str:
    """Raises `UnusableBaseModel`."""
    try:
        return exact_name(session, viewer, base_model, for_use=True)
    except NoSuchBaseModel as error:
        raise UnusableBaseModel(f"there is no base model {error}") from error
