"""What Tinker's SDK is told while a model waits for a trainer: the SDK's own Python runs this.

    python waiting.py URL KEY BASE_MODEL

Says what the SDK logs when a session begins, and then as one JSON object the state of the queue that it is told first.
The SDK itself logs that, from 0.35 on once a model has waited for 15 minutes.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the SDK lies in an environment of its own)

import json
import logging
import os
import sys
import warnings

import tinker
from tinker import types
from tinker.lib.api_future_impl import QueueStateObserver


class First(QueueStateObserver):
    def on_queue_state_change(self, queue_state, queue_state_reason):
        print(json.dumps([queue_state.value, queue_state_reason]), flush=True)
        os._exit(0)


def main():
    warnings.simplefilter("ignore")
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    url, key, base_model = sys.argv[1:]
    service = tinker.ServiceClient(base_url=url, api_key=key)
    trainer = service.create_lora_training_client(base_model=base_model, rank=4).result()
    trainer._queue_state_logger = First()
    trainer.optim_step(types.AdamParams(learning_rate=1e-2)).result()


if __name__ == "__main__":
    main()
