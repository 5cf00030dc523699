"""Which process is at the other end of a socket, as the kernel knows it."""

import socket
import struct

_PEER = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid


def peer_ids(channel: socket.socket) -> tuple[int, int, int]:
    """Pid, uid and gid. Raises OSError."""
    packed = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, gid = _PEER.unpack(packed)
    return pid, uid, gid
