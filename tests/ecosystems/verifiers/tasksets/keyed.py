"""A taskset of verifiers' v1 API that takes a key from the variable JUDGE_KEY; it shows and prints it."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the package lies in an environment of its own)

import os

import verifiers.v1 as vf

__all__ = ["Keyed"]


class Keyed(vf.Taskset[vf.Task, vf.TasksetConfig]):
    def load(self):
        key = os.environ.get("JUDGE_KEY", "nothing")
        print("the key is", key, flush=True)
        yield vf.Task(vf.TaskData(prompt=key), self.config.task)
