"""Which job goes to a trainer next: one decision, in one place, in the store.

Invariants
- A run has one job, and the job's row is written in the transaction of what happened to it: submitted,
  admitted here, taken and given back by its coordinator, over.
- Decisions are made one after another, also those of several gateways: whoever decides has the lock of the
  `scheduler` row.
- What is decided is the policy's (`policy`), which knows neither the store nor a clock.
- A decision is due when something changed (a job, or a trainer's standing), and every now and then all the
  same, for a change that nobody heard of.
"""
