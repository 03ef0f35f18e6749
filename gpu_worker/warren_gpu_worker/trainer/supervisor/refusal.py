"""The answer to a grant that this worker can't take: the coordinator tries another worker."""

import logging

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import Unroutable
from warren_broker.port import Broker
from warren_broker.run_logs.run_logger import RunLogger
from warren_broker.topology import results
from warren_gpu_worker.trainer.supervisor.model_lease import is_awaited
from warren_schemas.envelope import Envelope
from warren_schemas.training import OpenModel, OpFailed, OpResult

log = logging.getLogger(__name__)
run_log = RunLogger(__name__)


async def refuse(
    broker: Broker, batch_publisher: BatchPublisher, order: OpenModel, reason: str
) -> None:
    """Tell the coordinator, if there still is one. Raises `BrokerUnavailable`.

    Two coordinators had the same worker in mind, and the other one was first; or the grant is an old one, come
    late (then nobody heeds the answer) or made by who has lost the newer ones.
    """
    run = order.envelope.run
    run_log.info(run, f"epoch {order.epoch} of {order.model} is refused: {reason}")
    refusal = OpResult(
        envelope=Envelope(run=run),
        model=order.model,
        epoch=order.epoch,
        number=0,
        outcome=OpFailed(reason=reason, elsewhere=True),
    )
    try:
        if await is_awaited(broker, order.model):
            await batch_publisher.send(results(order.model), refusal)
    except Unroutable:
        log.info("nobody wants the answers of %s any more", order.model)
