"""The launch of a training script: ``PYTHON .../launch.py DIRECTIVE.json``.

``PYTHON .../launch.py --versions`` says what becomes of a script in that interpreter.

TensorFlow looks through the whole stack at each operation that is computed at once, line
by line of the code in each frame up to where it is: this frame is all there is below the
script, and little is done in it before.
"""

import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from held_modules import ScriptLaunch  # type: ignore[import-not-found]  # beside this file

launch = ScriptLaunch()
try:
    exec(*launch.begun())  # noqa: S102  # running the script is the job
except BaseException as error:  # noqa: BLE001  # the last one to see it
    code = launch.failed(error)
else:
    code = launch.over()
sys.exit(code)
