"""Errors about models that clients train, as HTTP answers."""

from warren_gateway.trainable.problems import (
    InvalidOp,
    ModelClosed,
    NoSuchFuture,
    NoSuchSavedWeights,
    NoSuchTrainable,
    RequestConflict,
    SavedWeightsInUse,
)
from warren_schemas.http import Problem

ModelProblem = (
    InvalidOp
    | SavedWeightsInUse
    | ModelClosed
    | NoSuchFuture
    | NoSuchSavedWeights
    | NoSuchTrainable
    | RequestConflict
)
MODEL_PROBLEMS = (
    InvalidOp, SavedWeightsInUse, ModelClosed, NoSuchFuture, NoSuchSavedWeights, NoSuchTrainable, RequestConflict,
)  # fmt: skip


def of_models(error: ModelProblem) -> tuple[int, Problem]:
    """The status and what is told."""
    match error:
        case NoSuchTrainable():
            return 404, Problem(
                code="no_such_model",
                message=f"There is no model {error} that you train.",
                hint="GET /v1/trainable lists yours.",
            )
        case NoSuchFuture():
            return 404, Problem(
                code="no_such_future",
                message=f"There is no future {error}, or its outcome is not kept any more.",
                hint="Outcomes are kept for 15 minutes after they were first told.",
            )
        case NoSuchSavedWeights():
            return 404, Problem(
                code="no_such_checkpoint",
                message=f"{error}.".capitalize(),
                hint="GET /v1/trainable/MODEL/kept lists what there is.",
            )
        case SavedWeightsInUse():
            return 409, Problem(
                code="checkpoint_in_use",
                message=f"{error}.".capitalize(),
                hint="Delete it once that run trains, or cancel the run.",
            )
        case ModelClosed():
            return 409, Problem(
                code="model_closed",
                message=f"It takes no more ops: {error}.",
                hint="Create a model that begins from one of its checkpoints.",
            )
        case RequestConflict():
            return 409, Problem(
                code="idempotency_key_reused",
                message=f"The {error}.",
                hint="Use a new one for another op.",
            )
        case InvalidOp():
            n = len(error.lines)
            return 422, Problem(
                code="invalid_op",
                message=f"The op has {n} mistake{'s' if n > 1 else ''}.",
                details=error.lines,
            )
