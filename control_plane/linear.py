"""Mixed-integer linear programs, put together row by row and solved by HiGHS."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


class Rows:
    """What the columns of a program must keep to: low <= sum of terms <= high."""

    def __init__(self) -> None:
        self._terms: list[tuple[int, int, float]] = []
        self._low: list[float] = []
        self._high: list[float] = []

    def row(self, terms: Mapping[int, float], low: float, high: float) -> None:
        """One more; ``terms``: a factor for each column."""
        self._terms.extend((len(self._low), column, factor) for column, factor in terms.items())
        self._low.append(low)
        self._high.append(high)

    def solve(self, cost: npt.ArrayLike, *, whole: npt.ArrayLike, most: npt.ArrayLike, **options: float) -> Any:
        """scipy's answer to the least cost with each column from 0 to ``most``, in integers where ``whole`` is 1."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415  (takes a while to import)
        from scipy.sparse import csr_array  # noqa: PLC0415

        cost, terms = np.asarray(cost, np.float64), np.array(self._terms, np.float64).reshape(-1, 3)
        places = (terms[:, 0].astype(np.int64), terms[:, 1].astype(np.int64))
        solver: Any = milp  # its stubs know no options by name
        return solver(
            cost,
            integrality=np.asarray(whole),
            bounds=Bounds(0, np.asarray(most)),
            constraints=LinearConstraint(
                csr_array((terms[:, 2], places), shape=(len(self._low), cost.size)), self._low, self._high
            ),
            options=options,
        )
