# Before the config is read: an error that a person can fix is one line.
from whichdevice.config.yaml_file import check_yaml
from whichdevice.errors import StudyError


def or_exit(function, *arguments):
    """Call a function of the package; an error that a person can fix becomes the one line they read."""
    try:
        return function(*arguments)
    except StudyError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {error.filename or Path.cwd()}: {error.strerror or error}")
