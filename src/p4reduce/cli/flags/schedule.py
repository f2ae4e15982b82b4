"""The commands that decide: plans of one job, tasks and their orchestrator, turns, priorities, Slurm."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from p4reduce.base.errors import BadInput
from p4reduce.base.flags import Flag, command
from p4reduce.cli.flags import (
    SQLITE,
    Bound,
    Clock,
    CrossConnect,
    FullSpeed,
    Hold,
    JobsFile,
    Json,
    Lanes,
    Live,
    Name,
    NewName,
    NoBackfill,
    Of,
    Open,
    Order,
    PacketsOrFlow,
    PassedOn,
    Placement,
    Scheduler,
    Seed,
    Svg,
    TopologyArgument,
)
from p4reduce.cli.lists import death, delay, each, floats, integers, link_change, named, network, rate, texts
from p4reduce.control_plane import FORECASTS, GROOMERS, POLICIES, PRIORITY_POLICIES, SCHEDULERS
from p4reduce.runs.settings import TOPOLOGY, Described, Loss, Settings
from p4switch.base.files import naming, open_file
from p4switch.base.values import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from p4reduce.runs.experiment import Experiment

GROUPS: Final = {
    "plan": "Show the plan of a job: where its tensors are summed, and what each link will carry.",
    "tasks": "Submit, list, show and cancel AI tasks, which 'p4reduce orchestrate' runs.",
    "tdm": "Plan and run turns (TDM) of training jobs over an optical cross-connect.",
    "optical": "Groom AI tasks over lightpaths of a WDM network: wavelengths, transponders, aggregation on the way.",
    "priorities": "Compare priority policies for jobs that share links.",
    "slurm": "Run Slurm jobs on the hosts that p4reduce chooses, with all-reduce in the switches.",
}
OXC: Final = "oxc:pods=4,hosts=4,ports=2,rate=25G,delta=200us"
WDM: Final = "wdm:graph=nobel-us,hosts=2"
DATABASE: Final = Path("tasks.sqlite")


Database = Annotated[Path, Flag("SQLite file of tasks, plans and measurements.", "-d")]
Task = Annotated[str, Flag("Name of the task.", argument=True)]
Scale = Annotated[float, Flag("Divisor for the jobs' bytes and training times, and for delta.", least=0.001)]
TurnsTime = Annotated[Literal["virtual", "flow"], Flag("Packets, or a fast model without packets, whose two factors "
        "are measured on packets of a job alone.")]  # fmt: skip
Rounds = Annotated[int, Flag("Number of whole rounds that are measured.", least=1, most=1000)]


def check_database(path: Path, *, new: bool = False) -> None:
    """Raise `BadInput` if the file is not a database; with ``new`` it may be absent or empty."""
    try:
        with open_file(path) as file, naming(path):
            head = file.read(len(SQLITE))
    except FileNotFoundError:
        if not new:
            raise BadInput(f"--database: {path}: there is no such file; 'p4reduce tasks submit' makes one") from None
    except OSError as error:
        raise BadInput(f"--database: {path}: {error.strerror}") from None
    else:
        if not SQLITE.startswith(head) or len(head) < len(SQLITE) * (not new):
            raise BadInput(f"--database: {path}: is not a database; 'p4reduce tasks submit' makes one")


@command(
    "plan show",
    "p4reduce plan show --plan mst --topology leaf-spine-8",
    "p4reduce plan show -p steiner -t wan:graph=germany50 -n 5 --svg tree.svg",
    "p4reduce plan show -p ring --elements 1000000 --json",
    "p4reduce plan show -p steiner --entries",
)
class PlanShow:
    """Show the tree, the ports and the table entries of a plan, and the bytes that it predicts for every link."""

    entries: Annotated[bool, Flag("Show all table entries, not only their number.")] = False
    bound: Bound = False
    as_json: Json = False
    svg: Svg = None
    settings: Annotated[
        Settings,
        Described(
            omit=(
                "model", "epochs", "target_accuracy", "repeat", "seed", "queue_frames", "threads", "p4", "p4_json",
                "p4_info", "faults.loss", "faults.duplicate", "faults.reorder", "faults.corrupt", "scale",
            ),
            helps={"plan": "Plan: steiner, mst or spt sums in switches, ring or ps in hosts; best is the fastest of "
                   "them."},
        ),
    ]  # fmt: skip

    @cached_property
    def experiment(self) -> "Experiment":
        """The experiment to plan."""
        return self.settings.experiment()

    def check(self) -> None:
        """Check the settings."""
        _ = self.experiment


@command(
    "tasks submit",
    "p4reduce example tasks > tasks.yaml",
    "p4reduce tasks submit tasks.yaml",
    "p4reduce orchestrate --topology wan:graph=nobel-us,servers=1 --policy steiner",
    "p4reduce tasks list --json",
    "p4reduce tasks show task1",
)
class TasksSubmit:
    """Queue the tasks of files, either all of them or none.

    A YAML file has a list 'tasks', and a CSV file has a line for each task. A task has name, server, workers (in CSV
    separated by spaces) and elements. It may have rounds, training, demand, arrival, deadline and priority ('20us',
    '1G'), and select, which lets only some workers take part: '{how: useful, budget: 0.4, utilities: {h1: 3, h2: 1}}'.

    With a number of workers ('workers: 8') the orchestrator chooses the hosts, and the server if none is named. Such a
    task may also have slots (taken on a host by each worker), shards (the hosts that hold the data) and shard_bytes.
    The field owner is for --order fair.

    The field on_failure decides what happens when a worker dies: with abort, the default, the task fails unless another
    worker can take the place; with raise it fails immediately and names the worker; with shrink the others continue.
    With max_restarts the task restarts from its last checkpoint, at most that many times. The field aggregation
    (switches or hosts) decides where sums are formed, and reservation (peak or mean) what links reserve for the task.

    With 'kind: rar' hosts reduce models in a ring, and with 'kind: a2a' each host exchanges elements numbers with every
    other host.

    With 'kind: inference' the task answers requests instead of training. Its workers are the clients. Each client sends
    rounds requests, at rate requests per second. An answer has elements numbers, for which the server computes for the
    time training. The objective is the wanted 99th percentile of latencies ('60us').
    """

    traces: Annotated[Sequence[Path], Flag("Files of tasks as YAML or CSV.", argument=True, many=True, reads=True,
            example="tasks")]  # fmt: skip
    database: Database = DATABASE
    as_json: Json = False

    def check(self) -> None:
        """Check that the file is a database, absent or empty."""
        check_database(self.database, new=True)


@command("tasks list", "p4reduce tasks list", "p4reduce tasks list --json | jq -r '.[] | [.name, .state] | @tsv'")
class TasksList:
    """List all tasks with their states."""

    database: Database = DATABASE
    as_json: Json = False

    def check(self) -> None:
        """Check that the file is a database."""
        check_database(self.database)


@command("tasks show", "p4reduce tasks show task1", "p4reduce tasks show task1 --json | jq .decisions")  # fmt: skip
class TasksShow:
    """Show the states, rounds, plans and turns of a task, and every decision with its reasons."""

    name: Task
    database: Database = DATABASE
    as_json: Json = False

    def check(self) -> None:
        """Check that the file is a database."""
        check_database(self.database)


@command("tasks swaps", "p4reduce tasks swaps", "p4reduce tasks swaps -d other.sqlite --json")  # fmt: skip
class TasksSwaps:
    """List every swap of a running task's tree, with what it saved and what the interruption cost."""

    database: Database = DATABASE
    as_json: Json = False

    def check(self) -> None:
        """Check that the file is a database."""
        check_database(self.database)


@command("tasks cancel", "p4reduce tasks cancel task1")
class TasksCancel:
    """Ask the orchestrator to give up a task."""

    name: Task
    database: Database = DATABASE

    def check(self) -> None:
        """Check that the file is a database."""
        check_database(self.database)


@command(
    "orchestrate",
    "p4reduce orchestrate -t leaf-spine-8 -d tasks.sqlite",
    "p4reduce orchestrate -t wan:graph=germany50,servers=1 -p overlay-mst --threshold 2",
    "p4reduce orchestrate -t leaf-spine-8 --cut leaf1,spine1@5ms --mend leaf1,spine1@9ms",
    "p4reduce orchestrate -t leaf-spine-8 --kill h3@1200us --kill task2/h2@5100us",
    "p4reduce example hosts > hosts.yaml               # what hosts can do, for --hosts",
    "p4reduce orchestrate -t leaf-spine-8 --hosts leaf-spine-8 --background gravity:load=0.3,seed=1",
    "p4reduce orchestrate -t leaf-spine-8 --live --hold   # watch the tasks in a browser: docs/live.md",
    "p4reduce orchestrate -t oxc:pods=4,hosts=4,ports=2,rate=25G --schedule tdm --delta 200us",
    "p4reduce orchestrate -t fat-tree:k=8 --time flow     # large models, by a model without packets",
)
class Orchestrate:
    """Run the tasks of a database until all have ended.

    Hosts, links and switches run in a separate process. The command starts that process if none listens at the socket,
    and ends it at the end. If it is killed at any moment, the same command continues from there.

    Profiles of hosts (--hosts) have these fields for each host, and in 'default' for all others: slowdown (factor of
    training times), models (that train side by side at full speed), most_models (limit), add (time to add one element
    of one model that arrives, as in '400ps'), utility (of its data, for tasks that select their local models) and slots
    (GPUs, for tasks that name no hosts). 'p4reduce tasks show' shows the resulting times, and why a task got its hosts.

    With --schedule a scheduler of 'p4reduce tdm' gives tasks their turns: while some communicate over circuits made for
    them, others train on the same hosts. The scheduler places tasks that name no hosts. 'p4reduce tasks show'
    shows their group, configurations and windows, both planned and real.

    With --time flow a model without packets computes the times of communication (docs/flow.md). Switches still get
    entries.

    With -t wdm:… tasks get slots of lightpaths, which go dark when no task uses them. A task without free slots waits
    until others end.
    """

    database: Database = DATABASE
    topology: Annotated[str | None, Flag(TOPOLOGY, "-t", parse=network,
            default="the network that runs at the socket")] = None  # fmt: skip
    policy: Annotated[str, Flag("Policy that chooses the trees of tasks: steiner, overlay-mst, spt, exact, spff-ina "
            "or spff; or a plan by which hosts exchange models: ring, packing or another of several trees.", "-p",
            parse=named(POLICIES))] = "steiner"  # fmt: skip
    lanes: Lanes = 256
    time: PacketsOrFlow = "virtual"
    threshold: Annotated[float, Flag("Least ratio of savings to cost for which the trees of a running task are "
            "swapped.", least=0)] = 1.0  # fmt: skip
    only_forced: Annotated[bool, Flag("Never swap trees to save bandwidth.")] = False
    control_latency: Annotated[int, Flag("Virtual time from a decision to its effect.", parse=delay,
            default="1ms")] = PS_PER_MS  # fmt: skip
    measure: Annotated[int, Flag("Virtual time between readings of all counters.", parse=partial(delay, least=1),
            default="10ms")] = 10 * PS_PER_MS  # fmt: skip
    hosts: Annotated[str | None, Flag("Profiles of hosts: a YAML file, or the bundled example 'leaf-spine-8' for the "
            "topology of that name.", default="all alike, and adding takes no time")] = None  # fmt: skip
    background: Annotated[str | None, Flag("Other traffic between all hosts, as in 'gravity:load=0.3,seed=1' or "
            "'sndlib:graph=nobel-us,load=0.2'.", default="none")] = None  # fmt: skip
    cut: Annotated[Sequence[tuple[str, str, int]], Flag("Link to cut, and when, as in 'leaf1,spine1@5ms'.",
            parse=link_change, many=True, default="none")] = ()  # fmt: skip
    mend: Annotated[Sequence[tuple[str, str, int]], Flag("Link to mend, and when, as in 'leaf1,spine1@9ms'.",
            parse=link_change, many=True, default="none")] = ()  # fmt: skip
    kill: Annotated[Sequence[tuple[str, str, int]], Flag("Host to end, 'h3@5ms', or a task's process there, "
            "'task1/h3@5ms'.", parse=death, many=True, default="none")] = ()  # fmt: skip
    socket: Annotated[Path | None, Flag("Socket at which the network's process listens.",
            default="beside the database")] = None  # fmt: skip
    placement: Placement = "packed"
    order: Order = "fifo"
    no_backfill: NoBackfill = False
    slots: Annotated[
        Literal["first", "whole", "value"],
        Flag(
            "How tasks get slots of switches: first come, first served; only for whole trees; or by the savings of "
            "their trees, running tasks included."
        ),
    ] = "first"
    switch_slots: Annotated[int | None, Flag("Number of slots of every switch that tasks may have.", least=2,
            default="all")] = None  # fmt: skip
    move: Annotated[
        float | None,
        Flag(
            "Least ratio of savings to cost for which workers on chosen hosts are moved; they then also leave hosts "
            "that die.",
            least=0,
            default="never",
        ),
    ] = None
    forecast: Annotated[str | None, Flag("Forecast of the load that policies use: mean, ewma, ar or boosted-trees.",
            parse=named(FORECASTS), default="the measured load")] = None  # fmt: skip
    schedule: Annotated[str | None, Flag("Scheduler of turns over an optical cross-connect (-t oxc:…), as in tdm, "
            "seed or static.", parse=named(SCHEDULERS), default="none")] = None  # fmt: skip
    grooming: Annotated[Literal["groom-agg", "opaque-agg"], Flag("Policy that gives tasks lightpaths (with -t wdm:…), "
            "as in 'p4reduce optical plan'.")] = "groom-agg"  # fmt: skip
    delta: Annotated[int, Flag("Time for which ports of the cross-connect are dark when their circuits change (with "
            "--schedule).", parse=delay, default="200us")] = 200 * PS_PER_US  # fmt: skip
    service_ports: Annotated[int, Flag("Number of ports of each switch to the cross-connect that take no turns; "
            "inference tasks get circuits there (with --schedule).", least=0)] = 0  # fmt: skip
    keep: Annotated[bool, Flag("Leave the network's process running at the end.")] = False
    live: Live = False
    hold: Hold = False
    open_page: Open = False
    as_json: Json = False

    def check(self) -> None:
        """Check that an existing file is a database (a missing one is reported later), and that flags fit."""
        check_database(self.database, new=True)
        packets = ("background", "cut", "mend", "schedule", "live")
        if self.time == "flow" and (needs := next((name for name in packets if getattr(self, name)), None)):
            raise BadInput(f"--time flow: --{needs} needs packets; leave it out, or choose --time virtual")
        if self.service_ports and self.schedule is None:
            raise BadInput("--service-ports: only with --schedule do tasks take turns; leave it out")


@command(
    "tdm plan",
    "p4reduce example jobs > jobs.yaml",
    "p4reduce tdm plan -t oxc:pods=8,hosts=4,ports=4,rate=25G jobs.yaml --svg gantt.svg",
    "p4reduce tdm plan -t oxc:pods=8,hosts=4,ports=2,rate=25G jobs.csv --policy seed --json",
)
class TdmPlan:
    """Plan the groups, hosts, trees, circuits and windows of jobs on an optical cross-connect.

    The times are predictions, which 'p4reduce tdm run' measures on packets.
    """

    jobs: JobsFile
    topology: CrossConnect = "oxc:pods=8,hosts=4,ports=4,rate=25G"
    policy: Scheduler = "best"
    of: Of = "round"
    reading: Annotated[Literal["overlap", "serial", "literal"], Flag("Reading of equation (3) of the paper.")] = (
        "overlap"
    )
    clock: Clock = "completion"
    seed: Seed = 1
    svg: Svg = None
    as_json: Json = False


@command(
    "tdm run",
    "p4reduce example jobs > jobs.yaml",
    f"p4reduce tdm run -t {OXC} jobs.yaml --svg gantt.svg",
    f"p4reduce tdm run -t {OXC} jobs.yaml --clock slots --keep pause --json",
)
class TdmRun:
    """Play the schedule of one scheduler on packets that cross the P4 program, or (--time flow) without packets.

    On packets, the command checks every sum and block, and compares the first transmissions on every link, process by
    process, with the prediction.
    """

    jobs: JobsFile
    network: CrossConnect = OXC
    policy: Scheduler = "best"
    of: Of = "round"
    time: TurnsTime = "virtual"
    rounds: Rounds = 3
    scale: Scale = 64.0
    keep: Annotated[
        Literal["starts", "pause", "gates"],
        Flag("How time windows are kept: by when jobs start, by pauses within them, or by gates at the ports."),
    ] = "starts"
    clock: Clock = "completion"
    guard: Annotated[int | None, Flag("Time at the end of slots in which nothing starts, as in 20us; it is not "
            "divided by --scale.", parse=delay, default="what queues may need")] = None  # fmt: skip
    seed: Seed = 1
    loss: Loss = 0.0
    svg: Svg = None
    live: Live = False
    hold: Hold = False
    full_speed: FullSpeed = False
    open_page: Open = False
    as_json: Json = False


@command("tdm compare",
         f"p4reduce tdm compare -t {OXC} jobs.yaml --policies tdm,no-tdm,static",
         "p4reduce tdm compare -t oxc:pods=16,hosts=8,ports=4,rate=25G jobs.yaml --scale 1 --time flow")  # fmt: skip
class TdmCompare:
    """Play the same jobs with several schedulers, and print a line for each."""

    jobs: JobsFile
    network: CrossConnect = OXC
    policies: Annotated[Sequence[str], Flag("Schedulers to compare, separated by commas.",
            parse=each(SCHEDULERS.check))] = ("best", "tdm", "static", "no-tdm")  # fmt: skip
    time: TurnsTime = "virtual"
    rounds: Rounds = 3
    scale: Scale = 64.0
    seed: Seed = 1
    loss: Loss = 0.0
    as_json: Json = False


@command(
    "tdm trace",
    "p4reduce tdm trace",
    "p4reduce tdm trace --trace helios --gpus 64 --jobs 500 --loads 0.6,1.2 --policies exclusive,pairs",
    "p4reduce tdm trace --gpus 4096 --jobs 2000 --loads 1 --json",
)
class TdmTrace:
    """Simulate job arrivals drawn from a trace, and compare completion times under several policies.

    The command works at the level of flows: the policy's sharing of GPUs decides the throughput of each job.
    """

    trace: Annotated[Literal["philly", "helios"], Flag("Cluster whose trace gives the jobs' durations.")] = "philly"
    jobs: Annotated[int, Flag("Number of jobs that arrive.", least=1, most=1_000_000)] = 300
    gpus: Annotated[int, Flag("Number of GPUs of the cluster.", least=1, most=1 << 20)] = 32
    loads: Annotated[Sequence[float], Flag("Ratios of GPU seconds that arrive to those available, below 100.",
            parse=floats)] = (0.8, 1, 1.2)  # fmt: skip
    policies: Annotated[Sequence[str], Flag("Ways to share GPUs, separated by commas: exclusive, free, gated and "
            "pairs.", parse=texts)] = ("exclusive", "free", "gated", "pairs")  # fmt: skip
    c_over_w: Annotated[float, Flag("Ratio of communication to training in an iteration.")] = 1.0
    seed: Seed = 1
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class _Wdm:
    """A WDM network, and options for grooming tasks on it."""

    topology: Annotated[str, Flag("WDM network: wdm: with graph, hosts, wavelengths, rate, slots, transponders (0: as "
            "many as fibres can use) and access_rate.", "-t", parse=network)] = WDM  # fmt: skip
    models: Annotated[int, Flag("Number of local models of each drawn task, at random hosts.", least=1)] = 15
    demand: Annotated[int, Flag("Rate that a copy of a drawn task's model takes on a lightpath, rounded up to slots.",
            parse=rate, default="10G")] = 10_000_000_000  # fmt: skip
    phi: Annotated[float | None, Flag("Least share of a new lightpath's cost that its first user pays: 1 "
            "lights few, 0 keeps paths short.", least=0, most=1,
            default="0.25 for groom, 1 for groom-agg")] = None  # fmt: skip
    lam: Annotated[float, Flag("Cost of a kilometre; a transponder costs 10, a fibre 1.", name="--lambda", least=0)] = 0
    grid: Annotated[Literal["fixed", "flex"],
            Flag("Spectrum: wavelengths, or slices of 12.5 GHz by modulation.")] = "fixed"  # fmt: skip
    assign: Annotated[Literal["first-fit", "most-used"], Flag("Choice of the wavelength.")] = "first-fit"
    shortest: Annotated[Literal["km", "fibres"], Flag("Length that makes a path shortest for spff, opaque and "
            "lightpath-per-flow.")] = "km"  # fmt: skip
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class _Grooming(_Wdm):
    """A WDM network, and options for grooming tasks that are all known at the beginning."""

    file: Annotated[Path | None, Flag("File of tasks as YAML or CSV, as for 'p4reduce tasks submit'; it replaces "
            "--tasks, --models, --elements and --demand.", "-f", reads=True, default="drawn tasks")] = None  # fmt: skip
    tasks: Annotated[int, Flag("Number of tasks that are drawn.", least=1, most=10_000)] = 30
    elements: Annotated[int, Flag("Number of float32 parameters of a drawn task's model.", least=1)] = 61_706
    moves: Annotated[int, Flag("Number of changes that best, best-opaque and best-flows try.", least=0)] = 1500
    budget: Annotated[float, Flag("Largest ratio of fibre bytes of best and best-opaque to those of opaque-agg, of "
            "best-flows to those of spff; 0: no limit.", least=0)] = 1.1  # fmt: skip
    time_limit: Annotated[float, Flag("Number of seconds that exact may take.", least=0.1)] = 60.0


Groomer = Annotated[str, Flag("Policy: best, best-opaque, best-flows, exact, groom-agg, groom, opaque-agg, opaque, "
        "spff or lightpath-per-flow.", parse=named(GROOMERS))]  # fmt: skip
Groomers = Annotated[Sequence[str], Flag("Policies to compare, separated by commas.", "-p",
        parse=each(GROOMERS.check))]  # fmt: skip
Seeds = Annotated[Sequence[int], Flag("Seeds of the tasks, as 0..4.", parse=integers)]


@command(
    "optical plan",
    "p4reduce optical plan",
    "p4reduce optical plan -t wdm:graph=germany50 --policy spff",
    "p4reduce optical plan -t wdm:graph=nobel-us,hosts=2,wavelengths=80,transponders=0 --grid flex --json",
)
class OpticalPlan(_Grooming):
    """Plan lightpaths, their wavelengths, and the slots that each task's tree or flows use."""

    policy: Groomer = "best"
    seed: Seed = 1


@command(
    "optical run",
    "p4reduce optical run",
    "p4reduce optical run -t wdm:graph=germany50 --policy groom-agg --json",
    "p4reduce optical run -t wdm:graph=nobel-us,hosts=2,access_rate=400G --at-once",
)
class OpticalRun(_Grooming):
    """Play a round of every admitted task on packets: lightpaths as circuits, sums in the P4 program at routers.

    The command checks every sum, the bytes on every lightpath and link, and that nothing is lost or misrouted. It needs
    a policy that aggregates. The exit code is 1 when a sum is wrong or the bytes of a link differ from the prediction.
    """

    policy: Groomer = "best"
    seed: Seed = 1
    lanes: Lanes = 256
    at_once: Annotated[bool, Flag("Begin rounds together, as many as switches have slots for; else one after the "
            "other.")] = False  # fmt: skip


@command(
    "optical regroom",
    "p4reduce optical regroom",
    "p4reduce optical regroom -t wdm:graph=germany50 --policy groom-agg --price 2 --dark 50ms --json",
)
class OpticalRegroom(_Grooming):
    """Plan tasks, search for a plan with fewer transponders, and change from one to the other on packets.

    A rerouted task is interrupted; rerouted tasks save at least --price transponders each on average. The rounds of
    all other tasks continue while the transponders that change are dark. Checks and exit code are those of 'p4reduce
    optical run'.
    """

    policy: Annotated[str, Flag("Policy of the first plan, which must aggregate.",
            parse=named(GROOMERS))] = "opaque-agg"  # fmt: skip
    price: Annotated[float, Flag("Least number of transponders saved for each rerouted task.", least=0)] = 2.0
    dark: Annotated[int, Flag("Time for which transponders that change are dark.", parse=delay, default="10ms")] = (
        10 * PS_PER_MS
    )
    seed: Seed = 1
    lanes: Lanes = 256


@command("optical compare",
         "p4reduce optical compare", "p4reduce optical compare -t wdm:graph=germany50 --seeds 100..104")  # fmt: skip
class OpticalCompare(_Grooming):
    """Plan the same tasks under several policies, and print a line for each: means over seeds with 95 % intervals."""

    policies: Groomers = ("lightpath-per-flow", "spff", "opaque", "groom", "opaque-agg", "groom-agg", "best")
    seeds: Seeds = (1,)


@command(
    "optical arrivals",
    "p4reduce optical arrivals -t wdm:graph=germany50 --loads 40,80,120",
    "p4reduce optical arrivals --loads 100 --policies groom-agg --moved 0,1,4 --seeds 0..9 --json",
)
class OpticalArrivals(_Wdm):
    """Simulate tasks that come and go (Poisson arrivals, exponential stays): how many are blocked, by load.

    To admit a task that would be blocked, up to --moved running tasks are rerouted, which interrupts them. Tasks that
    arrive during the first three mean stays fill the network, and are not counted.
    """

    policies: Groomers = ("spff", "groom", "opaque-agg", "groom-agg")
    arrivals: Annotated[int, Flag("Number of arrivals that are counted.", least=1, most=100_000)] = 500
    loads: Annotated[Sequence[float], Flag("Loads in Erlang: tasks that would run on average if none were blocked.",
            parse=floats)] = (20, 40, 80, 120)  # fmt: skip
    moved: Annotated[Sequence[int], Flag("Numbers of running tasks that may be rerouted for one that would be "
            "blocked.", parse=integers)] = (0,)  # fmt: skip
    seeds: Seeds = (0, 1, 2)


@command(
    "optical spine",
    "p4reduce optical spine --fast 2",
    "p4reduce optical spine -t oxc:pods=8,hosts=2,ports=4,rate=100G,port_rate=25G,delta=25us --load 2ms --slot 50us "
    "--packets",
)
class OpticalSpine:
    """Plan an all-optical spine: circuits for pairs of leaves with much work, time slots for the others.

    The pods of an oxc: network are the leaves, and their ports the transceivers. A transceiver is dark for delta while
    it reconfigures, a fast one (--fast) for --guard. Three plans are compared: hybrid; slots, as if all transceivers
    were fast; and circuits, as if none were. With --packets every pair of leaves sums its data in the P4 program, and
    the exit code is 1 when a sum is wrong, a frame is lost or the bytes of a link differ from the prediction.
    """

    network: CrossConnect = "oxc:pods=16,hosts=2,ports=8,rate=200G,port_rate=25G,delta=25us"
    fast: Annotated[int | None, Flag("Number of fast transceivers of each leaf.", least=0, default="all")] = None
    slot: Annotated[int, Flag("Length of a slot.", parse=delay, default="100us")] = 100 * PS_PER_US
    guard: Annotated[int, Flag("Dark time of a fast transceiver that reconfigures.", parse=delay, default="2us")] = (
        2 * PS_PER_US
    )
    load: Annotated[int, Flag("Time that the busiest leaf's work would take on all of its ports.", parse=delay,
            default="10ms")] = 10 * PS_PER_MS  # fmt: skip
    pairs: Annotated[int, Flag("Number of pairs of leaves with much work (log-normal).", least=1)] = 32
    share: Annotated[float, Flag("Share of all work that these pairs have.", least=0, most=1)] = 0.8
    packets: Annotated[bool, Flag("Play the plans on packets, over fibres of 40 m.")] = False
    seed: Seed = 1
    as_json: Json = False


@command("priorities policies", "p4reduce priorities policies", "p4reduce priorities policies --json | jq '.[].name'")
class PrioritiesPolicies:
    """List the priority policies: built-in ones, and those of other packages."""

    as_json: Json = False


@command(
    "priorities compare",
    "p4reduce priorities compare jobs.yaml",
    "p4reduce priorities compare jobs.yaml -p fifo,sjf,intensity,aalo",
    "p4reduce priorities compare jobs.yaml -p fifo,sjf --told predicted --json | jq '.[].worst'",
)
class PrioritiesCompare:
    """Run the jobs of a file together under several policies, and each of them alone.

    The jobs run on packets in virtual time. The command checks every sum, and checks that every byte on a link was
    predicted or is a resend.
    """

    file: Annotated[Path, Flag("YAML file of jobs.", argument=True, reads=True, example="priorities")]
    policies: Annotated[
        Sequence[str],
        Flag("Priority policies to compare, separated by commas.", "-p", parse=each(PRIORITY_POLICIES.check)),
    ] = ("fifo", "random", "sjf")
    told: Annotated[
        Literal["oracle", "predicted", "none"],
        Flag("What policies are told about the jobs: everything, what the switches' counters predict, or nothing."),
    ] = "oracle"
    rotate: Annotated[int, Flag("Number of rounds after which an order is rotated; 0: never.", least=0)] = 0
    as_json: Json = False


@command("slurm conf", "p4reduce slurm conf leaf-spine-16 slurm-files")
class SlurmConf:
    """Write slurm.conf, topology.conf and job_submit.lua for a topology, and start nothing.

    The workers of the topology are the nodes, all of them on this machine, on ports 26817 and above of 127.0.0.1.
    'p4reduce slurm up' writes its own files, with free ports.
    """

    topology: TopologyArgument
    folder: Annotated[Path, Flag("Folder for the files, created if it does not exist.", argument=True)]
    as_json: Json = False


@command(
    "slurm up",
    "p4reduce slurm up leaf-spine-16                   # until Ctrl-C; jobs from another terminal",
    "p4reduce slurm up two-generations --placement packed --order fair",
)
class SlurmUp:
    """Start a Slurm cluster on this machine, and choose the hosts of its marked jobs, until Ctrl-C.

    A job whose comment begins with 'p4reduce' is held until its hosts are chosen and its tree is in the switches. Then
    it starts there, and its ranks all-reduce over the network by 'connect()'. Slurm places all other jobs. Nothing is
    left when the command ends: no daemons, jobs, sockets or files. The command needs no root.
    """

    topology: TopologyArgument
    name: NewName = None
    placement: Placement = "ina-aware"
    order: Order = "fifo"
    no_backfill: NoBackfill = False
    until_empty: Annotated[bool, Flag("End when all jobs have ended, once there has been one.")] = False
    as_json: Json = False


@command(
    "slurm exec",
    "p4reduce slurm exec -- sinfo",
    "p4reduce slurm exec -- sbatch -N4 -n4 --comment 'p4reduce elements=61706 rounds=10' job.sh",
    passes_on=True,
)
class SlurmExec:
    """Run a program, such as sbatch or squeue, for a cluster that is up, and exit with its code."""

    command: PassedOn
    name: Name = None


@command("slurm move", "p4reduce slurm move 12", "p4reduce slurm move 12 --to h1,h2,h3,h4")  # fmt: skip
class SlurmMove:
    """End a job, and start it again on other hosts.

    Slurm runs the job from its beginning; the job must read its own checkpoint, if it has one.
    """

    number: Annotated[int, Flag("Number of the job.", argument=True)]
    to: Annotated[Sequence[str], Flag("Hosts, separated by commas.", parse=texts,
            default="those that the policy chooses")] = ()  # fmt: skip
    name: Name = None


@command(
    "slurm demo",
    "p4reduce slurm demo",
    "p4reduce slurm demo --jobs 10 --schemes ina-aware,slurm-switches --json",
    "p4reduce slurm demo -t leaf-spine-16      # a uniform network",
)
class SlurmDemo:
    """Compare mean completion times of the same jobs on hosts that Slurm chooses and on those that p4reduce chooses.

    Slurm and the processes of the ranks are real. Completion times are virtual, from packets that crossed the P4
    program, and do not depend on the speed of the machine. The exit code is 1 when a job did not run on its hosts, when
    a sum was not exact, or when the first placement policy of the list is no better than each of Slurm's own.
    """

    topology: Annotated[str, Flag(TOPOLOGY, "-t", parse=network)] = "two-generations"
    jobs: Annotated[int, Flag("Number of jobs.", least=0)] = 50
    seed: Seed = 1
    schemes: Annotated[Sequence[str], Flag("Schemes that choose hosts, separated by commas: placement policies, and "
            "slurm-tree, slurm-switches and slurm-weights.",
            parse=texts)] = ("ina-aware", "packed", "slurm-switches", "slurm-tree", "slurm-weights")  # fmt: skip
    as_json: Json = False
