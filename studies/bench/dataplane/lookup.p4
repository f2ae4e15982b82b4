// One table of each kind, for the benchmark of lookups (tables.py): a packet names the table that it asks, or none.
// lookup.json and lookup.p4info.txt are p4c's output (see tests/unit/studies/bench/test_programs.py for the command).
#include <core.p4>
#include <v1model.p4>

#define ENTRIES 131072

header query_t {
    bit<8>  table_;     // 0: none, 1: exact, 2: lpm, 3: ternary
    bit<32> key;
}

struct headers_t { query_t query; }
struct metadata_t { }

parser QueryParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.query);
        transition accept;
    }
}

control None(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Lookups(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action leave(bit<9> port) { std.egress_spec = port; }
    action miss() { mark_to_drop(std); }

    table exact_ {
        key = { hdr.query.key: exact; }
        actions = { leave; @defaultonly miss; }
        default_action = miss();
        size = ENTRIES;
    }
    table lpm_ {
        key = { hdr.query.key: lpm; }
        actions = { leave; @defaultonly miss; }
        default_action = miss();
        size = ENTRIES;
    }
    table ternary_ {
        key = { hdr.query.key: ternary; }
        actions = { leave; @defaultonly miss; }
        default_action = miss();
        size = ENTRIES;
    }

    apply {
        leave(1);
        if (hdr.query.table_ == 1) { exact_.apply(); }
        else if (hdr.query.table_ == 2) { lpm_.apply(); }
        else if (hdr.query.table_ == 3) { ternary_.apply(); }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }

control QueryDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.query); } }

V1Switch(QueryParser(), None(), Lookups(), NoEgress(), None(), QueryDeparser()) main;
