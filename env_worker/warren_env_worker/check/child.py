"""The process that plays the environment: `python -m warren_env_worker.check.child`; its argument is a job.

What user code prints goes to the watching process, whatever prints it; a crash leaves a stack.
"""

import faulthandler
import os
import sys
from functools import partial

import orjson

from warren_broker.worker.channel import Channel
from warren_env_worker.check.checks import run_checks
from warren_env_worker.check.probe import Probe
from warren_env_worker.check.wire import (
    Begun,
    Done,
    Imported,
    Job,
    NotImported,
    Told,
    announce,
    pack,
)
from warren_env_worker.host.environment_class.importing import ImportFailed, import_environment
from warren_env_worker.output.stack import answer_signals
from warren_env_worker.permissions.secrets import WithoutSecrets


def main() -> None:
    channel = Channel.inherited()
    job = Job(**orjson.loads(channel.arguments[0]))
    sys.stdout = sys.stderr = WithoutSecrets.before(sys.stderr)
    faulthandler.enable(file=job.watch)
    answer_signals(job.watch)
    tell = partial(_tell, channel)
    tell(Begun(f"importing {job.reference}"))
    try:
        environment = import_environment(job.reference)
    except ImportFailed as error:
        return tell(NotImported(str(error)))
    mark = partial(announce, job.mark)
    probe = Probe(environment, job.config, job.split, announce=mark, watch=job.watch)
    tell(Imported(probe.root))
    for finding in run_checks(probe, lambda what: tell(Begun(what))):
        tell(finding)
    tell(Done())
    sys.stdout.flush()
    os._exit(0)  # threads and exit handlers of user code are nobody's concern any more


def _tell(channel: Channel, told: Told) -> None:
    channel.send(pack(told))


if __name__ == "__main__":
    main()
