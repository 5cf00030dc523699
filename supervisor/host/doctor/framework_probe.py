"""What CUDA the TensorFlow of an interpreter wants, told by its files: one JSON object.

Run by path, by the interpreter of a job (``python -I framework_probe.py``), which may
know nothing of trainwarden. TensorFlow is not imported: that takes seconds, and may
start CUDA. Its wheel says what it was built with in
``tensorflow/python/platform/build_info.py``, which ``tf.sysconfig.get_build_info`` gives
back as it stands there.
"""

import ast
import ctypes.util
import json
import sys
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BUILD_INFO = Path("python", "platform", "build_info.py")
LIBRARIES = ("cudart", "cudnn")
"""What a CUDA build cannot do without, wherever it comes from."""


def build_info(text: str) -> dict[str, Any]:
    """The pairs in ``build_info = collections.OrderedDict([...])``; empty: none."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            (pairs,) = statement.value.args
            return dict(ast.literal_eval(pairs))
    return {}


def built_with() -> dict[str, Any] | None:
    """What TensorFlow was built with; None: it is not here."""
    spec = find_spec("tensorflow")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / BUILD_INFO).read_text()
        return build_info(text)
    except (OSError, SyntaxError, ValueError):
        return {}


def name_of(distribution: Distribution) -> str:
    """In the one spelling of PEP 503, as far as these names need it."""
    return (distribution.metadata["Name"] or "").lower().replace("_", "-")


def main() -> None:
    """Print what is here."""
    here = {name_of(one): one for one in distributions()}
    tensorflow = next((n for n in here if n in {"tensorflow", "tensorflow-cpu"}), None)
    found: dict[str, Any] = {
        "python": sys.executable,
        "name": tensorflow,
        "version": None if tensorflow is None else here[tensorflow].version,
        "built_with": built_with(),
        "wants": [] if tensorflow is None else here[tensorflow].requires or [],
        "nvidia": {n: d.version for n, d in here.items() if n.startswith("nvidia-")},
        "libraries": {name: ctypes.util.find_library(name) for name in LIBRARIES},
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
