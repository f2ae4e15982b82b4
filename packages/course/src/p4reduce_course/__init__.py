"""Labs on in-network aggregation, and what grades them: a folder for each lab in ``labs/``, a grader beside it."""

from typing import Final

__version__: Final = "0.1.0"
