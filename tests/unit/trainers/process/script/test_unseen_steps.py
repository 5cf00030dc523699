"""That no step is seen is told once, of a script that goes on without one."""

import importlib.util
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from trainers.process.environment.module_state import is_initializing
from trainers.process.script.unseen_steps import (
    UNSEEN_SECONDS,
    UnseenSteps,
    is_importing,
)


@dataclass
class Wound:
    """A clock that somebody winds."""

    now: float = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def test_it_is_told_once_and_not_before_its_time() -> None:
    """A quiet script that is shorter hears nothing."""
    clock = Wound()
    watch = UnseenSteps(clock)
    clock.now = UNSEEN_SECONDS - 1.0
    assert not watch.tells(starting=True)
    clock.now = UNSEEN_SECONDS
    assert watch.tells(starting=True)
    assert not watch.tells(starting=True)


def test_a_script_that_has_made_a_step_hears_nothing() -> None:
    """Nor does it later, whatever it does then."""
    clock = Wound()
    watch = UnseenSteps(clock)
    assert not watch.tells(starting=False)
    clock.now = 2 * UNSEEN_SECONDS
    assert not watch.tells(starting=True)


def test_an_import_of_a_framework_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From a slow disk it takes minutes; the time counts from its end."""
    module, spec = ModuleType("torch"), ModuleSpec("torch", None)
    module.__spec__ = spec
    monkeypatch.setitem(sys.modules, "torch", module)
    assert not is_importing(sys.modules)
    spec._initializing = True  # type: ignore[attr-defined]  # noqa: SLF001  # as importlib does
    assert is_importing(sys.modules)
    clock = Wound()
    watch = UnseenSteps(clock)
    clock.now = 2 * UNSEEN_SECONDS
    assert not watch.tells(starting=True)
    spec._initializing = False  # type: ignore[attr-defined]  # noqa: SLF001  # as above
    clock.now += UNSEEN_SECONDS - 1.0
    assert not watch.tells(starting=True)
    clock.now += 1.0
    assert watch.tells(starting=True)


def test_the_import_system_says_what_is_being_imported(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark is a private one: this Python has it."""
    place = tmp_path_factory.mktemp("modules")
    (place / "torch.py").write_text(
        "import sys\n"
        "from trainers.process.script.unseen_steps import is_importing\n"
        "during = is_importing(sys.modules)\n"
    )
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    module = __import__("torch")
    del sys.modules["torch"]
    assert module.during
    assert not is_importing({"torch": module})


def test_a_module_that_waits_to_be_loaded_is_not_loaded_by_a_look(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may be about to load it: two at once see half of it."""
    place = tmp_path_factory.mktemp("lazy")
    (place / "torch.py").write_text("import loaded\n")
    (place / "loaded.py").touch()
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "torch", module)
    spec.loader.exec_module(module)
    assert not is_importing(sys.modules)
    assert "loaded" not in sys.modules
    assert module.loaded.__name__ == "loaded"
    monkeypatch.delitem(sys.modules, "loaded")


def test_what_is_no_module_is_not_being_imported() -> None:
    """A script may put anything there."""
    for one in (None, object(), 3):
        assert not is_initializing(one)
