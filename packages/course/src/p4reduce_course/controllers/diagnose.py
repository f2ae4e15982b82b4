"""Compares installed entries with the tree that they should form; reports the first error and its consequence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import finsy as fy
from finsy.p4entity import P4Replica

from p4reduce.control_plane.entries import Entity, key
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.plan import Address, Aggregator
from p4reduce.control_plane.resources import SLOTS, STATS_JOBS
from p4reduce.topologies import Topology
from p4reduce_course.frame.report import Wrong
from p4reduce_course.python_trail import EntryPlace, WrongEntry, key_of

# Entries that a student's controller has installed, with the names of the P4 program.


def replicas_of(group: fy.P4MulticastGroupEntry) -> list[tuple[int, int]]:
    """Returns (port, replication id) of each copy of a group that was decoded: finsy gives the port alone for id 0."""
    copies: list[tuple[int, int]] = []
    for replica in group.replicas:
        if isinstance(replica, int):
            copies.append((replica, 0))
        elif isinstance(replica, P4Replica):
            copies.append((replica.port, replica.instance))
    return copies


@dataclass(frozen=True)
class EntryRow:
    """An entry of a table: its key, its action and the action's parameters."""

    match: dict[str, Any]
    action: str
    params: dict[str, int]


@dataclass
class Book:
    """The entries of all switches.

    Attributes:
        early: (switch, job, epoch, group) of entries of table job that were written before their multicast group.
        behind: (switch, job, epoch, what) of entries that were written after the entry of table job that needs them.
        ever: by (switch, job, epoch), the latest parameters of its entry of table job.
        changed: (switch, former entry) of entries that were deleted or written over since this list was emptied.
        undermined: (switch, job, epoch, what) of entries deleted before the entry of table job that needs them.
        taken: (switch, entry) of entries of another controller that were deleted.
    """

    held: dict[str, dict[tuple[object, ...], Entity]] = field(default_factory=dict)
    early: list[tuple[str, int, int, int]] = field(default_factory=list)
    behind: list[tuple[str, int, int, str]] = field(default_factory=list)
    ever: dict[tuple[str, int, int], dict[str, int]] = field(default_factory=dict)
    changed: list[tuple[str, Entity]] = field(default_factory=list)
    undermined: list[tuple[str, int, int, str]] = field(default_factory=list)
    taken: list[tuple[str, Entity]] = field(default_factory=list)

    _rows: dict[tuple[str, str], dict[tuple[object, ...], EntryRow]] = field(default_factory=dict)
    """by switch and table, the rows by key"""
    _groups: dict[str, dict[int, list[tuple[int, int]]]] = field(default_factory=dict)
    """by switch, (port, replication id) of each copy, by multicast group"""

    def add(self, switch: str, entities: Iterable[Entity]) -> None:
        """Adds entries in the order in which a switch took them."""
        held = self.held.setdefault(switch, {})
        for entity in entities:
            if key(entity) in held:
                self.changed.append((switch, held[key(entity)]))
            held[key(entity)] = entity
            row = _row(entity, "job")
            if isinstance(entity, fy.P4MulticastGroupEntry):
                self._groups.setdefault(switch, {})[entity.multicast_group_id] = replicas_of(entity)
            elif isinstance(entity, fy.P4TableEntry):
                self._rows.get((switch, _table(entity)), {}).pop(key(entity), None)
                if (parsed := _row(entity, _table(entity))) is not None:
                    self._rows.setdefault((switch, _table(entity)), {})[key(entity)] = parsed
            for job, what in self._needing(switch, entity) if row is None else ():
                self.behind.append((switch, job.match["job"], job.match["epoch"], what))
            if row is not None:
                named = switch, row.match["job"], row.match["epoch"]
                self.ever[named] = row.params
                if self.group(switch, row.params["group"]) is None:
                    self.early.append((*named, row.params["group"]))

    def remove(self, switch: str, entities: Iterable[Entity]) -> None:
        """Removes entries that a switch no longer has."""
        for entity in entities:
            gone = self.held.get(switch, {}).pop(key(entity), None)
            if gone is None:
                continue
            self.changed.append((switch, gone))
            needing = list(self._needing(switch, gone))
            if isinstance(gone, fy.P4MulticastGroupEntry):
                self._groups[switch].pop(gone.multicast_group_id)
            elif isinstance(gone, fy.P4TableEntry):
                self._rows.get((switch, _table(gone)), {}).pop(key(gone), None)
            for row, what in needing:
                self.undermined.append((switch, row.match["job"], row.match["epoch"], what))

    def _needing(self, switch: str, entity: Entity) -> Iterator[tuple[EntryRow, str]]:
        """Yields the entries of table job that need an entry, each with a name for it."""
        jobs = self.rows(switch, "job")
        if isinstance(entity, fy.P4MulticastGroupEntry):
            number = entity.multicast_group_id
            yield from ((job, f"multicast group {number}") for job in jobs if job.params["group"] == number)
        elif (peer := _row(entity, "peer")) is not None:
            mine = peer.match["job"], peer.match["epoch"]
            same = (job for job in jobs if (job.match["job"], job.match["epoch"]) == mine)
            yield from ((job, "an entry of table peer") for job in same)
        elif (replica := _row(entity, "replica")) is not None:
            rid = replica.match["egress_rid"]
            using = {number for number, copies in self.groups(switch).items() if any(rid == copy for _, copy in copies)}
            yield from ((job, f"replication id {rid}") for job in jobs if job.params["group"] in using)

    def rows(self, switch: str, table: str) -> Iterator[EntryRow]:
        """Yields the entries of a table."""
        yield from self._rows.get((switch, table), {}).values()

    def jobs(self, switch: str) -> dict[tuple[int, int], EntryRow]:
        """Returns the entries of table job, by job and epoch."""
        return {(row.match["job"], row.match["epoch"]): row for row in self.rows(switch, "job")}

    def peers(self, switch: str, job: int, epoch: int) -> dict[tuple[int, int], EntryRow]:
        """Returns the entries of table peer for a job's epoch, by ingress port and source address."""
        rows = self.rows(switch, "peer")
        mine = (row for row in rows if (row.match["job"], row.match["epoch"]) == (job, epoch))
        return {(row.match["ingress_port"], row.match["src"]): row for row in mine}

    def groups(self, switch: str) -> dict[int, list[tuple[int, int]]]:
        """Returns (port, replication id) of each copy, by multicast group."""
        return self._groups.get(switch, {})

    def group(self, switch: str, number: int) -> list[tuple[int, int]] | None:
        """Returns (port, replication id) of each copy of a multicast group; None if it does not exist."""
        return self.groups(switch).get(number)

    def replica(self, switch: str, rid: int) -> EntryRow | None:
        """Returns the entry of table replica for a replication id; None if there is none."""
        return next((row for row in self.rows(switch, "replica") if row.match["egress_rid"] == rid), None)


def _table(entity: fy.P4TableEntry) -> str:
    return entity.table_id.rpartition(".")[2]


def _row(entity: Entity, table: str) -> EntryRow | None:
    if not isinstance(entity, fy.P4TableEntry) or _table(entity) != table:
        return None
    if not isinstance(entity.action, fy.P4TableAction):
        return None
    match = {name.rpartition(".")[2]: value for name, value in (entity.match or {}).items()}
    return EntryRow(match, entity.action.name.rpartition(".")[2], dict(entity.action.args))


def peer_of(entity: Entity) -> EntryRow | None:
    """Returns an entry of table peer; None for any other."""
    return _row(entity, "peer")


def check_entries(book: Book, plan: Plan, where: str, dead: Collection[str] = ()) -> None:
    """Raises Wrong with the first error that keeps switches from summing a plan's job along its tree.

    Nothing is required of ``dead`` switches. The student chooses bits, groups and replication ids; other checks
    compare generation, base and slots.
    """
    for robbed, entity in book.taken:
        problem = f"{robbed}: {_named(entity)} was deleted, and another controller has installed it"
        about = EntryPlace(robbed, entry_key(entity), how="deleted")
        raise WrongEntry(f"{problem}. Delete only what you have written", where, about)
    for early, number, epoch, group in book.early:
        if (number, epoch) == (plan.job, plan.epoch) and book.group(early, group) is not None:
            problem = f"{early}: the entry of table job named multicast group {group} before the group existed"
            problem += ": a sum that completes in between reaches no child. Write the group first"
            raise WrongEntry(problem, where, EntryPlace(early, f"group {group}", ("replicas",)))
    for late, number, epoch, what in book.behind:
        if (number, epoch) == (plan.job, plan.epoch):
            problem = f"{late}: {what} was written after the entry of table job, which lets packets in"
            problem += ": packets in between are refused or lost. Write the entry of table job last"
            raise WrongEntry(problem, where, EntryPlace(late, key_of("job", number, epoch), ("job",)))
    for aggregator in plan.aggregators:
        job = _job(book, plan, aggregator, where)
        _children(book, plan, aggregator, job, where)
        _group(book, plan, aggregator, job, where)
        _parent(book, plan, aggregator, job, where)
    for switch in plan.topology.switches:
        if switch.name in (*plan.by_switch, *dead):
            continue
        if (plan.job, plan.epoch) in book.jobs(switch.name):
            problem = f"{switch.name} has an entry of table job for job {plan.job}, epoch {plan.epoch}"
            problem += ", and no worker below it: it waits for contributions that no worker sends"
            raise WrongEntry(problem, where, EntryPlace(switch.name, key_of("job", plan.job, plan.epoch)))
        for place in book.peers(switch.name, plan.job, plan.epoch):
            problem = f"{switch.name} has an entry of table peer for job {plan.job}, epoch {plan.epoch}"
            problem += f", port {place[0]}, and no worker below it: it has no part in the tree, and needs no entry"
            raise WrongEntry(problem, where, _peer(plan, switch.name, place))


def check_only(book: Book, plans: Sequence[Plan], where: str, dead: Collection[str] = ()) -> None:
    """Raises Wrong if a living switch has entries of table job or peer for a job or an epoch of none of the plans."""
    epochs = {plan.job: plan.epoch for plan in plans}
    for switch in plans[0].topology.switches:
        for table in ("job", "peer") if switch.name not in dead else ():
            for row in book.rows(switch.name, table):
                job, epoch = row.match["job"], row.match["epoch"]
                if epochs.get(job) == epoch:
                    continue
                problem = f"{switch.name} has an entry of table {table} for job {job}, epoch {epoch}: "
                problem += f"workers send epoch {epochs[job]}" if job in epochs else "there is no such job"
                problem += ". Packets with these numbers have to find no entry"
                about = ("hdr.inc.epoch" if job in epochs else "hdr.inc.job",)
                raise WrongEntry(problem, where, EntryPlace(switch.name, key_of(table, *row.match.values()), about))


def check_needed(book: Book, plan: Plan, where: str) -> None:
    """Raises Wrong if a switch without a part in the tree has an entry, or another one more than one group."""
    for switch in plan.topology.switches:
        for entity in book.held.get(switch.name, {}).values() if switch.name not in plan.by_switch else ():
            text, place = _named(entity, "an"), EntryPlace(switch.name, entry_key(entity))
            problem = f"{switch.name} has {text}, but no worker is below it: it has no part in the tree and gets no"
            problem += " entries"
            raise WrongEntry(problem, where, place)
    for name in plan.by_switch:
        number = book.jobs(name)[plan.job, plan.epoch].params["group"]
        for other in book.groups(name):
            if other != number:
                problem = f"{name} has multicast group {other}, and its entry of table job names group {number}"
                raise WrongEntry(f"{problem}: one group is enough", where, EntryPlace(name, f"group {other}"))


def check_edges(book: Book, topology: Topology, where: str) -> None:
    """Raises Wrong unless table edge of each switch has the host behind each port that has one, and nothing else."""
    for switch in topology.switches:
        rows = {row.match["ingress_port"]: row.params["ip"] for row in book.rows(switch.name, "edge")}
        gone = {entry_key(entity) for name, entity in book.changed if name == switch.name}
        for port, name in enumerate(topology.neighbours(switch.name), start=1):
            node, ip, key = topology.node(name), rows.pop(port, None), key_of("edge", port)
            if ip == (None if node.is_switch else node.ip):
                continue
            problem, about = f"{switch.name}: table edge has ", EntryPlace(switch.name, key, ("std.ingress_port",))
            if ip is None:
                problem += f"no entry for port {port}, where {name} is: packets from there are sent on in any name"
                about = EntryPlace(switch.name, "edge", action="host")
                if key in gone:
                    problem, about = f"{problem}. It was deleted", EntryPlace(switch.name, key, how="deleted")
            elif node.is_switch:
                problem += f"an entry for port {port}, where {name} is, a switch: what {name} sends on to another host"
                problem += " is refused, reason 16. Only a port with a host has one"
            else:
                problem += f"the ip {_shown('ip', ip)} for port {port}, where {name} is, and {name} has "
                problem += f"{_shown('ip', node.ip)}: what it sends to another host is refused, reason 16"
                about = EntryPlace(switch.name, key, ("ip",))
            raise WrongEntry(problem, where, about)
        for port in rows:
            problem = f"{switch.name}: table edge has an entry for port {port}, which has no link"
            raise WrongEntry(problem, where, EntryPlace(switch.name, key_of("edge", port), ("std.ingress_port",)))


def _named(entity: Entity, article: str = "the") -> str:
    """Returns a name for an entry."""
    table, _, number = entry_key(entity).partition(" ")
    if table == "group":
        return f"multicast group {number}"
    return f"{article} entry of table replica for id {number}" if table == "replica" else f"an entry of table {table}"


def _job(book: Book, plan: Plan, aggregator: Aggregator, where: str) -> EntryRow:
    name, jobs = aggregator.name, book.jobs(aggregator.name)
    entry = jobs.get((plan.job, plan.epoch))
    if entry is None:
        problem = f"{name} has no entry of table job for job {plan.job}, epoch {plan.epoch}"
        others = sorted(epoch for job, epoch in jobs if job == plan.job)
        if (name, plan.job, plan.epoch) in book.ever:
            problem += ": it was written, and was deleted or replaced later"
            raise WrongEntry(problem, where, EntryPlace(name, key_of("job", plan.job, plan.epoch), how="deleted"))
        if others:
            problem += f"; it has one for epoch {others[-1]}: a stale epoch. Workers send epoch {plan.epoch}"
            problem += ", and all their packets are refused, reason 7"
            raise WrongEntry(problem, where, EntryPlace(name, key_of("job", plan.job, others[-1]), ("epoch",)))
        held = {switch.name: book.jobs(switch.name).get((plan.job, plan.epoch)) for switch in plan.topology.switches}
        roots = [switch for switch, row in held.items() if row is not None and row.action == "root"]
        if roots and plan.root not in roots:
            problem += f"; {roots[0]} has action root, and the job's root is {plan.root}"
            raise WrongEntry(problem, where, EntryPlace(roots[0], key_of("job", plan.job, plan.epoch), ("root",)))
        if aggregator.parent is None:
            problem += f"; {name} is the job's root" + ("" if any(book.held.get(name, ())) else ", and has no entries")
        below = ", ".join(child.name for child in aggregator.children)
        problem += f"; in the tree {below} {'is' if len(aggregator.children) == 1 else 'are'} below it"
        action = "root" if aggregator.parent is None else "inner"
        raise WrongEntry(problem, where, EntryPlace(name, "job", action=action))
    if entry.params["generation"] < 1:
        problem = f"{name}: generation of job {plan.job} is 0, which marks unused slots"
        problem += ": no sum begins anew there. Generations are 1 or higher"
        raise WrongEntry(problem, where, EntryPlace(name, key_of("job", plan.job, plan.epoch), ("generation",)))
    right = "root" if aggregator.parent is None else "inner"
    if entry.action != right:
        why = "it is the root" if right == "root" else f"its parent is {aggregator.parent.name}"  # type: ignore[union-attr]
        problem = f"{name}: table job has the action {entry.action} for job {plan.job}: {why}, so {right}"
        raise WrongEntry(problem, where, EntryPlace(name, key_of("job", plan.job, plan.epoch), ("root", "inner")))
    return entry


def _children(book: Book, plan: Plan, aggregator: Aggregator, job: EntryRow, where: str) -> None:
    name, peers = aggregator.name, book.peers(aggregator.name, plan.job, plan.epoch)
    bits: dict[str, int] = {}
    lowest = []
    for child in aggregator.children:
        row = peers.get((child.address.port, child.address.ip))
        if row is None or row.action != "child":
            problem = f"{name} has no entry child of table peer for {child.name} at port {child.address.port}"
            problem += f", job {plan.job}, epoch {plan.epoch}: its packets are refused, reason 8"
            raise _absent(book, plan, name, (child.address.port, child.address.ip), "child", problem, where)
        bits[child.name] = row.params["bit_"]
        if row.params["lowest"]:
            lowest.append(child.name)
    _bits(plan, aggregator, bits, job.params["full"], where)
    if len(lowest) != 1:
        problem = f"{name}: lowest is 1 for {' and '.join(lowest) or 'no child'}; one child has it"
        problem += ": it is the one for which the switch asks its parent again"
        about = [child for child in aggregator.children if child.name in lowest] or list(aggregator.children)
        raise WrongEntry(problem, where, _peer(plan, name, (about[-1].address.port, about[-1].address.ip), "lowest"))
    wanted = {(child.address.port, child.address.ip) for child in aggregator.children}
    for (port, ip), row in peers.items():
        if row.action == "child" and (port, ip) not in wanted:
            text = _surplus(plan, aggregator, row.action, port, ip)
            raise WrongEntry(text, where, _peer(plan, name, (port, ip), "std.ingress_port"))


def _peer(plan: Plan, switch: str, place: tuple[int, int], *fields: str) -> EntryPlace:
    """Returns an entry of table peer for a port and an address; ``fields``: what is wrong in it."""
    return EntryPlace(switch, key_of("peer", *place, plan.job, plan.epoch), fields)


def _absent(
    book: Book, plan: Plan, switch: str, place: tuple[int, int], action: str, problem: str, where: str
) -> WrongEntry:
    """Returns a finding about an entry of table peer that is not there; it follows one that stands in its place."""
    for row in book.rows(switch, "peer"):
        at, of = (row.match["ingress_port"], row.match["src"]), (row.match["job"], row.match["epoch"])
        near = [name for name, a, b in (("ingress_port", at[0], place[0]), ("src", at[1], place[1])) if a != b]
        near += ["job", "epoch"] if of != (plan.job, plan.epoch) else []
        mine = row.action == action or at == place
        if mine and (near == ["job", "epoch"] or (len(near) < 2 and not _is_right(plan, switch, at, row.action))):
            key = key_of("peer", *at, *of)
            near = near or [action]
            near = [
                f"{'std.' if name == 'ingress_port' else 'hdr.ipv4.' if name == 'src' else ''}{name}" for name in near
            ]
            return WrongEntry(
                problem + _instead(book, switch, plan, *place), where, EntryPlace(switch, key, tuple(near))
            )
    about = EntryPlace(switch, "peer", action=action)
    return WrongEntry(problem + _instead(book, switch, plan, *place), where, about)


def _is_right(plan: Plan, switch: str, at: tuple[int, int], action: str) -> bool:
    """Returns whether an entry of table peer at this place, with this action, is one of the plan's."""
    aggregator = plan.by_switch[switch]
    if action == "child":
        return at in [(child.address.port, child.address.ip) for child in aggregator.children]
    return aggregator.parent is not None and at == (aggregator.parent.port, aggregator.parent.ip)


def _bits(plan: Plan, aggregator: Aggregator, bits: dict[str, int], full: int, where: str) -> None:
    name = aggregator.name
    places = {child.name: (child.address.port, child.address.ip) for child in aggregator.children}
    children = f"{len(bits)} child{'' if len(bits) == 1 else 'ren'}"
    taken = 0
    for child, bit in bits.items():
        if bit & ~full:
            problem = (
                f"{name} has {children}, full is {full:#b}, and bit_ of {child} is {bit:#b}, which full does not have"
            )
            problem += ". A bitmap with it never equals full, and no sum ever leaves"
            if (full + 1).bit_count() == 1 and full.bit_count() == len(bits):
                raise WrongEntry(problem, where, _peer(plan, name, places[child], "bit_"))
            raise WrongEntry(problem, where, EntryPlace(name, key_of("job", plan.job, plan.epoch), ("full",)))
        if bit & taken or bit.bit_count() != 1:
            problem = f"{name}: bit_ of {child} is {bit:#b}; each child has one bit, which no other child has"
            raise WrongEntry(problem, where, _peer(plan, name, places[child], "bit_"))
        taken |= bit
    if taken != full:
        problem = f"{name}: full is {full:#b}, the children have {taken:#b}: it waits for a child that is not there"
        raise WrongEntry(problem, where, EntryPlace(name, key_of("job", plan.job, plan.epoch), ("full",)))


def _surplus(plan: Plan, aggregator: Aggregator, action: str, port: int, ip: int) -> str:
    """Returns what is wrong with an entry of table peer that the tree does not have."""
    node, name = plan.topology.by_ip.get(ip), aggregator.name
    who = f"{ip:#x}" if node is None else node.name
    problem = f"{name}: table peer takes {who} for a {action} at port {port}"
    if not 1 <= port <= len(plan.topology.neighbours(name)):
        return f"{problem}, which has no link"
    there = plan.topology.neighbour(name, port)
    above = [] if aggregator.parent is None else [aggregator.parent.ip]
    if ip in (above if action == "parent" else [child.address.ip for child in aggregator.children]):
        problem += f", where {there} is: the address is trusted without the port"
        return f"{problem}. Any host behind that port may write {who}'s address into its packets"
    if action == "child":
        return f"{problem}, where {there} is: it has no part in job {plan.job}"
    why = "the root of the job, which has none" if aggregator.parent is None else f"below {aggregator.parent.name}"
    return f"{problem}, where {there} is: {name} is {why}"


def _group(book: Book, plan: Plan, aggregator: Aggregator, job: EntryRow, where: str) -> None:
    name, number = aggregator.name, job.params["group"]
    replicas = book.group(name, number)
    ports = {child.address.port: child for child in aggregator.children}
    if replicas is None:
        problem = f"{name} has no multicast group {number}, and its entry of table job names it"
        others = [other for other in plan.by_switch if book.group(other, number) is not None]
        if others:
            problem += f"; {others[0]} has one: one group for two switches. Groups are each switch's own"
        key = key_of("job", plan.job, plan.epoch)
        about = EntryPlace(name, key, ("group",)) if book.groups(name) else EntryPlace(name, "group")
        raise WrongEntry(problem, where, about)
    if sorted(port for port, _ in replicas) != sorted(ports):
        problem = f"{name}: group {number} copies to ports {sorted(port for port, _ in replicas)}, its children are at "
        problem += str(sorted(ports))
        twins = [other for other in plan.by_switch if other != name and book.group(other, number) == replicas]
        if twins:
            problem += f". {twins[0]} has the same copies: one group for two switches. Groups are each switch's own"
        raise WrongEntry(problem, where, EntryPlace(name, f"group {number}", ("replicas",)))
    for port, rid in replicas:
        if not rid:
            problem = f"{name}: group {number} copies to port {port} with replication id 0. Packets that are no copies"
            problem += " have id 0, too, and would get the child's address. Take the ids that README allows"
            about = EntryPlace(name, key_of("replica", rid), ("std.egress_rid",))
            raise WrongEntry(problem, where, about if book.replica(name, rid) else EntryPlace(name, f"group {number}"))
        address, row = ports[port].address, book.replica(name, rid)
        wanted = {"mac": address.mac, "ip": address.ip, "udp": address.udp}
        if row is None:
            problem = (
                f"{name}: group {number} copies to port {port} with replication id {rid}, and table replica has none"
            )
            problem += ": the copy keeps the address of the last packet that came in"
            mine = [
                other.match["egress_rid"]
                for other in book.rows(name, "replica")
                if other.params.get("ip") == address.ip
            ]
            about = EntryPlace(name, "replica")
            if mine:
                about = EntryPlace(name, key_of("replica", mine[0]), ("std.egress_rid",))
            raise WrongEntry(problem, where, about)
        for member, value in wanted.items():
            if row.params.get(member) != value:
                problem = f"{name}: replication id {rid} goes to {address.name} at port {port}, and its {member} is "
                problem += f"{_shown(member, row.params.get(member, 0))}, not {_shown(member, value)}"
                raise WrongEntry(problem, where, EntryPlace(name, key_of("replica", rid), (member,)))


def _parent(book: Book, plan: Plan, aggregator: Aggregator, job: EntryRow, where: str) -> None:
    parent, peers = aggregator.parent, book.peers(aggregator.name, plan.job, plan.epoch)
    if parent is not None:
        _address_of_parent(book, plan, aggregator, parent, job, where)
    for (port, ip), row in peers.items():
        if row.action == "parent" and (parent is None or (port, ip) != (parent.port, parent.ip)):
            text = _surplus(plan, aggregator, row.action, port, ip)
            raise WrongEntry(text, where, _peer(plan, aggregator.name, (port, ip), "std.ingress_port"))


def _address_of_parent(
    book: Book, plan: Plan, aggregator: Aggregator, parent: Address, job: EntryRow, where: str
) -> None:
    wanted = {"parent_port": parent.port, "parent_mac": parent.mac, "parent_ip": parent.ip, "parent_udp": parent.udp}
    for member, value in wanted.items():
        if job.params[member] != value:
            problem = f"{aggregator.name}: {member} of job {plan.job} is {_shown(member, job.params[member])}"
            problem += f", its parent {parent.name} has {_shown(member, value)}"
            about = EntryPlace(aggregator.name, key_of("job", plan.job, plan.epoch), (member,))
            raise WrongEntry(problem, where, about)
    row = book.peers(aggregator.name, plan.job, plan.epoch).get((parent.port, parent.ip))
    if row is None or row.action != "parent":
        problem = f"{aggregator.name} has no entry parent of table peer for {parent.name} at port {parent.port}"
        problem += ": every RESULT from above is refused, reason 8"
        raise _absent(book, plan, aggregator.name, (parent.port, parent.ip), "parent", problem, where)


def _instead(book: Book, switch: str, plan: Plan, port: int, ip: int) -> str:
    """Returns a sentence about an entry of table peer that may stand for one that is missing; empty if none may."""
    for row in book.rows(switch, "peer"):
        place = row.match["ingress_port"], row.match["src"]
        if (row.match["job"], row.match["epoch"]) != (plan.job, plan.epoch):
            if place == (port, ip):
                return f". There is one for job {row.match['job']}, epoch {row.match['epoch']}"
        elif place == (port, ip):
            return f". The entry there has the action {row.action}"
        elif place[1] == ip:
            return f". There is one with its address for port {place[0]}"
        elif place[0] == port:
            return f". There is one for its port with the address {_shown('ip', place[1])}"
    return ""


def _shown(field: str, value: int) -> str:
    if field.endswith("mac"):
        return ":".join(f"{byte:02x}" for byte in (value & (1 << 48) - 1).to_bytes(6, "big"))
    if field.endswith("ip"):
        return ".".join(str(byte) for byte in (value & (1 << 32) - 1).to_bytes(4, "big"))
    return str(value)


def check_open(opened: Collection[str], topology: Topology, where: str) -> None:
    """Raises Wrong if a controller is not primary in every switch."""
    for switch in topology.switches:
        if switch.name not in opened:
            problem = f"{switch.name} was not opened: a later tree may need it. Open every switch"
            raise Wrong(problem, where)


def check_given(book: Book, plan: Plan, names: Sequence[str], job: dict[str, int], where: str) -> None:
    """Raises Wrong if an entry of table job has a parameter that differs from the job's description."""
    for aggregator in plan.aggregators:
        row = book.jobs(aggregator.name)[plan.job, plan.epoch]
        for name in names:
            if row.params[name] != job[name]:
                problem = f"{aggregator.name}: {name} of job {plan.job} is {row.params[name]}, it was given {job[name]}"
                about = EntryPlace(aggregator.name, key_of("job", plan.job, plan.epoch), (name,))
                raise WrongEntry(problem, where, about)


def check_apart(book: Book, plans: Sequence[Plan], where: str) -> None:
    """Raises Wrong if jobs share slots or counter cells of a switch, or have slots that do not exist."""
    for switch in plans[0].topology.switches:
        jobs = book.jobs(switch.name)
        taken: list[tuple[int, int, int, int]] = []
        for plan in plans:
            row = jobs.get((plan.job, plan.epoch))
            if row is None:
                continue
            key = key_of("job", plan.job, plan.epoch)
            base, slots, stats = row.params["base"], row.params["slots"], row.params["stats"]
            if slots != plan.slots:
                problem = f"{switch.name}: slots of job {plan.job} is {slots}, it has {plan.slots}"
                raise WrongEntry(problem, where, EntryPlace(switch.name, key, ("slots",)))
            if base + slots > SLOTS or stats >= STATS_JOBS:
                problem = f"{switch.name}: job {plan.job} has slots {base}..{base + slots - 1} and stats {stats}"
                problem += f"; there are {SLOTS} slots, and {STATS_JOBS} stats"
                raise WrongEntry(problem, where, EntryPlace(switch.name, key, ("base", "stats")))
            for job, first, count, cells in taken:
                if base < first + count and first < base + slots:
                    problem = f"{switch.name}: job {job} has slots {first}..{first + count - 1}, job {plan.job} has "
                    problem += (
                        f"{base}..{base + slots - 1}: they overlap. Each takes the other's chunks for its own slots"
                    )
                    problem += ", and none is ever complete"
                    raise WrongEntry(problem, where, EntryPlace(switch.name, key, ("base",)))
                if stats == cells:
                    problem = f"{switch.name}: jobs {job} and {plan.job} count into the same stats {stats}"
                    raise WrongEntry(problem, where, EntryPlace(switch.name, key, ("stats",)))
            taken.append((plan.job, base, slots, stats))


def check_cleared(book: Book, old: Plan, new: Plan, where: str) -> None:
    """Raises Wrong unless a job's generation grew since its previous epoch; READMEs ask for this in any slots."""
    for name in new.by_switch:
        now = book.ever.get((name, new.job, new.epoch))
        then = book.ever.get((name, old.job, old.epoch))
        if now is None or then is None or now["generation"] > then["generation"]:
            continue
        if now["base"] < then["base"] + then["slots"] and then["base"] < now["base"] + now["slots"]:
            problem = (
                f"{name}: slots not cleared. Job {new.job} has generation {now['generation']} in epoch {new.epoch}, "
            )
            problem += (
                f"and had {then['generation']} in epoch {old.epoch}, in the same slots: what is left in them would "
            )
            problem += "count as new. A larger generation each time clears them"
            raise WrongEntry(problem, where, EntryPlace(name, key_of("job", new.job, new.epoch), ("generation",)))
        problem = f"{name}: job {new.job} has generation {now['generation']} in epoch {new.epoch}, and had "
        problem += f"{then['generation']} in epoch {old.epoch}. Use a larger generation for each change"
        problem += ", in other slots too: a job that used them before is not looked up"
        raise WrongEntry(problem, where, EntryPlace(name, key_of("job", new.job, new.epoch), ("generation",)))


def check_untouched(book: Book, plan: Plan, where: str) -> None:
    """Raises Wrong if an entry of a plan's job was deleted or written over since ``book.changed`` was emptied."""
    for switch, entity in book.changed:
        row = _row(entity, "job") or _row(entity, "peer")
        touched = row is not None and (row.match["job"], row.match["epoch"]) == (plan.job, plan.epoch)
        what = "an entry of table job or peer"
        if not touched and (own := book.ever.get((switch, plan.job, plan.epoch))) is not None:
            if isinstance(entity, fy.P4MulticastGroupEntry):
                touched, what = entity.multicast_group_id == own["group"], f"multicast group {own['group']}"
            elif (replica := _row(entity, "replica")) is not None:
                rid = replica.match["egress_rid"]
                touched = any(rid == copy_rid for _, copy_rid in book.group(switch, own["group"]) or ())
                what = f"the entry of table replica for id {rid}"
        if touched:
            problem = f"{switch}: {what} of job {plan.job} was deleted or written over while job {plan.job} adds up"
            problem += ": packets that come in between are refused or lost. Do not touch its entries"
            raise WrongEntry(problem, where, EntryPlace(switch, entry_key(entity), how="deleted"))


def check_order(book: Book, job: int, epoch: int, where: str) -> None:
    """Raises Wrong if an entry that a job's epoch needs was deleted before its entry of table job."""
    for switch, number, of, what in book.undermined:
        if (number, of) == (job, epoch):
            problem = f"{switch}: {what} was deleted while table job still had its entry for job {job}, epoch {epoch}"
            problem += ": packets that come in between are half served. Delete that of table job first"
            raise WrongEntry(problem, where, EntryPlace(switch, key_of("job", job, epoch), how="deleted"))


def entry_key(entity: Entity) -> str:
    """Returns the key of an entry, as steps of a trail have it."""
    if isinstance(entity, fy.P4MulticastGroupEntry):
        return f"group {entity.multicast_group_id}"
    assert isinstance(entity, fy.P4TableEntry)  # noqa: S101  (there are no others)
    return key_of(entity.table_id.rpartition(".")[2], *(int(value) for value in dict(entity.match or {}).values()))


def copies_of(book: Book, plan: Plan) -> dict[str, tuple[int, list[int]]]:
    """Returns a plan's multicast group and its replication ids by switch, as table job has them now."""
    copies = {}
    for name in plan.by_switch:
        row = book.jobs(name).get((plan.job, plan.epoch))
        if row is not None:
            number = row.params["group"]
            copies[name] = number, [rid for _, rid in book.group(name, number) or ()]
    return copies


def spare_of(book: Book, plan: Plan) -> set[tuple[str, str]]:
    """Returns (switch, key) of groups that no entry of table job names, and of replication ids of no such group."""
    return {(name, entry_key(entity)) for name, entity, _ in _spare(book, plan)}


def _spare(book: Book, plan: Plan, dead: Collection[str] = ()) -> Iterator[tuple[str, Entity, str]]:
    """Yields switch and entry as `spare_of`, and the copy's receiver; none to ``dead`` ones: an id may be a port's."""
    for switch in plan.topology.switches:
        used = {row.params["group"] for row in book.rows(switch.name, "job")}
        taken = {rid for group in used for _, rid in book.group(switch.name, group) or ()}
        for entity in book.held.get(switch.name, {}).values() if switch.name not in dead else ():
            if isinstance(entity, fy.P4MulticastGroupEntry):
                if entity.multicast_group_id not in used:
                    yield switch.name, entity, ""
            elif (row := _row(entity, "replica")) is not None and row.match["egress_rid"] not in taken:
                node = plan.topology.by_ip.get(row.params.get("ip", 0))
                if node is None or node.name not in dead:
                    yield switch.name, entity, "" if node is None else node.name


def check_no_more(
    book: Book, plan: Plan, spare: Collection[tuple[str, str]], where: str, dead: Collection[str] = ()
) -> None:
    """Raises Wrong if a living switch has a group or replication id that nothing needs, beyond those of ``spare``."""
    for name, entity, to in _spare(book, plan, dead):
        if (name, entry_key(entity)) not in spare:
            problem = f"{name}: {_named(entity)}{f', the copy for {to},' if to else ''} is still there"
            problem += ", and nothing needs it. Remove all entries of earlier trees, also of half a tree"
            raise WrongEntry(problem, where, EntryPlace(name, entry_key(entity)))


def check_no_copies(
    book: Book, old: Plan, copies: dict[str, tuple[int, list[int]]], where: str, dead: Collection[str] = ()
) -> None:
    """Raises Wrong if a group or replication id of an old plan is still there, and no entry needs it any more.

    Ids of copies to ``dead`` switches may stay: those of a controller that gives a port one id for all trees.
    """
    for name, (number, rids) in copies.items():
        used = {row.params["group"] for row in book.jobs(name).values()}
        taken = {rid for group in used for _, rid in book.group(name, group) or ()}
        problem = f"{name}: job {old.job} has left epoch {old.epoch}, and"
        for rid in rids:
            row = book.replica(name, rid)
            if row is not None and rid not in taken:
                node = old.topology.by_ip.get(row.params.get("ip", 0))
                if node is not None and node.name in dead:
                    continue
                whose = "" if node is None else f", the copy for {node.name}"
                problem += f" its entry of table replica for id {rid}{whose}, is still there"
                problem += ": no group copies with it. Delete all entries of the old epoch"
                raise WrongEntry(problem, where, EntryPlace(name, key_of("replica", rid)))
        if number not in used and book.group(name, number) is not None:
            problem += f" its multicast group {number} is still there"
            problem += ": no entry of table job names it. Delete all entries of the old epoch"
            raise WrongEntry(problem, where, EntryPlace(name, f"group {number}"))


def check_gone(
    book: Book, plan: Plan, where: str, dead: Collection[str] = (), told: Collection[int] | None = None
) -> None:
    """Raises Wrong if a living switch has entries of table job for another epoch of a plan's job.

    ``told``: the epochs that workers have used, if trees may have been given up before they were told.
    """
    never = ", of a tree that was given up before workers were told: take out what was installed of it"
    for switch in plan.topology.switches:
        for job, epoch in book.jobs(switch.name):
            if job == plan.job and epoch != plan.epoch and switch.name not in dead:
                problem = f"{switch.name} has an entry of table job for job {job}, epoch {epoch}"
                late = f", and workers send epoch {plan.epoch}: late packets would be taken in. Delete it"
                problem += late if told is None or epoch in told else never
                raise WrongEntry(problem, where, EntryPlace(switch.name, key_of("job", job, epoch)))
        for row in book.rows(switch.name, "peer"):
            job, epoch = row.match["job"], row.match["epoch"]
            if job == plan.job and epoch != plan.epoch and switch.name not in dead:
                problem = f"{switch.name} still has an entry of table peer for job {job}, epoch {epoch}"
                late = f", and workers send epoch {plan.epoch}. Delete all entries of the old epoch"
                problem += late if told is None or epoch in told else never
                place = row.match["ingress_port"], row.match["src"]
                raise WrongEntry(problem, where, EntryPlace(switch.name, key_of("peer", *place, job, epoch)))
