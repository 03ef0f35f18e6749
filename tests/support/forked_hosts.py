"""Hosts whose children are forks of a process that has imported all of an env worker but the environments.

For tests of what a host and its environments do. Those that look at how a child starts, at its memory, or at what
it was started with and its limits, take `hosting.hosting`.
"""

from functools import partial

from tests.support import hosting as real
from tests.support.forked_children import Zygote

from warren_broker.worker.child import Child
from warren_env_worker.host.startup import CHILD_MODULE

_ZYGOTE = Zygote(CHILD_MODULE, "warren_env_worker.rubric_environment")

spawn_forked = partial(Child.spawn, execute=_ZYGOTE.execute)
hosting = partial(real.hosting, spawn_child=spawn_forked)
hosted = partial(real.hosted, spawn_child=spawn_forked)
