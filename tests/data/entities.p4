// Every kind of table, counter and register that P4Runtime reaches, and both controller headers.
// p4c-bm2-ss --std p4-16 -o tests/data/entities.json --p4runtime-files tests/data/entities.p4info.txt tests/data/entities.p4
#include <core.p4>
#include <v1model.p4>

#define CPU_PORT 510

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9>  ingress_port;
    bit<7>  reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9>  egress_port;
    bit<3>  priority;
    bit<4>  padding;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
}

struct metadata_t {
    bit<16> tag;
    bit<1>  seen;
}

parser EntitiesParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control NoChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EntitiesIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(8, CounterType.packets_and_bytes) both_count;
    counter(8, CounterType.packets) packet_count;
    counter(4, CounterType.bytes) byte_count;
    direct_counter(CounterType.packets_and_bytes) exact_count;
    direct_counter(CounterType.packets) ternary_count;
    register<bit<12>>(16) narrow;
    register<int<8>>(4) signed;
    register<bit<128>>(4) wide;

    action drop() { mark_to_drop(std); }
    action forward(bit<9> port) { std.egress_spec = port; }
    action multicast(bit<16> group) { std.mcast_grp = group; }
    action mark(bit<16> tag, bit<48> src) {
        meta.tag = tag;
        hdr.ethernet.src = src;
    }
    action remember(bit<32> index, bit<12> value) { narrow.write(index, value); }

    table exact_table {
        key = { hdr.ethernet.dst: exact; std.ingress_port: exact; }
        actions = { forward; multicast; @tableonly mark; @defaultonly drop; }
        default_action = drop();
        counters = exact_count;
        size = 4;
    }
    table lpm_table {
        key = { hdr.ethernet.dst: lpm; }
        actions = { forward; NoAction; }
        size = 1024;
    }
    table ternary_table {
        key = { hdr.ethernet.dst: ternary; hdr.ethernet.ether_type: ternary; }
        actions = { mark; remember; NoAction; }
        counters = ternary_count;
        size = 1024;
    }
    table range_table {
        key = { hdr.ethernet.ether_type: range; std.ingress_port: exact; }
        actions = { mark; NoAction; }
        size = 64;
    }
    table optional_table {
        key = { hdr.ethernet.ether_type: optional; hdr.ethernet.src: optional; }
        actions = { mark; NoAction; }
        size = 64;
    }
    table const_table {
        key = { hdr.ethernet.ether_type: exact; }
        actions = { mark; NoAction; }
        const entries = {
            0x0800: mark(4, 0x111111111111);
            0x86dd: mark(6, 0x222222222222);
        }
    }
    table const_default_table {
        key = { hdr.ethernet.ether_type: exact; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        size = 16;
    }
    table keyless_table {
        actions = { mark; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (hdr.packet_out.isValid()) {
            std.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            bit<12> old;
            exact_table.apply();
            lpm_table.apply();
            ternary_table.apply();
            range_table.apply();
            optional_table.apply();
            const_table.apply();
            const_default_table.apply();
            keyless_table.apply();
            both_count.count((bit<32>)std.ingress_port);
            packet_count.count((bit<32>)std.ingress_port);
            byte_count.count((bit<32>)std.ingress_port);
            narrow.read(old, 0);
            narrow.write(0, old + 1);
            signed.write(0, -5);
            wide.write(1, (bit<128>)hdr.ethernet.src << 80);
            if (std.egress_spec == CPU_PORT) {
                hdr.packet_in.setValid();
                hdr.packet_in.ingress_port = std.ingress_port;
                hdr.packet_in.reason = meta.tag[6:0];
            }
        }
    }
}

control EntitiesEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control EntitiesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.packet_out);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(EntitiesParser(), NoChecksums(), EntitiesIngress(), EntitiesEgress(), NoChecksums(), EntitiesDeparser()) main;
