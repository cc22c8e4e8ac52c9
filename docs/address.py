"""The project's public address, in this one place.

`make docs` carries it to the README, the site, the notebook and CITATION.cff.
"""

ADDRESS = ""  # what `git clone` takes; empty while the project has no public address
