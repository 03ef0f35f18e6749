# pyright: reportUnknownMemberType=false
"""The randomness of an op: its own, so that an op applied again draws the same."""

import torch


def seed_op(device: torch.device, seed: int, number: int) -> None:
    """Seed whatever op `number` of a model with this seed draws from.

    On a machine without a GPU `torch.manual_seed` would take as long as a small op: it keeps each call, and the
    stack it came by, until a GPU is there.
    """
    mixed = _mixed(seed, number)
    torch.default_generator.manual_seed(mixed)
    if device.type == "cuda":
        torch.cuda.manual_seed(mixed)


def _mixed(seed: int, number: int) -> int:
    """A 63-bit seed; different for every op of a model and every seed (splitmix64's multiplier)."""
    return (seed * 0x9E3779B97F4A7C15 + number) % 2**63
