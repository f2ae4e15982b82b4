"""JUnit's XML: a test suite for each part, a test case for each check."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from p4reduce.labs.frame.formats.gradescope import said_of
from p4reduce.labs.frame.report import Report

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """Points stand as properties of the suites."""
    failed = sum(check.passed is False for check in report.checks)
    root = Xml.Element("testsuites", name=report.lab, tests=str(len(report.checks)), failures=str(failed))
    for part in report.parts:
        mine = [check for check in report.checks if check.subject == part]
        suite = Xml.SubElement(
            root,
            "testsuite",
            name=part,
            tests=str(len(mine)),
            failures=str(sum(c.passed is False for c in mine)),
            skipped=str(sum(c.passed is None for c in mine)),
        )
        properties = Xml.SubElement(suite, "properties")
        for name, value in zip(("points", "max_points"), report.part(part), strict=True):
            Xml.SubElement(properties, "property", name=name, value=str(value))
        for check in mine:
            case = Xml.SubElement(suite, "testcase", classname=f"{report.lab}.{part}", name=check.title)
            text = _NOT_XML.sub("?", said_of(check))
            if check.passed is False:
                Xml.SubElement(case, "failure", message=text.partition("\n")[0]).text = text
            elif check.passed is None:
                Xml.SubElement(case, "skipped", message=text)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
