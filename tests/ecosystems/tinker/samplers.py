"""Samplers of Tinker's SDK that stay, and one that moves on, over many updates: the SDK's own Python runs this.

    python samplers.py URL KEY BASE_MODEL UPDATES

Says `half`, then `published`, and each time goes on once it gets a line. Last it prints a JSON object: logprobs of the same
tokens, as samplers and the trainer tell them before and after.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# (the SDK lies in an environment of its own)

import json
import logging
import sys
import warnings

import tinker
from tinker import types

IDS = [2, 9, 14, 20, 7]


def datum():
    inputs = {
        "target_tokens": types.TensorData(data=IDS[1:], dtype="int64"),
        "weights": types.TensorData(data=[1.0] * 4, dtype="float32"),
    }
    return types.Datum(model_input=types.ModelInput.from_ints(IDS[:-1]), loss_fn_inputs=inputs)


def told(sampler):
    return sampler.compute_logprobs(types.ModelInput.from_ints(IDS)).result()[1:]


class Loop:
    def __init__(self, url, key, base_model):
        service = tinker.ServiceClient(base_url=url, api_key=key)
        made = service.create_lora_training_client(base_model=base_model, rank=4, seed=1)
        self.trainer = made.result()

    def update(self):
        gradients = self.trainer.forward_backward([datum()], "cross_entropy")
        taken = self.trainer.optim_step(types.AdamParams(learning_rate=1e-2))
        gradients.result()
        taken.result()

    def opened(self, kind="snapshot"):
        return self.trainer.save_weights_and_get_sampling_client(kind=kind).result()

    def trained(self):
        """What the weights are now."""
        outputs = self.trainer.forward([datum()], "cross_entropy").result().loss_fn_outputs
        return list(map(float, outputs[0]["logprobs"].tolist()))


def waited(word):
    print(word, flush=True)
    sys.stdin.readline()


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    url, key, base_model, n_updates = sys.argv[1:5]
    loop, n = Loop(url, key, base_model), int(n_updates)
    loop.update()
    first, moving = loop.opened(), loop.opened("inflight")
    logprobs = {"first trained": loop.trained(), "first": told(first), "moving": told(moving)}
    loop.update()
    unused = loop.opened()
    logprobs["unused trained"] = loop.trained()
    for number in range(n):
        loop.update()
        loop.opened()
        loop.opened("inflight")
        if number == n // 2:
            waited("half")
    logprobs["moved trained"], logprobs["moved"] = loop.trained(), told(moving)
    waited("published")
    logprobs["moved later"] = told(moving)
    logprobs["first later"], logprobs["unused later"] = told(first), told(unused)
    loop.update()
    newest = loop.opened()
    logprobs["newest trained"], logprobs["newest"] = loop.trained(), told(newest)
    logprobs["moved no further"] = told(moving)
    print(json.dumps(logprobs), flush=True)


if __name__ == "__main__":
    main()
