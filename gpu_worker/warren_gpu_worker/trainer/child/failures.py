"""What becomes of a model, or of the process, with an op that fails."""

from warren_gpu_worker.device_errors import is_out_of_memory
from warren_gpu_worker.trainer.errors import (
    OpTooLarge,
    PassTooLarge,
    reason_of,
)
from warren_gpu_worker.trainer.training.ranks import Ranks
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_schemas.ids import ModelId
from warren_schemas.training import ForwardBackward, OpBody, OpFailed, OptimStep, Refused


def failed(model: TrainableModel, body: OpBody, why: str, *, is_users: bool = False) -> OpFailed:
    """What a failed op leaves behind: no half gradient, and a window that knows."""
    if isinstance(body, ForwardBackward) or (isinstance(body, Refused) and body.spoils_gradient):
        model.optimizer.zero_grad(set_to_none=True)
        model.window_failure = model.window_failure or f"op {model.last_op}: {why}"
    elif isinstance(body, OptimStep) or (isinstance(body, Refused) and body.begins_window):
        model.drop_gradient()
    return OpFailed(reason=why, is_users=is_users)


def too_large(error: Exception, model: ModelId, number: int, ranks: Ranks) -> OpTooLarge | None:
    """The error, where it is a lack of memory that ends the process."""
    if isinstance(error, PassTooLarge):
        return OpTooLarge(model, number, str(error), error.max_tokens)
    if is_out_of_memory(error) and ranks.must_end(error):
        return OpTooLarge(model, number, reason_of(error))
    return None
