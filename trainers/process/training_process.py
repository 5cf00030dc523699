"""The training process from its first line to its last: set up, run the script, tell.

Nothing of TensorFlow or Keras is imported here before the script does it.
"""

import builtins
import contextlib
import functools
import importlib
import importlib.util
import signal
import sys
import threading
import traceback
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from supervisor.wire.event_file import NO_ROOM, RecordKind
from supervisor.wire.messages.directive import EXIT_NO_ROOM, EXIT_REFUSED, Directive
from supervisor.wire.page import ErrorStage, Phase
from trainers.process import allocation_subject, crash_report, signals
from trainers.process.attempt_reporting import Attempt, make_current
from trainers.process.hooks import framework_setup
from trainers.process.script import isolation, pinned_modules, pinned_script

MOST_SAID = 1000
"""Characters of what a script says at its end."""
TOLD_SECONDS = 1.0
"""What takes less at the end of a script is not worth a sentence."""
WAITING = "ending: the script is over, and its last snapshot is being written"


def prepare(arguments: list[str]) -> "TrainingProcess":
    """The attempt that the directive file in ``arguments`` describes; sentences for a
    person may follow.

    Raises SystemExit: there is no such file, or no room for one of its own.
    """
    directive = Directive.read(Path(arguments[0])) if arguments else None
    if directive is None:
        sys.stderr.write("trainwarden: no directive that could be read\n")
        raise SystemExit(EXIT_REFUSED)
    try:
        attempt = Attempt(directive)
        signals.watch_faults(attempt)
        crash_report.reserve(attempt.paths.crash)
    except OSError as error:
        with contextlib.suppress(OSError):  # nor this, it may be
            sys.stderr.write(f"trainwarden: cannot write its own files: {error}\n")
        full = error.errno in NO_ROOM
        raise SystemExit(EXIT_NO_ROOM if full else EXIT_REFUSED) from None
    make_current(attempt)
    signals.install(attempt)
    attempt.start_heartbeat()
    attempt.say(RecordKind.LAUNCHED, versions={"python": sys.version.split()[0]})
    for sentence in arguments[1:]:
        attempt.notice(sentence)
    framework_setup.watch(attempt)
    return TrainingProcess(attempt)


class TrainingProcess:
    """The process of an attempt; ``launch`` runs the script in it.

    ``begin()``; then ``over()``, or ``failed(error)`` with what that raised, or the script.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def begin(self) -> tuple[CodeType, dict[str, Any]]:
        """The script's code, and the variables of its module.

        Raises SystemExit where it is refused, SyntaxError, and what the import of its
        package raises.
        """
        attempt, directive = self._attempt, self._attempt.directive
        script, told, lost = pinned_script.read(directive)
        attempt.runs(script)
        if told is not None:
            tell = attempt.withdraw if lost else attempt.notice
            tell(told)
        pinned_modules.install(
            directive,
            tell=attempt.notice,
            withdraw=attempt.withdraw,
            refuse=functools.partial(framework_setup.refuse, attempt),
        )
        attempt.files.begin()
        main = main_module(directive.script, directive.args, module=directive.module)
        return compile(script, directive.script, "exec", dont_inherit=True), main

    def failed(self, error: BaseException) -> int:
        """The exit code that the process should have after ``error``."""
        if isinstance(error, SystemExit):
            return self.over(exit_code(error), said=exit_message(error))
        code = report_failure(self._attempt, error)
        wait_for_snapshot(self._attempt)
        return code

    def over(self, code: int = 0, *, said: str = "") -> int:
        """The same, where the script came to its end with ``code``, and ``said`` why."""
        code = end(self._attempt, code, said=said)
        wait_for_snapshot(self._attempt)
        return code


def wait_for_snapshot(attempt: Attempt) -> None:
    """Until no snapshot is in flight; who looks is told if that takes long."""
    telling = threading.Timer(TOLD_SECONDS, attempt.notice, [WAITING])
    telling.daemon = True
    telling.start()
    attempt.wait_for_saver()
    telling.cancel()


def end(attempt: Attempt, code: int, *, said: str = "") -> int:
    """Say that the script is over with ``code``; returns the exit code."""
    attempt.end.reached()
    attempt.end.over()
    crash = attempt.end.lost()
    if crash is not None:
        crash_report.write(attempt.paths.crash, crash)
        return code or 1
    crash_report.release(attempt.paths.crash)
    signals.over()
    attempt.enter(Phase.FINISHED)
    attempt.say(RecordKind.FINISHED, exit_code=code, message=said)
    return code


def exit_code(stop: SystemExit) -> int:
    """What the interpreter would end with for ``stop``."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    sys.stderr.write(f"{stop.code}\n")
    return 1


def exit_message(stop: SystemExit) -> str:
    """What the script passed to ``sys.exit`` in the place of a number, to be printed;
    empty: a number, or nothing."""
    if stop.code is None or isinstance(stop.code, int):
        return ""
    return str(stop.code)[:MOST_SAID]


def report_failure(attempt: Attempt, error: BaseException) -> int:
    """Report ``error``, print it as Python would, and return the exit code.

    Where memory ran out that may take ten seconds and more: whatever asks for some waits.
    """
    attempt.fails()  # first: what is asked of it from now on comes too late
    attempt.after_error(_stage_of(error))
    attempt.end.lost()
    crash = crash_report.report(
        error,
        steps_done=attempt.training.steps,
        own_steps=attempt.training.own_steps,
    )
    crash_report.write(attempt.paths.crash, crash)
    try:
        sys.stderr.write(crash.traceback)
        sys.stderr.flush()
    except (OSError, ValueError):
        traceback.clear_frames(error.__traceback__)
    attempt.end.last_words(error)
    attempt.after_error(ErrorStage.ENDING)
    return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _stage_of(error: BaseException) -> ErrorStage:
    """What is done about ``error``; its text may be anything, also an error."""
    try:
        memory = allocation_subject.out_of_memory(error)
    except Exception:  # noqa: BLE001  # whatever a script's own exception may raise
        memory = False
    return ErrorStage.MEMORY if memory else ErrorStage.REPORTING


def main_module(script: str, args: tuple[str, ...], *, module: str) -> dict[str, Any]:
    """The variables of ``__main__``, for ``python script args``; or, where ``module`` has
    a name, for ``python -m module args``.

    ``__main__`` is the script's own module: ``multiprocessing`` finds the file to
    import again in a spawned process by it.
    """
    path = Path(script).resolve()
    sys.argv = [str(path) if module else script, *args]
    sys.path.insert(0, str(Path.cwd() if module else path.parent))
    packages = isolation.shadowed()
    if packages:
        isolation.hide(packages)
    main = ModuleType("__main__")
    vars(main).update(
        _module_variables(module, path) if module else _main_variables(script)
    )
    # Ours stays alive: a module that is dropped loses its globals.
    vars(sys)["_trainwarden_main"] = sys.modules["__main__"]
    sys.modules["__main__"] = main
    return vars(main)


def _module_variables(module: str, path: Path) -> dict[str, Any]:
    """Those of a module that is run: ``-m`` imports its package first."""
    name = f"{module}.__main__" if path.name == "__main__.py" else module
    package = name.rpartition(".")[0]
    if package:
        importlib.import_module(package)
    found = importlib.util.spec_from_file_location(name, path)
    return {
        **_main_variables(str(path)),
        "__spec__": found,
        "__package__": package,
    }


def _main_variables(script: str) -> dict[str, Any]:
    return {
        "__file__": script,
        "__builtins__": builtins,
        "__spec__": None,
        "__package__": None,
        "__cached__": None,
    }
