"""What an engine has done so far, in numbers."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    n_steps: int = 0
    n_tokens: int = 0
    n_prompt_tokens: int = 0
    n_cached_tokens: int = 0

    def prompted(self, n_tokens: int, n_cached: int) -> None:
        """A prompt was computed, but for the part of it that was cached."""
        self.n_prompt_tokens += n_tokens
        self.n_cached_tokens += n_cached
