"""Texts of flags that say what happens to a network, and when: links that are cut and mended, hosts that end."""

from p4reduce.cli.failures import BadInput
from p4reduce.topologies import load, parse_delay


def delay(text: str, flag: str, least: int) -> int:
    """A time of a flag, picoseconds; `BadInput` names the flag."""
    try:
        found = parse_delay(text)
    except ValueError as error:
        raise BadInput(f"{flag}: {error}") from None
    if found < least:
        raise BadInput(f"{flag}: {text} is too short")
    return found


def deaths(texts: list[str] | None, topology: str | None) -> list[tuple[str, str, int]]:
    """Host, task ('': the host itself) and time of each, of texts as 'h3@5ms' and 'task1/h3@5ms'."""
    known = None if topology is None else {host.name for host in load(topology).hosts}
    found = []
    for text in texts or []:
        who, at, time = text.partition("@")
        task, _, host = who.strip().rpartition("/")
        if not at or not host:
            raise BadInput(f"--kill: {text!r}: expected a host and a time, as in 'h3@5ms' or 'task1/h3@5ms'")
        if known is not None and host not in known:
            raise BadInput(f"--kill: {text!r}: {host!r} is no host of {topology}")
        found.append((host, task, delay(time.strip(), "--kill", least=0)))
    return found


def link_changes(texts: list[str] | None, flag: str, *, up: bool) -> list[tuple[str, str, bool, int]]:
    """Both ends of a link, whether it is up from then on, and when, of texts as 'leaf1,spine1@5ms'."""
    found = []
    for text in texts or []:
        ends, at, time = text.partition("@")
        names = ends.split(",")
        if not at or len(names) != 2:
            raise BadInput(f"{flag}: {text!r}: expected two nodes and a time, as in 'leaf1,spine1@5ms'")
        found.append((names[0].strip(), names[1].strip(), up, delay(time.strip(), flag, least=0)))
    return found
