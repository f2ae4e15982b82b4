"""Mistakes beyond the tables, and what the first message about each must name.

``python -m tests.support.labs.mistakes`` counts the first messages that do. An entry has: lab, file, a place in the
solution, its replacement, and a regular expression that the message must match, unless it names the line. `FIRST` and
`SECOND` were written before they were graded; messages were then improved for `FIRST`. From the seventh on, batches
were judged by hand.
"""

import argparse
import math
import os
import random
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce_course.frame.grading import grade
from p4reduce_course.frame.report import Finding, write_looks
from tests.support.labs import SOLUTIONS, Mutant, spoilt

P2, P3, P5, W5 = "header.p4", "slot.p4", "loss.p4", "worker.py"
Q4, C, F8, H9 = "quantize.py", "controller.py", "predict.py", "hook.py"
P11, P12, P13, P14, P15, P16 = "router.p4", "learn.p4", "spread.p4", "heavy.p4", "telemetry.p4", "survive.p4"
L1, L2, R1, A1 = "leaf1.yaml", "leaf2.yaml", "root.yaml", "answers.yaml"
MISTAKES = [
    # 01
    ("01", L1, "parent_ip: 10.128.0.3", "parent_ip: 10.128.0.2", "parent_ip"),
    ("01", L1, "match: {job: 1, epoch: 0}", "match: {job: 1, epoch: 1}", "job 1, epoch 0"),
    ("01", L1, "hdr.ipv4.src: 10.0.0.2", "hdr.ipv4.src: 10.0.0.3", "for h2|10.0.0.2"),
    ("01", L1, "{port: 1, rid: 1}", "{port: 1, rid: 2}", "rid|copy for h1"),
    ("01", L1, "generation: 1 ", "generation: 0 ", "generation"),
    ("01", L1, "mac: 02:00:0a:00:00:01", "mac: 02:00:0a:00:00:02", "mac"),
    ("01", L1, "bit_: 0b10", "bit_: 0b11", "bit|share"),
    ("01", R1, "group: 1   ", "group: 2   ", "group 2"),
    ("01", R1, "hdr.ipv4.src: 10.128.0.2", "hdr.ipv4.src: 10.0.0.3", "leaf2"),
    ("01", R1, "full: 0b11", "full: 0b111", "full"),
    # 02
    ("02", P2, "hdr.hop.hops + 1", "hdr.hop.hops - 1", "hops was 7 and left as 6"),
    ("02", P2, "(bit<32>)hdr.hop.worker", "hdr.hop.seq", "seq was added"),
    ("02", P2, "hdr.value.total = hdr.hop.seq;", "hdr.value.total = (bit<32>)hdr.hop.worker;", "that is worker"),
    ("02", P2, "            } else {\n                hdr.value.setValid();", "            }\n            if (true) {\n                hdr.value.setValid();", "that is seq|else|isValid"),
    ("02", P2, "hdr.hop.flags | 1", "hdr.hop.flags | 2", "flags|bit 0"),
    ("02", P2, "hdr.hop.flags | 1", "hdr.hop.flags & 1", "flags|bit 0"),
    ("02", P2, "        packet.emit(hdr.ethernet);\n        packet.emit(hdr.hop);", "        packet.emit(hdr.hop);\n        packet.emit(hdr.ethernet);", "order"),
    ("02", P2, "            1: parse_value;", "            0: parse_value;", "bit 0"),
    ("02", P2, "std.egress_spec = 7;", "std.egress_spec = 8;", "port 8, expected 7"),
    ("02", P2, "ETHER_TYPE: parse_hop;", "0x0800: parse_hop;", "EtherType"),
    ("02", P2, "            hdr.hop.hops = hdr.hop.hops + 1;\n", "            hdr.hop.hops = hdr.hop.hops + 1;\n            hdr.hop.seq = hdr.hop.seq + 1;\n", "seq"),
    ("02", P2, "bit<8> hops;", "bit<8> hop;", "hops"),
    # 03
    ("03", P3, "hdr.sum.seq & (SLOTS - 1)", "hdr.sum.seq & SLOTS", "slot|seq & \\(SLOTS - 1\\)"),
    ("03", P3, "bitmap = bitmap | meta.bit_;", "bitmap = meta.bit_;", "bits of the others are gone"),
    ("03", P3, "bitmap = bitmap | meta.bit_;", "bitmap = bitmap + 1;", "not how many"),
    ("03", P3, "sums1.read(sum, slot);", "sums0.read(sum, slot);", "sums0|own register"),
    ("03", P3, "sums3.write(slot, hdr.sum.lane3);", "sums3.write(slot, hdr.sum.lane2);", "lane2|sums3"),
    ("03", P3, "hdr.sum.lane2 = hdr.sum.lane2 + sum;", "hdr.sum.lane2 = hdr.sum.lane2 - sum;", "lane2|sums2"),
    ("03", P3, "bitmaps.write(slot, bitmap);", "bitmaps.write(slot, meta.bit_);", "bits of the others are gone"),
    ("03", P3, "                    bitmaps.write(slot, bitmap);\n", "", "not in|write the bitmap back"),
    ("03", P3, "bitmaps.write(slot, 0);", "bitmaps.write(0, 0);", "write 0"),
    ("03", P3, "if ((bitmap & meta.bit_) != 0) {", "if (bitmap == meta.bit_) {", "came again"),
    ("03", P3, "std.mcast_grp = 1;", "std.egress_spec = std.ingress_port;", "not once by each|mcast_grp"),
    ("03", P3, "hdr.sum.kind = RESULT;", "hdr.sum.kind = PUSH;", "set kind"),
    ("03", P3, "if (bitmap != 0) {", "if (bitmap == 0) {", "Read the sums?|what this worker sent alone|replaces"),
    ("03", P3, "                    bitmaps.write(slot, 0);\n", "                    bitmaps.write(slot, 0);\n                    hdr.sum.seq = hdr.sum.seq + 1;\n", "seq left as"),
    # 04
    ("04", Q4, "np.rint(np.ldexp(values, exponent))", "np.ceil(np.ldexp(values, exponent))", "rint|nearest"),
    ("04", Q4, "np.ldexp(values, exponent)", "np.ldexp(values, -exponent)", "times 2\\^|exponent"),
    ("04", Q4, "max(largest)", "min(largest)", "largest"),
    ("04", Q4, "max(largest)", "sum(largest) / len(largest)", "largest"),
    ("04", Q4, "> LIMIT", "> 2 * LIMIT", "beyond"),
    ("04", Q4, "        return 0\n", "        return None\n", "return an int"),
    ("04", Q4, "workers * np.rint", "(workers + 1) * np.rint", "fits too|given away"),
    ("04", Q4, "if not np.isfinite(values).all():", "if np.isnan(values).any():", "inf"),
    ("04", Q4, "astype(np.int64)", "astype(np.int8)", "quantize of"),
    ("04", Q4, "    most = max(largest)\n", "    most = max(largest[:8])\n", "largest of all"),
    # 05
    ("05", P5, "others & ~meta.bit_", "others & meta.bit_", "other cell|other one"),
    ("05", P5, "bitmaps.write(other, others & ~meta.bit_);", "bitmaps.write(other, others & ~meta.full);", "other cell|other one"),
    ("05", P5, "other = slot ^ SLOTS;", "other = slot + SLOTS;", "other cell|other one"),
    ("05", P5, "                    done.write(slot, 1);\n", "", "write 1 to done|RESULT is gone"),
    ("05", P5, "is_done == 1", "is_done == 0", "RESULT is gone|before the chunk was complete"),
    ("05", P5, "sums1.read(hdr.sum.lane1, slot);", "sums1.read(hdr.sum.lane0, slot);", "lane0|lane1"),
    ("05", P5, "                    sums2.read(hdr.sum.lane2, slot);\n", "", "sums2"),
    ("05", P5, "std.egress_spec = std.ingress_port;", "std.egress_spec = 1;", "expected ports|ingress_port"),
    ("05", W5, "now - at >= self.timeout", "now - at > self.timeout", "should send it again"),
    ("05", W5, "            self.sent.pop(chunk, None)\n", "            pass\n", "arrived|only chunk 2 is missing"),
    ("05", W5, "oldest + self.slots", "oldest + self.slots - 1", "first tick sent"),
    ("05", W5, "        self.next += len(fresh)\n", "", "again in tick 1|storm"),
    ("05", W5, "oldest + self.slots", "self.next + 1", "first tick sent|expected chunks"),
    # 06
    ("06", C, "FIRST_RID + bit))", "FIRST_RID))", "RuntimeError|replication"),
    ("06", C, "lowest=int(bit == 0)", "lowest=0", "lowest is 1 for no child"),
    ("06", C, '"hdr.ipv4.src": to["ip"], **key}\n        made.append(entry("replica"', '"hdr.ipv4.src": network["switches"][switch]["ip"], **key}\n        made.append(entry("replica"', "no entry child"),
    ("06", C, "(1 << len(children)) - 1", "1 << len(children)", "full"),
    ("06", C, 'key = {"hdr.inc.job": network["job"]', 'key = {"hdr.inc.job": 1', "job"),
    ("06", C, 'UDP = 9400', 'UDP = 9401', "udp"),
    ("06", C, '"parent_port": port}', '"parent_port": 1}', "parent_port"),
    ("06", C, "    for worker in network[\"workers\"]:", "    for worker in network[\"hosts\"]:", "no worker of the job|gives"),
    ("06", C, "ELECTION + 1", "ELECTION", "(?i)election id|another controller"),
    ("06", C, "return [*made, entry(\"job\", key, \"inner\", **params)]", "return made", "no entry of table job"),
    ("06", C, 'far.get(other) == far[switch] - 1', 'other in far', "nearest to the root"),
    # 07
    ("07", C, 'name in network["hosts"]}', 'name in network["hosts"] and port > 1}', "edge|not be sent on|taken in"),
    ("07", C, "    return start(network, new, p4rt)\n", "    start(network, new, p4rt)\n", "is no epoch"),
    ("07", C, "    return start(network, new, p4rt)\n", "    return start(network, old, p4rt)\n", "worker|child|root|part"),
    ("07", C, '"base": fresh("slots", 0, job["slots"])', '"base": fresh("slots", 0, 1)', "overlap"),
    ("07", C, '"slots": job["slots"]', '"slots": 16', "slots of job"),
    ("07", C, '"base": fresh("slots", 0, job["slots"])', '"base": fresh("slots", 4090, job["slots"])', "4096 slots"),
    ("07", C, '"epoch": fresh(("epoch", job["job"]), FIRST_EPOCH)', '"epoch": 60', "epoch 60 after its change"),
    ("07", C, "entries[::-1]", "entries[:1]", "old epoch|late packets|still"),
    # 08
    ("08", F8, "return 24 + 62 + 4 * lanes", "return 24 + 62 + 8 * lanes", "frame_bytes"),
    ("08", F8, "workers - 1", "workers", "2\\(n-1\\)"),
    ("08", F8, "2 * (", "(", "half|round trip|2\\(n-1\\)"),
    ("08", F8, "return workers * chunks", "return 2 * workers * chunks", "both directions|twice"),
    ("08", F8, "math.ceil(round", "math.floor(round", "rounded up|fit into a round trip|chunks"),
    # 09
    ("09", H9, "/ self.network.workers", "/ (self.network.workers - 1)", "mean"),
    ("09", H9, "        self.begin()\n        return means", "        return means", "finish leave something|step"),
    ("09", H9, "127 // network.workers", "127", "headroom"),
    ("09", H9, ".max() / self.levels or 1.0", ".min() / self.levels or 1.0", "largest|scale"),
    ("09", H9, "owed = gradient + self.left.get(number, 0)", "owed = gradient", "error feedback|rounding took away"),
    ("09", H9, "(owed - small * scale)", "(small * scale - owed)", "rounding took away"),
    ("09", H9, "BUCKET = 25_000", "BUCKET = 250_000", "idle|Smaller|smaller"),
    ("09", H9, "BUCKET = 25_000", "BUCKET = 300", "Larger buckets"),
    # 10
    ("10", C, "    dead.clear()\n", "", "dead|not opened|opened|no entry"),
    ("10", C, "    written.clear()\n", "", "RuntimeError|written|not open"),
    ("10", C, "if name not in dead)\n        try:", "if name in spines)\n        try:", "dead|RuntimeError"),
    ("10", C, "    clear(p4rt)\n    return build", "    return build", "old epoch|late packets|still"),
    ("10", C, "fresh(\"generation\", 1)", "7", "generation|not cleared"),
    ("10", C, "            look(network, p4rt)\n            clear(p4rt)\n", "            clear(p4rt)\n", "dead|RuntimeError|half|waiting"),
    ("10", C, '"root": root, "slots"', '"root": spine_of(network), "slots"', "NameError"),
    ("10", C, "FIRST_EPOCH)", "0)", "is no epoch"),
    ("10", C, "    if not dead & set(written):\n        return None\n", "    if dead & set(written):\n        return None\n", "nothing has died|waiting"),
    # Planted when none of the texts had been read: 87 of these 111 were named then.
    # 11
    ("11", P11, "hdr.ipv4.ttl < 2", "hdr.ipv4.ttl < 1", "ttl"),
    ("11", P11, "hdr.ipv4.ttl < 2", "hdr.ipv4.ttl <= 2", "ttl"),
    ("11", P11, "        hdr.ethernet.src = OWN_MAC;\n        hdr.ethernet.dst = mac;", "        hdr.ethernet.dst = OWN_MAC;\n        hdr.ethernet.src = mac;", "OWN_MAC|source|ethernet"),
    ("11", P11, "hdr.udp.dst == RESULTS", "hdr.udp.src == RESULTS", "port that counts is the destination"),
    ("11", P11, "if (hdr.udp.isValid() && hdr.udp.dst == RESULTS) {", "if (hdr.udp.isValid()) {", "tos|9400|all other"),
    ("11", P11, "            17: parse_udp;", "            6: parse_udp;", "protocol|17"),
    ("11", P11, "        packet.emit(hdr.udp);\n", "", "emit|udp"),
    ("11", P11, "hdr.ipv4.ihl != 5", "hdr.ipv4.ihl < 5", "ihl|options"),
    ("11", P11, "            || std.checksum_error == 1 ||", "            ||", "checksum"),
    ("11", P11, "        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;\n", "", "ttl"),
    ("11", P11, "hdr.ipv4.dst: lpm;", "hdr.ipv4.dst: exact;", "lpm|prefix"),
    # 12
    ("12", P12, " || hdr.ethernet.src[40:40] == 1", "", "group"),
    ("12", P12, "bool new = !known.apply().hit || meta.port != std.ingress_port;", "known.apply(); bool new = true;", "digest"),
    ("12", P12, "!known.apply().hit || meta.port != std.ingress_port", "!known.apply().hit", "moved|port"),
    ("12", P12, "if (hdr.hello.isValid()) {\n                mark_to_drop", "if (hdr.hello.isValid() && new) {\n                mark_to_drop", "HELLO"),
    ("12", P12, "std.ingress_port, meta.worker }", "std.ingress_port, hdr.hello.worker }", "number|worker"),
    ("12", P12, "        key = { hdr.ethernet.src: exact; }", "        key = { hdr.ethernet.dst: exact; }", "source|src"),
    ("12", P12, "        if (std.egress_port == std.ingress_port) {\n            mark_to_drop(std);\n        }\n", "", "came (from|by)|ingress"),
    ("12", P12, "hdr.hello.worker != meta.worker", "meta.worker == 0", "number|worker"),
    ("12", P12, "std.parser_error != error.NoError || ", "", "ends inside|cut short|parser_error"),
    ("12", P12, "!known.apply().hit || meta.port", "!known.apply().hit && meta.port", "moved|port"),
    # 13
    ("13", P13, "before > GAP", "before >= GAP", "GAP|longer"),
    ("13", P13, "                    flowlets.write(flow, number);\n                }\n                seen.write(flow, std.ingress_global_timestamp);", "                    flowlets.write(flow, number);\n                    seen.write(flow, std.ingress_global_timestamp);\n                }", "seen|[Ee]very frame|within"),
    ("13", P13, "16w0, { hdr.job.job },", "16w0, { hdr.job.job, hdr.job.src },", "sender|src"),
    ("13", P13, "hdr.job.kind != DATA", "hdr.job.kind == PUSH", "RESULT"),
    ("13", P13, "                    flowlets.write(flow, number);\n", "", "flowlets|write"),
    ("13", P13, "{ hdr.job.src, hdr.job.dst, number }", "{ hdr.job.src, hdr.job.dst }", "number|flowlet"),
    ("13", P13, "{ hdr.job.src, hdr.job.dst }, FLOWS", "{ hdr.job.src }, FLOWS", "dst|flow|cell"),
    ("13", P13, "hash(meta.way, HashAlgorithm.crc16, 16w0, { hdr.job.job }", "hash(meta.way, HashAlgorithm.crc32, 16w0, { hdr.job.job }", "crc16"),
    ("13", P13, " || hdr.job.kind > RESULT", "", "kind"),
    ("13", P13, "hash(meta.way, HashAlgorithm.crc16, 16w0,\n                     { hdr.job.src, hdr.job.dst, number }, meta.count)", "hash(meta.way, HashAlgorithm.crc16, 16w0,\n                     { hdr.job.src, hdr.job.dst, number }, (bit<16>)FLOWS)", "number of uplinks|count|modulo"),
    # 14
    ("14", P14, "count1 = count1 |+| hdr.load.amount", "count1 = count1 + hdr.load.amount", "wrap|\\|\\+\\||largest"),
    ("14", P14, "        if (count2 < found) { found = count2; }\n", "", "smallest|row2|count2|three"),
    ("14", P14, "if (count1 < found) { found = count1; }", "if (count1 > found) { found = count1; }", "smallest"),
    ("14", P14, "hdr.load.estimate >= LIMIT", "hdr.load.estimate > LIMIT", "LIMIT|or more"),
    ("14", P14, "if (before < LIMIT) {", "if (true) {", "only|again|digest"),
    ("14", P14, "            if (hdr.load.kind == PUSH) {\n                count0", "            if (true) {\n                count0", "ASK"),
    ("14", P14, "std.egress_spec = std.ingress_port;", "std.egress_spec = UP;", "came|ASK"),
    ("14", P14, "            hdr.load.heavy = 0;\n", "", "heavy"),
    ("14", P14, "            least(hdr.load.estimate);\n", "            hdr.load.estimate = before;\n", "included|this PUSH"),
    ("14", P14, "hash(cell1, HashAlgorithm.crc32, 32w0, { hdr.load.job }, CELLS1)", "hash(cell1, HashAlgorithm.crc32, 32w0, { hdr.load.job }, CELLS0)", "a size and a modulus of its own"),
    ("14", P14, "row1.write(cell1, count1)", "row1.write(cell0, count1)", "row1|cell"),
    # 15
    ("15", P15, "now - hdr.hops[0].time_us", "now - hdr.hops[3].time_us", "newest|oldest"),
    ("15", P15, "hdr.tel.worst_by = ME;", "hdr.tel.worst_by = hdr.hops[0].switch_;", "worst_by|ME"),
    ("15", P15, "gap > hdr.tel.worst_us", "gap < hdr.tel.worst_us", "longer|worst"),
    ("15", P15, "if (hdr.tel.count < ROOM) {", "if (true) {", "count|4"),
    ("15", P15, "        hdr.ethernet.type = hdr.tel.type;\n        hdr.tel.setInvalid", "        hdr.tel.setInvalid", "EtherType"),
    ("15", P15, "        hdr.hops[3].setInvalid();\n", "", "all records"),
    ("15", P15, "            if (!hdr.tel.isValid()) {\n                source.apply();\n            }", "            source.apply();", "already"),
    ("15", P15, "        hdr.tel.count = 0;\n", "        hdr.tel.count = 1;\n", "count|no record"),
    ("15", P15, "if (hdr.tel.count > 0) {", "if (true) {", "without|no record|crossed|source"),
    ("15", P15, "                hdr.hops[0].time_us = now;\n", "", "time"),
    ("15", P15, "                hdr.hops[0].setValid();\n", "", "your record"),
    ("15", P15, "std.parser_error != error.NoError || !way", "!way", "ends inside|cut|parser_error|more than 4"),
    # 16
    ("16", P16, "std.ingress_port == WATCH && hdr", "hdr", "WATCH|watcher|other port"),
    ("16", P16, " && hdr.sum.port < (bit<16>)PORTS", "", "no cell|cell"),
    ("16", P16, "if (news != is_down) {", "if (true) {", "tell it only"),
    ("16", P16, "                    down.write((bit<32>)hdr.sum.port, news);\n", "", "down|cell"),
    ("16", P16, "                    && hdr.sum.detour == 0) {", "                    ) {", "circle|marked|detour"),
    ("16", P16, "                    hdr.sum.detour = 1;\n", "", "detour|mark"),
    ("16", P16, "is_down == 0 && meta.first != std.ingress_port", "is_down == 0", "came"),
    ("16", P16, "down.read(is_down, (bit<32>)meta.second)", "down.read(is_down, (bit<32>)meta.first)", "second"),
    ("16", P16, "meta.first != std.ingress_port)", "meta.first != std.ingress_port && hdr.sum.detour == 0)", "first|still"),
    ("16", P16, "digest<news_t>(1, { hdr.sum.port, news });", "digest<news_t>(1, { hdr.sum.port, is_down });", "1 or 0|down"),
    # 01
    ("01", L1, "parent_port: 3", "parent_port: 2", "parent_port|port"),
    ("01", R1, "bit_: 0b01, lowest: 1", "bit_: 0b01, lowest: 0", "lowest"),
    ("01", L1, "slots: 16", "slots: 12", "power of two|slots"),
    ("01", L2, "{hdr.ipv4.dst: 10.128.0.2}", "{hdr.ipv4.dst: 10.128.0.1}", "own address|local_address"),
    ("01", R1, "{port: 2, rid: 2}", "{port: 2, rid: 1}", "rid|copy"),
    # 02
    ("02", P2, "            hdr.hop.hops = hdr.hop.hops + 1;\n            if (hdr.value.isValid()) {\n", "            if (hdr.value.isValid()) {\n                hdr.hop.hops = hdr.hop.hops + 1;\n", "hops"),
    ("02", P2, "std.egress_spec = 8;            //", "mark_to_drop(std); //", "port 8|not ours|other EtherType"),
    ("02", P2, "hdr.hop.flags[0:0]", "hdr.hop.flags[3:3]", "bit 0|flags"),
    ("02", P2, "                hdr.value.setValid();\n", "", "[vV]alid"),
    ("02", P2, "if (std.parser_error != error.NoError) {", "if (std.parser_error != error.NoError && hdr.hop.isValid()) {", "cut|ends"),
    # 03
    ("03", P3, "if (bitmap == meta.full) {", "if ((bitmap & meta.full) != 0) {", "in\\b.*only|only|before|full"),
    ("03", P3, "sums0.write(slot, hdr.sum.lane0);", "sums0.write(slot, sum);", "sums0|lane0"),
    ("03", P3, "bitmaps.write(slot, 0);", "bitmaps.write(slot, meta.full);", "write 0|clear|0"),
    ("03", P3, "slot = hdr.sum.seq & (SLOTS - 1);", "slot = hdr.sum.seq & 7;", "slot|SLOTS"),
    # 04
    ("04", Q4, ".astype(np.int64)", "", "integers"),
    ("04", Q4, "return np.ldexp(total.astype(np.float64), -exponent)", "return np.ldexp(total.astype(np.float64), exponent)", "2\\^"),
    ("04", Q4, "raise ValueError(\"NaN or infinity\")", "raise TypeError(\"NaN or infinity\")", "ValueError"),
    # 05
    ("05", W5, ">= self.timeout]", ">= self.timeout][:1]", "again|each"),
    ("05", P5, "                    done.write(slot, 0);\n", "", "done"),
    ("05", P5, "                    std.egress_spec = std.ingress_port;", "                    std.mcast_grp = 1;", "port|only|asked|ask"),
    ("05", W5, "        for chunk in lost + fresh:", "        for chunk in fresh:", "again|time-out|ticks ago"),
    # 06
    ("06", C, '"hdr.inc.epoch": network["epoch"]', '"hdr.inc.epoch": 0', "epoch"),
    ("06", C, "to = port_of(network, switch, parent), address(network, parent)", "to = port_of(network, switch, parent), address(network, switch)", "parent"),
    ("06", C, "bit_=1 << bit", "bit_=bit + 1", "bit"),
    ("06", C, "copies.append((port, FIRST_RID + bit))", "copies.append((bit + 1, FIRST_RID + bit))", "port|copy|copies"),
    ("06", C, "if worker in neighbours(network, name).values()", "if worker", "leaf|parent|child|no port|StopIteration"),
    # 07
    ("07", C, "p4rt.delete(switch, entries[::-1])", "p4rt.delete(switch, entries)", "first|job"),
    ("07", C, 'fresh("generation", 1)', "1", "generation"),
    ("07", C, 'fresh("stats")', "0", "stats|row|counter"),
    ("07", C, 'ip=network["hosts"][name]["ip"]', 'ip=known["ip"]', "edge|address"),
    ("07", C, "rid = fresh((switch, \"rid\"), FIRST_RID)", "rid = FIRST_RID + bit", "rid|replica"),
    # 08
    ("08", F8, "def tree_seconds(workers, elements, lanes, rate):\n    return chunks", "def tree_seconds(workers, elements, lanes, rate):\n    return 2 * chunks", "twice|both directions"),
    ("08", F8, "2 * (workers - 1) / workers * chunks", "2 * (workers - 1) * chunks", "2\\(n-1\\)|1/n|n-th"),
    ("08", F8, "return 2 * (frame_seconds(lanes, rate) + delay)", "return frame_seconds(lanes, rate) + delay", "round trip|there and back|both|two"),
    ("08", F8, "return 24 + 62", "return 62", "24|gap|preamble"),
    ("08", F8, "max(frame_seconds(lanes, rate), round_trip(lanes, rate, delay) / window)", "round_trip(lanes, rate, delay) / window", "max|link|no faster|rate"),
    # 09
    ("09", H9, "reversed(range(len(sizes)))", "range(len(sizes))", "last tensor"),
    ("09", H9, "127 // network.workers", "255 // network.workers", "headroom|beyond 127"),
    ("09", H9, "(owed - small * scale)", "(owed - small)", "rounding took away|scale|unit"),
    ("09", H9, "np.abs(owed).max()", "owed.max()", "largest|abs|sign"),
    ("09", H9, "means[index] = part", "means[len(sizes) - 1 - index if False else bucket[0]] = part", "index|None|list"),
    ("09", H9, "(total * scale / self.network.workers)", "(total * scale)", "[Dd]ivide"),
    # 10
    ("10", C, 'fresh("epoch", FIRST_EPOCH)', "FIRST_EPOCH", "epoch"),
    ("10", C, "        if switch not in dead:\n            try:\n                p4rt.delete", "        if switch in dead:\n            try:\n                p4rt.delete", "late packets"),
    ("10", C, 'if name not in lost]', 'if name]', "lost|worker|leaf|cut off"),
    ("10", C, "    clear(p4rt)\n    return build(network, p4rt)", "    clear(p4rt)\n    build(network, p4rt)", "return"),
    ("10", C, 'fresh("generation", 1)', "1", "generation"),
]  # fmt: skip
FIRST = [
    # Planted from READMEs and solutions; 88 of these 113 were named then.
    # 01
    ("01", L1, "full: 0b11", "full: 0b10", "full"),
    ("01", R1, "{ingress_port: 1, hdr.ipv4.src: 10.128.0.1,", "{ingress_port: 3, hdr.ipv4.src: 10.128.0.1,", "peer|ingress_port|port 1"),
    ("01", R1, "{hdr.ipv4.dst: 10.128.0.3}", "{hdr.ipv4.dst: 10.128.0.1}", "local_address|own address"),
    ("01", R1, "      - {port: 2, rid: 2}\n", "", "multicast|group|[Cc]op(y|ies)"),
    # 02
    ("02", P2, "select(hdr.hop.flags[0:0])", "select(hdr.hop.kind[0:0])", "flags|bit 0"),
    ("02", P2, "hdr.value.total + (bit<32>)hdr.hop.worker", "hdr.value.total | (bit<32>)hdr.hop.worker", "grows by worker|[Aa]dd|worker"),
    ("02", P2, "hdr.hop.hops + 1", "hdr.hop.hops |+| 1", "wrap"),
    ("02", P2, "hdr.hop.flags = hdr.hop.flags | 1;", "hdr.hop.flags = 1;", "flags"),
    ("02", P2, "            std.egress_spec = 7;\n", "", "egress_spec|port 7|expected 7"),
    ("02", P2, "                hdr.value.setValid();\n                hdr.value.total = hdr.hop.seq;\n", "                hdr.value.total = hdr.hop.seq;\n                hdr.value.setValid();\n", "[vV]alid"),
    # 03
    ("03", P3, "                    std.mcast_grp = 1;\n", "", "mcast_grp|group 1"),
    ("03", P3, " || hdr.sum.kind != PUSH", "", "PUSH|kind"),
    ("03", P3, "                    sums3.read(sum, slot);\n                    hdr.sum.lane3 = hdr.sum.lane3 + sum;\n", "", "lane3|sums3"),
    ("03", P3, "if ((bitmap & meta.bit_) != 0) {", "if ((bitmap & meta.full) != 0) {", "repetition|sender's bit|meta.bit_"),
    ("03", P3, "if (bitmap != 0) {", "if (bitmap != meta.bit_) {", "left|replaces|bitmap is not 0|was empty"),
    ("03", P3, "hdr.sum.seq & (SLOTS - 1)", "hdr.sum.seq % (SLOTS - 1)", "slot|SLOTS"),
    # 04
    ("04", Q4, "np.ldexp(total.astype(np.float64), -exponent)", "np.floor(np.ldexp(total.astype(np.float64), -exponent))", "dequantize"),
    ("04", Q4, "if most == 0:", "if most < 1e-12:", "fits|given away|largest e|larger"),
    ("04", Q4, "> LIMIT", ">= LIMIT", "fits|given away|largest e|larger"),
    ("04", Q4, "workers * np.rint(np.ldexp(most, guess))", "np.rint(workers * np.ldexp(most, guess))", "beyond|rint|round|fits"),
    ("04", Q4, "[1] + 2\n", "[1] - 2\n", "fits|given away|largest e|larger"),
    ("04", Q4, "workers * np.rint(", "np.rint(", "workers|beyond|sum|headroom"),
    # 05
    ("05", P5, "                bitmaps.write(other, others & ~meta.bit_);\n", "", "other cell|other one"),
    ("05", P5, "bitmaps.read(others, other);", "bitmaps.read(others, slot);", "other cell|other one"),
    ("05", P5, "                    hdr.sum.kind = RESULT;\n                    std.egress_spec", "                    std.egress_spec", "kind"),
    ("05", W5, "        oldest = next((chunk for chunk in range(self.chunks) if chunk not in self.there), self.chunks)\n", "        oldest = len(self.there)\n", "oldest|window|missing"),
    ("05", W5, "            self.sent[chunk] = now\n", "            self.sent.setdefault(chunk, now)\n", "every tick|again|time-out|timeout|ticks"),
    ("05", W5, "        for chunk in results:\n", "        for chunk in results[:1]:\n", "RESULT|results|arrived"),
    # 06
    ("06", C, "FIRST_RID = 15", "FIRST_RID = 1", "replication|rid|ALREADY"),
    ("06", C, "    for switch in set(parents.values()):\n", "    for switch in network[\"switches\"]:\n", "no worker|no part|no child"),
    ("06", C, "return {\"mac\": known[\"mac\"]", "return {\"mac\": known[\"ip\"]", "mac"),
    ("06", C, "p4rt.open(switch, ELECTION + 1)", "p4rt.open(network[\"root\"], ELECTION + 1)", "open"),
    # 07
    ("07", C, "return {job[\"job\"]: start(network, job, p4rt) for job in network[\"jobs\"]}", "return {job[\"job\"]: start(network, job, p4rt) for job in network[\"jobs\"][:1]}", "epoch of each job|each job|both jobs"),
    ("07", C, "if name in network[\"hosts\"]}", "if any(name in job[\"workers\"] for job in network[\"jobs\"])}", "edge"),
    ("07", C, "    return start(network, new, p4rt)\n", "    return start(network, {**new, \"workers\": old[\"workers\"]}, p4rt)\n", "left|no part|child|worker"),
    ("07", C, "    return start(network, new, p4rt)\n", "    start(network, new, p4rt)\n    return old[\"epoch\"]\n", "epoch"),
    ("07", C, "    for switch, entries in given[\"written\", old[\"job\"]].items():\n", "    for switch, entries in list(given[\"written\", old[\"job\"]].items())[1:]:\n", "old epoch|still|Delete|ALREADY"),
    ("07", C, "\"slots\": job[\"slots\"], \"full\"", "\"slots\": 8, \"full\"", "slots"),
    ("07", C, "made.append(entry(\"peer\", {\"std.ingress_port\": port, \"hdr.ipv4.src\": to[\"ip\"], **key}, \"parent\"))", "made.append(entry(\"peer\", {\"std.ingress_port\": port, \"hdr.ipv4.src\": network[\"switches\"][switch][\"ip\"], **key}, \"parent\"))", "entry parent|parent"),
    ("07", C, "fresh(\"stats\")", "fresh(\"stats\", 511)", "stats"),
    # 08
    ("08", F8, "24 + 62 + 4 * lanes", "14 + 62 + 4 * lanes", "24|frame_bytes"),
    ("08", F8, "frame_bytes(lanes) * 8 / rate", "frame_bytes(lanes) / 8 / rate", "bits"),
    ("08", F8, "2 * (workers - 1) / workers * chunks", "(workers - 1) * chunks", "2\\(n-1\\)"),
    ("08", F8, "return workers * chunks", "return 2 * (workers - 1) / workers * chunks", "busiest"),
    ("08", F8, "return math.ceil(", "return 1 + math.ceil(", "rounded up|smallest|least"),
    ("08", F8, "2 * (frame_seconds(lanes, rate) + delay)", "2 * frame_seconds(lanes, rate) + delay", "there and back|two links|both|round trip"),
    ("08", F8, "round_trip(lanes, rate, delay) / window)", "round_trip(lanes, rate, delay))", "in each round trip|window"),
    ("08", F8, "    return chunks(elements, lanes) * each", "    return elements * each", "chunk|lanes"),
    # 09
    ("09", H9, "/ self.network.workers\n", "/ 2\n", "mean|workers|[Dd]ivide"),
    ("09", H9, "[self.gradients[one] for one in bucket]", "[self.gradients[one] for one in self.gradients if one in bucket]", "order"),
    ("09", H9, "every[self.network.rank] =", "every[0] =", "rank|scale|unit|largest"),
    ("09", H9, "self.left[number] =", "self.left[0] =", "bucket|error feedback|rounding"),
    ("09", H9, "127 // network.workers", "128 // network.workers", "headroom|127|runs over"),
    ("09", H9, "BUCKET = 25_000", "BUCKET = 10**9", "idle|[Ss]maller"),
    ("09", H9, "(total * scale / self.network.workers).astype(np.float32)", "(total.astype(np.float64) * float(scale) / self.network.workers)", "float32"),
    # 10
    ("10", C, "root = next(name for name in spines if name not in dead)", "root = spines[0]", "dead|root"),
    ("10", C, "if not dead & set(written):", "if not dead:", "no part|not needed|changed the tree"),
    ("10", C, "return {\"epoch\": numbers[\"epoch\"], \"root\": root}", "return numbers[\"epoch\"], root", "return"),
    ("10", C, "lost = {name for switch in dead for name in neighbours(network, switch).values()}", "lost = set()", "leaf|cut off|worker|dead"),
    ("10", C, "        except RuntimeError:\n            look(network, p4rt)", "        except ValueError:\n            look(network, p4rt)", "RuntimeError|Catch|UNAVAILABLE"),
    ("10", C, "    for switch in network[\"switches\"]:\n        p4rt.open", "    for switch in list(network[\"switches\"])[:-1]:\n        p4rt.open", "open"),
    ("10", C, "\"slots\": network[\"slots\"]", "\"slots\": 4", "slots"),
    # 11
    ("11", P11, "hdr.ipv4.id, hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl,", "hdr.ipv4.id, hdr.ipv4.flags, hdr.ipv4.ttl,", "checksum"),
    ("11", P11, "hdr.ipv4.tos = EXPEDITED;", "hdr.ipv4.tos = hdr.ipv4.tos | EXPEDITED;", "tos|EXPEDITED"),
    ("11", P11, "hdr.udp.dst == RESULTS)", "(hdr.udp.dst == RESULTS || hdr.udp.src == RESULTS))", "destination|9400|tos"),
    ("11", P11, "default_action = drop();", "default_action = via(48w2, 9w1);", "[Ww]ithout a route|no route|route"),
    ("11", P11, " || hdr.ipv4.ttl < 2", "", "ttl"),
    ("11", P11, "std.egress_spec = port;", "std.egress_spec = 1;", "port"),
    # 12
    ("12", P12, "{ hdr.ethernet.src, std.ingress_port, meta.worker }", "{ hdr.ethernet.dst, std.ingress_port, meta.worker }", "source|src|mac"),
    ("12", P12, "HELLO_TYPE: parse_hello;", "0x0800: parse_hello;", "HELLO|EtherType"),
    ("12", P12, "std.mcast_grp = EVERYWHERE;", "std.egress_spec = 1;", "EVERYWHERE|all ports|mcast"),
    ("12", P12, "                meta.worker = hdr.hello.worker;\n", "", "number|worker|HELLO"),
    ("12", P12, "if (new) {", "if (new || hdr.hello.isValid()) {", "no digest|nothing|digest"),
    ("12", P12, "hdr.ethernet.src[40:40] == 1", "hdr.ethernet.src[0:0] == 1", "bit 40|group|\\[40:40\\]"),
    ("12", P12, "if (std.egress_port == std.ingress_port) {", "if (std.egress_port != std.ingress_port) {", "came|ingress|copy|copies"),
    ("12", P12, "key = { hdr.ethernet.dst: exact; }", "key = { hdr.ethernet.src: exact; }", "destination|dst|forward"),
    # 13
    ("13", P13, "hdr.job.kind != DATA", "hdr.job.kind == RESULT", "PUSH"),
    ("13", P13, "before > GAP", "before > 2 * GAP", "GAP|pause|longer"),
    ("13", P13, "number = number + 1;", "number = 1;", "flowlets|adds one|number"),
    ("13", P13, "                seen.write(flow, std.ingress_global_timestamp);\n", "", "seen|time"),
    ("13", P13, "16w0, { hdr.job.job },", "16w1, { hdr.job.job },", "base|modulo|0 to"),
    ("13", P13, "{ hdr.job.src, hdr.job.dst, number }", "{ number }", "src|dst|flow\\b"),
    ("13", P13, "{ hdr.job.src, hdr.job.dst }, FLOWS)", "{ hdr.job.src, hdr.job.dst }, 32w32)", "FLOWS|cell"),
    ("13", P13, "{ hdr.job.src, hdr.job.dst, number }", "{ hdr.job.job, number }", "src|dst"),
    ("13", P13, "hash(flow, HashAlgorithm.crc16", "hash(flow, HashAlgorithm.crc32", "crc16"),
    # 14
    ("14", P14, "                row2.write(cell2, count2);\n", "", "row2|three|count2|cell"),
    ("14", P14, "if (hdr.load.estimate >= LIMIT) {", "if (hdr.load.kind == PUSH && hdr.load.estimate >= LIMIT) {", "ASK|each frame"),
    ("14", P14, "if (before < LIMIT) {", "if (before <= LIMIT) {", "only|again|LIMIT"),
    ("14", P14, "{ hdr.load.job, hdr.load.estimate }", "{ hdr.load.job, hdr.load.amount }", "estimate"),
    ("14", P14, "std.egress_spec = UP;", "std.egress_spec = std.ingress_port;", "UP|port"),
    ("14", P14, "found = count0;", "found = count0 + count1 + count2;", "smallest"),
    ("14", P14, "{ hdr.load.job }, CELLS0", "{ hdr.load.job, hdr.load.amount }, CELLS0", "\\{ job \\}|cell"),
    ("14", P14, "count0 = count0 |+| hdr.load.amount", "count0 = count0 |+| 1", "amount|bytes"),
    ("14", P14, "hash(cell0, HashAlgorithm.crc32", "hash(cell0, HashAlgorithm.crc16", "crc32"),
    # 15
    ("15", P15, "        hdr.tel.type = hdr.ethernet.type;\n", "", "EtherType|type"),
    ("15", P15, "        hdr.ethernet.type = TEL_TYPE;\n", "", "TEL_TYPE|EtherType"),
    ("15", P15, "                hdr.hops.push_front(1);\n", "", "push_front|in front|room|newest"),
    ("15", P15, "{ hdr.tel.worst_by, hdr.tel.worst_us }", "{ ME, hdr.tel.worst_us }", "worst_by"),
    ("15", P15, "        hdr.tel.setInvalid();\n", "", "\\btel\\b|invalid"),
    ("15", P15, "if (gap > hdr.tel.worst_us) {", "if (gap >= hdr.tel.worst_us) {", "longer"),
    ("15", P15, "                hdr.hops[0].switch_ = ME;\n", "", "\\bME\\b|switch"),
    ("15", P15, "hdr.hops[0].time_us = now;", "hdr.hops[0].time_us = gap;", "time"),
    ("15", P15, "if (hdr.tel.count < ROOM) {", "if (hdr.tel.count <= ROOM) {", "count|exceeds 4"),
    # 16
    ("16", P16, "if (hdr.sum.kind == DOWN) {", "if (hdr.sum.kind == UP) {", "DOWN|UP"),
    ("16", P16, "(hdr.sum.kind == DOWN || hdr.sum.kind == UP)", "(hdr.sum.kind == DOWN)", "UP"),
    ("16", P16, "std.ingress_port == WATCH", "std.ingress_port != WATCH", "WATCH|watcher"),
    ("16", P16, "down.read(is_down, (bit<32>)meta.first);", "down.read(is_down, (bit<32>)std.ingress_port);", "first"),
    ("16", P16, " && meta.second != std.ingress_port\n                   ", "", "came|ingress"),
    ("16", P16, "                std.egress_spec = meta.first;\n", "                hdr.sum.detour = 1;\n                std.egress_spec = meta.first;\n", "detour|mark"),
    ("16", P16, "                std.egress_spec = meta.first;\n", "                hdr.sum.detour = 0;\n                std.egress_spec = meta.first;\n", "detour|mark"),
    ("16", P16, "hdr.sum.port < (bit<16>)PORTS", "hdr.sum.port <= (bit<16>)PORTS", "no cell|cell"),
    ("16", P16, "is_down == 0 && meta.second", "meta.second", "second|is open|down"),
    ("16", P16, "hdr.sum.isValid() && way.apply().hit", "way.apply().hit", "EtherType|cut|isValid|other"),
]  # fmt: skip


SECOND = [
    # Planted since graders search for the place.
    # 01
    ("01", L1, "parent_port: 3", "parent_port: 1", "parent_port|port"),
    ("01", R1, "full: 0b11", "full: 0b01", "full"),
    ("01", R1, "{mac: 02:00:0a:80:00:02,", "{mac: 02:00:0a:80:00:01,", "replica|mac|copy for leaf2"),
    # 02
    ("02", P2, "hdr.value.total = hdr.hop.seq;", "hdr.value.total = hdr.hop.seq + (bit<32>)hdr.hop.worker;", "worker"),
    ("02", P2, "if (hdr.value.isValid()) {", "if (hdr.hop.flags[0:0] == 0) {", "[vV]alid|flags"),
    ("02", P2, "        packet.extract(hdr.value);\n", "", "extract|value"),
    # 03
    ("03", P3, "if (bitmap == meta.full) {", "if (bitmap == 3) {", "full"),
    ("03", P3, "sums2.write(slot, hdr.sum.lane2);", "sums2.write(slot, sum);", "sums2|lane2"),
    ("03", P3, "bitmaps.read(bitmap, slot);", "bitmaps.read(bitmap, 0);", "slot|cell"),
    # 04
    ("04", Q4, "max(largest)", "largest[-1]", "largest of all|all workers"),
    ("04", Q4, "-exponent)", "-exponent + 1)", "2\\^|dequantize"),
    ("04", Q4, "guess -= 1", "guess -= 2", "fits|given away"),
    # 05
    ("05", P5, "                sums3.write(slot, hdr.sum.lane3);\n", "", "sums3"),
    ("05", W5, ">= self.timeout]", ">= 2 * self.timeout]", "again|time-out|timeout|ticks ago"),
    ("05", W5, "min(self.chunks, oldest", "min(self.chunks - 1, oldest", "chunk"),
    # 06
    ("06", C, "{\"std.ingress_port\": port, \"hdr.ipv4.src\": to[\"ip\"], **key}, \"parent\"", "{\"std.ingress_port\": 1, \"hdr.ipv4.src\": to[\"ip\"], **key}, \"parent\"", "entry parent|parent"),
    ("06", C, "\"hdr.inc.epoch\": network[\"epoch\"]", "\"hdr.inc.epoch\": network[\"epoch\"] + 1", "epoch"),
    ("06", C, "{name: network[name] for", "{name: network[name] if name != \"base\" else 0 for", "base"),
    # 07
    ("07", C, "fresh(\"generation\", 1)", "200 - fresh(\"generation\", 1)", "generation"),
    ("07", C, "entries[::-1]", "entries[-1:]", "peer|old epoch|Delete all"),
    ("07", C, "match = {\"std.ingress_port\": port,", "match = {\"std.ingress_port\": port % 2 + 1,", "entry child|port"),
    # 08
    ("08", F8, "* 8 / rate", "* 8 / rate / 2", "half|both|twice|each direction"),
    ("08", F8, "2 * (workers - 1) / workers * chunks", "2 * workers * chunks", "2\\(n-1\\)"),
    ("08", F8, "each = max(", "each = min(", "link|rate|round trip"),
    # 09
    ("09", H9, "np.zeros(self.network.workers, np.float32)", "np.ones(self.network.workers, np.float32)", "zeros|scale|unit|largest"),
    ("09", H9, ".clip(-self.levels, self.levels)", ".clip(0, self.levels)", "negative|sign|clip|below"),
    ("09", H9, "self.codec.start(len(self.started), whole)", "self.codec.start(len(self.started), whole / self.codec.network.workers)", "twice|[Dd]ivide|mean"),
    # 10
    ("10", C, "fresh(\"generation\", 1)", "200 - fresh(\"generation\", 1)", "generation|not cleared"),
    # 11
    ("11", P11, "select(hdr.ipv4.protocol)", "select(hdr.ipv4.tos)", "protocol"),
    ("11", P11, "hdr.udp.dst == RESULTS", "hdr.udp.dst != RESULTS", "9400|RESULT|tos"),
    ("11", P11, "verify_checksum(hdr.ipv4.isValid(),", "verify_checksum(false,", "checksum"),
    # 12
    ("12", P12, "meta.port != std.ingress_port", "meta.port == std.ingress_port", "moved|port"),
    ("12", P12, "            if (hdr.hello.isValid()) {\n                mark_to_drop", "            if (hdr.hello.isValid() && !new) {\n                mark_to_drop", "HELLO"),
    # 13
    ("13", P13, "                seen.read(before, flow);\n", "", "seen"),
    ("13", P13, "hdr.job.kind > RESULT", "hdr.job.kind >= RESULT", "RESULT"),
    ("13", P13, "flowlets.write(flow, number);", "flowlets.write(0, number);", "cell|flowlets|flow\\b"),
    ("13", P13, "before > GAP) {", "before > 0) {", "GAP|pause|burst"),
    # 14
    ("14", P14, "            least(before);\n", "", "before|LIMIT|again"),
    ("14", P14, "if (count1 < found)", "if (count1 < count2)", "smallest"),
    ("14", P14, "row0.read(count0, cell0);", "row0.read(count0, cell1);", "row0|cell"),
    # 15
    ("15", P15, "hdr.tel.worst_us = gap;", "hdr.tel.worst_us = now;", "worst_us"),
    ("15", P15, "        hdr.tel.worst_us = 0;\n", "", "worst"),
    ("15", P15, "gap = now - hdr.hops[0].time_us;", "gap = hdr.hops[0].time_us - now;", "worst|time"),
    ("15", P15, "        hdr.hops[1].setInvalid();\n", "", "records|hop"),
    # 16
    ("16", P16, "down.write((bit<32>)hdr.sum.port, news);", "down.write((bit<32>)hdr.sum.port, 1);", "UP|write 0"),
    ("16", P16, "std.egress_spec = meta.second;", "std.egress_spec = meta.first;", "second"),
    ("16", P16, "{ hdr.sum.port, news }", "{ hdr.sum.port, 1w1 }", "1 or 0|hears|controller"),
]  # fmt: skip


THIRD = [
    # Planted before the search for a place knew changes of two places.
    # 01
    ("01", L1, "hdr.ipv4.src: 10.0.0.2, job: 1, epoch: 0}", "hdr.ipv4.src: 10.0.0.2, job: 2, epoch: 0}", "job 2|job: 2|h2|10.0.0.2"),
    ("01", L2, "parent_mac: 02:00:0a:80:00:03", "parent_mac: 02:00:0a:80:00:02", "parent_mac"),
    ("01", L2, "      - {port: 1, rid: 1}\n      - {port: 2, rid: 2}", "      - {port: 2, rid: 1}\n      - {port: 1, rid: 2}", "rid|replica|cop(y|ies)"),
    ("01", L1, "mac: 02:00:0a:00:00:02, ip: 10.0.0.2, udp: 9400}", "mac: 02:00:0a:00:00:02, ip: 10.0.0.2, udp: 9401}", "udp|9401"),
    ("01", R1, "{ingress_port: 2, hdr.ipv4.src: 10.128.0.2,", "{ingress_port: 2, hdr.ipv4.src: 10.128.0.1,", "leaf2|10.128.0.2|10.128.0.1"),
    # 02
    ("02", P2, "    bit<4> flags;\n    bit<4> kind;\n", "    bit<4> kind;\n    bit<4> flags;\n", "flags|kind|order"),
    ("02", P2, "            hdr.hop.hops = hdr.hop.hops + 1;\n            if (hdr.value.isValid()) {\n                hdr.value.total = hdr.value.total + (bit<32>)hdr.hop.worker;\n            } else {\n", "            if (hdr.value.isValid()) {\n                hdr.value.total = hdr.value.total + (bit<32>)hdr.hop.worker;\n            } else {\n                hdr.hop.hops = hdr.hop.hops + 1;\n", "hops"),
    ("02", P2, "            1: parse_value;\n            default: accept;", "            1: parse_value;\n            default: reject;", "accept|reject|default"),
    ("02", P2, "} else if (!hdr.hop.isValid()) {", "} else if (!hdr.value.isValid()) {", "hop.isValid|hdr.hop|isValid"),
    ("02", P2, "hdr.value.total + (bit<32>)hdr.hop.worker", "hdr.value.total |+| (bit<32>)hdr.hop.worker", "wraps? around|2\\^32"),
    # 03
    ("03", P3, "                    std.mcast_grp = 1;\n                } else {\n                    bitmaps.write(slot, bitmap);\n                    mark_to_drop(std);\n                }\n", "                    std.mcast_grp = 1;\n                } else {\n                    bitmaps.write(slot, bitmap);\n                }\n                mark_to_drop(std);\n", "mark_to_drop"),
    ("03", P3, "                bitmap = bitmap | meta.bit_;\n", "", "bitmap \\| meta.bit_|sender's bit|its bit"),
    ("03", P3, "if (bitmap == meta.full) {", "if (meta.bit_ == meta.full) {", "meta.full|bitmap"),
    ("03", P3, "if ((bitmap & meta.bit_) != 0) {", "if ((bitmap & meta.bit_) == 1) {", "meta.bit_|sender's bit|repetition|its bit"),
    ("03", P3, "hdr.sum.seq & (SLOTS - 1)", "hdr.sum.seq & (SLOTS + 1)", "slot|SLOTS"),
    ("03", P3, "hdr.sum.lane0 = hdr.sum.lane0 + sum;", "hdr.sum.lane0 = hdr.sum.lane0 + (bit<32>)(bit<16>)sum;", "16 bits|sum is cut|sum so far"),
    ("03", P3, "                    bitmaps.write(slot, bitmap);\n                    mark", "                    bitmaps.write(slot, 0);\n                    mark", "write the bitmap|bitmap .*back|bit .*not in|bitmaps"),
    # 04
    ("04", Q4, "np.rint(np.ldexp(values, exponent))", "(np.ldexp(values, exponent) + 0.5)", "rint|nearest|negative"),
    ("04", Q4, "max(largest)", "sorted(largest)[len(largest) // 2]", "largest of all|all workers"),
    ("04", Q4, "    if most == 0:\n        return 0\n", "", "zero"),
    ("04", Q4, "LIMIT = 32767", "LIMIT = 32768", "beyond|32767|off by one"),
    ("04", Q4, "LIMIT = 32767", "LIMIT = 65535", "beyond|32767"),
    ("04", Q4, "    while workers", "    if workers", "beyond|overflow"),
    ("04", Q4, "    return guess\n", "    return max(guess, 0)\n", "negative"),
    # 05
    ("05", P5, "others & ~meta.bit_", "others ^ meta.bit_", "other cell|other one"),
    ("05", P5, "                bitmaps.write(slot, bitmap);\n", "                bitmaps.write(other, bitmap);\n", "its own cell|bitmap of cell|other"),
    ("05", P5, "done.read(is_done, slot);", "done.read(is_done, other);", "done"),
    ("05", P5, "                    sums0.read(hdr.sum.lane0, slot);\n                    sums1.read(hdr.sum.lane1, slot);\n                    sums2.read(hdr.sum.lane2, slot);\n                    sums3.read(hdr.sum.lane3, slot);\n", "                    sums0.read(sum, slot);\n                    hdr.sum.lane0 = hdr.sum.lane0 + sum;\n                    sums1.read(sum, slot);\n                    hdr.sum.lane1 = hdr.sum.lane1 + sum;\n                    sums2.read(sum, slot);\n                    hdr.sum.lane2 = hdr.sum.lane2 + sum;\n                    sums3.read(sum, slot);\n                    hdr.sum.lane3 = hdr.sum.lane3 + sum;\n", "added|is in sums0|own number|twice"),
    ("05", W5, "        self.there.update(results)\n", "", "window|RESULTs 0 to 2 are there"),
    ("05", W5, "if now - at >= self.timeout]", "if now >= self.timeout]", "storm|[Ww]ait"),
    ("05", W5, "        oldest = next", "        if lost:\n            return lost\n        oldest = next", "storm|[Ww]ait"),
    ("05", W5, "        self.sent = {}  # chunk -> tick in which it was sent last\n", "        self.sent = dict.fromkeys(range(chunks), 0)\n", "not sent|sent again|storm|[Ww]ait"),
    # 06
    ("06", C, "found[other] = found[switch] + 1", "found[other] = 1", "nearest|distance|parent|above|hop"),
    ("06", C, "lowest=int(bit == 0)", "lowest=int(bit == 1)", "lowest"),
    ("06", C, "copies.append((port, FIRST_RID + bit))", "copies.append((FIRST_RID + bit, port))", "rid|port|cop(y|ies)"),
    ("06", C, "return [*made, entry(\"job\", key, \"root\", **params)]", "return [*made, entry(\"job\", key, \"inner\", **params)]", "root|inner"),
    ("06", C, "        p4rt.open(switch, ELECTION + 1)\n        p4rt.insert(switch, entries_of(network, switch, parents))\n", "        p4rt.insert(switch, entries_of(network, switch, parents))\n        p4rt.open(switch, ELECTION + 1)\n", "open"),
    ("06", C, "    made.append(group(FIRST_GROUP, copies))\n", "        made.append(group(FIRST_GROUP, copies))\n", "group"),
    ("06", C, "        while parent != network[\"root\"] and parent not in parents:", "        if parent != network[\"root\"] and parent not in parents:", "parent|way to the root|above|no entry"),
    # 07
    ("07", C, "\"hdr.inc.epoch\": numbers[\"epoch\"]", "\"hdr.inc.epoch\": FIRST_EPOCH", "epoch"),
    ("07", C, "\"base\": fresh(\"slots\", 0, job[\"slots\"])", "\"base\": job[\"job\"]", "overlap|slots|base"),
    ("07", C, "        hosts = {port: name for port, name in known[\"ports\"].items() if name in network[\"hosts\"]}\n        for port, name in hosts.items():\n            p4rt.insert(switch, [entry(\"edge\", {\"std.ingress_port\": port}, \"host\", ip=network[\"hosts\"][name][\"ip\"])])\n", "        for port, name in known[\"ports\"].items():\n            ip = address(network, name)[\"ip\"]\n            p4rt.insert(switch, [entry(\"edge\", {\"std.ingress_port\": port}, \"host\", ip=ip)])\n", "edge"),
    ("07", C, "        for port, name in hosts.items():", "        for port, name in list(hosts.items())[:1]:", "edge"),
    ("07", C, "p4rt.delete(switch, entries[::-1])", "p4rt.delete(switch, [one for one in entries if one.get(\"table\") == \"job\"])", "old epoch|[Dd]elete all|peer"),
    ("07", C, "    for switch, entries in given[\"written\", old[\"job\"]].items():\n        p4rt.delete(switch, entries[::-1])\n    return start(network, new, p4rt)\n", "    epoch = start(network, new, p4rt)\n    for switch, entries in given[\"written\", old[\"job\"]].items():\n        p4rt.delete(switch, entries[::-1])\n    return epoch\n", "old epoch|new epoch|delete"),
    # 08
    ("08", F8, "24 + 62 + 4 * lanes", "24 + 62 + lanes", "4 (each|bytes)|lanes|frame_bytes"),
    ("08", F8, "math.ceil(elements / lanes)", "elements // lanes", "rounded up|not full|last chunk|chunks"),
    ("08", F8, "return 2 * (workers - 1) / workers * chunks", "return 2 * chunks", "2\\(n-1\\)"),
    ("08", F8, "def tree_seconds(workers, elements, lanes, rate):\n    return chunks", "def tree_seconds(workers, elements, lanes, rate):\n    return math.log2(workers) * chunks", "each chunk once|workers|once"),
    ("08", F8, "return workers * chunks(elements, lanes)", "return workers / 2 * chunks(elements, lanes)", "busiest|server's link"),
    ("08", F8, "return 2 * (frame_seconds(lanes, rate) + delay)", "return 2 * delay", "frame time|whole frame|frame"),
    ("08", F8, "math.ceil(round_trip(lanes, rate, delay) / frame_seconds(lanes, rate))", "math.ceil(round_trip(lanes, rate, delay) * rate / frame_bytes(lanes))", "bits|8 times"),
    ("08", F8, "round_trip(lanes, rate, delay) / window)", "round_trip(lanes, rate, delay) * window)", "in each round trip|window"),
    # 09
    ("09", H9, "(owed - small * scale)", "(gradient - small * scale)", "error feedback|rounding took away"),
    ("09", H9, ".max() / self.levels or 1.0", ".mean() / self.levels or 1.0", "largest"),
    ("09", H9, "np.rint(owed / scale)", "np.floor(owed / scale)", "nearest|rint|round"),
    ("09", H9, "        while len(self.started) < len(self.buckets):\n            bucket = self.buckets[len(self.started)]\n            if not all(one in self.gradients for one in bucket):\n                break\n", "        if len(self.started) < len(self.buckets):\n            bucket = self.buckets[len(self.started)]\n            if not all(one in self.gradients for one in bucket):\n                return\n", "bucket|zip|started"),
    ("09", H9, "ends[:-1]", "ends", "split|zip|ValueError"),
    ("09", H9, "        self.begin()\n\n    def begin(self):\n        self.gradients = {}\n", "        self.gradients = {}\n        self.begin()\n\n    def begin(self):\n", "step before|last step|earlier step|previous step|leave something|stale"),
    ("09", H9, "return (total * scale / self", "return (total / scale / self", "scale|unit"),
    # 10
    ("10", C, "fresh(\"generation\", 1)", "1 - fresh(\"generation\")", "generation"),
    ("10", C, "root = next(name for name in spines if name not in dead)", "root = next(name for name in spines if name in dead or not dead)", "dead|root"),
    ("10", C, "        written[switch] = entries\n", "", "written|dead|another tree|old epoch"),
    ("10", C, "    return {\"epoch\": numbers[\"epoch\"], \"root\": root}", "    return {\"epoch\": FIRST_EPOCH, \"root\": root}", "epoch"),
    ("10", C, "p4rt.delete(switch, entries[::-1])", "p4rt.delete(switch, entries[-1:])", "old epoch|[Dd]elete all|peer"),
    # 11
    ("11", P11, "hdr.ipv4.ttl = hdr.ipv4.ttl - 1;", "hdr.ipv4.ttl = hdr.ipv4.ttl - 2;", "ttl"),
    ("11", P11, "control Compute(inout headers_t hdr, inout metadata_t meta) {\n    apply {\n        update_checksum(hdr.ipv4.isValid(),\n            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length,\n              hdr.ipv4.id, hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl,\n              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },\n            hdr.ipv4.checksum, HashAlgorithm.csum16);\n    }\n}\n", "control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }\n", "update.*checksum|Compute"),
    ("11", P11, "hdr.udp.dst == RESULTS", "hdr.udp.dst >= RESULTS", "9400|RESULTS"),
    ("11", P11, "            0x0800: parse_ipv4;", "            0x0806: parse_ipv4;", "0x0800|EtherType"),
    ("11", P11, "hdr.ipv4.tos = EXPEDITED;", "hdr.ipv4.tos = EXPEDITED >> 2;", "tos"),
    ("11", P11, "std.checksum_error == 1", "std.checksum_error == 0", "checksum"),
    # 12
    ("12", P12, "            if (hdr.hello.isValid() && hdr.hello.worker != meta.worker) {\n                new = true;\n                meta.worker = hdr.hello.worker;\n            }\n", "            if (hdr.hello.isValid()) {\n                meta.worker = hdr.hello.worker;\n            }\n            if (hdr.hello.isValid() && hdr.hello.worker != meta.worker) {\n                new = true;\n            }\n", "number|HELLO"),
    ("12", P12, "std.ingress_port, meta.worker }", "meta.port, meta.worker }", "port"),
    ("12", P12, "} else if (!forward.apply().hit) {", "} else if (forward.apply().hit) {", "forward|EVERYWHERE"),
    ("12", P12, "{ hdr.ethernet.src, std.ingress_port, meta.worker });\n", "{ hdr.ethernet.src, std.ingress_port, meta.worker });\n                return;\n", "return|forward"),
    ("12", P12, "hdr.ethernet.src[40:40] == 1", "hdr.ethernet.dst[40:40] == 1", "source|src|sender"),
    ("12", P12, "HELLO_TYPE: parse_hello;\n            default: accept;", "HELLO_TYPE: parse_hello;\n            default: reject;", "accept|reject|EtherType"),
    # 13
    ("13", P13, "std.ingress_global_timestamp - before > GAP", "before - std.ingress_global_timestamp > GAP", "GAP|pause|before"),
    ("13", P13, "{ hdr.job.src, hdr.job.dst }, FLOWS", "{ hdr.job.dst, hdr.job.src }, FLOWS", "order|src, dst|cell"),
    ("13", P13, "16w0, { hdr.job.job },", "16w0, { hdr.job.src },", "job|sender"),
    ("13", P13, "if (hdr.job.kind != DATA) {", "if (hdr.job.kind == DATA) {", "DATA|kind|PUSH"),
    ("13", P13, "                flowlets.read(number, flow);\n", "", "flowlets"),
    ("13", P13, "before > GAP) {", "before > 1000 * GAP) {", "GAP|pause"),
    ("13", P13, "{ hdr.job.src, hdr.job.dst, number }, meta.count)", "{ hdr.job.src, hdr.job.dst, number }, meta.count - 1)", "number of uplinks|count|modulo"),
    # 14
    ("14", P14, "row2.read(count2, cell2);", "row2.read(count1, cell2);", "row2|count1|count2"),
    ("14", P14, "        found = count0;\n", "        found = 0;\n", "smallest|count0"),
    ("14", P14, "row0.write(cell0, count0);", "row0.write(cell0, hdr.load.amount);", "row0|add|count0"),
    ("14", P14, "if (count2 < found) { found = count2; }", "if (count2 < found) { found = count1; }", "smallest|count2"),
    ("14", P14, "if (before < LIMIT) {", "if (hdr.load.estimate == LIMIT) {", "across LIMIT|LIMIT"),
    ("14", P14, "            std.egress_spec = UP;\n            if (hdr.load.kind == ASK) {\n                std.egress_spec = std.ingress_port;\n            }\n", "            if (hdr.load.kind == ASK) {\n                std.egress_spec = std.ingress_port;\n            }\n            std.egress_spec = UP;\n", "ASK.*(came|port)|egress_spec"),
    # 15
    ("15", P15, "now = (bit<32>)std.ingress_global_timestamp;", "now = (bit<32>)(std.ingress_global_timestamp >> 10);", "time"),
    ("15", P15, "                        hdr.tel.worst_us = gap;\n                        hdr.tel.worst_by = ME;\n                    }\n", "                        hdr.tel.worst_us = gap;\n                    }\n                    hdr.tel.worst_by = ME;\n", "worst_by"),
    ("15", P15, "                if (hdr.tel.count < ROOM) {\n                    hdr.tel.count = hdr.tel.count + 1;\n                }\n", "", "count"),
    ("15", P15, "                hdr.hops.push_front(1);\n                hdr.hops[0].setValid();\n                hdr.hops[0].switch_ = ME;\n                hdr.hops[0].time_us = now;\n", "                hdr.hops[0].setValid();\n                hdr.hops[0].switch_ = ME;\n                hdr.hops[0].time_us = now;\n                hdr.hops.push_front(1);\n", "push_front|room"),
    ("15", P15, "            if (!hdr.tel.isValid()) {\n                source", "            if (hdr.tel.isValid()) {\n                source", "source|isValid|without telemetry"),
    ("15", P15, "{ hdr.tel.worst_by, hdr.tel.worst_us }", "{ hdr.tel.worst_by, gap }", "worst_us|gap"),
    ("15", P15, "            0: accept;\n            default: parse_hop;\n        }\n    }\n    state parse_hop {", "            1: accept;\n            default: parse_hop;\n        }\n    }\n    state parse_hop {", "count|record|accept"),
    # 16
    ("16", P16, "is_down == 0 && meta.first != std.ingress_port", "is_down == 0 || meta.first != std.ingress_port", "first|open"),
    ("16", P16, "                news = 0;\n                if (hdr.sum.kind == DOWN) {\n                    news = 1;\n                }\n", "                news = 1;\n                if (hdr.sum.kind == DOWN) {\n                    news = 0;\n                }\n", "DOWN writes 1|UP writes 0|DOWN|1 or 0"),
    ("16", P16, "down.write((bit<32>)hdr.sum.port, news);", "down.write((bit<32>)std.ingress_port, news);", "port|cell"),
    ("16", P16, "                down.read(is_down, (bit<32>)meta.second);\n", "", "second"),
    ("16", P16, "hdr.sum.detour == 0) {", "hdr.sum.detour == 1) {", "detour|mark"),
    ("16", P16, "                    digest<news_t>(1, { hdr.sum.port, news });\n", "                    if (news == 1) {\n                        digest<news_t>(1, { hdr.sum.port, news });\n                    }\n", "UP|digest|told|controller"),
    ("16", P16, "        if (hdr.sum.isValid() && (hdr.sum.kind == DOWN || hdr.sum.kind == UP)) {\n            if (std.ingress_port == WATCH && hdr.sum.port < (bit<16>)PORTS) {\n", "        if (hdr.sum.isValid() && std.ingress_port == WATCH\n            && (hdr.sum.kind == DOWN || hdr.sum.kind == UP)) {\n            if (hdr.sum.port < (bit<16>)PORTS) {\n", "WATCH|watcher|other port|DOWN"),
]  # fmt: skip


FOURTH = [
    # Planted when the search had been mended, before these were graded.
    # 01
    ("01", L1, "      parent_ip: 10.128.0.3", "      parent_ip: 10.128.0.1", "parent_ip"),
    ("01", L2, "{ingress_port: 3, hdr.ipv4.src: 10.128.0.3,", "{ingress_port: 3, hdr.ipv4.src: 10.128.0.1,", "parent|10.128.0.3|root"),
    ("01", R1, "    action: root\n", "    action: inner\n", "root|inner|parent_"),
    # 02
    ("02", P2, "    bit<8> hops;\n", "    bit<16> hops;\n", "hops"),
    ("02", P2, "                hdr.hop.flags = hdr.hop.flags | 1;\n", "                hdr.hop.flags = hdr.hop.flags | 1;\n                hdr.hop.hops = hdr.hop.hops + 1;\n", "hops"),
    ("02", P2, "hdr.value.total = hdr.hop.seq;", "hdr.value.total = hdr.hop.seq + hdr.value.total;", "seq|not valid"),
    ("02", P2, "        packet.extract(hdr.hop);\n        transition select(hdr.hop.flags[0:0])", "        packet.extract(hdr.hop);\n        transition select(hdr.hop.flags[1:1])", "bit 0|flags"),
    # 03
    ("03", P3, "hdr.sum.lane3 = hdr.sum.lane3 + sum;", "hdr.sum.lane3 = hdr.sum.lane2 + sum;", "lane2|lane3"),
    ("03", P3, "                bitmap = bitmap | meta.bit_;\n", "                bitmap = bitmap & meta.bit_;\n", "bitmap \\| meta.bit_|sender's bit"),
    ("03", P3, "                    bitmaps.write(slot, 0);\n                    hdr.sum.kind = RESULT;\n", "                    hdr.sum.kind = RESULT;\n", "write 0|free|clear"),
    ("03", P3, "sums1.write(slot, hdr.sum.lane1);", "sums1.write(slot, hdr.sum.lane1 + sum);", "sums1|lane1"),
    # 04
    ("04", Q4, "-exponent)", "-exponent - 1)", "2\\^|dequantize"),
    ("04", Q4, "    guess = math.frexp(LIMIT / workers)[1]", "    guess = math.frexp(LIMIT * workers)[1]", "fits|beyond|given away"),
    ("04", Q4, "while workers * np.rint(np.ldexp(most, guess)) > LIMIT:", "while workers * np.rint(np.ldexp(most, guess)) > LIMIT // 2:", "fits too|given away"),
    ("04", Q4, "np.rint(np.ldexp(values, exponent))", "np.rint(values) * 2.0**exponent", "nearest|rint|round"),
    # 05
    ("05", P5, "sums2.write(slot, hdr.sum.lane2);", "sums2.write(other, hdr.sum.lane2);", "sums2"),
    ("05", P5, "if ((bitmap & meta.bit_) == 0) {", "if (bitmap == 0) {", "meta.bit_|sender's bit|repetition|bit"),
    ("05", P5, "done.write(slot, 1);", "done.write(other, 1);", "done"),
    ("05", W5, "            self.sent[chunk] = now\n", "            self.sent[chunk] = 0\n", "tick|[Ww]ait|storm"),
    ("05", W5, "if chunk not in self.there)", "if chunk in self.there)", "first tick|oldest|window"),
    # 06
    ("06", C, "\"parent_port\": port}", "\"parent_port\": port - 1}", "parent_port"),
    ("06", C, "        if far.get(other) == far[switch] - 1:", "        if far.get(other) == far[switch] + 1:", "nearest|parent|above"),
    ("06", C, "\"hdr.ipv4.src\": to[\"ip\"], **key}\n        made.append(entry(\"replica\"", "\"hdr.ipv4.src\": to[\"ip\"], \"hdr.inc.job\": network[\"job\"], \"hdr.inc.epoch\": 0}\n        made.append(entry(\"replica\"", "epoch"),
    # 07
    ("07", C, "given[kind] = max(given.get(kind, first), first) + count\n    return given[kind] - count", "given[kind] = max(given.get(kind, first), first)\n    return given[kind]", "overlap|ALREADY|fresh|stats|group|rid|exists"),
    ("07", C, "    given[\"written\", job[\"job\"]] = written\n", "", "KeyError|written"),
    ("07", C, "lowest=int(bit == 0)", "lowest=1", "lowest"),
    # 08
    ("08", F8, "math.ceil(round_trip(lanes, rate, delay) / frame_seconds(lanes, rate))", "math.ceil(frame_seconds(lanes, rate) / round_trip(lanes, rate, delay))", "round trip|window|least"),
    # 09
    ("09", H9, "self.network.wait(started) / self.network.workers", "self.network.wait(started) / self.network.workers**2", "twice|[Dd]ivide"),
    ("09", H9, "self.gradients[index] = gradient", "self.gradients[index] = gradient / 2", "half|mean"),
    ("09", H9, ".clip(-self.levels, self.levels)", ".clip(-1, 1)", "levels|headroom|clip|largest"),
    # 10
    ("10", C, "        if switch not in dead:\n            try:\n                p4rt.slot", "        if switch not in written:\n            try:\n                p4rt.slot", "dead|ask"),
    ("10", C, "        entries = written.pop(switch)\n", "        entries = written[switch]\n", "written|old epoch|NOT_FOUND|delete"),
    # 11
    ("11", P11, "hdr.ipv4.ihl != 5", "hdr.ipv4.ihl != 4", "ihl"),
    ("11", P11, "                hdr.ipv4.tos = EXPEDITED;\n            }\n        }\n", "                hdr.ipv4.ttl = EXPEDITED;\n            }\n        }\n", "tos|ttl"),
    # 12
    ("12", P12, "            if (new) {\n", "            if (!new) {\n", "digest|new|controller"),
    ("12", P12, "        if (std.egress_port == std.ingress_port) {\n", "        if (std.egress_port == 1) {\n", "ingress|came|copy"),
    ("12", P12, "                new = true;\n                meta.worker", "                new = false;\n                meta.worker", "HELLO|number|digest"),
    # 13
    ("13", P13, "number = number + 1;", "number = number + 2;", "flowlets|adds one|number"),
    ("13", P13, "            spread.apply();\n            if (hdr.job.kind != DATA) {\n", "            if (hdr.job.kind != DATA) {\n                spread.apply();\n", "spread|count|uplinks"),
    ("13", P13, "seen.write(flow, std.ingress_global_timestamp);", "seen.write(0, std.ingress_global_timestamp);", "seen|cell|flow\\b"),
    # 14
    ("14", P14, "                count0 = count0 |+| hdr.load.amount;\n", "                count0 = count0 |+| hdr.load.amount;\n                count0 = count0 |+| hdr.load.amount;\n", "twice|count0|amount"),
    ("14", P14, "        if (count1 < found) { found = count1; }\n", "        if (count1 < count0) { found = count2; }\n", "smallest"),
    ("14", P14, "            hdr.load.heavy = 0;\n            if (hdr.load.estimate >= LIMIT) {\n                hdr.load.heavy = 1;\n", "            if (hdr.load.estimate >= LIMIT) {\n                hdr.load.heavy = 1;\n                hdr.load.heavy = 0;\n", "heavy"),
    # 15
    ("15", P15, "        hdr.tel.count = 0;\n", "        hdr.tel.count = ROOM;\n", "count|no record"),
    ("15", P15, "if (gap > hdr.tel.worst_us) {", "if (now > hdr.tel.worst_us) {", "longer|gap|worst"),
    ("15", P15, "        meta.left = hdr.tel.count;\n", "        meta.left = ROOM;\n", "count|records"),
    # 16
    ("16", P16, "            if (is_down == 0 && meta.first != std.ingress_port) {", "            if (is_down == 1 && meta.first != std.ingress_port) {", "first|open|down"),
    ("16", P16, "                if (hdr.sum.kind == DOWN) {\n                    news = 1;\n                }\n", "                if (hdr.sum.kind == DOWN || hdr.sum.kind == UP) {\n                    news = 1;\n                }\n", "UP"),
    ("16", P16, "std.ingress_port == WATCH && hdr.sum.port", "std.egress_port == WATCH && hdr.sum.port", "WATCH|watcher"),
]  # fmt: skip


def stored(name):
    """A batch in a file beside this one."""
    every = yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8"))
    return [(one["lab"], one["file"], one["old"], one["new"], one.get("words", "(?!)")) for one in every]


BATCHES = {
    "developed": MISTAKES, "first": FIRST, "second": SECOND, "third": THIRD, "fourth": FOURTH,
    **{name: stored(name) for name in ("fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth")},
}  # fmt: skip


def outcome(command: str) -> tuple[int, str]:
    """Exit code and output of a finding's command."""
    words = shlex.split(command)
    if words[0] == "p4reduce":
        done = CliRunner().invoke(app, words[1:])
        return done.exit_code, done.output
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ran = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, env=path, check=False)
    return ran.returncode, ran.stdout + ran.stderr.strip().rpartition("\n")[2]


def replays(number: str, folder: Path, finding: Finding) -> bool:
    """Whether a finding's command runs, and shows something else as soon as the solution is in the student's place.

    Commands of labs 06, 07, 08 and 10, and of questions, do not read the student's file: there it has to run.
    """
    if not finding.look:
        return False
    shown = outcome(finding.look)
    if "/skeleton" not in finding.look or finding.where.endswith(A1):
        return shown[0] == 0 and bool(shown[1].strip())
    shutil.copytree(folder / "skeleton", folder / "mistake")
    try:
        shutil.copytree(SOLUTIONS / number, folder / "skeleton", dirs_exist_ok=True)
        return outcome(finding.look) != shown
    finally:
        shutil.rmtree(folder / "skeleton")
        (folder / "mistake").rename(folder / "skeleton")


def first_text(number: str, file: str, old: str, new: str) -> tuple[str, list[str]]:
    """What the grader says first, and the failing rows whose commands do not show it (``a pass``: there is none)."""
    with tempfile.TemporaryDirectory() as held:
        folder = spoilt(number, Mutant(new, file, old, new, ()), Path(held) / "mine")
        report = grade(folder)
        write_looks(folder, report)
        found = [check.finding for check in report.checks if check.finding is not None]
        looks = {finding.look: finding for finding in found}.values()
        unseen = [f"{one.said[:80]} / {one.look[:300]}" for one in looks if not replays(number, folder, one)]
        return (found[0].said, unseen) if found else ("", ["a pass"])


def in_its_line(number: str, file: str, old: str, new: str, said: str) -> bool:
    """Whether a text names the line of a mistake as the one whose change mends it all."""
    places = (
        r"A change in line (\d+) alone, at '.*',",
        r"One more statement after line (\d+)(?:, such as line \d+,)?",
        r"Lines? (\d+)(?: to \d+)? in another place",
    )
    found = re.search(rf"(?:{'|'.join(places)}) mends? all ", said)
    text = (SOLUTIONS / number / file).read_text()
    begin = text[: text.index(old)].count("\n") + 1
    last = begin + max(old.count("\n"), new.count("\n"))
    return found is not None and begin - bool(found[2]) <= int(found[1] or found[2] or found[3]) <= last


def interval(named: int, tried: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share, by Wilson's score (1927)."""
    z = 1.959964
    middle = (named + z * z / 2) / (tried + z * z)
    half = z / (tried + z * z) * math.sqrt(named * (tried - named) / tried + z * z / 4)
    return middle - half, middle + half


def main() -> int:
    """Prints the first texts that do not name the cause; exit code 1 where fewer than nine of ten do."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--labs", default="")
    parser.add_argument("--batch", choices=BATCHES, default="developed")
    parser.add_argument("--all", action="store_true", help="print all first messages")
    options = parser.parse_args()
    chosen = [one for one in BATCHES[options.batch] if not options.labs or one[0] in options.labs.split(",")]
    random.Random(1).shuffle(chosen)  # what is printed before an end that comes early is a sample
    named = placed = looked = 0
    seconds = []
    for number, file, old, new, words in chosen:
        begin = sum(os.times()[:4])
        said, unseen = first_text(number, file, old, new)
        seconds.append(sum(os.times()[:4]) - begin)  # of looks, too
        by_words = re.search(words, said) is not None
        by_place = not by_words and in_its_line(number, file, old, new, said)
        named += by_words
        placed += by_place
        looked += not unseen
        if not (by_words or by_place) or unseen or options.all:
            state = "named" if by_words else "in its line" if by_place else "NOT NAMED"
            print(f"{state}: lab {number}, {' '.join(new.split())[:70]!r}: {said or 'a pass'}", flush=True)
            print(*(f"    NOT SHOWN: {one}\n" for one in unseen), sep="", end="")
    low, high = interval(named + placed, len(chosen))
    print(f"{named + placed} of {len(chosen)} first texts name the cause, {placed} of them by its line alone; ", end="")
    print(f"95 %: {low:.1%} to {high:.1%}. The commands to look show {looked} of them")
    print(f"CPU seconds: {statistics.median(seconds):.1f} (median), {max(seconds):.1f} (most)")
    return 0 if 10 * (named + placed) >= 9 * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
