"""What a model that is spread over several processes or machines is compared with."""

from tests.support.engines import Bench, completed, gap
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engines.port import PolicyKey
from warren_schemas.config import Sampling

SHORT = Sampling(max_tokens=12)


def largest_gap(bench: Bench, key: PolicyKey, model: PreTrainedModel) -> float:
    """Of the logprobs of a few turns from the model's own."""
    requests = bench.submit(key, SHORT, n=4)
    done = bench.finish()
    return max(gap(model, request, completed(done[request.id])) for request in requests)
