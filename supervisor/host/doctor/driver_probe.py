"""Which CUDA the NVIDIA driver can run, and on how many GPUs: one JSON object.

``python -m supervisor.host.doctor.driver_probe``, a process of its own for the same reason as
``probe_main``: a driver call may block for ever. Nothing is printed without a driver.
"""

import json
import sys

from supervisor.host.gpu.nvml import pynvml


def main() -> None:
    """Ask once."""
    try:
        pynvml.nvmlInit()
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        gpus = int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return
    sys.stdout.write(json.dumps({"cuda": cuda, "gpus": gpus}))


if __name__ == "__main__":
    main()
