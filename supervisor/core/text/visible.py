"""Text of somebody else's, made safe to look at on a terminal."""

_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
"""C0 and C1 (ECMA-48): what a terminal takes as a command, up to writing the clipboard of
who looks (OSC 52)."""
_DIRECTIONS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Unicode's bidirectional controls: they show text in another order than it has."""
_SURROGATES = [*range(0xD800, 0xE000)]
"""Halves of pairs, which no encoding has: JSON can spell them, and Python has one in the place
of each byte of a file's name that is no UTF-8. Whoever wrote one out would fail."""
_AS_THEY_ARE = frozenset("\n\t")
_SHOWN = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in [*_CONTROLS, *_DIRECTIONS, *_SURROGATES]
    if chr(code) not in _AS_THEY_ARE
}
_OF_A_LOG = {code: shown for code, shown in _SHOWN.items() if chr(code) not in "\r\b"}


def visible(text: str, *, log: bool = False) -> str:
    r"""``text`` with control characters as they are written in a program (``\x1b``), but
    for ends of lines and tabs; it can be encoded. ``log``: a progress bar may go back in its
    line."""
    return text.translate(_OF_A_LOG if log else _SHOWN)
