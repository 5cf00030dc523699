"""Runs of experiment trackers (Weights & Biases, MLflow) go on after a restart.

The call of the script that begins one is let through as it is, and the id that came of it
is kept (``tracked_runs``). In the next attempts the same call is given that id
(``trackers`` has how). What the script or its environment say of ids themselves holds,
and where a run cannot go on, the call is made as the script made it.
"""

import contextlib
import functools
import inspect
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from trainers.process.attempt_reporting import Attempt
from trainers.process.hooks import import_hooks
from trainers.process.tracked_runs import FILE, TrackedRuns, label_of
from trainers.process.trackers import TRACKERS, Tracker


def hooks(attempt: Attempt) -> dict[str, import_hooks.Hook]:
    """What is to be done after the import of each tracker."""
    kept = attempt.directive.kept_script
    if not kept:
        return {}
    runs = TrackedRuns(Path(kept).with_name(FILE))
    return {
        one.package: functools.partial(hook, RunStarts(one, runs, attempt))
        for one in TRACKERS
    }


def hook(starts: "RunStarts", module: ModuleType) -> None:
    """Stand in front of the function that begins a run, if it is as we know it."""
    name = starts.tracker.function
    original = getattr(module, name, None)
    if original is None or not starts.is_known(original):
        return

    @functools.wraps(original)
    def begin(*args: Any, **kwargs: Any) -> Any:
        return starts.begin(module, original, args, kwargs)

    # What the package calls itself lies in a module of its own.
    for one in (module, sys.modules.get(original.__module__)):
        if getattr(one, name, None) is original:
            setattr(one, name, begin)


class RunStarts:
    """The starts of runs of one tracker in this attempt."""

    def __init__(self, tracker: Tracker, runs: TrackedRuns, attempt: Attempt) -> None:
        self.tracker = tracker
        self._runs = runs
        self._attempt = attempt
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def is_known(self, function: Any) -> bool:
        """Whether it takes what we would give it."""
        try:
            takes = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return False
        return {self.tracker.id_argument, *self.tracker.with_id} <= set(takes)

    def begin(
        self,
        module: ModuleType,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """What ``original(*args, **kwargs)`` returns: the run of the earlier attempts,
        where there is one and the script leaves it to us."""
        asked = self._left_to_us(original, args, kwargs)
        if asked is None:
            return original(*args, **kwargs)
        label = label_of([asked.arguments.get(n) for n in self.tracker.named_by])
        with self._lock:
            number = self._counts[label]
            self._counts[label] += 1
        earlier = self._runs.earlier(self.tracker.package, label, number)
        run = None if earlier is None else self._go_on(module, original, asked, earlier)
        if run is None:
            run = original(*args, **kwargs)
        self._keep(module, run, label, number)
        return run

    def _left_to_us(
        self, original: Callable[..., Any], args: Any, kwargs: Any
    ) -> inspect.BoundArguments | None:
        if os.getpid() != self._process:
            return None  # a process that the script has forked
        if any(map(os.environ.get, self.tracker.variables)):
            return None
        try:
            asked = inspect.signature(original).bind(*args, **kwargs)
        except TypeError:
            return None  # which the tracker says itself
        return None if is_chosen(asked.arguments, self.tracker.chosen_by) else asked

    def _go_on(
        self,
        module: ModuleType,
        original: Callable[..., Any],
        asked: inspect.BoundArguments,
        run_id: str,
    ) -> Any:
        """The run of that id; None where it cannot go on."""
        given = {self.tracker.id_argument: run_id, **self.tracker.with_id}
        asked.arguments.update(given)
        try:
            run = original(*asked.args, **asked.kwargs)
        except Exception as error:  # noqa: BLE001  # deleted, elsewhere, not to be reached
            self._attempt.notice(
                f"{self.tracker.title}: run {run_id} does not go on"
                f" ({type(error).__name__}); the script begins another"
            )
            return None
        with contextlib.suppress(AttributeError, TypeError):  # otherwise inside
            self.tracker.allow(module, run)
        self._tell(run_id)
        return run

    def _tell(self, run_id: str) -> None:
        """Once: a script may begin a run for each of a hundred folds."""
        if self._attempt.is_news(self.tracker.package):
            sentence = f"{self.tracker.title}: run {run_id} goes on"
            self._attempt.notice(sentence)
            self._attempt.tracker_runs.append(sentence)

    def _keep(self, module: ModuleType, run: Any, label: str, number: int) -> None:
        try:
            run_id = self.tracker.id_of(module, run)
        except AttributeError:
            return  # a run of another kind than we know
        if run_id is not None:
            with self._lock:
                self._runs.remember(self.tracker.package, label, number, run_id)


def is_chosen(arguments: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    """Whether the script gave one of ``names``, itself or in its ``settings``."""
    settings = arguments.get("settings")
    inside = (
        settings if isinstance(settings, dict) else getattr(settings, "__dict__", {})
    )
    return any(arguments.get(one) or inside.get(one) for one in names)
