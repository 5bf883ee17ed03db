"""The one error that a person reads; only the command line and the page turn it into something shown."""


class SlemError(Exception):
    """One sentence that says what was wrong and what to do. Anything else that is raised is a bug."""
