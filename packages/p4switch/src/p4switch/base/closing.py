"""A base class for objects that a ``with`` block closes."""

from typing import Self


class Closable:
    """A context manager that closes itself: ``with Thing() as thing`` calls ``thing.close()`` at the end."""

    def close(self) -> None:
        """Release the resources that the object holds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
