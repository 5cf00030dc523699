"""What a job prints does nothing to the terminal of whoever looks at it."""

import os
import pty

from tests.support.command import Trainwarden

CLIPBOARD = b"\x1b]52;c;cm0gLXJmIH4K\x07"
"""OSC 52: write the clipboard (xterm, "Control Sequences")."""
SCRIPT = """
import sys
sys.stdout.write("1/2\\r2/2 \\033]52;c;cm0gLXJmIH4K\\007\\033[1mbold\\033[0m\\n\\033[")
raise ValueError("\\033]52;c;cm0gLXJmIH4K\\007 no data")
"""


def looked_at(trainwarden: Trainwarden, *arguments: str) -> bytes:
    """What a terminal gets of a command."""
    words, shown = trainwarden.command(*arguments), bytearray()

    def read(descriptor: int) -> bytes:
        content = os.read(descriptor, 65536)
        shown.extend(content)
        return content

    null = os.open(os.devnull, os.O_RDONLY)
    standard = os.dup(0)
    os.dup2(null, 0)  # pytest has no terminal to copy from
    try:
        pty.spawn(words, read)
    finally:
        os.dup2(standard, 0)
        os.close(standard)
        os.close(null)
    return bytes(shown)


def test_a_script_that_would_write_the_clipboard(trainwarden: Trainwarden) -> None:
    """Shown as text by every command on a terminal; into a pipe, or with --raw, as it is."""
    script = trainwarden.script(SCRIPT)
    ran = looked_at(trainwarden, "run", str(script))
    assert b"no data" in ran
    assert CLIPBOARD not in ran
    for words in (["logs", "train"], ["explain", "1"], ["incidents"], ["status"]):
        shown = looked_at(trainwarden, *words)
        assert shown
        assert CLIPBOARD not in shown, words
    shown = looked_at(trainwarden, "logs", "train")
    assert b"1/2\r2/2 \\x1b]52;c;" in shown
    assert b"\\x07bold\r\n\\x1b[" in shown  # its colour is left out
    assert CLIPBOARD in looked_at(trainwarden, "logs", "--raw", "train")
    piped = trainwarden("logs", "train").stdout
    assert CLIPBOARD.decode() in piped
