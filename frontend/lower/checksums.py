"""The controls that verify and update checksums: BMv2 takes a list of them, not code."""

from typing import Final

from p4reduce.frontend.diagnostics import SourceFault
from p4reduce.frontend.lower.places import FieldPlace, HeaderPlace, StructPlace
from p4reduce.frontend.lower.programs import Programs
from p4reduce.frontend.lower.storage import storage_width
from p4reduce.frontend.lower.values import Json, is_constant
from p4reduce.frontend.syntax.tree import Call

WIDEST: Final = 64


class ChecksumLowering(Programs):
    """Lowers checksums.

    Attributes:
        checksums: of the JSON.
    """

    checksums: list[Json]

    def checksum(self, node: Call) -> None:
        """A call of verify_checksum, update_checksum, or those with the payload."""
        name = node.target.name
        if self.where != "checksum":
            raise SourceFault(node.at, f"{name!r} is for the checksum controls only", "Move it there.")
        verify = name.startswith("verify")
        if verify != (self.block == "verify"):
            other = "ComputeChecksum" if not verify else "VerifyChecksum"
            raise SourceFault(node.at, f"{name!r} belongs into the control for {other}")
        condition = self.scalar(self.argument(node, 0))
        data = self.place(self.argument(node, 1))
        if not isinstance(data, StructPlace | HeaderPlace | FieldPlace):
            raise SourceFault(node.at, "a checksum is over a list of fields", "Write { hdr.a, hdr.b }.")
        target = self.target(self.argument(node, 2))
        if not isinstance(target, FieldPlace):
            raise SourceFault(node.at, "a checksum is a field of a header")
        if storage_width(target.type) > WIDEST:
            message = f"a checksum has at most {WIDEST} bits on this target, but this is {target.type}"
            raise SourceFault(self.argument(node, 2).at, message, "A checksum of csum16 has 16.")
        algorithm = self.algorithm(self.argument(node, 3))
        payload = name.endswith("_with_payload")
        calculation = self.calculation(algorithm, data, node, payload, copy=False)
        count = len(self.checksums)
        item: Json = {
            "name": "cksum" if count == 0 else f"cksum_{count - 1}",
            "id": count,
            "source_info": node,
            "target": target.target()["value"],
            "type": "generic",
            "calculation": calculation,
            "verify": verify,
            "update": not verify,
        }
        if is_constant(condition) and not condition["value"]:
            return
        item["if_cond"] = condition
        self.checksums.append(item)
