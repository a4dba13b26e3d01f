"""The host's side: queue, doorbells, buffers that are used again, samples."""

from __future__ import annotations

from itertools import pairwise

from many_core.samples import DMA, HVX, layout, program
from many_core.sim_programs import Writer, program_of
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.records import SectionId
from npuscope.families.many_core.sim.conditions import RunOptions, RunResult
from npuscope.families.many_core.sim.run import simulate

MACHINE = load_core_machine()


def run(made: CoreProgram, **options: object) -> RunResult:
    return simulate(made, MACHINE, RunOptions(**options))  # type: ignore[arg-type]


def network(kilobytes: int) -> CoreProgram:
    """Softmax of some size between input and output."""
    writer = Writer()
    heard = writer.add(0, DMA, "aicinputsemaphoreinc", port_wait=100, semaphore=0)
    work = writer.add(0, HVX, "aicsoftmax", kilobytes, waits_for=(heard.key,))
    writer.add(0, DMA, "aicoutputsemaphoreinc", port_wait=101, semaphore=1, waits_for=(work.key,))
    return program_of([writer.end()])


def test_an_inference_passes_its_stations_in_order() -> None:
    for one in run(network(500), iterations=20).iterations:
        stations = (
            one.enqueued,
            one.submitted,
            one.input_begin,
            one.doorbell,
            one.output_begin,
            one.output_end,
            one.answered,
            one.completed,
        )
        assert all(a <= b for a, b in pairwise(stations))
        assert one.device_start < one.output_begin <= one.device_end + 1


def test_nothing_is_in_two_inferences_at_once() -> None:
    result = run(network(20), iterations=30)
    for one, following in pairwise(result.iterations):
        assert following.enqueued >= one.submitted
        assert following.input_begin >= one.doorbell
        assert following.device_start > one.device_end
        assert following.output_begin >= one.output_end
        assert following.answered >= one.completed


def test_the_queue_holds_as_many_as_the_machine_says() -> None:
    depth = MACHINE.host.queue_depth
    done = [one.completed for one in run(network(5000), iterations=12).iterations]
    for number, one in enumerate(run(network(5000), iterations=12).iterations):
        open_ones = sum(1 for end in done[:number] if end > one.enqueued)
        assert open_ones < depth
        assert one.queued == open_ones


def test_a_long_network_never_waits_for_its_input_again() -> None:
    first, *others = run(network(5000), iterations=6).iterations
    assert first.input_wait > 0
    assert all(one.input_wait == 0 for one in others)


def test_a_short_network_waits_for_its_host() -> None:
    _, *others = run(network(1), iterations=30).iterations
    assert any(one.input_wait > 0 for one in others)


def test_samples_begin_at_the_iteration_that_was_asked_for() -> None:
    result = run(network(100), iterations=20, samples=3, start_iteration=5)
    assert result.sampled == (5, 6, 7)
    assert [stats.inference for stats in result.stats] == [5, 6, 7]
    name = "aic-profiling-program-0-activation-0-inf-5-QAicGraph-aiccyclecounts"
    assert result.stats[0].name == name


def test_samples_begin_after_the_delay() -> None:
    result = run(network(5000), iterations=20, samples=2, start_delay_ms=3.0)
    begin = result.iterations[0].enqueued
    first = result.sampled[0]
    assert first > 0
    assert result.iterations[first].enqueued - begin >= 3.0 * 19200
    assert result.iterations[first - 1].enqueued - begin < 3.0 * 19200
    assert result.notes == ()


def test_a_run_that_ends_before_the_delay_keeps_its_last_samples() -> None:
    result = run(network(100), iterations=20, samples=3, start_delay_ms=1000)
    assert result.sampled == (17, 18, 19)
    assert (
        "before profiling should start (iteration 0, 1000 ms): its last 3 are saved"
        in (result.notes[0])
    )


def test_stamps_of_later_inferences_lie_later() -> None:
    result = run(program(layout(cores=2)), iterations=6, samples=6)
    for stats, following in pairwise(result.stats):
        one, other = (made.of(SectionId.THREAD_INF) for made in (stats, following))
        assert one["end_uc"].max() < other["start_uc"].min()
        assert one["end_pc"].max() < other["start_pc"].min()


def test_without_collecting_there_are_figures_only() -> None:
    result = run(network(100), iterations=3, collect=False)
    assert result.stats == ()
    assert len(result.iterations) == 3
