"""A screen of a terminal as a picture: SVG, which asks nobody for a font."""

import io
import re

from rich.console import Console
from rich.text import Text

FONTS = re.compile(r"\s*@font-face \{[^}]*\}")


def picture(painted: str, *, columns: int, title: str) -> str:
    """``painted``: lines with the terminal's colours in them (SGR)."""
    console = Console(
        record=True,
        width=columns,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    for line in painted.splitlines():
        text = Text.from_ansi(line.rstrip())
        for piece in text.divide(range(columns, len(text), columns)):  # as terminals do
            console.print(piece, no_wrap=True)
    drawn = console.export_svg(title=title, unique_id="terminal")
    plain = FONTS.sub("", drawn).replace("Fira Code, monospace", "monospace")
    return re.sub(r"[ \t]+$", "", plain, flags=re.MULTILINE)
