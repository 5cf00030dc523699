"""Who is at the other end of the control socket, as the kernel knows them."""

import grp
import os
import socket
import struct

from supervisor.core.jobs.authorization import Caller
from supervisor.host.process.peer_ids import peer_ids
from supervisor.host.service.user_name import user_name

_SO_PEERGROUPS = 59  # asm-generic/socket.h
_MOST_BYTES = 1024
"""Python reads no longer socket options: 256 groups."""


def peer_of(channel: socket.socket) -> Caller:
    """Who is at the other end, with all their groups. Raises OSError."""
    _, uid, gid = peer_ids(channel)
    name = user_name(uid)
    groups = frozenset(map(_group, {gid, *_groups(channel, name, gid)}))
    return Caller(uid=uid, name=name, groups=groups)


def _groups(channel: socket.socket, name: str, gid: int) -> list[int]:
    """Those that the process has; of somebody with very many, those of the database."""
    try:
        found = channel.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_BYTES)
    except OSError:
        return os.getgrouplist(name, gid)
    return list(struct.unpack(f"{len(found) // 4}i", found))


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
