"""Former name of ``gpu.probe_service``: the unit file of before names it.

As ``attempt_unit`` beside it, and as long.
"""

from supervisor.host.gpu.probe_service import main

if __name__ == "__main__":
    main()
