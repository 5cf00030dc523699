"""Turns pip's installation report into ``constraints.txt`` (``make constraints``)."""

import json
import re
import sys
from pathlib import Path
from typing import Any

OURS = "trainwarden"
HEAD = """\
# Exact versions of everything that trainwarden, its tests and its tools stand on, on
# CPUs and GPUs. `make constraints` writes this file; pyproject.toml says what may be.
"""


def normalised(name: str) -> str:
    """The one spelling of a distribution's name (packaging.python.org, PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints(report: dict[str, Any]) -> str:
    """One ``name==version`` a line, in order, of all but ourselves."""
    pins = {
        normalised(item["metadata"]["name"]): item["metadata"]["version"]
        for item in report["install"]
    }
    pins.pop(OURS, None)
    return HEAD + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins))


if __name__ == "__main__":
    sys.stdout.write(constraints(json.loads(Path(sys.argv[1]).read_text())))
