"""The site: Markdown pages of this folder by Sphinx, MyST and furo. `make docs` builds it; a warning is an error."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from address import ADDRESS

project = "WhichDevice"
copyright = "The whichdevice maintainers, MIT licence"
extensions = ["myst_parser"]
myst_heading_anchors = 3
highlight_language = "text"  # of blocks that name none
source_suffix = {".md": "markdown"}
exclude_patterns = ["captions", "_build"]
suppress_warnings = ["myst.header"]  # generated pages have no introduction above their tables
html_theme = "furo"
html_title = "WhichDevice"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "navigation_with_keys": True,
    **({"source_repository": ADDRESS, "source_branch": "main", "source_directory": "docs/"} if ADDRESS else {}),
}
