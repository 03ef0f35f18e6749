"""The part of a machine that joins the sampler of another one: `python -m warren_gpu_worker.sampler.child.joined NAME`.

Invariants: it ends, and its processes of vLLM with it, when its supervisor hangs up, when one of those processes ends,
and when the first machine is gone; the supervisor then starts the next one, which joins again.
"""

import logging
import os
import threading

from warren_broker.worker.channel import Channel
from warren_gpu_worker.base_models.loading import configured_ends, load_tokenizer
from warren_gpu_worker.base_models.vision_inputs import NoVision
from warren_gpu_worker.sampler.child.image_cache import look
from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Refused, join
from warren_gpu_worker.sampler.engines.vllm.startup import prepare_environment
from warren_gpu_worker.settings import GpuWorkerSettings

log = logging.getLogger(__name__)


def main() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    channel = Channel.inherited()
    threading.Thread(target=_leave_with, args=(channel,), name="supervisor", daemon=True).start()
    own = GpuWorkerSettings.model_validate_json(channel.arguments[0])
    try:
        gathered = join(own)
    except (Refused, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    gathered.watch(_leave)
    prepare_environment(own.device)
    from warren_gpu_worker.sampler.engines.vllm.part import compute_part

    (folder,) = own.base_models.values()
    vision = look(folder, Renderer(load_tokenizer(folder), configured_ends(folder)))
    sees = None if isinstance(vision, NoVision) else vision
    compute_part(folder, gathered.settings, gathered.place, sees)
    _leave("a process of vLLM has ended here")


def _leave_with(channel: Channel) -> None:
    channel.receive()  # which says nothing
    os._exit(0)


def _leave(reason: str) -> None:
    log.warning("%s", reason)
    os._exit(1)


if __name__ == "__main__":
    main()
