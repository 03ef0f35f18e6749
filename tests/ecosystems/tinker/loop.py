"""A training loop of Tinker's SDK, as its users write them: the SDK's own Python runs this.

    python loop.py URL KEY BASE_MODEL STEPS

Says each step as it is done, and last the trainer's logprobs of the data, which tell the weights.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# (the SDK lies in an environment of its own)

import logging
import sys
import warnings

import tinker
from tinker import types


def datum(step: int):
    ids = [2, 9 + step % 5, 14, 20 - step % 3, 7]
    inputs = {
        "target_tokens": types.TensorData(data=ids[1:], dtype="int64"),
        "weights": types.TensorData(data=[0.0, 1.0, 1.0, 1.0], dtype="float32"),
    }
    return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    url, key, base_model, n_steps = sys.argv[1:5]
    service = tinker.ServiceClient(base_url=url, api_key=key)
    trainer = service.create_lora_training_client(base_model=base_model, rank=4, seed=1).result()
    for step in range(int(n_steps)):
        gradients = trainer.forward_backward([datum(step), datum(step + 1)], "cross_entropy")
        taken = trainer.optim_step(types.AdamParams(learning_rate=1e-2))
        gradients.result()
        taken.result()
        sampler = trainer.save_weights_and_get_sampling_client()
        sampler = sampler.result() if hasattr(sampler, "result") else sampler
        sampler.sample(
            prompt=types.ModelInput.from_ints([2, 9]),
            num_samples=2,
            sampling_params=types.SamplingParams(max_tokens=4),
        ).result()
        print("step", step, flush=True)
    told = trainer.forward([datum(0)], "cross_entropy").result().loss_fn_outputs[0]["logprobs"]
    print("weights", [value.hex() for value in map(float, told.tolist())], flush=True)


if __name__ == "__main__":
    main()
