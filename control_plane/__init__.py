"""Plans, predictions, table entries, installation over P4Runtime, and checks.

This module lists the names that users choose from: plans, policies, orders, forecasts, programs. They are known without
importing what they name. The registries in the folders define each name; a test compares both. Other distributions add
names by entry points.
"""

from typing import Final

from p4reduce.base.registry import RegistryNames

PLANS: Final = RegistryNames(
    "plan", "all-to-all", "best", "double-binary-tree", "exact", "halving-doubling", "hierarchical", "mst", "packing",
    "ps", "rina", "ring", "spt", "steiner", "striped",
)  # fmt: skip
POLICIES: Final = RegistryNames(
    "policy", "double-binary-tree", "exact", "halving-doubling", "hierarchical", "overlay-mst", "packing", "rina",
    "ring", "spff", "spff-ecmp", "spff-ina", "spt", "steiner", "striped",
)  # fmt: skip
PLACEMENTS: Final = RegistryNames(
    "placement", "cassini", "first-fit", "ina-aware", "netpack", "packed", "random", "spread"
)
ORDERS: Final = RegistryNames("queue order", "edf", "fair", "fifo", "priority", "sjf")
FORECASTS: Final = RegistryNames("forecast", "ar", "boosted-trees", "ewma", "mean")
PRIORITY_POLICIES: Final = RegistryNames(
    "priority policy", "aalo", "batch", "batch-relative", "cassini", "fair", "fifo", "intensity", "mltcp", "pull-push",
    "random", "reversed", "sjf", "slack", "srpt",
)  # fmt: skip
SCHEDULERS: Final = RegistryNames(
    "scheduler", "best", "cassini", "eps-ecmp", "eps-ideal", "exact", "exact-one-tree", "exclusive", "free", "layers",
    "no-tdm", "pairs", "random", "seed", "static", "striped", "tdm",
)  # fmt: skip
GROOMERS: Final = RegistryNames(
    "grooming policy", "best", "best-flows", "best-opaque", "exact", "groom", "groom-agg", "lightpath-per-flow",
    "opaque", "opaque-agg", "spff",
)  # fmt: skip
PROGRAMS: Final = RegistryNames("program")
