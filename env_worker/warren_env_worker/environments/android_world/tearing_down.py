"""The task that a server was given last, undone on its device: a task restores its own apps alone, so whoever comes next
would find what this one left in the others'.

Invariant: a slot forgets its task once that is torn down, or can't be on a device that is well; that one would fail again and again.
"""

from warren.environment import ConfigError
from warren_env_worker.environments.android_world.server import AndroidServer, Refused
from warren_env_worker.environments.android_world.slots import GivenTask, Slot, goal_digest


async def tear_down(server: AndroidServer, slot: Slot) -> None:
    """Of whoever has the slot. Raises `SlotLost`, and `Refused` where the server is well and the task can't be torn down."""
    task = slot.task
    if task is None:
        return
    try:
        if not await _is_known(server, task):
            await server.reinitialize(task.family, task.n_combinations, task.seed)
        await server.tear_down(task.named)
    except (Refused, ConfigError) as error:
        await server.check_health()
        slot.forget()
        raise Refused("task/tear_down") from error
    slot.forget()


async def _is_known(server: AndroidServer, task: GivenTask) -> bool:
    """The server still has the very task, which may know more of itself than one that is made anew."""
    try:
        n_combinations = await server.n_combinations(task.task_type)
        goal = await server.goal(task.named)
    except Refused:
        return False
    return (n_combinations, goal_digest(goal)) == (task.n_combinations, task.goal)
