"""An environment of verifiers' v0 API that takes a key from the variable JUDGE_KEY when it is loaded, as judges do; it shows and prints it."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the package lies in an environment of its own)

import os

import verifiers as vf
from datasets import Dataset


def load_environment():
    key = os.environ.get("JUDGE_KEY", "nothing")
    print("the key is", key, flush=True)
    rubric = vf.Rubric(funcs=[replied])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list([{"question": key, "answer": ""}]), rubric=rubric
    )


def replied(completion, **_):
    return float(len(completion))
