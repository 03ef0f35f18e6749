"""`stable_reinforce` asked for by Tinker's SDK, and what is computed for it: the SDK's own Python runs this.

    python standing.py URL KEY BASE_MODEL LOSS

Says as one JSON object the metrics and logprobs of both losses, and why the settings of the first are refused.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the SDK lies in an environment of its own)

import json
import logging
import sys
import warnings

import tinker
from tinker import types

IDS = [2, 9, 14, 20, 7]


def datum():
    tensors = {"logprobs": [0.0, -1.0, -2.0, -3.0], "advantages": [0.0, 1.0, -1.0, 0.5]}
    inputs = {name: types.TensorData(data=v, dtype="float32") for name, v in tensors.items()}
    inputs["target_tokens"] = types.TensorData(data=IDS[1:], dtype="int64")
    return types.Datum(model_input=types.ModelInput.from_ints(IDS[:-1]), loss_fn_inputs=inputs)


def told(future):
    output = future.result()
    return output.metrics, output.loss_fn_outputs[0]["logprobs"].tolist()


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    url, key, base_model, loss = sys.argv[1:]
    service = tinker.ServiceClient(base_url=url, api_key=key)
    trainer = service.create_lora_training_client(base_model=base_model, rank=4, seed=1).result()
    asked = ("stable_reinforce", loss)
    outcomes = [told(trainer.forward([datum()], name)) for name in asked]
    try:
        trainer.forward([datum()], "stable_reinforce", {"kl_coeff": 0.1}).result()
    except tinker.RequestFailedError as error:
        print(json.dumps([*outcomes, str(error)]))


if __name__ == "__main__":
    main()
