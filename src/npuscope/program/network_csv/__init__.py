"""network.csv, read and written."""

from npuscope.program.network_csv.reader import NetworkCsv, read_network_csv
from npuscope.program.network_csv.writer import network_csv_text

__all__ = ["NetworkCsv", "network_csv_text", "read_network_csv"]
