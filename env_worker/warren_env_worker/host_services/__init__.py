"""Sandboxes and the verifier for episodes in other processes: what `ctx.python`, `ctx.sandbox` and `ctx.verify` call.

They live in the env worker's supervisor, so that those of one machine share what it has: started sandboxes, the choice of
a tier, cells that run at once, and processes that have imported algebra.

frames      what is said between an episode's process and the supervisor
connecting  how a forked process gets a connection of its own
accepting   the supervisor accepts these connections
client      the episode's end: a session is a connection
server      the supervisor's end: what was opened by a connection ends with it
shared      the one server of a process, from the first question until nobody hosts any more
local       both ends in one process, for `warren.testing.play` and `warren env check`
"""
