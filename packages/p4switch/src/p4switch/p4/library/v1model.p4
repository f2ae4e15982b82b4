// The v1model architecture as BMv2's simple_switch offers it: names, fields and meaning as published with it.
#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include <core.p4>

match_kind {
    range,
    optional,
    selector
}

// From version 20200408 on, indices have a type of the program's choice, and ports one of their own.
#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

const bit<32> __v1model_version = V1MODEL_VERSION;

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#define PORT PortId_t
#define INDEXED <I>
#define INDEX I
#define REGISTER register<T, I>
#else
#define PORT bit<9>
#define INDEXED
#define INDEX bit<32>
#define REGISTER register<T>
#endif

#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

@metadata @name("standard_metadata")
struct standard_metadata_t {
    PORT    ingress_port;
    PORT    egress_spec;
    PORT    egress_port;
    bit<32> instance_type;
    bit<32> packet_length;
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;
    bit<1>  checksum_error;
    error   parser_error;
    @alias("intrinsic_metadata.priority")
    bit<3>  priority;
}

enum CounterType { packets, bytes, packets_and_bytes }

enum MeterType { packets, bytes }

enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }

enum CloneType { I2E, E2E }

// State.

extern counter INDEXED {
    counter(bit<32> size, CounterType type);
    void count(in INDEX index);
}

extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

extern meter INDEXED {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in INDEX index, out T result);
}

extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

extern REGISTER {
    register(bit<32> size);
    void read(out T result, in INDEX index);
    void write(in INDEX index, in T value);
}

#undef PORT
#undef INDEXED
#undef INDEX
#undef REGISTER

// What a table may be implemented with.

extern action_profile {
    action_profile(bit<32> size);
}

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

// Numbers.

extern void random<T>(out T result, in T lo, in T hi);
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

// The packet's way.

extern void mark_to_drop();
extern void mark_to_drop(inout standard_metadata_t standard_metadata);
extern void digest<T>(in bit<32> receiver, in T data);
extern void truncate(in bit<32> length);

extern void resubmit_preserving_field_list(bit<8> index);
extern void recirculate_preserving_field_list(bit<8> index);
extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);

// Their older forms, which took the data to keep in place of a list's number.
extern void resubmit<T>(in T data);
extern void recirculate<T>(in T data);
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

// For debugging.

extern void assert(in bool check);
extern void assume(in bool check);
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

// The switch.

parser Parser<H, M>(packet_in b, out H parsedHdr, inout M meta, inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr, inout M meta);
@pipeline
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
@pipeline
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr, inout M meta);
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p, VerifyChecksum<H, M> vr, Ingress<H, M> ig, Egress<H, M> eg,
                       ComputeChecksum<H, M> ck, Deparser<H> dep);

#endif
