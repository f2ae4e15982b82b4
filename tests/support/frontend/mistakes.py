"""Mistakes that students make: single changes of a valid program, and the expected message."""

from dataclasses import dataclass
from typing import Final

PROGRAM: Final = """\
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t { bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst; }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata_t { bit<8> hops; bit<1> seen; }

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}
control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(16) last;
    action drop() { mark_to_drop(std); }
    action forward(bit<9> port, bit<48> mac) {
        std.egress_spec = port;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table route {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; NoAction; }
        size = 1024;
        default_action = drop();
    }
    apply {
        bit<32> previous;
        if (hdr.ipv4.isValid()) {
            last.read(previous, 0);
            last.write(0, previous + 1);
            if (meta.seen == 0) { meta.hops = hdr.ipv4.ttl; }
            route.apply();
        }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control MyCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}
V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
"""


@dataclass(frozen=True)
class Mistake:
    """Replacement of ``before`` by ``after``.

    The message contains ``says``, the hint contains ``mends``, and the reported line is the one that contains ``at``.
    """

    name: str
    before: str
    after: str
    says: str
    mends: str = ""
    at: str = ""
    severity: str = "error"


MISTAKES: Final = (
    Mistake(
        "semicolon missing",
        "port;\n        hdr",
        "port\n        hdr",
        "';' is missing",
        "Write ';' behind 'port'",
        "spec = port",
    ),
    Mistake(
        "brace missing", "    apply {\n        bit<32>", "    apply \n        bit<32>", "outside of an apply block"
    ),
    Mistake(
        "field misspelt", "std.egress_spec = port", "std.egres_spec = port", "no field 'egres_spec'", "'egress_spec'"
    ),
    Mistake("header misspelt", "hdr.ethernet.dst = mac", "hdr.ethernt.dst = mac", "no field 'ethernt'", "'ethernet'"),
    Mistake("parameter misspelt", "hdr.ethernet.dst = mac", "hrd.ethernet.dst = mac", "'hrd' is not declared", "'hdr'"),
    Mistake("state misspelt", "0x0800: parse_ipv4", "0x0800: parse_ip4", "no state 'parse_ip4'", "'parse_ipv4'"),
    Mistake("action misspelt", "{ forward; drop;", "{ foward; drop;", "no action 'foward'", "'forward'"),
    Mistake(
        "type misspelt",
        "out headers_t hdr, inout metadata_t meta, inout standard",
        "out header_t hdr, inout metadata_t meta, inout standard",
        "no type 'header_t'",
        "'headers_t'",
    ),
    Mistake(
        "table without actions",
        "        actions = { forward; drop; NoAction; }\n",
        "",
        "the table 'route' does not say which actions it has",
        "actions = { NoAction; }",
        "table route",
    ),
    Mistake("match kind misspelt", "dst: lpm", "dst: prefix", "no kind of match 'prefix'"),
    Mistake(
        "widths differ",
        "meta.hops = hdr.ipv4.ttl",
        "meta.hops = hdr.ipv4.checksum",
        "is bit<8>, but this is bit<16>",
        "[7:0]",
    ),
    Mistake("operands differ", "hdr.ipv4.ttl - 1", "hdr.ipv4.ttl - hdr.ipv4.checksum", "operands of one type", "Cast"),
    Mistake(
        "bit as condition",
        "if (meta.seen == 0)",
        "if (meta.seen)",
        "a condition is bool, but this is bit<1>",
        "meta.seen == 1",
    ),
    Mistake(
        "bool to bit",
        "meta.hops = hdr.ipv4.ttl;",
        "meta.seen = hdr.ipv4.isValid();",
        "is bit<1>, but this is bool",
        "(bit<1>)",
    ),
    Mistake("'=' for '=='", "if (meta.seen == 0)", "if (meta.seen = 0)", "'=' assigns", "'=='"),
    Mistake("condition without brackets", "if (meta.seen == 0)", "if meta.seen == 0", "stands in brackets", "if (…)"),
    Mistake("apply result as bool", "route.apply();", "if (route.apply()) { }", "no bool", ".apply().hit"),
    Mistake("table called", "route.apply();", "route();", "is a table", "route.apply()"),
    Mistake(
        "table applied in an action", "mark_to_drop(std);", "mark_to_drop(std); route.apply();", "not declared", "above"
    ),
    Mistake("isValid without brackets", "if (hdr.ipv4.isValid())", "if (hdr.ipv4.isValid)", "is a method", "isValid()"),
    Mistake("arguments missing", "mark_to_drop(std)", "last.write(0)", "takes 2 arguments, not 1", "index, in value"),
    Mistake(
        "register used as an array",
        "last.write(0, previous + 1)",
        "last[0] = previous + 1",
        "is not indexed",
        "r.write(i, x)",
    ),
    Mistake("read returns", "last.read(previous, 0)", "previous = last.read(0)", "takes 2 arguments", "result"),
    Mistake(
        "in parameter written",
        "packet.emit(hdr.ethernet)",
        "hdr.ethernet.src = 0",
        "the parameter 'hdr' is 'in'",
        "inout",
    ),
    Mistake("action data written", "hdr.ethernet.dst = mac", "port = 1", "has no direction", "Copy it"),
    Mistake("header compared with a number", "meta.seen == 0", "hdr.ipv4 == 0", "compares values of one type"),
    Mistake(
        "declared twice",
        "action drop() { mark",
        "action forward() { } action drop() { mark",
        "declared twice",
        "another name",
    ),
    Mistake(
        "variable without a width", "bit<32> previous;", "int previous;", "no variables of the type int", "bit<32>"
    ),
    Mistake(
        "table in a loop",
        "route.apply();",
        "for (bit<8> i = 0; i < 4; i = i + 1) { route.apply(); }",
        "is applied in a loop",
        "apply it before or behind",
    ),
    Mistake("increment", "last.write(0, previous + 1);", "previous++;", "expected an expression"),
    Mistake("transition missing a state", "transition accept;", "transition acept;", "no state 'acept'", "'accept'"),
    Mistake(
        "default action not listed",
        "{ forward; drop; NoAction; }",
        "{ forward; NoAction; }",
        "not in the list of actions",
        "Add 'drop;'",
    ),
    Mistake(
        "default action's arguments",
        "default_action = drop()",
        "default_action = forward(1)",
        "takes 2 arguments, not 1",
        "mac",
    ),
    Mistake("key without a kind", "hdr.ipv4.dst: lpm;", "hdr.ipv4.dst;", "says not how it is matched", "exact"),
    Mistake("two lpm keys", "hdr.ipv4.dst: lpm;", "hdr.ipv4.dst: lpm; hdr.ipv4.src: lpm;", "2 lpm keys", "ternary"),
    Mistake("header of odd bits", "bit<8> protocol;", "bit<7> protocol;", "no whole bytes", "field of 1 bits"),
    Mistake(
        "parameters of a control",
        "control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std)",
        "control MyEgress(inout headers_t hdr, inout metadata_t meta)",
        "cannot be the Egress",
        "standard_metadata_t",
    ),
    Mistake("division", "hdr.ipv4.ttl - 1", "hdr.ipv4.ttl / 3", "powers of two", "power of two"),
    Mistake(
        "slice turned round",
        "meta.hops = hdr.ipv4.ttl",
        "meta.hops = hdr.ipv4.checksum[0:7]",
        "upper end comes first",
        "[7:0]",
    ),
    Mistake("include misspelt", "#include <v1model.p4>", "#include <v1mode.p4>", "cannot find v1mode.p4"),
    Mistake("number too large", "meta.seen == 0", "hdr.ipv4.ttl == 256", "256 needs 9 bits", severity="warning"),
    Mistake(
        "header that may be invalid",
        "        if (hdr.ipv4.isValid()) {\n",
        "        if (hdr.ipv4.ttl > 1) {\n",
        "'ipv4' may be invalid",
        "isValid()",
        severity="warning",
    ),
    Mistake(
        "header never emitted",
        "        packet.emit(hdr.ipv4);\n",
        "",
        "'ipv4' is valid here, but never emitted",
        "emit(hdr.ipv4)",
        severity="warning",
    ),
    Mistake(
        "table never applied",
        "            route.apply();\n",
        "",
        "'route' is never applied",
        "route.apply()",
        severity="warning",
    ),
    Mistake(
        "nothing sets the port",
        "std.egress_spec = port;",
        "",
        "every packet leaves by port 0",
        "mark_to_drop",
        severity="warning",
    ),
    Mistake(
        "register never written",
        "            last.write(0, previous + 1);\n",
        "",
        "'last' is read, but never written",
        ".write(",
        severity="warning",
    ),
)
