"""The process behind ``p4reduce switch``: P4Runtime devices with virtual ports, fed from pcap files."""
