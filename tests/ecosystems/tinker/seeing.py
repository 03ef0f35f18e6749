"""Samples of a prompt with an image, asked by Tinker's SDK: the SDK's own Python runs this.

    python seeing.py URL KEY BASE_MODEL IMAGE BEFORE BEHIND N

IMAGE is a PNG file that has N tokens; BEFORE and BEHIND are the ids around it. Prints one JSON object for each time that
it asks the same, the second time after it has said `again`.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the SDK lies in an environment of its own)

import json
import logging
import os
import sys
import warnings
from pathlib import Path

import tinker
import torch
from tinker import types

TARGET = 40


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    url, key, base_model, file, before, behind, n_tokens = sys.argv[1:]
    service = tinker.ServiceClient(base_url=url, api_key=key)
    sampler = service.create_sampling_client(base_model=base_model)
    shown = types.ImageChunk(
        data=Path(file).read_bytes(), format="png", expected_tokens=int(n_tokens)
    )
    text = [
        types.EncodedTextChunk(tokens=list(map(int, ids.split(",")))) for ids in (before, behind)
    ]
    prompt = types.ModelInput(chunks=[text[0], shown, text[1]])
    print(json.dumps(asked(sampler, prompt)), flush=True)
    print("again", flush=True)
    print(json.dumps(asked(sampler, prompt)), flush=True)


def asked(sampler, prompt):
    ids = torch.full((prompt.length - 1, 1), -1, dtype=torch.int64)
    ids[-1, 0] = TARGET
    told = sampler.sample(
        prompt=prompt,
        num_samples=2,
        sampling_params=types.SamplingParams(max_tokens=200, stop=[]),
        include_prompt_logprobs=True,
        target_prompt_logprobs=types.TensorData.from_torch_sparse(ids, pad_value=-1),
        prompt_alt_tokens_k=2,
    ).result()
    alternatives = told.prompt_alt_tokens
    return {
        "tokens": [list(map(int, sequence.tokens)) for sequence in told.sequences],
        "logprobs": [list(map(float, sequence.logprobs)) for sequence in told.sequences],
        "prompt": told.prompt_logprobs[1:],
        "target": float(told.target_prompt_logprobs.to_torch()[-1, 0]),
        "drawn": alternatives.tokens.to_torch()[-1].tolist(),
        "drawn_logprobs": alternatives.logprobs.to_torch()[-1].tolist(),
    }


if __name__ == "__main__":
    main()
    os._exit(
        0
    )  # all is said; threads of the SDK's go on while an interpreter ends, and may abort it
