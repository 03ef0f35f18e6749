"""What the owner of a run may want of it; cancelling at once has a column of its own."""

from enum import StrEnum


class Wish(StrEnum):
    SAVE_AND_CANCEL = "save_and_cancel"
    FINISH = "finish"
    PAUSE = "pause"
