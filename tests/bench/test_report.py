"""Tables, picture and README of a run with many peers, some of them missing or failing."""

from __future__ import annotations

import io
import struct

import pytest
from rich.console import Console

from fastgrad.bench import readme
from fastgrad.bench.picture import draw
from fastgrad.bench.readme import BEGIN, END, section, write_section
from fastgrad.bench.report import markdown, print_report
from fastgrad.bench.results import Results
from fastgrad.bench.tables import Cell, Table, short
from fastgrad.bench.workloads import plan
from simulated_runs import AUTODIFF, SimulatedMachine, simulated_run

TIMES = {"torch": 1.4, "torch-thp": 0.9, **dict.fromkeys(AUTODIFF, 5.0), "absent": 2.0}
REASON = "ModuleNotFoundError: No module named 'absent'"


@pytest.fixture
def results(monkeypatch) -> Results:
    groups = plan(["gelu", "swish_forward_backward"])
    machine = SimulatedMachine(TIMES, missing={"absent": REASON})
    return simulated_run(monkeypatch, machine, groups, rounds=5, max_rounds=5)


def printed(results: Results, width: int) -> str:
    output = io.StringIO()
    print_report(results, Console(file=output, width=width))
    return output.getvalue()


class TestTables:
    @pytest.mark.parametrize("width", [100, 140, 200])
    def test_fit_into_the_terminal(self, results, width):
        lines = printed(results, width).split("Numbers to reach")[0].splitlines()
        # A cell that was folded would leave a line whose first columns are empty.
        rows = [line for line in lines if "float" in line and "…" not in line]
        assert len(rows) > len(results.rows)
        assert max(map(len, lines[20:])) <= width
        assert not any(line.startswith("                   ±") for line in lines)

    def test_a_narrow_one_is_split_and_repeats_its_labels(self):
        columns = ["shape", *(f"peer {number}" for number in range(9))]
        row = [Cell("1024"), *(Cell(f"{number}.00 ±1 %") for number in range(9))]
        parts = Table("gelu", columns, [row]).parts(50)
        assert [part.title for part in parts] == ["gelu (1 of 3)", "gelu (2 of 3)", "gelu (3 of 3)"]
        assert all(part.columns[0] == "shape" and len(part.columns) == 4 for part in parts)
        assert [name for part in parts for name in part.columns[1:]] == columns[1:]

    def test_a_part_leaves_out_rows_that_it_has_nothing_of(self):
        nothing, something = Cell("–"), Cell("123456789")
        rows = [[Cell("a"), something, nothing], [Cell("b"), something, something]]
        first, second = Table("gelu", ["shape", "x", "y"], rows).parts(24)
        assert [row[0].text for row in first.rows] == ["a", "b"]
        assert [row[0].text for row in second.rows] == ["b"]

    def test_who_takes_part_nowhere_has_no_column(self, results):
        text = markdown(results)
        of_gelu = text.partition("## gelu\n")[2].splitlines()[1]
        assert "torch-thp" in of_gelu
        assert "composed" not in of_gelu
        of_both = text.partition("## swish_forward_backward\n")[2].splitlines()[1]
        assert all(name in of_both for name in AUTODIFF)

    def test_samples_a_second(self, results):
        line = next(
            line for line in markdown(results).splitlines() if "| 8192×4096 | float32" in line
        )
        time, per_second = (cell.strip() for cell in line.split("|")[4:6])
        milliseconds = float(time.split()[0])
        assert float(per_second.split()[0]) * 1e6 == pytest.approx(8192e3 / milliseconds, rel=0.02)

    def test_memory_is_listed_where_there_is_some(self, results):
        text = markdown(results).partition("## Memory of a call")[2].partition("\n##")[0]
        assert "77.1 (25.7)" in text  # three arrays of float32 at the peak, one kept
        assert "77.1 (51.4)" in text
        assert "gelu" not in text

    def test_the_code_of_everyone(self, results):
        text = markdown(results)
        assert "swish_forward_backward: composed" in text
        assert "y, back = composed(x)" in text
        assert "y, back = composed(x)" in printed(results, 180)


class TestWhoIsLeftOut:
    def test_missing_with_the_reason(self, results):
        assert results.to_dict()["missing"] == {"absent": REASON}
        assert f"missing: absent: {REASON}" in markdown(results)
        assert f"missing: absent: {REASON}" in printed(results, 180)
        assert f"absent: **missing**: {REASON}" in section(results)

    def test_failed_with_the_reason(self, results):
        line = "| swish_forward_backward | 32×64×56×56 | float64 | allocating | graph | TypeError"
        assert line in markdown(results)
        assert "failed in some rows, which are left out above: graph" in section(results)


class TestPicture:
    def test_of_many_peers(self, results, tmp_path):
        draw(results, tmp_path / "run.png")
        signature, (width, height) = _png(tmp_path / "run.png")
        assert signature == b"\x89PNG\r\n\x1a\n"
        assert width > 2000 and height > 800

    def test_says_who_is_missing(self, results, tmp_path):
        draw(results, tmp_path / "run.svg")
        text = (tmp_path / "run.svg").read_text()
        assert "<!-- absent: missing -->" in text
        assert "graph failed in 1 rows" in text

    def test_of_nothing(self, tmp_path, monkeypatch):
        results = simulated_run(monkeypatch, SimulatedMachine({}), [])
        draw(results, tmp_path / "run.png")
        assert (tmp_path / "run.png").stat().st_size


class TestReadme:
    @pytest.fixture
    def file(self, tmp_path):
        file = tmp_path / "README.md"
        file.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\n## After\n")
        return file

    def test_replaces_what_is_between_the_comments(self, results, file):
        for _ in range(2):
            write_section(results, file)
        text = file.read_text()
        assert text.startswith(f"# Title\n\n{BEGIN}\n\n`make compare` on ")
        assert text.endswith(f"\n{END}\n\n## After\n")
        assert "old" not in text
        assert text.count(BEGIN) == text.count("### Where fastgrad is behind") == 1

    def test_says_plainly_where_fastgrad_is_behind(self, results):
        behind = section(results).partition("### Where fastgrad is behind")[2]
        assert "against torch:" not in behind
        rows = [row for row in results.rows if row.case.dtype == "bfloat16"]
        rows = [row for row in rows if row.case.operator == "gelu"]
        count, least = len(rows), min(row.ratios["torch-thp"].median for row in rows)
        assert f"- gelu, bfloat16, against torch-thp: {count} of {count} rows" in behind
        assert f"the worst {short(least)} at " in behind

    def test_machine_versions_date(self, results):
        text = section(results)
        for part in (results.machine["processor"], results.machine["date"], "torch 1.0"):
            assert part in text

    def test_a_file_without_the_comments(self, results, tmp_path, capsys):
        (tmp_path / "README.md").write_text("# Title\n")
        with pytest.raises(readme.NoSection, match="lacks the lines"):
            write_section(results, tmp_path / "README.md")

    def test_the_command_refuses_what_is_no_run(self, file, tmp_path, capsys):
        (tmp_path / "run.json").write_text("{}")
        assert readme.main([str(tmp_path / "run.json"), str(file)]) == 1
        assert "is no run of this version" in capsys.readouterr().err

    def test_the_projects_own_has_a_place_for_it(self):
        before, after = readme.around_section(readme.Path(__file__).parents[2] / "README.md")
        assert before and after


def _png(file) -> tuple[bytes, tuple[int, int]]:
    head = file.read_bytes()[:24]
    return head[:8], struct.unpack(">II", head[16:24])
