// Everything that is not for this switch's slots: IPv4 routing.
#ifndef P4REDUCE_FORWARD
#define P4REDUCE_FORWARD

#include "headers.p4"
#include "refuse.p4"

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action next_hop(bit<9> port, bit<48> mac) {
        std.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action unreachable() {
        meta.refused = REFUSED_NO_ROUTE;
    }

    action host(bit<32> ip) {
        meta.refused = hdr.ipv4.src == ip ? (bit<8>)0 : REFUSED_SOURCE;
    }

    // The port of each host, and the only source address that the host may use, so that a receiver anywhere can trust
    // the source of a packet. Ports to switches have no entry, since those switches have checked. Packets to this
    // switch are not looked up here: `peer` checks port and source of each.
    table edge {
        key = { std.ingress_port: exact; }
        actions = { host; @defaultonly NoAction; }
        default_action = NoAction();
        size = EDGE_ENTRIES;
    }

    // The path of a plan's INC packets, every step of it, also where the base routes agree: they may move, it does not.
    table path {
        key = {
            hdr.inc.job: exact;
            hdr.inc.epoch: exact;
            hdr.ipv4.dst: exact;
        }
        actions = { next_hop; @defaultonly NoAction; }
        default_action = NoAction();
        size = ROUTE_ENTRIES;
    }

    table route {
        key = { hdr.ipv4.dst: lpm; }
        actions = { next_hop; unreachable; }
        default_action = unreachable();
        size = ROUTE_ENTRIES;
    }

    apply {
        edge.apply();
        if (meta.refused == 0) {
            if (hdr.ipv4.ttl < 2) {
                meta.refused = REFUSED_TTL;
            } else if (hdr.inc.isValid()) {
                if (!path.apply().hit) { route.apply(); }
            } else {
                route.apply();
            }
        }
    }
}

#endif
