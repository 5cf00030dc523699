"""A disk that fails, or loses power: the real calls, recorded on their way.

``Recorder`` stands around ``os.open``, ``write``, ``fsync``, ``rename``, ``mkdir``,
``unlink`` and ``rmdir``: each call below its root is done, and noted; or fails, if it was
told so. ``after_power_loss`` makes the directory that a disk may hold after the first n
of the noted calls: what was synced, and any part of what was not, in any order.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class DiskCall:
    """One call: ``kind`` and what it was about."""

    kind: str
    path: str
    """Below the root, as it was named then."""
    target: str = ""
    """Of a rename."""
    content: bytes = b""


@dataclass
class Recorder:
    """Notes what happens below ``root``."""

    root: Path
    calls: list[DiskCall] = field(default_factory=list[DiskCall])
    fail_at: int | None = None
    """Which call fails, from 0."""
    errno: int = 0
    stays: bool = False
    """Every later call that writes fails as well: the disk is gone, not just busy."""
    _open: dict[int, str] = field(default_factory=dict[int, str])

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Stand around the calls until ``patch`` is undone."""
        for name in ("open", "write", "fsync", "close", "rename", "mkdir"):
            patch.setattr(os, name, getattr(self, f"_{name}_")(getattr(os, name)))
        for name in ("unlink", "rmdir"):
            patch.setattr(os, name, self._gone(name, getattr(os, name)))

    def _note(self, call: DiskCall) -> None:
        index = len(self.calls)
        self.calls.append(call)
        if self.fail_at is None:
            return
        if index == self.fail_at or (self.stays and index > self.fail_at):
            raise OSError(self.errno, os.strerror(self.errno), call.path)

    def _below(self, path: Any, dir_fd: int | None = None) -> str | None:
        whole = str(path)
        if dir_fd is not None:
            if dir_fd not in self._open:
                return None
            return os.path.join(self._open[dir_fd], whole)  # noqa: PTH118  # names only
        root = f"{self.root}/"
        if whole == str(self.root):
            return "."
        return whole.removeprefix(root) if whole.startswith(root) else None

    def _open_(self, real: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, *args: Any, **options: Any) -> int:
            name = self._below(path, options.get("dir_fd"))
            if name is not None and flags & os.O_CREAT:
                self._note(DiskCall("create", name))
            descriptor = real(path, flags, *args, **options)
            if name is not None:
                self._open[descriptor] = name
            return descriptor

        return opened

    def _write_(self, real: Callable[..., int]) -> Callable[..., int]:
        def write(descriptor: int, content: Any) -> int:
            if descriptor in self._open:
                self._note(
                    DiskCall("write", self._open[descriptor], content=bytes(content))
                )
            return real(descriptor, content)

        return write

    def _fsync_(self, real: Callable[..., None]) -> Callable[..., None]:
        def fsync(descriptor: int) -> None:
            if descriptor in self._open:
                self._note(DiskCall("fsync", self._open[descriptor]))
            real(descriptor)

        return fsync

    def _close_(self, real: Callable[..., None]) -> Callable[..., None]:
        def close(descriptor: int) -> None:
            self._open.pop(descriptor, None)
            real(descriptor)

        return close

    def _rename_(self, real: Callable[..., None]) -> Callable[..., None]:
        def rename(path: Any, target: Any, **options: Any) -> None:
            old, new = self._below(path), self._below(target)
            if old is not None and new is not None:
                self._note(DiskCall("rename", old, target=new))
            real(path, target, **options)

        return rename

    def _mkdir_(self, real: Callable[..., None]) -> Callable[..., None]:
        def mkdir(path: Any, *args: Any, **options: Any) -> None:
            name = self._below(path)
            if name is not None:
                self._note(DiskCall("mkdir", name))
            real(path, *args, **options)

        return mkdir

    def _gone(self, kind: str, real: Callable[..., None]) -> Callable[..., None]:
        def remove(path: Any, **options: Any) -> None:
            name = self._below(path, options.get("dir_fd"))
            if name is not None:
                self._note(DiskCall(kind, name))
            real(path, **options)

        return remove


# --- what a disk holds after the power was lost -----------------------------------


@dataclass
class Node:
    """A file or a directory on the disk, whatever its name is."""

    content: bytearray | None = None
    names: dict[str, "Node"] = field(default_factory=dict[str, "Node"])


@dataclass(frozen=True)
class DiskChange:
    """A call, with the nodes that it is about."""

    call: DiskCall
    node: Node
    """Whose names or content change."""
    child: Node | None = None
    other: Node | None = None
    """Of a rename: the directory it goes to."""


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or ".", name


def _tree(path: Path) -> Node:
    if path.is_file():
        return Node(bytearray(path.read_bytes()))
    return Node(None, {child.name: _tree(child) for child in path.iterdir()})


def _find(top: Node, path: str) -> Node:
    node = top
    for name in path.split("/"):
        node = node if name == "." else node.names[name]
    return node


def _copy(node: Node, made: dict[int, Node]) -> Node:
    if id(node) not in made:
        content = None if node.content is None else bytearray(node.content)
        made[id(node)] = Node(content)
        made[id(node)].names = {n: _copy(c, made) for n, c in node.names.items()}
    return made[id(node)]


def _changes(before: Node, calls: list[DiskCall]) -> list[DiskChange]:
    """The calls with their nodes: names are looked up as they were at the time."""
    made: dict[int, Node] = {}
    live = _copy(before, made)
    # Nodes of ``live`` → those that the disk will be made of.
    known = {id(live_node): key for key, live_node in made.items()}
    originals: dict[int, Node] = {}
    _index(before, originals)
    disk = {live_id: originals[key] for live_id, key in known.items()}
    found: list[DiskChange] = []
    for call in calls:
        parent, name = _split(call.path)
        if call.kind in ("write", "fsync"):
            found.append(DiskChange(call, disk[id(_find(live, call.path))]))
            continue
        holder = _find(live, parent)
        child = holder.names.get(name)
        other = None
        if call.kind in ("create", "mkdir"):
            child = Node(bytearray() if call.kind == "create" else None)
            disk[id(child)] = Node(bytearray() if call.kind == "create" else None)
            holder.names[name] = child
        elif child is not None:
            del holder.names[name]
        if call.kind == "rename" and child is not None:
            there, new = _split(call.target)
            other = _find(live, there)
            other.names[new] = child
        assert child is not None
        found.append(
            DiskChange(
                call,
                disk[id(holder)],
                disk[id(child)],
                None if other is None else disk[id(other)],
            )
        )
    # Alive until here: an id is a name only as long as its node lives.
    assert live is not None
    return found


def _index(node: Node, found: dict[int, Node]) -> None:
    found[id(node)] = node
    for child in node.names.values():
        _index(child, found)


def after_power_loss(
    before: Path,
    calls: list[DiskCall],
    target: Path,
    *,
    draw: random.Random,
    keep: float,
) -> None:
    """Make ``target`` what the disk may hold after ``calls``, done on ``before``.

    What was synced is there. Of the rest each change is there with probability
    ``keep``, on its own; of a write that was not synced, perhaps only the beginning.
    """
    top = _tree(before)
    changes = _changes(top, calls)
    for index, change in enumerate(changes):
        if _is_synced(change, changes[index + 1 :]) or draw.random() < keep:
            whole = _is_synced(change, changes[index + 1 :])
            _apply(change, None if whole else draw)
    _store(top, target)


def _is_synced(change: DiskChange, later: list[DiskChange]) -> bool:
    nodes = [change.node, change.other]
    return any(
        one.call.kind == "fsync" and any(one.node is node for node in nodes)
        for one in later
    )


def _apply(change: DiskChange, draw: random.Random | None) -> None:
    call = change.call
    _, name = _split(call.path)
    if call.kind == "write":
        assert change.node.content is not None
        size = len(call.content)
        part = size if draw is None else draw.randint(0, size)
        change.node.content += call.content[:part]
    elif call.kind in ("create", "mkdir"):
        assert change.child is not None
        change.node.names[name] = change.child
    elif call.kind in ("unlink", "rmdir"):
        change.node.names.pop(name, None)
    elif call.kind == "rename":
        assert change.child is not None
        assert change.other is not None
        _, new = _split(call.target)
        if change.node.names.pop(name, None) is not None:
            change.other.names[new] = change.child


def _store(node: Node, path: Path) -> None:
    if node.content is not None:
        path.write_bytes(node.content)
        return
    path.mkdir()
    for name, child in node.names.items():
        _store(child, path / name)
