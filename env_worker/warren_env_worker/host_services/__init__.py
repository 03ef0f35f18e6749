"""Sandboxes and the verifier, lent to episodes in other processes: what `ctx.python`, `ctx.sandbox` and `ctx.verify` ask.

They live in the env worker's supervisor, so that those of one machine share what it has: started sandboxes, the choice of
a tier, cells that run at once, and processes that have imported algebra.

frames    what is said between an episode's process and the supervisor
front     how a process that was forked gets a connection of its own; `lending` is the other side of that
client    the episode's end: a session is a connection
server    the supervisor's end: what was opened by a connection ends with it
local     both ends in one process, for `warren.testing.play` and `warren env check`
"""
