"""What is wanted of a run, by its owner as a rule; cancelling at once has a column of its own."""

from enum import StrEnum


class StopRequest(StrEnum):
    SAVE_AND_CANCEL = "save_and_cancel"
    FINISH = "finish"
    PAUSE = "pause"
    CLIENT_GONE = "client_gone"
    """Not its owner's word: `on_disconnect` was `cancel`, and its client is gone. Saved and cancelled."""
