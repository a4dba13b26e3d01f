"""The text report of a compilation: what was built, where it is in memory, what runs where."""

from npuscope.program.generate_report.model import GenerateReport
from npuscope.program.generate_report.reader import read_generate_report
from npuscope.program.generate_report.writer import generate_report_text

__all__ = ["GenerateReport", "generate_report_text", "read_generate_report"]
