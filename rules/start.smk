# Before the config is read: the package on the path, errors as one line, YAML checked.
import os
import sys
from pathlib import Path

sys.path.insert(0, f"{workflow.basedir}/scripts")

from whichdevice.config.yaml_file import check_yaml
from whichdevice.errors import StudyError
from whichdevice.locks import SCHEDULED
from whichdevice.parent import STARTER
from whichdevice.planning.interpreter import prefer_this_package, prefer_this_python
from whichdevice.planning.workplace import require_writable


def or_exit(function, *arguments):
    """Call a function of the package; an error that a person can mend becomes the one line they read."""
    try:
        return function(*arguments)
    except StudyError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {error.filename or Path.cwd()}: {error.strerror or error}")


prefer_this_python()
prefer_this_package()
os.environ[STARTER] = str(os.getpid())  # so that a job whose Snakemake died while it was starting knows
if workflow.remote_exec:
    os.environ[SCHEDULED] = "yes"
if workflow.is_main_process:
    or_exit(require_writable, Path.cwd())
# Of this folder, which --directory may have changed to one of results alone; else the checkout's.
DEFAULT_CONFIG = "config/config.yaml"
if not Path(DEFAULT_CONFIG).is_file():
    DEFAULT_CONFIG = f"{workflow.basedir}/{DEFAULT_CONFIG}"
for file in workflow.overwrite_configfiles or [DEFAULT_CONFIG]:
    or_exit(check_yaml, Path(file))
