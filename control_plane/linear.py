"""Mixed-integer linear programs, put together row by row and solved by HiGHS."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


class Rows:
    """The constraints of a program, each of the form low <= sum of factor * column <= high."""

    def __init__(self) -> None:
        self._terms: list[tuple[int, int, float]] = []
        self._low: list[float] = []
        self._high: list[float] = []

    def row(self, terms: Mapping[int, float], low: float, high: float) -> None:
        """Add a constraint; ``terms`` maps a column's index to its factor."""
        self._terms.extend((len(self._low), column, factor) for column, factor in terms.items())
        self._low.append(low)
        self._high.append(high)

    def solve(self, cost: npt.ArrayLike, *, whole: npt.ArrayLike, most: npt.ArrayLike, **options: float) -> Any:
        """Minimize ``cost`` with columns in 0..``most``, integral if ``whole`` is 1; return scipy's result."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415  (takes a while to import)
        from scipy.sparse import csr_array  # noqa: PLC0415

        cost, terms = np.asarray(cost, np.float64), np.array(self._terms, np.float64).reshape(-1, 3)
        places = (terms[:, 0].astype(np.int64), terms[:, 1].astype(np.int64))
        solver: Any = milp  # its type stubs do not declare the options
        return solver(
            cost,
            integrality=np.asarray(whole),
            bounds=Bounds(0, np.asarray(most)),
            constraints=LinearConstraint(
                csr_array((terms[:, 2], places), shape=(len(self._low), cost.size)), self._low, self._high
            ),
            options=options,
        )
