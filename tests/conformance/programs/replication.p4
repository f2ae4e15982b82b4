// What becomes of a packet after ingress and egress, in every combination: multicast, clones of both kinds, resubmit,
// recirculate, truncate, drop, priorities. Each copy says in a header of its own what it went through.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<1>  clone_in;
    bit<1>  multicast;
    bit<1>  resubmit;
    bit<1>  clone_out;
    bit<1>  recirculate;
    bit<1>  shorten;
    bit<1>  drop_in;
    bit<1>  drop_out;
    bit<8>  port;
    bit<8>  session;
    bit<8>  group;
    bit<8>  length;
    bit<8>  passes;
}

header seen_t {
    bit<32> instance;
    bit<16> rid;
    bit<16> length;
    bit<16> ingress_port;
    bit<16> egress_port;
    bit<8>  first;
    bit<8>  second;
    bit<8>  third;
}

struct headers_t {
    order_t order;
    seen_t  seen;
}

struct metadata_t {
    @field_list(1, 2)
    bit<8> first;
    @field_list(2, 3)
    bit<8> second;
    @field_list(1, 3, 4)
    bit<8> third;
}

parser ReplicationParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.order);
        meta.third = meta.third + 16;
        transition accept;
    }
}

control ReplicationVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control ReplicationUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control ReplicationIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(8) instances;

    action count_instance() {
        bit<32> old;
        instances.read(old, std.instance_type & 7);
        instances.write(std.instance_type & 7, old + 1);
    }

    apply {
        if (!hdr.order.isValid()) {
            mark_to_drop(std);
            exit;
        }
        count_instance();
        meta.first = meta.first + 1;
        meta.second = meta.second + hdr.order.port;
        // A clone has priority 0: with another one, it would depend on the queue which of the two leaves first.
        if (hdr.order.clone_in == 0) { std.priority = hdr.order.port[2:0]; }
        std.egress_spec = (bit<9>)(hdr.order.port & 7);
        if (hdr.order.clone_in == 1) {
            if (hdr.order.length[0:0] == 1) {
                clone_preserving_field_list(CloneType.I2E, (bit<32>)(hdr.order.session & 7), 1);
            } else {
                clone(CloneType.I2E, (bit<32>)(hdr.order.session & 7));
            }
        }
        if (hdr.order.drop_in == 1) { mark_to_drop(std); }
        if (hdr.order.multicast == 1) { std.mcast_grp = (bit<16>)(hdr.order.group & 7); }
        if (hdr.order.resubmit == 1 && meta.first < 3) {
            hdr.order.port = hdr.order.port + 1;
            resubmit_preserving_field_list(2);
        }
    }
}

control ReplicationEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.seen.setValid();
        hdr.seen.instance = std.instance_type;
        hdr.seen.rid = std.egress_rid;
        hdr.seen.length = std.packet_length[15:0];
        hdr.seen.ingress_port = (bit<16>)std.ingress_port;
        hdr.seen.egress_port = (bit<16>)std.egress_port;
        hdr.seen.first = meta.first;
        hdr.seen.second = meta.second;
        hdr.seen.third = meta.third;
        if (std.instance_type != 2 && hdr.order.clone_out == 1) {
            if (hdr.order.length[1:1] == 1) {
                clone_preserving_field_list(CloneType.E2E, (bit<32>)(hdr.order.session >> 4), 3);
            } else {
                clone(CloneType.E2E, (bit<32>)(hdr.order.session >> 4));
            }
            hdr.seen.third = 99;
        }
        if (hdr.order.recirculate == 1 && hdr.order.passes[7:6] == 0) {
            hdr.order.passes = hdr.order.passes + 64;
            hdr.order.port = hdr.order.port + 1;
            recirculate_preserving_field_list(4);
        }
        if (hdr.order.shorten == 1) { truncate((bit<32>)hdr.order.length); }
        if (hdr.order.drop_out == 1 && std.egress_port == 2) { mark_to_drop(std); }
    }
}

control ReplicationDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.order);
        packet.emit(hdr.seen);
    }
}

V1Switch(ReplicationParser(), ReplicationVerify(), ReplicationIngress(), ReplicationEgress(), ReplicationUpdate(),
    ReplicationDeparser()) main;
