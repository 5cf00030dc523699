"""Exit statuses, as the kernel, shells, schedulers and people write them."""

import re

from supervisor.wire.records.end_records import ExitRecord

SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT",
    7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV",
    12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU",
    25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip
"""Numbers of Linux on x86-64 and arm64 (``asm-generic/signal.h``)."""
MOST_CODE, MOST_SIGNAL = 255, 64
"""Of an exit status, which has a byte (wait(2)), and of signals (signal(7))."""
SIGKILL = 9
SIGABRT = 6
NATIVE = frozenset({4, 5, 6, 7, 8, 11, 31})
"""Signals of a process's own making."""
ASKS_TO_END = frozenset({1, 2, 15})
"""Signals that ask a process to end."""

_STATUS = re.compile(
    r"\s*(?P<code>-?\d+)(?::(?P<signal>\d+))?(?=\D|$)|\s*(?P<name>SIG[A-Z0-9]+)"
)


def signal_name(number: int) -> str:
    """``11`` as ``SIGSEGV``."""
    return SIGNALS.get(number, f"signal {number}")


def signal_of(record: ExitRecord) -> int | None:
    """The signal that ended it, also where a shell turned it into 128 + n."""
    if record.signal is not None:
        return record.signal
    number = (record.exit_code or 0) - 128
    return number if number in SIGNALS else None


def parse_status(text: str) -> tuple[int | None, int | None] | None:
    """(exit code, signal) of ``1``, ``-9`` (subprocess), ``SIGABRT``, ``137 (Killed)``,
    ``0:9`` (Slurm: code and signal); None for anything else."""
    match = _STATUS.match(text)
    if match is None:
        return None
    if match["name"]:
        numbers = {name: number for number, name in SIGNALS.items()}
        number = numbers.get(match["name"])
        return None if number is None else (None, number)
    code = int(match["code"])
    if not -MOST_SIGNAL <= code <= MOST_CODE:
        return None
    if match["signal"] and int(match["signal"]):
        second = int(match["signal"])
        if second > MOST_CODE:
            return None
        return (None, second) if second in SIGNALS else (second, None)
    return (None, -code) if code < 0 else (code, None)


def record_of(code: int | None, signal: int | None) -> ExitRecord:
    """An exit record of which nothing but the status is known."""
    return ExitRecord(
        pid=0,
        exit_code=code,
        signal=signal,
        core_dumped=False,
        max_rss_bytes=0,
        user_seconds=0.0,
        system_seconds=0.0,
        started_ns=0,
        ended_ns=0,
        asked_to_stop=False,
        swept=0,
        unkillable=(),
    )
