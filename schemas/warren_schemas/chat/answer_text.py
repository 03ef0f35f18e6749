"""What a policy says aloud, as opposed to what it thinks."""


def spoken(words: str) -> str:
    """What follows the last `</think>`; nothing of a thought that was never closed."""
    after = words.rpartition("</think>")[2]
    return after.partition("<think>")[0]
