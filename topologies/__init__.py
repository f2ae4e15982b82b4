"""Networks as graphs: nodes, links, ports, addresses; builders, and YAML files."""

from p4reduce.topologies.datacenter import TopologyBuilder, fat_tree, leaf_spine, star, wan
from p4reduce.topologies.files import (
    bundled,
    check_source,
    from_networkx,
    import_file,
    load,
    save,
    to_networkx,
    to_yaml,
    with_capable,
)
from p4reduce.topologies.model import MAX_NODES, MAX_PORT, Link, Node, Topology, TopologyError
from p4switch.base.values import format_delay, format_rate, parse_delay, parse_rate

__all__ = [
    "MAX_NODES",
    "MAX_PORT",
    "Link",
    "Node",
    "Topology",
    "TopologyBuilder",
    "TopologyError",
    "bundled",
    "check_source",
    "fat_tree",
    "format_delay",
    "format_rate",
    "from_networkx",
    "import_file",
    "leaf_spine",
    "load",
    "parse_delay",
    "parse_rate",
    "save",
    "star",
    "to_networkx",
    "to_yaml",
    "wan",
    "with_capable",
]
