"""The command line: every command with its flags, a module for each panel of the help; all quick to import.

This module has the flags that several commands share.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from p4reduce.base.flags import Flag
from p4reduce.cli.lists import machines, named, network, places, texts
from p4reduce.control_plane import ORDERS, PLACEMENTS, SCHEDULERS
from p4reduce.runs.settings import TOPOLOGY
from p4switch.base.files import read_text

DEFAULT_PLANS: Final = ("steiner", "mst", "spt", "ring", "ps")
PAGE: Final = "Live page"
SQLITE: Final = b"SQLite format 3\0"
"""first bytes of a database with content: https://www.sqlite.org/fileformat.html#the_database_header"""

Json = Annotated[bool, Flag("Print the result as JSON on stdout, and all other output on stderr.", name="--json")]
Plans = Annotated[Sequence[str], Flag("Plans to run, separated by commas.", "-p", parse=texts)]
Bound = Annotated[bool, Flag("Also compute the bound of the best plan on large networks, which takes up to a minute.")]
Out = Annotated[Path | None, Flag("Folder for result.json, CSV files and report.html.", "-o", default="none")]
Pcap = Annotated[Path | None, Flag("Capture file for the frames on the link of the first worker.", default="none")]
Live = Annotated[bool, Flag("Serve a page that shows the run, until Ctrl-C.", panel=PAGE)]
Hold = Annotated[bool, Flag("Start paused, until you press Go on the page (with --live).", panel=PAGE)]
FullSpeed = Annotated[bool, Flag("Run at full speed instead of slowed down for viewing (with --live).", panel=PAGE)]
Open = Annotated[bool, Flag("Open the page in a browser.", name="--open", panel=PAGE)]
TopologyArgument = Annotated[str, Flag(TOPOLOGY, argument=True, parse=network)]
Seed = Annotated[int, Flag("Seed of all random numbers.", least=0)]
Lanes = Annotated[Literal[64, 256], Flag("Number of int32 values in a full packet.", "-l")]
Svg = Annotated[Path | None, Flag("SVG file for a drawing.", default="none")]
Placement = Annotated[str, Flag("Policy that chooses the hosts of tasks that name none: random, first-fit, packed, "
        "spread, ina-aware, netpack or cassini.", parse=named(PLACEMENTS))]  # fmt: skip
Order = Annotated[str, Flag("Order of waiting tasks: fifo, fair, priority, edf or sjf.", parse=named(ORDERS))]
NoBackfill = Annotated[bool, Flag("Do not let later tasks pass one that does not fit.")]
Name = Annotated[str | None, Flag("Name of the network or cluster, if several are up.", default="the only one")]
NewName = Annotated[
    str | None, Flag("Name of the new network or cluster.", default="the next free one, as net-1 or slurm-1")
]
PacketsOrFlow = Annotated[Literal["virtual", "flow"], Flag("Packets, or a fast model without packets.")]
PassedOn = Annotated[Sequence[str], Flag("Program and its arguments.", argument=True, many=True)]
P4Info = Annotated[Path | None, Flag("P4Info in protobuf text format.", reads=True, default="beside the program")]
OTHERS: Final = "Other machines"
Hosts = Annotated[Sequence[tuple[str, int | None]], Flag("Machines that ssh reaches, with the number of ranks of each, "
        "as in pc1,pc2:4.", metavar="NAME[:SLOTS],…", parse=machines, panel=OTHERS, default="none")]  # fmt: skip
Hostfile = Annotated[Path | None, Flag("File with one such machine on each line, as in 'pc2 slots=4'.", reads=True,
        panel=OTHERS, default="none")]  # fmt: skip
Place = Annotated[Sequence[tuple[str, str]], Flag("Machines on which switches and hosts run in real time, as in "
        "s1=pc1,h1=pc2; by default a host is where its rank is, a switch where most of its neighbours are.",
        metavar="NODE=NAME,…", parse=places, panel=OTHERS, default="none")]  # fmt: skip
Ssh = Annotated[str, Flag("Program that runs a command on another machine, with its flags.", panel=OTHERS)]


def all_machines(hosts: Sequence[tuple[str, int | None]], hostfile: Path | None) -> list[tuple[str, int | None]]:
    """Return the machines of --hosts and --hostfile. ``BadInput`` for an unusable file."""
    lines = [] if hostfile is None else [line.partition("#")[0].strip() for line in read_text(hostfile).splitlines()]
    named = [name if slots is None else f"{name}:{slots}" for name, slots in hosts]
    every = [*named, *filter(None, lines)]
    return machines(",".join(every), "--hosts" if hostfile is None else f"--hostfile {hostfile}") if every else []


Scheduler = Annotated[
    str,
    Flag(
        "Scheduler of the turns: best, striped, tdm, seed, layers, pairs, no-tdm, free, exclusive, cassini, static, "
        "random, eps-ideal, eps-ecmp, exact or exact-one-tree.",
        parse=named(SCHEDULERS),
    ),
]
Of = Annotated[
    Literal["round", "mean-relative"],
    Flag(
        "Objective of the policy best: the longest iteration of a job (with two groups: the round), or the mean "
        "throughput of jobs relative to running alone."
    ),
]
Clock = Annotated[
    Literal["completion", "slots"],
    Flag("End a process when its jobs have completed, or when its slots in the timetable are over."),
]
CrossConnect = Annotated[str, Flag("Pods around a cross-connect: oxc: with pods, hosts, ports, rate, port_rate, "
        "delta and gpus.", "-t", name="--topology")]  # fmt: skip
JobsFile = Annotated[Path, Flag("File of jobs as YAML or CSV.", argument=True, reads=True, example="jobs")]
