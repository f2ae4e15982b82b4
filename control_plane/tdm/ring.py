"""Algorithm 3: a ring over the pods of a job that uses circuits which others have already."""

from collections.abc import Callable, Sequence

from p4reduce.control_plane.tdm.demand import Floats


def form_ring(root: Sequence[int], traffic: Floats) -> tuple[int, ...]:
    """The pods of a job in the order of a ring that runs along as many existing links as it can.

    Links between pods of the job begin as they are. While a pod has more than two, the one to its neighbour of highest
    degree is cut (among equals the one with least traffic, then the first pod: the paper leaves it open). Then every
    ring that has closed is broken at its least loaded link (open, too), and the paths that are left are chained in
    the order of their smallest pods (the paper: "sequentially"). One pod needs no ring, two have one link: the text
    does not say so. Degrees are a list of |P| numbers (printed: a 1 x |P| matrix of 0 x |P|). O(m^2).

    Parameters
    ----------
    root : sequence of int
        root_node: pods of the job, each once.
    traffic : float64 (pods, pods)
        Bytes between pods so far, either way; a link is where there are any. (The paper calls demand and rate both B.)

    Returns
    -------
    tuple of int
        The pods, each sending to the next and the last to the first.
    """
    pods = sorted(root)
    if len(pods) <= 2:
        return tuple(pods)
    weight = traffic + traffic.T
    links = {pod: {other for other in pods if other != pod and weight[pod, other] > 0} for pod in pods}
    for pod in pods:
        while len(links[pod]) > 2:
            other = min(links[pod], key=lambda one: (-len(links[one]), weight[pod, one], one))
            _cut(links, pod, other)
    for part in _parts(links):
        if len(part) > 2 and all(len(links[pod]) == 2 for pod in part):
            pairs = [(pod, other) for pod in part for other in links[pod] if pod < other]
            _cut(links, *min(pairs, key=lambda pair: (weight[pair], pair)))
    return tuple(pod for part in _parts(links) for pod in _along(part, links))


def _cut(links: dict[int, set[int]], a: int, b: int) -> None:
    links[a].discard(b)
    links[b].discard(a)


def _parts(links: dict[int, set[int]]) -> list[list[int]]:
    """Connected parts, in the order of their smallest pods."""
    seen: set[int] = set()
    found = []
    for pod in links:
        if pod not in seen:
            part = _reach(pod, links)
            seen.update(part)
            found.append(sorted(part))
    return found


def _reach(pod: int, links: dict[int, set[int]]) -> list[int]:
    """Pods that can be reached, each after one that it is joined to."""
    found = [pod]
    for one in found:
        found += sorted(links[one] - set(found))
    return found


def _along(part: list[int], links: dict[int, set[int]]) -> list[int]:
    """A path from one of its ends."""
    end: Callable[[int], bool] = lambda pod: len(links[pod]) < 2  # noqa: E731
    here = next(filter(end, part))
    way = [here]
    while following := [other for other in links[here] if other not in way]:
        here = following[0]
        way.append(here)
    return way
