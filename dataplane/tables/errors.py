"""What can be wrong with a change to a table."""


class TableError(ValueError):
    """A table refuses a change. The message names the table."""


class InvalidEntry(TableError):
    """Wrong number or kind of match fields, a value that is too wide, an unknown action, wrong arguments."""


class EntryExists(TableError):
    """An entry with the same match (and priority, where the table has priorities) is there already."""


class NoSuchEntry(TableError):
    """There is no entry with this match (and priority)."""


class TableFull(TableError):
    """The table holds as many entries as the P4 program allows."""


class TableIsConst(TableError):
    """The P4 program fixes the entries, or the default action, of this table."""


class StillUsed(TableError):
    """A member or group that a group or table entry names cannot be removed."""
