"""The site that ``make docs`` builds: pages of docs/ and deploy/ as they stand, in the
order in which docs/index.md names them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

project = "Trainwarden"
html_title = "Trainwarden"
language = "en"
extensions = [
    "myst_parser",
    "docs.site.navigation",
    "docs.site.repository_files",
    "docs.site.state_tables",
    "docs.site.self_contained",
]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "docs/*.md",
    "deploy/README.md",
    "deploy/SECURITY.md",
    "deploy/runbooks/*.md",
    "deploy/prometheus/metrics.md",
]
myst_heading_anchors = 4
nitpicky = True
highlight_language = "text"  # of a block that names none: commands, what they print
suppress_warnings = ["misc.highlighting_failure"]  # colons in names of recording rules
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["reachable.js"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
