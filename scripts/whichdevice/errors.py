"""The one exception type that a person is meant to read."""


class StudyError(Exception):
    """A fault that the person at the keyboard can mend.

    Its text is one line: what is wrong, where, and what to do. Entry points print it and exit
    non-zero; the traceback goes to a log at most.
    """
