#ifndef P4REDUCE_PARSER
#define P4REDUCE_PARSER

#include "headers.p4"

parser IncParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (4, 5, 0, IP_PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            INC_UDP_PORT: parse_inc;
            default: accept;
        }
    }

    // All lengths must agree: bytes after the datagram may only be Ethernet's padding to 60, which INC never needs.
    state parse_inc {
        packet.extract(hdr.inc);
        transition select(hdr.inc.version, hdr.inc.width, hdr.inc.has_lanes, hdr.udp.length, hdr.ipv4.total_length,
                          std.packet_length) {
            (INC_VERSION, LANES_OF_32, 0, EMPTY_UDP_LENGTH, IPV4_BYTES + EMPTY_UDP_LENGTH,
                ETHERNET_BYTES + IPV4_BYTES + EMPTY_UDP_LENGTH): parse_whole;
            (INC_VERSION, LANES_OF_32, 1, LANES_UDP_LENGTH, IPV4_BYTES + LANES_UDP_LENGTH,
                ETHERNET_BYTES + IPV4_BYTES + LANES_UDP_LENGTH): parse_lanes;
            (INC_VERSION_NARROW, LANES_OF_16, 1, LANES_UDP_LENGTH, IPV4_BYTES + LANES_UDP_LENGTH,
                ETHERNET_BYTES + IPV4_BYTES + LANES_UDP_LENGTH): parse_lanes;
            (INC_VERSION_NARROW, LANES_OF_8, 1, LANES_UDP_LENGTH, IPV4_BYTES + LANES_UDP_LENGTH,
                ETHERNET_BYTES + IPV4_BYTES + LANES_UDP_LENGTH): parse_lanes;
            default: accept;
        }
    }

    state parse_lanes {
        packet.extract(hdr.lanes);
        transition parse_whole;
    }

    state parse_whole {
        meta.whole = 1;
        transition accept;
    }
}

#define IPV4_FIELDS { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, \
    hdr.ipv4.src, hdr.ipv4.dst }

control VerifyChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_FIELDS, hdr.ipv4.checksum,
            HashAlgorithm.csum16);
    }
}

control ComputeChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_FIELDS, hdr.ipv4.checksum,
            HashAlgorithm.csum16);
    }
}

control IncDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.inc);
        packet.emit(hdr.lanes);
    }
}

#endif
