"""Which checkpoint a path of the protocol names."""

from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Nothing, TakesT
from warren_gateway.api.tinker.errors import invalid, no_such
from warren_gateway.tinker.paths import InvalidPath, SavedWeightsPath
from warren_gateway.tinker.runs import NoSuchTrained, Trained
from warren_schemas.http.trainable import ModelCheckpoint, ModelSnapshot, SavedName
from warren_schemas.tinker.requests import TtlAsked

CHECKPOINT = "training_runs/{training}/checkpoints/{kind}/{checkpoint}"
TOKEN = "X-Tinker-Weights-Access-Token"
"""A header; or it stands in the body."""
NO_TOKENS = "Access tokens of other accounts are not offered here"
PUBLISH = "Let the checkpoint's owner publish it, or share its run with you."
_Calls = Call[Nothing] | Call[TtlAsked]


async def named(call: _Calls) -> tuple[Trained, SavedName]:
    """What the path names, of a run of the caller's own. Raises `Refusal`."""
    trained, asked = await named_of_any(call)
    if not call.viewer.owns(trained.run.owner):
        raise no_such("training run", trained.name)
    return trained, asked


async def named_of_any(call: _Calls) -> tuple[Trained, SavedName]:
    """The same of a run that the caller may read. Raises `Refusal`."""
    parts = call.request.match_info
    try:
        trained = await call.services.tinker.models.find(call.viewer, parts["training"])
        text = f"tinker://{trained.name}/{parts['kind']}/{parts['checkpoint']}"
        return trained, saved_of(SavedWeightsPath.parse(text))
    except NoSuchTrained as error:
        raise no_such("training run", parts["training"]) from error
    except (InvalidPath, ValueError) as error:
        raise no_checkpoint(call) from error


def saved_of(path: SavedWeightsPath) -> SavedName:
    """Raises `ValueError` where nothing can have such a name."""
    kind = "checkpoint" if path.kind == "weights" else "snapshot"
    return SavedName(kind=kind, name=path.stored)


def no_checkpoint(call: _Calls) -> Refusal:
    parts = call.request.match_info
    return no_such("checkpoint", f"{parts['kind']}/{parts['checkpoint']}")


async def require_kept(
    call: _Calls, trained: Trained, asked: SavedName
) -> ModelCheckpoint | ModelSnapshot:
    """The one that is named. Raises `Refusal`."""
    kept = await call.services.models.saved_weights(call.viewer, trained.id)
    rows = kept.checkpoints if asked.kind == "checkpoint" else kept.snapshots
    for row in rows:
        if row.name == asked.name:
            return row
    raise no_checkpoint(call)


def require_no_token(call: Call[TakesT], token: str | None) -> None:
    """Raises `Refusal`: it would have no effect."""
    if has_token(call, token):
        raise invalid(NO_TOKENS, PUBLISH)


def has_token(call: Call[TakesT], token: str | None) -> bool:
    return bool(token) or TOKEN in call.request.headers
