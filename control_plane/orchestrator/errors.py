"""What can go wrong with the database, the tasks in it, and what executors are asked."""


class StoreError(RuntimeError):
    """The database cannot be used; the text names the file and the fix."""


class TaskError(ValueError):
    """A task or a trace that cannot be taken; the text names file, task and field."""


class RefusedError(RuntimeError):
    """The executor will not do this for one task; it changed nothing, and goes on with all others."""
