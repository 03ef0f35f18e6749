"""One client of the benchmark: the SDK's own Python runs this, of whichever version.

    python client.py URL KEY BASE_MODEL SECONDS train|sample

Says `ready`, begins when a line comes, and prints how much it did, in which time, and what each step or burst took.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# (the SDK lies in an environment of its own)

import json
import logging
import signal
import sys
import time
import warnings

import tinker
from tinker import types

N_SEQUENCES, N_TOKENS, RANK = 8, 64, 8
N_AT_ONCE, N_SAMPLED = 32, 16
PROMPT = list(range(2, 34))
N_WARM = 3
PATIENCE_S = 240
"""Of all that isn't measured: a server that doesn't answer would keep the SDK waiting without end."""


def datum(number):
    ids = [2 + (number * 7 + place * 3) % 50 for place in range(N_TOKENS + 1)]
    inputs = {
        "target_tokens": types.TensorData(data=ids[1:], dtype="int64"),
        "weights": types.TensorData(data=[1.0] * N_TOKENS, dtype="float32"),
    }
    return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)


def trains(service, base_model):
    trainer = service.create_lora_training_client(base_model=base_model, rank=RANK)
    trainer = (
        trainer.result() if hasattr(trainer, "result") else trainer
    )  # older SDKs wait themselves
    data = [datum(number) for number in range(N_SEQUENCES)]

    def step():
        gradient = trainer.forward_backward(data, "cross_entropy")
        taken = trainer.optim_step(types.AdamParams(learning_rate=1e-4))
        gradient.result()
        taken.result()
        return 1

    return step


def samples(service, base_model):
    sampler = service.create_sampling_client(base_model=base_model)
    asked = {
        "prompt": types.ModelInput.from_ints(PROMPT),
        "num_samples": 1,
        "sampling_params": types.SamplingParams(max_tokens=N_SAMPLED),
    }

    def burst():
        for future in [sampler.sample(**asked) for _ in range(N_AT_ONCE)]:
            future.result()
        return N_AT_ONCE

    return burst


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    url, key, base_model, seconds, what = sys.argv[1:6]
    signal.alarm(int(float(seconds)) + PATIENCE_S)
    service = tinker.ServiceClient(base_url=url, api_key=key)
    once = {"train": trains, "sample": samples}[what](service, base_model)
    for _ in range(N_WARM):
        once()
    print("ready", flush=True)
    sys.stdin.readline()
    begun, n, took = time.perf_counter(), 0, []
    while time.perf_counter() - begun < float(seconds):
        before = time.perf_counter()
        n += once()
        took.append(time.perf_counter() - before)
    told = {"n": n, "lasted_s": time.perf_counter() - begun, "took_s": took}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
