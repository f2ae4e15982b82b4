// Telemetry of a build of its own (watching.p4): what plain traffic takes of links, told when it passes a threshold.
#ifndef P4REDUCE_WATCH
#define P4REDUCE_WATCH

#include "headers.p4"

// What the controller gets; `busy` is 0 in the last one, of a window below both thresholds.
struct link_load_t {
    bit<9>  port;
    bit<1>  busy;
    bit<32> bytes;          // of the window
    bit<32> window_us;      // its length: from its first packet to the one that ended it
    bit<48> ended_us;       // by this switch's clock
}

// INC is counted in `link_sent`; these are all others. Nothing tells of silence: while a link is busy its load is told
// again after every `again` windows, and a controller forgets what was not.
control Watch(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    // By port; most significant first: when the window began (48), bytes in it (32), windows until told again (16).
    register<bit<96>>(PORTS) loads;

    bit<1>  watched = 0;
    bit<32> window_us = 0;
    bit<32> high = 0;
    bit<32> low = 0;
    bit<16> again = 0;

    // Told is a window with `high` bytes, then again those with `low`, until one has fewer.
    action watch(bit<32> window_us_, bit<32> high_, bit<32> low_, bit<16> again_) {
        watched = 1;
        window_us = window_us_;
        high = high_;
        low = low_;
        again = again_;
    }

    table watched_port {
        key = { std.egress_spec: exact; }
        actions = { watch; @defaultonly NoAction; }
        default_action = NoAction();
        size = PORTS;
    }

    apply {
        watched_port.apply();
        if (watched == 1) {
            bit<96> cell;
            loads.read(cell, (bit<32>)std.egress_spec);
            bit<48> began = cell[95:48];
            bit<32> bytes = cell[47:16];
            bit<16> left = cell[15:0];
            bit<48> elapsed = std.ingress_global_timestamp - began;
            if (elapsed < (bit<48>)window_us) {
                loads.write((bit<32>)std.egress_spec, began ++ (bytes + std.packet_length) ++ left);
            } else {
                // The packet that ends a window is the first of the next. Long after its end nothing is known of it.
                bit<1> known = elapsed < ((bit<48>)window_us << 1) ? (bit<1>)1 : 0;
                bit<1> busy = known & (bytes >= (left == 0 ? high : low) ? (bit<1>)1 : 0);
                bit<16> next = left - 1;
                if (busy == 0 || left < 2) {
                    next = busy == 1 ? again : 0;
                    if (busy == 1 || left != 0) {
                        // v1model takes the fields at the end of ingress: none of them may change after this.
                        digest<link_load_t>(1, { std.egress_spec, busy, bytes, elapsed[31:0],
                                                 std.ingress_global_timestamp });
                    }
                }
                loads.write((bit<32>)std.egress_spec, std.ingress_global_timestamp ++ std.packet_length ++ next);
            }
        }
    }
}

#endif
