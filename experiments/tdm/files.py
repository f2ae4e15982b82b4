"""What the study leaves behind: rows as CSV, the result, figures, the chart of circuits and jobs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p4reduce.base.written import write_text
from p4reduce.experiments.claim import Claim
from p4reduce.experiments.tables import plain, write_table
from p4reduce.experiments.tdm.bar import Bar
from p4reduce.experiments.tdm.cases import Row
from p4reduce.experiments.tdm.ecmp import EcmpRow
from p4reduce.experiments.tdm.figures import draw_all
from p4reduce.experiments.tdm.holds import claims, packet_bars
from p4reduce.experiments.tdm.planning.table import bars
from p4reduce.experiments.tdm.planning.values import Values
from p4reduce.experiments.tdm.study import Kept, Study
from p4reduce.experiments.tdm.sweeps import SweepRow


@dataclass
class TdmResult:
    """All that was measured."""

    study: Study
    figures: Values
    """of planning, seed by seed"""
    sweeps: Sequence[SweepRow]

    def claims(self) -> list[Claim]:
        """What must hold on packets."""
        return claims(self.study)

    def bars(self) -> list[Bar]:
        """What was demanded, met or not."""
        return [*packet_bars(self.study), *bars(self.figures)]

    def as_data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "claims": plain(self.claims()),
            "factors": plain(self.study.factors),
            "rows": plain(self.study.rows),
            "ecmp": plain(self.study.ecmp),
            "kept": plain(self.study.kept),
            "bars": plain(self.bars()),
            "figures": self.figures,
            "sweeps": plain(list(self.sweeps)),
        }


def write_files(result: TdmResult, folder: Path) -> tuple[list[Path], dict[str, Path]]:
    """Write tables, result.json, gantt.svg and figures/; the files, and figures (PNG) by name."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [
        write_table(folder / "rounds.csv", Row, result.study.rows),
        write_table(folder / "ecmp.csv", EcmpRow, result.study.ecmp),
        write_table(folder / "windows.csv", Kept, result.study.kept),
        write_table(folder / "bars.csv", Bar, result.bars()),
        write_table(folder / "sweeps.csv", SweepRow, result.sweeps),
        write_text(folder / "gantt.svg", result.study.chart),
        write_text(folder / "result.json", json.dumps(result.as_data(), indent=1, sort_keys=True) + "\n"),
    ]
    return written, draw_all(result.study, result.sweeps, folder / "figures")
