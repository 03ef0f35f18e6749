"""Errors about users' base models as HTTP answers."""

from warren_gateway.base_models.problems import (
    BaseModelInUse,
    NoBaseModels,
    NoSuchBaseModel,
    UnusableBaseModel,
    WrongBaseModel,
)
from warren_schemas.http import Problem

BaseModelProblem = (
    BaseModelInUse | NoBaseModels | NoSuchBaseModel | UnusableBaseModel | WrongBaseModel
)
BASE_MODEL_PROBLEMS = (
    BaseModelInUse, NoBaseModels, NoSuchBaseModel, UnusableBaseModel, WrongBaseModel,
)  # fmt: skip
_LISTED = "`warren base-models ls` lists yours and those that are shared with you."


def of_base_models(error: BaseModelProblem) -> tuple[int, Problem]:
    """Status and body."""
    message = f"{error}."
    match error:
        case NoSuchBaseModel():
            message = f"There is no base model {message}"
            return 404, Problem(code="no_such_base_model", message=message, hint=_LISTED)
        case BaseModelInUse():
            return 409, Problem(code="base_model_in_use", message=message)
        case NoBaseModels():
            hint = "Its operator says what it takes: --uploaded-model-gib."
            return 403, Problem(code="base_models_not_taken", message=message, hint=hint)
        case WrongBaseModel():
            hint = "Correct it and upload it again; nothing was stored."
            return 422, Problem(code="wrong_base_model", message=message, hint=hint)
        case UnusableBaseModel():
            message = "The config has 1 mistake."
            return 422, Problem(
                code="invalid_config", message=message, details=(str(error),), hint=_LISTED
            )
