"""What attempts print, read while it comes."""

from pathlib import Path

from supervisor.host.telemetry.log_retention import punch
from supervisor.host.telemetry.output_follower import OutputFollower

MIB = 1 << 20


def all_of(follower: OutputFollower) -> bytes:
    """What there is to read."""
    parts: list[bytes] = []
    while content := follower.read(1000).content:
        parts.append(content)
    return b"".join(parts)


def test_one_attempt_after_the_other(tmp_path: Path) -> None:
    """Each is read to its end before the next, also one that never had a log; none that
    was there before."""

    def output_of(number: int) -> Path:
        return tmp_path / str(number)

    output_of(1).write_bytes(b"of an earlier command\n")
    follower = OutputFollower(output_of, after=1)
    assert all_of(follower) == b""
    follower.newest = 2
    assert all_of(follower) == b""
    with output_of(2).open("ab", buffering=0) as log:
        log.write(b"1/2\r")
        assert all_of(follower) == b"1/2\r"
        log.write(b"2/2 \xff\n")
        follower.newest = 4
        output_of(4).write_bytes(b"again")
        assert all_of(follower) == b"2/2 \xff\nagain"
    follower.close()


def test_a_hole_is_counted(tmp_path: Path) -> None:
    """What was given up is none of what was printed: no zeros come out."""
    log = tmp_path / "log"
    log.write_bytes(b"a" * MIB + b"b" * MIB + b"c" * MIB)
    with log.open("rb+") as file:
        assert punch(file.fileno(), MIB, 2 * MIB)
    follower = OutputFollower(lambda _: log)
    follower.newest = 1
    parts = [follower.read(MIB) for _ in range(3)]
    assert b"".join(part.content for part in parts) == b"a" * MIB + b"c" * MIB
    assert sum(part.left_out_bytes for part in parts) == MIB
    follower.close()


def test_passing_over(tmp_path: Path) -> None:
    """A terminal that is far behind goes on at a line near the end."""
    log = tmp_path / "log"
    log.write_bytes(b"a line\n" * 1000 + b"last\n")
    follower = OutputFollower(lambda _: log)
    follower.newest = 1
    follower.read(14)
    assert follower.skip(keep=20) == 7005 - 14 - 19
    assert all_of(follower) == b"a line\na line\nlast\n"
    assert follower.skip(keep=20) == 0
    assert follower.unread_bytes == 0
    follower.close()
