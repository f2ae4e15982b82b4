"""Check whether an optical cross-connect can set up circuits."""

from p4reduce.control_plane.tdm.jobs import TdmError
from p4reduce.control_plane.tdm.schedule import Matrix


def check_matrix(matrix: Matrix, ports: int) -> None:
    """Raise `TdmError` for impossible circuits of an OXC: asymmetric, a loop, a negative number, too many ports."""
    pods = len(matrix)
    for i, row in enumerate(matrix):
        if len(row) != pods:
            raise TdmError(f"circuits: row {i + 1} has {len(row)} numbers; {pods} pods need {pods}")
        if row[i]:
            raise TdmError(f"circuits: pod {i + 1} would be joined to itself")
        if min(row) < 0:
            raise TdmError(f"circuits: row {i + 1} has a negative number")
        if sum(row) > ports:
            raise TdmError(f"circuits: pod {i + 1} needs {sum(row)} ports and has {ports}")
        for j in range(i):
            if row[j] != matrix[j][i]:
                raise TdmError(f"circuits: {row[j]} from pod {i + 1} to {j + 1}, but {matrix[j][i]} back")
