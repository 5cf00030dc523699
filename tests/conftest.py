"""What holds for every test, and the double of NVML that many look at."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support import zygote as zygotes
from tests.support.fake_nvml import FakeNvml, build
from tests.support.zygote import Zygote

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a shell's background job: what tests start would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("trainwarden", deadline=None)  # no test asserts a time
settings.load_profile("trainwarden")


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Debian's chromium: one in a process, which can drive no second one."""
    from tests.support.browser import chromium  # noqa: PLC0415  # not in every environment

    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the library that stands in for the driver's."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(library: Path, tmp_path: Path) -> FakeNvml:
    """Two healthy GPUs."""
    fake = FakeNvml(library, tmp_path / "script")
    fake.gpus(2)
    return fake


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A kernel log to which a test can write: the real one is the machine's."""
    path = tmp_path / "kmsg"
    path.touch()
    return path


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """A process that has imported TensorFlow, to fork attempts from."""
    with zygotes.zygote() as process:
        yield process
