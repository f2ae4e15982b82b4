"""The commands that run work on a network: one run, comparisons, scripts, measurements."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from p4reduce.base.errors import BadInput
from p4reduce.base.flags import Flag, command
from p4reduce.cli.flags import (
    DEFAULT_PLANS,
    OTHERS,
    Bound,
    FullSpeed,
    Hold,
    Hostfile,
    Hosts,
    Json,
    Live,
    Open,
    Out,
    PacketsOrFlow,
    Pcap,
    Place,
    Plans,
    Ssh,
    all_machines,
)
from p4reduce.cli.lists import floats, folders, integers, joining, octets, shard_of, texts
from p4reduce.runs.settings import Described, Settings, default_topology

if TYPE_CHECKING:
    from p4reduce.runs.experiment import Experiment

LISTS: Final = "Lists to combine"
SPREAD: Final = "Over cores and machines"
ONLY_REAL: Final = ("target", "links", "unshaped", "budget_s")
"""settings that exist only for runs in real time"""
RUN: Final = "p4reduce.cli.commands.run"
"""module that runs experiments"""
DEMO: Final = {"model": "digits", "topology": "leaf-spine-8"}
LINKS: Final = "veth; with --hosts, and without BMv2, udp"
CONFIRM: Final = {"topology": "star:hosts=4,servers=1", "elements": 100_000, "rate": "200M", "epochs": 2}


@command(
    "demo",
    "p4reduce demo",
    "p4reduce demo --rate 100G --out out/demo-100g",
    "p4reduce demo --plans steiner,ring --loss 0.01",
    within=RUN,
)
class Demo:
    """Train a model through P4 switches, once for each plan, and write a report.

    A perceptron of 266,890 parameters learns to read 1,797 real digits on 8 workers under two leaves and two
    spines, in virtual time. steiner, mst and spt sum the gradients in the switches; ring and ps sum them in hosts.
    """

    plans: Plans = DEFAULT_PLANS
    out: Annotated[Path, Flag("Folder for result.json, CSV files, report.html and a capture.", "-o")] = Path("out/demo")
    as_json: Json = False
    settings: Annotated[Settings, Described(omit=("plan", "model"))]

    @cached_property
    def experiments(self) -> "list[Experiment]":
        """One experiment for each plan."""
        return self.settings.of_plans(self.plans, DEMO)

    def check(self) -> None:
        """Check the settings of each experiment."""
        _ = self.experiments


@command(
    "run",
    "p4reduce run                                       # sum 1 MB over 8 workers",
    "p4reduce run --model digits --plan ring --out out/ring",
    "p4reduce run -t fat-tree-4 -p mst --rate 100G --loss 0.01 --seed 7",
    "p4reduce example settings > my.yaml",
    "p4reduce run --config my.yaml --lanes 64 --pcap run.pcap",
    "p4reduce run -t star8 --target bmv2 --loss 0.01    # real switches, real sockets (root, BMv2)",
    "p4reduce run -t star8 --time real --links udp      # real sockets without root",
    "p4reduce run --live --hold                         # watch it in a browser: docs/live.md",
    "p4reduce run -t fat-tree:k=16 --rate 100G -e 250M --time flow  # 1,024 workers x 1 GB, by a model without packets",
    "p4reduce run --json | jq .network.ratio_to_bound",
)
class RunFlags:
    """Run one collective or one training through the switches.

    The command counts every byte on every link, and compares the counts with the prediction of the plan. The exit code
    is 1 when they differ, or when a sum saturated.
    """

    out: Out = None
    pcap: Pcap = None
    arrays: Annotated[Path | None, Flag("Folder for temporary files of the tensors, which then need not fit into "
                                        "memory.", default="none")] = None  # fmt: skip
    live: Live = False
    hold: Hold = False
    full_speed: FullSpeed = False
    open_page: Open = False
    as_json: Json = False
    settings: Annotated[Settings, Described(real_time=True)]

    @cached_property
    def experiment(self) -> "Experiment":
        """The experiment of the run."""
        return self.settings.experiment()

    def check(self) -> None:
        """Check the settings, and flags that need others."""
        if self.arrays is not None and not self.arrays.is_dir():
            raise BadInput(f"--arrays: {self.arrays}: there is no such folder; make it, or name another one")
        if self.arrays is not None and (self.experiment.time != "virtual" or self.experiment.model != "tensor"):
            raise BadInput("--arrays: is for tensors in virtual time; leave it out, or choose --model tensor and "
                           "--time virtual")  # fmt: skip
        if self.experiment.time == "flow" and (self.live or self.pcap is not None):
            flag = "--live" if self.live else "--pcap"
            raise BadInput(f"{flag}: the flow model has no packets; choose --time virtual")


@command(
    "launch",
    "p4reduce launch -n 8 scripts/all_reduce.py --elements 1000000",
    "p4reduce launch -n 8 --plan ring scripts/train_digits.py --epochs 5",
    "p4reduce launch -n 8 --server scripts/train_digits_ps.py",
    "p4reduce launch -n 4 scripts/train_ddp.py           # PyTorch: init_process_group('p4reduce'), docs/torch.md",
    "p4reduce launch -n 4 --live scripts/all_reduce.py  # a page shows the network while the script runs",
    "p4reduce launch -n 64 --time flow train.py          # sums by NumPy, times by a model without packets",
    "p4reduce launch -n 16 --topology fat-tree-4 --loss 0.01 train.py",
    "p4reduce launch -n 4 --compute measured --record out/t scripts/train_ddp.py  # then: p4reduce replay out/t",
    "p4reduce launch -n 3 --on-failure shrink --join 2ms scripts/growing.py",
    "p4reduce launch --hosts pc1,pc2:2,pc3 scripts/all_reduce.py  # 4 ranks on other machines, by ssh",
    "p4reduce launch --time real --hosts pc1,pc2 train.py         # switches and ranks on both, links between them",
    "p4reduce launch -n 4 --ticket job.json --listen 10.0.0.5     # other programs start the ranks: p4reduce join",
    passes_on=True,
)
class Launch:
    """Start a script once for each rank, and carry its collectives through the switches.

    A PyTorch script calls 'torch.distributed.init_process_group("p4reduce")'. Any other script calls 'from p4reduce
    import connect' and 'comm = connect()', and then has comm.rank, comm.size and comm.all_reduce(array). Put flags
    of p4reduce before the script; everything after it belongs to the script. Each line of output begins with the rank
    that printed it. When a rank fails, the command ends all ranks and exits with the code of that rank, unless
    --on-failure lets the others continue (docs/faults.md).
    """

    command: Annotated[Sequence[str], Flag("Script (.py) or program to start, and its arguments; none with --ticket.",
            argument=True, many=True)] = ()  # fmt: skip
    ranks: Annotated[int | None, Flag("Number of ranks to start.", "-n", name="--workers", least=1,
            default="8, or one for each slot of --hosts")] = None  # fmt: skip
    hosts: Hosts = ()
    hostfile: Hostfile = None
    place: Place = ()
    ssh: Ssh = "ssh"
    env: Annotated[Sequence[str], Flag("Environment variable to pass to ranks on other machines, besides "
            "those of p4reduce and torch.distributed.", metavar="NAME", many=True, panel=OTHERS,
            default="none")] = ()  # fmt: skip
    listen: Annotated[Sequence[str], Flag("Addresses of this machine to which ranks on other machines connect.",
            parse=texts, panel=OTHERS, default="those that machines see; with --ticket 127.0.0.1")] = ()  # fmt: skip
    ticket: Annotated[Path | None, Flag("File to write for 'p4reduce join', by which srun, mpirun or torchrun start "
            "the ranks.", panel=OTHERS, default="none")] = None  # fmt: skip
    server: Annotated[bool, Flag("Start one more process as the parameter server.")] = False
    timeout: Annotated[float | None, Flag("Wall-clock time in seconds after which the run is ended.", least=1,
            default="a day")] = None  # fmt: skip
    out: Out = None
    pcap: Pcap = None
    record: Annotated[Path | None, Flag("Folder for a Chakra trace of each rank, which 'p4reduce replay' plays.",
            default="none")] = None  # fmt: skip
    compute: Annotated[str, Flag("Virtual time of PyTorch's computation: as declared, or as measured, times FACTOR.",
            metavar="declared|measured[:FACTOR]")] = "declared"  # fmt: skip
    max_restarts: Annotated[int, Flag("Number of times that all ranks are restarted when one fails "
            "(docs/faults.md).", least=0)] = 0  # fmt: skip
    join: Annotated[Sequence[tuple[str, int]], Flag("Time at which one more rank joins, at this host or at "
            "the next free one (docs/faults.md).", metavar="[HOST@]TIME", parse=joining, many=True,
            default="none")] = ()  # fmt: skip
    live: Live = False
    hold: Hold = False
    full_speed: FullSpeed = False
    open_page: Open = False
    as_json: Json = False
    settings: Annotated[
        Settings,
        Described(
            omit=("model", "collective", "elements", "repeat", "epochs", "target_accuracy", "workers"),
            real_time=True,
            scripts=True,
            defaults={"topology": "leaf-spine-8, for more than 8 ranks a larger leaf-spine", "links": LINKS},
        ),
    ]

    @cached_property
    def machines(self) -> list[tuple[str, int | None]]:
        """Machines for ranks, with their slots; empty: this machine."""
        return all_machines(self.hosts, self.hostfile)

    @property
    def workers(self) -> int:
        """Number of ranks, without the server."""
        if self.ranks is not None:
            return self.ranks
        return sum(slots or 1 for _, slots in self.machines) or 8

    @property
    def title(self) -> str:
        """Name of the script, or of the ticket, for titles."""
        return Path(self.command[0]).name if self.command else f"ranks with {self.ticket}"

    @cached_property
    def experiment(self) -> "Experiment":
        """The experiment; links between machines are datagrams, unless another kind is requested."""
        base = {"topology": default_topology(self.workers)}
        if self.machines and self.settings.given.get("target") != "bmv2":
            base["links"] = "udp"
        return self.settings.experiment(base, workers=self.workers)

    def check(self) -> None:
        """Check the combination of flags, and that the script exists."""
        if bool(self.command) == (self.ticket is not None):
            raise BadInput("COMMAND: name a script to start, or --ticket FILE for ranks that other programs start")
        away = "--ticket" if self.ticket is not None else "--hosts" if self.machines else ""
        if self.ticket is not None and (self.machines or self.max_restarts or self.join):
            raise BadInput("--ticket: other programs start the ranks: leave --hosts, --max-restarts and --join out")
        if self.listen and not away:
            raise BadInput("--listen: is for ranks on other machines: give --hosts or --ticket")
        if self.ticket is not None and self.experiment.time == "real":
            raise BadInput("--ticket: not in real time; choose --time virtual or flow, or --hosts")
        if self.machines and self.experiment.time == "real":
            self._check_machines()
        elif self.place:
            raise BadInput("--place: is for --time real with --hosts")
        if self.command and self.command[0].endswith(".py") and not Path(self.command[0]).is_file():
            raise BadInput(f"{self.command[0]}: there is no such file")
        if self.join and self.experiment.deadline is not None:
            raise BadInput("--join: a group with a --deadline cannot grow; leave one of them out")
        if self.experiment.time == "real" and (self.server or self.pcap is not None):
            raise BadInput(f"{'--server' if self.server else '--pcap'}: not for scripts in real time")
        if self.experiment.time == "flow" and self.live:
            raise BadInput("--live: the flow model has no packets to show; choose --time virtual")
        refused = {"--time real": self.experiment.time == "real", "--server": self.server, "--join": bool(self.join)}
        for flag in [flag for flag, given in refused.items() if given and self.record is not None]:
            raise BadInput(f"--record: is for ranks in virtual time that stay to the end; leave {flag} out")

    def _check_machines(self) -> None:
        """Check the flags for several machines in real time."""
        on_failure = self.experiment.on_failure
        refused = {
            f"--on-failure {on_failure}": on_failure != "abort",
            "--join": bool(self.join),
            "--live": self.live,
            "--listen": bool(self.listen),
        }
        check_machines(refused)


def check_machines(refused: Mapping[str, bool]) -> None:
    """Raise ``BadInput`` for flags that several machines in real time do not support; ``refused``: whether given."""
    for flag in [flag for flag, given in refused.items() if given]:
        raise BadInput(f"{flag}: not in real time on several machines; leave it out")


@command(
    "join",
    "p4reduce join --ticket job.json train.py           # after 'srun -n 4', 'mpirun -n 4' or 'torchrun --no-python'",
    "p4reduce join --ticket job.json --rank 2 train.py",
    "p4reduce launch -n 4 --ticket job.json             # starts the group and its network",
    passes_on=True,
)
class JoinRank:
    """Start a script as a rank of 'p4reduce launch --ticket', on this or another machine.

    The rank is that of srun, mpirun or torchrun. The ticket is a secret, which only its user may read; it must be on
    each machine, in a shared folder or copied.
    """

    command: Annotated[Sequence[str], Flag("Script (.py) or program to start, and its arguments.", argument=True,
            many=True)]  # fmt: skip
    ticket: Annotated[Path, Flag("File that 'p4reduce launch --ticket' writes; the command waits for it.")]
    rank: Annotated[int | None, Flag("Rank, from 0.", least=0, default="as srun, mpirun or torchrun say")] = None


@command(
    "perf",
    "p4reduce perf -b 64K -e 64M -f 2 --plans steiner,ring,ps",
    "p4reduce perf -t star8 --rate 100G -e 8M --out out/perf",
    "p4reduce perf --collective all_to_all -d bfloat16 -w 1 --check 1 --plans steiner",
    "p4reduce perf --time real -t star:hosts=4 --rate 200M -b 1M -e 8M --plans steiner,ring  # and gloo, with PyTorch",
    within=RUN,
)
class Perf:
    """Measure a collective over a range of sizes, for each plan, and print the columns of NVIDIA's nccl-tests.

    In virtual time the figures are exact, so one collective at each size is enough. In real time the command also
    measures gloo and MPI on the same links, if PyTorch, and mpi4py with MPICH, are installed. K, M and G are 1024,
    1024^2 and 1024^3 bytes, as in nccl-tests.
    """

    minbytes: Annotated[int, Flag("Smallest size in bytes, as in 64K or 1M.", "-b", parse=octets,
            default="64K")] = 64 << 10  # fmt: skip
    maxbytes: Annotated[int, Flag("Largest size in bytes.", "-e", parse=octets, default="4M")] = 4 << 20
    stepfactor: Annotated[float | None, Flag("Factor from each size to the next, above 1.", "-f", default="2")] = None
    stepbytes: Annotated[int | None, Flag("Bytes added from each size to the next, in place of a factor.", "-i",
            parse=octets, default="none")] = None  # fmt: skip
    iters: Annotated[int, Flag("Number of collectives at each size, over which the mean is taken.", least=1)] = 1
    warmup: Annotated[int, Flag("Number of collectives at each size before those that are measured.", "-w",
            name="--warmup_iters", least=0)] = 0  # fmt: skip
    check_results: Annotated[Literal[0, 1], Flag("1: count wrong elements; 0: do not check results.",
            name="--check")] = 1  # fmt: skip
    root: Annotated[int, Flag("Rank whose array a broadcast sends.", "-r", least=0)] = 0
    plans: Plans = ("steiner", "ring", "ps")
    datatype: Annotated[Literal["float", "half", "int32", "bfloat16"], Flag("Type of the elements.", "-d")] = "float"
    collective: Annotated[
        Literal["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"], Flag("Collective to measure.")
    ] = "all_reduce"
    out: Annotated[Path | None, Flag("Folder for perf.csv and perf.svg.", "-o", default="none")] = None
    as_json: Json = False
    settings: Annotated[
        Settings,
        Described(
            omit=("plan", "model", "collective", "elements", "repeat", "epochs", "target_accuracy"), real_time=True
        ),
    ]

    @cached_property
    def experiments(self) -> "list[Experiment]":
        """One experiment for each plan."""
        return self.settings.of_plans(self.plans)

    def check(self) -> None:
        """Check the experiments and the sizes."""
        if self.stepfactor is not None and not 1 < self.stepfactor < 1e6:
            raise BadInput(f"--stepfactor: {self.stepfactor:g}; must be above 1")
        _ = self.experiments
        if self.minbytes > self.maxbytes:
            raise BadInput(f"--minbytes: {self.minbytes} bytes are more than --maxbytes, {self.maxbytes}; swap them")


@command(
    "replay",
    "p4reduce replay --example out/resnet50             # writes the traces of 8 ranks",
    "p4reduce replay out/resnet50 -t star8 --rate 100G --plans steiner,ring,ps",
    "p4reduce replay llama.0.et --groups groups.json --time flow",
    "p4reduce replay one-rank.json -n 64 -t fat-tree:k=8 --plans steiner --out out/replay",
    within=RUN,
)
class ReplayFlags:
    """Replay execution traces of training runs (Chakra, or PyTorch's linked with its profiler), once for each plan.

    Computation takes as long as the trace says, and communication as long as its packets take. The table says how much
    of the communication overlaps computation, and how much does not (exposed). 'p4reduce launch --record' writes traces
    of your own scripts. docs/replay.md lists the formats.
    """

    traces: Annotated[Sequence[Path], Flag("Traces: a folder, a file for each rank (name.0.et, name.1.et, ...), one of "
            "them, or one file for all ranks.", argument=True, many=True)] = ()  # fmt: skip
    groups: Annotated[Path | None, Flag("JSON file with the ranks of each process group, as for ASTRA-sim: "
            '{"0": [0, 1]}.', reads=True, default="as the traces say")] = None  # fmt: skip
    plans: Plans = ("steiner", "ring", "ps")
    time: PacketsOrFlow = "virtual"
    out: Annotated[Path | None, Flag("Folder for replay.json, replay.csv and a time-line of each plan for Perfetto.",
            "-o", default="none")] = None  # fmt: skip
    example: Annotated[Path | None, Flag("Write the traces of data-parallel ResNet-50 on 8 ranks (or --workers) into "
            "this folder, and replay nothing.", default="none")] = None  # fmt: skip
    as_json: Json = False
    settings: Annotated[
        Settings,
        Described(
            omit=(
                "plan", "model", "collective", "elements", "repeat", "epochs", "target_accuracy", "numbers", "scale",
                "speculate", "lane_bits", "coarse", "deadline", "quorum",
            ),
            helps={"workers": "Number of ranks, if one trace stands for all ranks."},
        ),
    ]  # fmt: skip

    @property
    def workers(self) -> int | None:
        """Number of ranks, or None if it is not given."""
        given: int | None = self.settings.given.get("workers")
        return given

    def experiments(self, ranks: int, elements: int) -> "list[Experiment]":
        """Return one experiment for each plan. elements: number of elements of the largest collective."""
        base = {"topology": default_topology(ranks)}
        return self.settings.of_plans(self.plans, base, workers=ranks, elements=elements, time=self.time)

    def check(self) -> None:
        """Check the experiments, and that there are traces."""
        _ = self.experiments(self.workers or 1, 1)
        if bool(self.traces) == (self.example is not None):
            raise BadInput("TRACES: give a folder or files of traces to play, or --example FOLDER to write some")


@command(
    "compare",
    "p4reduce compare",
    "p4reduce compare --plans steiner,ring --topology fat-tree-4 --rate 100G",
    "p4reduce compare --model digits --out out/digits",
    "p4reduce compare --elements 4000000 --json | jq '.[].ratio_to_bound'",
    within=RUN,
)
class CompareFlags:
    """Run the same work with several plans, and write one table, one CSV and one report."""

    plans: Plans = DEFAULT_PLANS
    out: Annotated[Path, Flag("Folder for result.json, CSV files and report.html.", "-o")] = Path("out/compare")
    bound: Bound = False
    as_json: Json = False
    settings: Annotated[Settings, Described(omit=("plan",), real_time=True)]

    @cached_property
    def experiments(self) -> "list[Experiment]":
        """One experiment for each plan; --lane-bits applies to plans that sum in switches."""
        return self.settings.of_plans(self.plans)

    def check(self) -> None:
        """Check the settings of each experiment."""
        _ = self.experiments


@command(
    "confirm",
    "p4reduce confirm                                   # the embedded switch between network namespaces",
    "p4reduce confirm --links udp                       # without root",
    "p4reduce confirm --targets bmv2,embedded --plans steiner,mst,spt,ring,ps --loss 0.01",
    "p4reduce confirm --collective push_pull            # with a parameter server",
    "p4reduce confirm --model digits                    # two epochs of a training: the same weights everywhere",
    "p4reduce confirm --hosts pc1,pc2 -t leaf-spine-8   # switches and workers on both machines",
    within=RUN,
)
class Confirm:
    """Run the same work in virtual time and on real sockets, and compare them.

    The results must be the same bytes; of a training these are every sum, and the weights, loss and accuracy at every
    step. On every link the frames that were sent for the first time must be those that the plan predicted. Faults
    happen on the real links only. The exit code is 1 when something differs.
    """

    plans: Plans = ("steiner", "ring", "ps")
    targets: Annotated[Sequence[str], Flag("Real targets: embedded, bmv2, or both.", parse=texts)] = ("embedded",)
    hosts: Hosts = ()
    hostfile: Hostfile = None
    place: Place = ()
    ssh: Ssh = "ssh"
    out: Annotated[Path | None, Flag("Folder for confirm.csv.", "-o", default="none")] = None
    as_json: Json = False
    settings: Annotated[
        Settings,
        Described(omit=("plan", "target", "time"), real_time=True, defaults={**CONFIRM, "links": LINKS}),
    ]

    @cached_property
    def experiments(self) -> "list[Experiment]":
        """For each plan an experiment in virtual time, and then the experiments that confirm it."""
        targets = ["embedded", "bmv2"] if list(self.targets) == ["both"] else self.targets
        experiments, base = [], CONFIRM | ({"links": "udp"} if self.machines and "bmv2" not in targets else {})
        for plan in self.plans:
            ideal = self.settings.experiment(base, plan=plan, time="virtual")
            experiments.append(ideal.model_copy(update={"faults": type(ideal.faults)()}))
            experiments += [self.settings.experiment(base, plan=plan, target=target, time="real") for target in targets]
        return experiments

    @cached_property
    def machines(self) -> list[tuple[str, int | None]]:
        """Machines for workers and switches; empty: this machine."""
        return all_machines(self.hosts, self.hostfile)

    def check(self) -> None:
        """Check the experiments, and flags that need --hosts."""
        for experiment in self.experiments:
            if self.machines:
                check_machines({"--model digits": experiment.model == "digits"})
        if self.place and not self.machines:
            raise BadInput("--place: is for --hosts")


@command(
    "sweep",
    "p4reduce sweep --plans steiner,ring --elements 64k,1M,4M",
    "p4reduce sweep --plans steiner --losses 0,0.001,0.01 --seeds 0..4",
    "p4reduce sweep --workers 2..8 --rates 10G,100G --lanes 64,256 --out out/scaling",
    "p4reduce sweep --plans steiner --seeds 0..99 --jobs -1",
    "p4reduce sweep --plans steiner --seeds 0..99 --shard 1/4 --out out/a  # on one of four machines",
    "p4reduce sweep --plans steiner --seeds 0..99 --merge out/a,out/b,out/c,out/d",
    within=RUN,
)
class Sweep:
    """Run every combination of the given lists, and write a row for each.

    Each run adds its row as soon as it ends. The same command continues a sweep that was interrupted. A run that fails
    becomes a row with its error, the sweep continues, and the exit code is 1.
    """

    plans: Plans = DEFAULT_PLANS
    elements: Annotated[Sequence[int] | None, Flag("Numbers of float32 elements, as in 64k,1M.", "-e", panel=LISTS,
            parse=integers, default="262144")] = None  # fmt: skip
    seeds: Annotated[Sequence[int] | None, Flag("Seeds, as in 0..4 or 1,2,3.", "-s", panel=LISTS, parse=integers,
            default="0")] = None  # fmt: skip
    lanes: Annotated[Sequence[int] | None, Flag("Numbers of int32 values in a full packet: 64,256.", "-l", panel=LISTS,
            parse=integers, default="256")] = None  # fmt: skip
    lane_bits: Annotated[Sequence[int] | None, Flag("Bits of each number on the wire where switches add: 32,16,8.",
            panel=LISTS, parse=integers, default="32")] = None  # fmt: skip
    rates: Annotated[Sequence[str] | None, Flag("Rates of every link in bit/s, as in 10G,100G.", panel=LISTS,
            parse=texts, default="as the topology says")] = None  # fmt: skip
    losses: Annotated[Sequence[float] | None, Flag("Probabilities that a link loses a frame, as in 0,0.001,0.01.",
            panel=LISTS, parse=floats, default="0")] = None  # fmt: skip
    workers: Annotated[Sequence[int] | None, Flag("Numbers of hosts that take part, as in 2..8.", "-n", panel=LISTS,
            parse=integers, default="all that are not servers")] = None  # fmt: skip
    out: Annotated[Path, Flag("Folder for sweep.csv, to which each run adds its row.", "-o")] = Path("out/sweep")
    jobs: Annotated[int, Flag("Number of processes on this machine; -1: one for each core.", "-j", panel=SPREAD,
            least=-1)] = 1  # fmt: skip
    dask: Annotated[str | None, Flag("Address of a Dask scheduler whose workers execute the runs, as in "
            "tcp://host:8786 or tls://host:8786.", panel=SPREAD)] = None  # fmt: skip
    ray: Annotated[str | None, Flag("Address of a Ray cluster whose workers execute the runs, as in auto or host:6379.",
            panel=SPREAD)] = None  # fmt: skip
    shard: Annotated[tuple[int, int], Flag("Part of the runs, as in 1/4: every fourth from the first on.", panel=SPREAD,
            parse=shard_of, default="all")] = (1, 1)  # fmt: skip
    merge: Annotated[Sequence[Path], Flag("Folders of sweeps, separated by commas, whose runs are not repeated.",
            panel=SPREAD, parse=folders, default="none")] = ()  # fmt: skip
    as_json: Json = False
    settings: Annotated[
        Settings,
        Described(
            omit=("plan", "elements", "seed", "lanes", "lane_bits", "rate", "faults.loss", "workers", *ONLY_REAL),
            real_time=True,
        ),
    ]

    @cached_property
    def experiments(self) -> "list[Experiment]":
        """One experiment for each combination."""
        axes: dict[str, Sequence[Any] | None] = {
            "plan": self.plans,
            "workers": self.workers,
            "elements": self.elements,
            "lanes": self.lanes,
            "lane_bits": self.lane_bits,
            "rate": self.rates,
            "faults__loss": self.losses,
            "seed": self.seeds,
        }
        given = {field: values for field, values in axes.items() if values is not None}
        return [
            self.settings.experiment(**dict(zip(given, values, strict=True))) for values in product(*given.values())
        ]

    def check(self) -> None:
        """Check the experiments and their kind of time."""
        if self.dask and self.ray:
            raise BadInput("--dask and --ray: give one of them")
        if any(experiment.time == "real" for experiment in self.experiments):
            raise BadInput("--time: a sweep takes virtual or flow; 'p4reduce compare' also takes real")
