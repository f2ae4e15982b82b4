// OmniReduce's aggregator in a switch; see switchml.p4.
#define BLOCKS
#include "switchml.p4"
