"""Plain UDP over four hops in ns-3 (PyPI: ns3), under a Python that has it; prints received, hops, seconds as JSON."""

import json
import sys
import time

HOPS = 4


def main(packets: int, payload: int) -> dict[str, float]:
    """Send ``packets`` datagrams of ``payload`` bytes down a chain of 100 Gb/s links of 1 us."""
    from ns import ns  # type: ignore[import-not-found]  # noqa: PLC0415 - only where it is installed

    nodes = ns.NodeContainer()
    nodes.Create(HOPS + 1)
    link = ns.PointToPointHelper()
    link.SetDeviceAttribute("DataRate", ns.StringValue("100Gbps"))
    link.SetChannelAttribute("Delay", ns.StringValue("1us"))
    ns.InternetStackHelper().Install(nodes)
    for hop in range(HOPS):
        devices = link.Install(nodes.Get(hop), nodes.Get(hop + 1))
        addresses = ns.Ipv4AddressHelper()
        addresses.SetBase(ns.Ipv4Address(f"10.0.{hop}.0"), ns.Ipv4Mask("255.255.255.0"))
        last = addresses.Assign(devices).GetAddress(1)
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
    servers = ns.UdpServerHelper(9400).Install(nodes.Get(HOPS))
    servers.Start(ns.Seconds(0))
    client = ns.UdpClientHelper(ns.InetSocketAddress(last, 9400).ConvertTo())
    client.SetAttribute("MaxPackets", ns.UintegerValue(packets))
    client.SetAttribute("Interval", ns.TimeValue(ns.NanoSeconds(100)))
    client.SetAttribute("PacketSize", ns.UintegerValue(payload))
    client.Install(nodes.Get(0)).Start(ns.Seconds(0.001))
    ns.Simulator.Stop(ns.Seconds(10))
    begin = time.process_time()
    ns.Simulator.Run()
    seconds = time.process_time() - begin
    received = servers.Get(0).GetObject[ns.UdpServer]().GetReceived()
    ns.Simulator.Destroy()
    return {"received": received, "hops": HOPS, "seconds": seconds}


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))) + "\n")
