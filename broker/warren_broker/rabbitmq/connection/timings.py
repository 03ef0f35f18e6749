"""How long the client of RabbitMQ waits for what."""

from dataclasses import dataclass

VISIT_S = 60.0
"""From the making of a queue to the look whether it is whole."""


@dataclass(frozen=True, slots=True)
class Timings:
    confirm_s: float = 10.0
    """One attempt to publish, for its confirm."""
    durable_after_s: float = 2.0
    """The age at which a new queue counts as safe from a crash of the server: RabbitMQ 3.10 writes its
    name down one second after creating it; the same again to spare."""
    close_s: float = 3.0
    """The closing of channels and connections, for its answer."""
    answer_s: float = 6.0
    """A queue that says nothing for so long is mute, or its server is."""
    visit_s: float = VISIT_S
