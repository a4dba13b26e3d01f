"""Metrics of a program: sums that have to agree with its ops and its network."""

from __future__ import annotations

from many_core.nets import encoder, graph_of, wide_product
from npuscope.families.many_core.compiler.metrics import metrics_lines, perf_metrics
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.program import CoreProgram

MACHINE = load_core_machine()


def _compile(data: bytes, **options: object) -> CoreProgram:
    return compile_graph(graph_of(data), MACHINE, CoreCompileOptions(**options))


def test_traffic_of_a_product_is_its_weights_and_ends() -> None:
    metrics = perf_metrics(_compile(wide_product(512, 2048), cores=4))
    assert metrics.constant_bytes == 512 * 2048 * 2
    inputs = 4 * 512 * 2  # every core fetches the whole row
    assert sum(core.ddr_read_bytes for core in metrics.cores) == 512 * 2048 * 2 + inputs
    assert sum(core.ddr_write_bytes for core in metrics.cores) == 2048 * 2
    assert metrics.macs == sum(core.macs for core in metrics.cores) == 512 * 2048
    assert {(port.port, port.bytes) for port in metrics.ports} == {(100, 1024), (101, 4096)}


def test_what_is_sent_is_received() -> None:
    metrics = perf_metrics(_compile(encoder(), cores=2))
    sent = [core.multicast_write_bytes for core in metrics.cores]
    received = [core.multicast_read_bytes for core in metrics.cores]
    assert sent == received[::-1] and sum(sent)


def test_barriers_are_the_ops_that_threads_run_together() -> None:
    program = _compile(encoder(), cores=2)
    for core in perf_metrics(program).cores:
        assert core.barriers == len(program.devices[0].ops[core.core][0])


def test_metrics_as_text() -> None:
    lines = metrics_lines(perf_metrics(_compile(wide_product(512, 2048), cores=2, stats_level=70)))
    assert lines[0].split("  ")[-1].strip() == "VTCM KB"
    # The input and three chunks of weights loaded, a conversion, three parts of a sum for each
    # chunk, the output copied, two semaphores.
    assert lines[1].split()[:3] == ["0", "17", "2"]
    assert lines[3:6] == [
        "port 100 Host_IO_Port of device 0: 1.00 KB",
        "port 101 Host_IO_Port of device 0: 4.00 KB",
        "constants 2048.00 KB",
    ]
    assert lines[-1] == "MACs 1048576 in the network, 1048576 on HMX"


def test_ports_between_devices_are_listed() -> None:
    metrics = perf_metrics(_compile(encoder(), cores=2, devices=2))
    out = {(p.device, p.name): p.bytes for p in metrics.ports}
    assert out[0, "0->1"] == out[1, "1<-0"] > 0
    assert metrics_lines(metrics)[1].split()[0] == "0.0"
