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
from types import ModuleType
from typing import Any

from supervisor.wire.directive import EXIT_NO_ROOM, EXIT_REFUSED, Directive
from supervisor.wire.event_file import NO_ROOM, RecordKind
from supervisor.wire.page import Phase
from trainers.process import crash_report, signals
from trainers.process.attempt_reporting import Attempt, make_current
from trainers.process.hooks import framework_setup
from trainers.process.script import isolation, pinned_modules, pinned_script

TOLD_SECONDS = 1.0
"""What takes less at the end of a script is not worth a sentence."""
WAITING = "ending: the script is over, and its last snapshot is being written"


def main(arguments: list[str]) -> int:
    """Run the attempt that the directive file in ``arguments`` describes."""
    directive = Directive.read(Path(arguments[0])) if arguments else None
    if directive is None:
        sys.stderr.write("trainwarden: no directive that could be read\n")
        return EXIT_REFUSED
    try:
        attempt = Attempt(directive)
        signals.watch_faults(attempt)
        crash_report.reserve(attempt.paths.crash)
    except OSError as error:
        with contextlib.suppress(OSError):  # nor this, it may be
            sys.stderr.write(f"trainwarden: cannot write its own files: {error}\n")
        return EXIT_NO_ROOM if error.errno in NO_ROOM else EXIT_REFUSED
    make_current(attempt)
    signals.install(attempt)
    attempt.start_heartbeat()
    attempt.say(RecordKind.LAUNCHED, versions={"python": sys.version.split()[0]})
    framework_setup.watch(attempt)
    code = run(attempt)
    wait_for_snapshot(attempt)
    return code


def wait_for_snapshot(attempt: Attempt) -> None:
    """Until no snapshot is in flight; who looks is told if that takes long."""
    telling = threading.Timer(TOLD_SECONDS, attempt.notice, [WAITING])
    telling.daemon = True
    telling.start()
    attempt.wait_for_saver()
    telling.cancel()


def run(attempt: Attempt) -> int:
    """Run the script; returns the exit code the process should have."""
    try:
        script, told = pinned_script.read(attempt.directive)
        attempt.runs(script)
        if told is not None:
            attempt.notice(told)
        pinned_modules.install(
            attempt.directive,
            tell=attempt.notice,
            refuse=functools.partial(framework_setup.refuse, attempt),
        )
        attempt.files.begin()
        directive = attempt.directive
        execute(directive.script, directive.args, script, module=directive.module)
    except SystemExit as stop:
        code = exit_code(stop)
    except BaseException as error:  # noqa: BLE001  # the last one to see it
        return failed(attempt, error)
    else:
        code = 0
    attempt.end.over()
    crash = attempt.end.lost()
    if crash is not None:
        crash_report.write(attempt.paths.crash, crash)
        return code or 1
    crash_report.release(attempt.paths.crash)
    signals.over()
    attempt.enter(Phase.FINISHED)
    attempt.say(RecordKind.FINISHED, exit_code=code)
    return code


def exit_code(stop: SystemExit) -> int:
    """What the interpreter would end with for ``stop``."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    sys.stderr.write(f"{stop.code}\n")
    return 1


def failed(attempt: Attempt, error: BaseException) -> int:
    """Report ``error``, print it as Python would, and return the exit code."""
    attempt.end.lost()
    crash = crash_report.report(
        error,
        steps_done=attempt.training.steps,
    )
    crash_report.write(attempt.paths.crash, crash)
    try:
        sys.stderr.write(crash.traceback)
        sys.stderr.flush()
    except (OSError, ValueError):
        traceback.clear_frames(error.__traceback__)
    attempt.end.last_words(error)
    return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def execute(
    script: str, args: tuple[str, ...], content: bytes, *, module: str = ""
) -> None:
    """Run ``content`` as ``python script args`` would if ``script`` held it; or, where
    ``module`` has a name, as ``python -m module args`` would.

    ``__main__`` is the script's own module: ``multiprocessing`` finds the file to
    import again in a spawned process by it.
    """
    path = Path(script).resolve()
    sys.argv = [str(path) if module else script, *args]
    sys.path.insert(0, str(Path.cwd() if module else path.parent))
    packages = isolation.shadowed()
    if packages:
        isolation.hide(packages)
    main_module = ModuleType("__main__")
    variables = _module_variables(module, path) if module else _main_variables(script)
    vars(main_module).update(variables)
    # Ours stays alive: a module that is dropped loses its globals.
    vars(sys)["_trainwarden_main"] = sys.modules["__main__"]
    sys.modules["__main__"] = main_module
    code = compile(content, script, "exec", dont_inherit=True)
    exec(code, vars(main_module))  # noqa: S102  # running the script is the job


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
