"""`exact`: the cheapest trees there are under the poster's weights, by mixed-integer programming (HiGHS)."""

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.exact import Optimum, solve
from p4reduce.control_plane.plans.problem import TreeLayout
from p4reduce.control_plane.scheduling.deciding import decide_trees
from p4reduce.control_plane.scheduling.policy import Decision, Rejection, register_policy
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import Direction, TaskProblem, View, problem_of
from p4reduce.control_plane.scheduling.weights import Weights


@register_policy("exact")
def exact(task: Task, state: NetworkState, *, lanes: int = 256, weights: Weights = Weights()) -> Decision:  # noqa: B008
    """The cheapest trees. For networks of some hundred switches at most.

    Where switches could not forward the cheapest tree on asymmetric links, the nearest one that they can is taken.
    """
    view = View(task, state, lanes)
    return decide_trees("exact", view, _tree, view.words(weights))


def optimum(
    task: Task,
    state: NetworkState,
    direction: Direction,
    *,
    lanes: int = 256,
    weights: Weights = Weights(),  # noqa: B008
) -> Optimum:
    """The cheapest tree of one direction with its cost and a lower bound, in weights of 1 / `SCALE`.

    Raises
    ------
    Rejection
        When no tree fits.
    """
    view = View(task, state, lanes)
    return _solve(problem_of(view, view.words(weights), direction))


def _tree(problem: TaskProblem) -> TreeLayout:
    return _solve(problem).layout


def _solve(problem: TaskProblem) -> Optimum:
    try:
        return solve(problem, limits=problem.room, both_ways=problem.both)
    except Rejection:
        raise
    except PlanError as error:
        raise Rejection(f"task {problem.view.task.name}: {error}") from None
