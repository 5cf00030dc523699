"""Former name of ``launch.unit_main``: users' unit files of before name it.

A new version may be installed while the units are still those of the old one
(``deploy/install.sh`` writes them anew). To be dropped with ``wire.legacy_reasons``.
"""

import sys

from supervisor.host.launch.unit_main import main

if __name__ == "__main__":
    main(sys.argv[1:])
