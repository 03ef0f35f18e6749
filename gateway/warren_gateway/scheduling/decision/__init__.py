"""The scheduler's decision as a pure function: no store, no clock, no broker.

Order: jobs that lost their trainer, then priority, then fair shares by owner (least weighted use
first, with what is held counted), then FIFO.

Invariants
- No more jobs are admitted than there is announced room, those counted that nobody took yet.
- A job that can't move, or whose owner is at the quota, delays nobody behind it.
- A job that needs a whole worker keeps the worker that it was given until it is in; small jobs of
  its priority can't take it back. So it waits for a bounded number of releases.
- The same input gives the same decision, in whatever order its rows come.
- No reason names a run, a model or an owner.

Sources: the order and the half-life of use are those of Slurm's multifactor plugin
(https://slurm.schedmd.com/priority_multifactor.html) and of Kueue's admission fair sharing, which also
charges an owner at admission (https://kueue.sigs.k8s.io/docs/concepts/admission_fair_sharing/);
reserving and backfilling are Slurm's (https://slurm.schedmd.com/sched_config.html), with drained workers
in the place of time limits, which our jobs don't have; that a large job reserves after some time, whatever is ahead, is
Volcano's (https://github.com/volcano-sh/volcano/blob/master/docs/design/sla-plugin.md).
"""

from warren_gateway.scheduling.decision.decide import decide
from warren_gateway.scheduling.decision.inputs import HeldJob, OwnerShare, TrainerState, WaitingJob
from warren_gateway.scheduling.decision.outcome import Decision, Place

__all__ = ["Decision", "HeldJob", "OwnerShare", "Place", "TrainerState", "WaitingJob", "decide"]
