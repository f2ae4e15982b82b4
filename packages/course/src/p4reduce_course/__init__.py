"""Labs on in-network aggregation and their graders: ``labs/`` has a folder for each lab, this folder a grader."""

from typing import Final

__version__: Final = "0.1.0"
