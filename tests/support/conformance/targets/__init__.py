"""Switches that a conformance test can drive: the embedded switch with either executor, and BMv2."""
