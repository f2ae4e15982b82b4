// Refused packets: counted by reason, dropped, and now and then shown to the controller.
#ifndef P4REDUCE_REFUSE
#define P4REDUCE_REFUSE

#include "headers.p4"

#define REFUSED_NOT_IPV4      1   // not IPv4, or cut off inside its headers
#define REFUSED_CHECKSUM      2   // IPv4 header checksum
#define REFUSED_OPTIONS       3   // IPv4 options: not supported
#define REFUSED_TTL           4   // time to live ran out
#define REFUSED_NO_ROUTE      5   // no entry for the destination
#define REFUSED_MALFORMED     6   // to this switch, but no INC packet of this build's lengths
#define REFUSED_JOB           7   // (job, epoch) is not installed here
#define REFUSED_PEER          8   // not a child or parent: port, source, job or epoch is wrong
#define REFUSED_TYPE          9   // unknown type, RESULT from a child, PUSH or PULL from the parent
#define REFUSED_GENERATION   10   // the slot belongs to a newer generation
#define REFUSED_SEQ          11   // neither the slot's chunk nor the one that may follow it
#define REFUSED_KIND         12   // type, lanes or their width differ from what opened the slot; an ASK with lanes
#define REFUSED_DUPLICATE    13   // a contribution that is in already
#define REFUSED_RESULT       14   // a RESULT or ASK of the parent that the slot does not wait for
// 15 is a reason of ends only.
#define REFUSED_SOURCE       16   // to be sent on, from a host's port, but the source is not that host
#define REFUSED_LATE         17   // a contribution to a chunk that was closed without it
#define REFUSED_TOKEN        18   // a child or parent, but without the token that it was given
#define REFUSED_REASONS      19

// Duplicates are everyday life under loss, as stragglers are with a deadline: counted, never shown to the controller.

control Refuse(inout headers_t hdr, in metadata_t meta, inout standard_metadata_t std) {
    counter(REFUSED_REASONS, CounterType.packets_and_bytes) refused;
    register<bit<32>>(1) refused_total;

    apply {
        bit<32> total;
        refused.count((bit<32>)meta.refused);
        mark_to_drop(std);
        if (meta.refused != REFUSED_DUPLICATE && meta.refused != REFUSED_LATE) {
            refused_total.read(total, 0);
            refused_total.write(0, total + 1);
            if ((total & meta.sample_mask) == 0) {
                hdr.packet_in.setValid();
                hdr.packet_in.ingress_port = std.ingress_port;
                hdr.packet_in.padding = 0;
                hdr.packet_in.reason = meta.refused;
                std.egress_spec = CPU_PORT;
            }
        }
    }
}

#endif
