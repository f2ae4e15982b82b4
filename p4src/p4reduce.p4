// p4reduce: sums and multicasts in the network. v1model, for BMv2 and the embedded switch.
#include <core.p4>
#include <v1model.p4>

#include "sizes.p4"
#include "headers.p4"
#include "parser.p4"
#include "refuse.p4"
#include "aggregate.p4"
#include "forward.p4"
#include "depart.p4"
#ifdef WATCH_LINKS
#include "watch.p4"
#endif

control IncIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Aggregate() aggregate;
    Forward() forward;
    Refuse() refuse;
#ifdef WATCH_LINKS
    Watch() watch;
#endif

    action configure(bit<19> ecn_threshold, bit<32> sample_mask) {
        meta.ecn_threshold = ecn_threshold;
        meta.sample_mask = sample_mask;
    }

    // One default entry: from which queue depth (packets) ECN is marked, and which refused packets
    // the controller sees (those whose running number has none of the mask's bits).
    table settings {
        actions = { configure; }
        default_action = configure(64, 0xff);
    }

    action is_local() { meta.local = 1; }

    // This switch's own addresses.
    table local_address {
        key = { hdr.ipv4.dst: exact; }
        actions = { is_local; @defaultonly NoAction; }
        default_action = NoAction();
        size = 16;
    }

    action prioritize(bit<3> priority) { std.priority = priority; }

    // Of each group of jobs (the workers of one asynchronous training): generation and newest iteration seen.
    register<bit<64>>(BATCH_GROUPS) newest;

    // The older the batch the higher the class: base + min(lag, most), the lag behind the newest iteration of the group.
    // The controller never uses a generation twice, so what an earlier group left in the cell counts as nothing.
    action by_lag(bit<32> group, bit<32> generation, bit<3> base, bit<3> most) {
        bit<64> cell;
        newest.read(cell, group);
        bit<32> lag = cell[31:0] - hdr.inc.iteration;
        bit<1> first = (bit<1>)(cell[63:32] != generation) | lag[31:31];
        newest.write(group, generation ++ (first == 1 ? hdr.inc.iteration : cell[31:0]));
        std.priority = base + (first == 1 ? (bit<3>)0 : (lag < (bit<32>)most ? lag[2:0] : most));
    }

    // Strict priorities: 7 leaves first. By job, type of what leaves, and bits of the iteration.
    table traffic_class {
        key = {
            hdr.inc.job: ternary;
            hdr.inc.type: ternary;
            hdr.inc.iteration: ternary;
        }
        actions = { prioritize; by_lag; @defaultonly NoAction; }
        default_action = NoAction();
        size = CLASS_ENTRIES;
    }

    // All other IPv4 by its differentiated services code point (RFC 2474); queue 0 where the controller says nothing.
    table dscp_class {
        key = { hdr.ipv4.dscp: exact; }
        actions = { prioritize; @defaultonly NoAction; }
        default_action = NoAction();
        size = DSCP_ENTRIES;
    }

    apply {
        settings.apply();
        if (!hdr.ipv4.isValid()) {
            meta.refused = REFUSED_NOT_IPV4;
        } else if (hdr.ipv4.version != 4 || hdr.ipv4.ihl != 5) {
            meta.refused = REFUSED_OPTIONS;
        } else if (std.checksum_error == 1) {
            meta.refused = REFUSED_CHECKSUM;
        } else if (local_address.apply().hit) {
            aggregate.apply(hdr, meta, std);
        } else {
            forward.apply(hdr, meta, std);
        }
        if (meta.refused != 0) {
            refuse.apply(hdr, meta, std);
        } else if (!hdr.inc.isValid()) {
            dscp_class.apply();
#ifdef WATCH_LINKS
            watch.apply(hdr, meta, std);
#endif
        } else if (meta.local == 0 || meta.reply != REPLY_NONE || meta.gap == 1) {
            traffic_class.apply();
        }
    }
}

control IncEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Depart() depart;
    apply {
        depart.apply(hdr, meta, std);
    }
}

V1Switch(IncParser(), VerifyChecksums(), IncIngress(), IncEgress(), ComputeChecksums(), IncDeparser()) main;
