"""The private name of TensorFlow that setting up a memory pool leans on."""

# ruff: noqa: SLF001  # private names are what this module is for

from collections.abc import Callable

from tensorflow.python.eager import context as eager_context


def when_devices_are_ready(callback: Callable[[], None]) -> bool:
    """Call ``callback`` once, right after TensorFlow has initialised its devices.

    Until then a script may still configure them. False: it was too late already.
    """
    context = eager_context.context()
    if context._initialized:
        return False
    ensure_initialized = context.ensure_initialized

    def ensure_then_call() -> None:
        ensure_initialized()
        if context.__dict__.pop("ensure_initialized", None) is not None:
            callback()

    context.ensure_initialized = ensure_then_call
    return True
