"""What can go wrong with the database and the tasks in it."""


class StoreError(RuntimeError):
    """The database cannot be used; the text names the file and the fix."""


class TaskError(ValueError):
    """A task or a trace that cannot be taken; the text names file, task and field."""
