"""Switches that a conformance test can drive: the embedded one, with either executor, and BMv2."""
