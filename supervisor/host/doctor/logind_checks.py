"""What logind is told about ``RemoveIPC``, by its file and all that is put beside it.

By systemd.conf(5) ("Configuration Directories and Precedence") the first file found counts
as the main one; then come the drop-ins of all directories together, by name. Of two with
the same name the one in the directory that comes first is read, and the other is not;
what is read later wins.
"""

from collections.abc import Iterable
from pathlib import Path

from supervisor.host.doctor.finding import Finding, warning

DIRECTORIES = tuple(
    Path(name)
    for name in (
        "/etc/systemd",
        "/run/systemd",
        "/usr/local/lib/systemd",
        "/usr/lib/systemd",
    )
)
"""In order of precedence."""
MAIN, DROP_INS = "logind.conf", "logind.conf.d"
_FALSE = frozenset({"0", "no", "n", "false", "f", "off"})
_TRUE = frozenset({"1", "yes", "y", "true", "t", "on"})
"""What systemd takes for one (``parse_boolean`` of its src/basic/parse-util.c)."""


RUNNING = Path("/run/systemd/seats")
"""Is there while logind runs (sd-login(3), "Notes")."""


def runs(mark: Path = RUNNING, *, booted: bool) -> bool:
    """Whether there is a logind here: in a container its files may lie about unread, and
    so may its mark in the image. ``booted``: by systemd, which starts it."""
    return booted and mark.is_dir()


def removes_ipc(texts: Iterable[str]) -> bool:
    """What these files say together, in the order in which they are read; logind's own
    default is yes."""
    removes = True
    for text in texts:
        section = ""
        for raw in text.splitlines():
            line = raw.strip()
            if line.startswith("["):
                section = line
            name, equals, value = line.partition("=")
            if section == "[Login]" and equals and name.strip() == "RemoveIPC":
                removes = _boolean(value.strip(), before=removes)
    return removes


def _boolean(text: str, *, before: bool) -> bool:
    """What cannot be understood is passed over, and changes nothing."""
    if text.lower() in _FALSE:
        return False
    return True if text.lower() in _TRUE else before


def files(directories: Iterable[Path] = DIRECTORIES) -> list[Path]:
    """The files that logind reads, in its order."""
    known = tuple(directories)
    main = [path for place in known if (path := place / MAIN).is_file()][:1]
    drop_ins: dict[str, Path] = {}
    for place in known:
        for path in (place / DROP_INS).glob("*.conf"):
            drop_ins.setdefault(path.name, path)
    return main + [drop_ins[name] for name in sorted(drop_ins)]


def texts(directories: Iterable[Path] = DIRECTORIES) -> list[str]:
    """What stands in them; what cannot be read is taken for empty, as is a link to
    ``/dev/null``, with which an administrator hides a drop-in."""
    found: list[str] = []
    for path in files(directories):
        try:
            found.append(path.read_text(errors="replace"))
        except OSError:
            continue
    return found


def ipc(found: Iterable[str]) -> list[Finding]:
    """A warning where logind deletes what users have in shared memory."""
    if not removes_ipc(found):
        return []
    text = "logind removes what a user has in /dev/shm at their last logout"
    fix = (
        "RemoveIPC=no below [Login] in /etc/systemd/logind.conf.d/ipc.conf; "
        "system users are spared"
    )
    return [warning("RemoveIPC", text, fix)]
