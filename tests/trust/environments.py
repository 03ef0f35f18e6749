"""An environment that tells all that its process knows."""

import json
import os
import re

from warren.environment import Context, Env, StepResult


class Nosy(Env):
    name = "nosy"

    def reset(self, task: None, ctx: Context) -> str:
        self.secrets = ctx.secrets
        return json.dumps({**os.environ, **{f"secret {name}": "" for name in ctx.secrets}})

    def step(self, action: str) -> StepResult:
        value = self.secrets["JUDGE"]
        print("=" * 65_500 + value, flush=True)  # 64 KiB of an episode are kept
        raise ValueError("x" * 250 + value)


class Searching(Env):
    """It shows whose secrets lie anywhere in the memory of its process."""

    name = "searching"

    def __init__(self, key_variable: str = "") -> None:
        self.key_variable = key_variable

    def reset(self, task: None, ctx: Context) -> str:
        for value in ctx.secrets.values():
            os.write(1, b"begun %s\n, not ended %s" % (value.encode(), value[:-1].encode()))
        return json.dumps(sorted(owners_in_memory()))

    def step(self, action: str) -> StepResult:
        return StepResult("", done=action == "end")


class Apart(Searching):
    isolation = "episode"


def owners_in_memory() -> set[str]:
    found = set[bytes]()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps.read().splitlines():
            begin, end = (int(place, 16) for place in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and not line.endswith(("[vvar]", "[vsyscall]")):
                memory.seek(begin)
                found.update(re.findall(rb"sk-of-(\w+)-01234567", memory.read(end - begin)))
    return {owner.decode() for owner in found}


class Quoting(Env):
    """Refuses its config, or fails in a turn, in the words of the config; in a process that all share."""

    name = "quoting"
    isolation = "shared"

    def __init__(self, words: str, refuses: bool = False) -> None:
        if refuses:
            raise ValueError(words)
        self.words = words

    def reset(self, task: None, ctx: Context) -> str:
        return "?"

    def step(self, action: str) -> StepResult:
        raise RuntimeError(self.words)
