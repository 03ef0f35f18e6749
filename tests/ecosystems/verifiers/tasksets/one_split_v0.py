"""An environment of verifiers' v0 API that has no `eval_dataset`, as many have."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the package lies in an environment of its own)

import verifiers as vf
from datasets import Dataset


def load_environment(first: int = 0):
    rows = [{"question": f"{first}?", "answer": ""}]
    rubric = vf.Rubric(funcs=[replied])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric)


def replied(completion, **_):
    return float(len(completion))
