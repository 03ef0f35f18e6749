"""The client without `await`, for scripts and notebooks: the same methods, each done when it returns.

    import warren

    client = warren.sync.connect()
    run = client.train("guess.yaml")
    for event in run.events():
        print(event)
    print(run.result())

Requests run on an event loop in a thread of their own, so this works in Jupyter as well, where a loop runs
already. Ctrl-C ends the call that waits. `close`, `with` or the end of the program ends the connection.
"""

from warren.sync.client import Client, connect
from warren.sync.evaluation import Evaluation
from warren.sync.run import Run

__all__ = ["Client", "Evaluation", "Run", "connect"]
