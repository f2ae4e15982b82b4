"""Lab 01, judged by its README: what each table of each switch must say."""

import random
from pathlib import Path

import yaml

from tests.support.labs.judge_p4 import said

IP = {"h1": 0x0A000001, "h2": 0x0A000002, "h3": 0x0A000003, "h4": 0x0A000004}
IP |= {"leaf1": 0x0A800001, "leaf2": 0x0A800002, "root": 0x0A800003}
CHILDREN = {"leaf1": {1: "h1", 2: "h2"}, "leaf2": {1: "h3", 2: "h4"}, "root": {1: "leaf1", 2: "leaf2"}}
BITS = {"bit_": 32, "lowest": 1, "full": 32, "stats": 16, "group": 16, "udp": 16, "parent_udp": 16, "parent_port": 9}


class Texts(yaml.SafeLoader):
    """Numbers, addresses and words as texts."""


Texts.yaml_implicit_resolvers = {}


def number(text) -> int:
    said(isinstance(text, str), "no number")
    said(len(text) < 1000, "no number of this lab")
    if text.count(":") == 5:
        return int(text.replace(":", ""), 16)
    if text.count(".") == 3:
        parts = [int(part) for part in text.split(".")]
        said(all(0 <= part < 256 for part in parts), "no address")
        return int.from_bytes(bytes(parts), "big")
    try:
        return int(text, 0)
    except ValueError:
        said(text.isdecimal(), f"{text}: no number")
        return int(text)


def judge_01(folder: Path, draw: random.Random, job: int = 1, epoch: int = 0) -> None:
    bits = {}
    for name, children in CHILDREN.items():
        data = yaml.load((folder / "skeleton" / f"{name}.yaml").read_text(), Texts)  # noqa: S506
        said(isinstance(data, dict) and set(data) <= {"tables", "multicast"}, "another key")
        tables = {"local_address": {}, "job": {}, "peer": {}, "replica": {}}
        for row in data["tables"]:
            said(set(row) <= {"table", "match", "action", "params"} and row["table"] in tables, "no such table")
            key = tuple(sorted((k.rpartition(".")[2], number(v)) for k, v in row["match"].items()))
            said(key not in tables[row["table"]], "twice")
            params = {k: number(v) for k, v in (row.get("params") or {}).items()}
            said(all(v < 1 << BITS.get(k, 48) for k, v in params.items()), "too large")
            tables[row["table"]][key] = row["action"], params
        said(tables["local_address"] == {(("dst", IP[name]),): ("is_local", {})}, "local_address")
        action, params = tables["job"].get((("epoch", epoch), ("job", job)), ("", {}))
        wanted = {"generation", "base", "slots", "full", "group", "stats"}
        if name != "root":
            wanted |= {"parent_port", "parent_mac", "parent_ip", "parent_udp"}
            said((params.get("parent_port"), params.get("parent_ip")) == (3, IP["root"]), "parent")
            said((params.get("parent_mac"), params.get("parent_udp")) == (0x0200 << 32 | IP["root"], 9400), "parent")
        said(action == ("root" if name == "root" else "inner") and set(params) == wanted, "job")
        said(params["generation"] >= 1 and params["slots"] == 16 and params["base"] + 16 <= 4096, "slots")
        said(params["stats"] < 512, "stats")
        peers = tables["peer"]

        def peer(ip, port, peers=peers):
            key = (("epoch", epoch), ("ingress_port", port), ("job", job), ("src", ip))
            return peers.pop(key, ("", {}))

        mine, lowest = {}, []
        for port, child in children.items():
            found, given = peer(IP[child], port)
            said(found == "child" and set(given) == {"bit_", "lowest"}, "child")
            mine[child] = given["bit_"]
            lowest += [child] * given["lowest"]
        if name != "root":
            said(peer(IP["root"], 3) == ("parent", {}), "parent")
        near = {(port, IP[child]) for port, child in children.items()} | (
            {(3, IP["root"])} if name != "root" else set()
        )
        for key in map(dict, peers):
            said((key["job"], key["epoch"]) != (job, epoch), "another peer")
            said((key["ingress_port"], key["src"]) in near, "a stranger of another job")
        one, two = mine.values()
        said(one.bit_count() == two.bit_count() == 1 and not one & two and params["full"] == one | two, "bits")
        said(len(lowest) == 1, "lowest")
        groups = {number(g["group"]): g["replicas"] for g in data["multicast"]}
        copies = [(number(r["port"]), number(r["rid"])) for r in groups.get(params["group"], [])]
        said(sorted(port for port, _ in copies) == [1, 2] and copies[0][1] != copies[1][1], "copies")
        for port, rid in copies:
            ip = IP[children[port]]
            entry = tables["replica"].get((("egress_rid", rid),))
            said(rid > 0 and entry == ("address", {"mac": 0x0200 << 32 | ip, "ip": ip, "udp": 9400}), "replica")
        bits[name] = mine, lowest
    sheet = yaml.load((folder / "skeleton" / "answers.yaml").read_text(), Texts)  # noqa: S506
    mine, lowest = bits["leaf1"]
    right = {
        "packet_3_leaves_by": 3 if lowest == ["h1"] else 0,
        "packet_4_leaves_by": 3 if lowest == ["h2"] else 0,
        "bitmap_before": mine["h1"],
        "bitmap_after": mine["h1"] | mine["h2"],
    }
    for name, value in right.items():
        said(number(sheet.get(name, "")) == value, name)
    for name, letter in {"same_bit": "c", "why_full": "b", "four_slots": "a"}.items():
        said(sheet.get(name, "").strip("\"'.() ").lower() == letter, name)
