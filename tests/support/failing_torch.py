# pyright: reportUnknownMemberType=false, reportMissingParameterType=false, reportUnknownParameterType=false
"""Calls into torch that raise, as on a device that is lost or full."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode


class FailingTorch(TorchFunctionMode):
    """While it is entered, every call into torch raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        raise self._error


@contextmanager
def one_forward_raises(error: Exception) -> Generator[None]:
    """The next forward pass of any module raises; those after it don't."""
    errors = [error]

    def fail(*_: object) -> None:
        if errors:
            raise errors.pop()

    handle = register_module_forward_pre_hook(fail)
    try:
        yield
    finally:
        handle.remove()
    assert not errors, "there was no forward pass"
