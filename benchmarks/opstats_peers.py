"""The same traces written the usual way: json.dumps, orjson and the messages of `perfetto`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from npuscope.trace_model import ArgKind, TraceModel

Args = list[tuple[str, Any]]
Slice = tuple[int, int, int, str, str, Args]


def slices_of(model: TraceModel) -> Iterator[Slice]:
    """Thread, start, end, name, category and arguments of each slice, as Python values."""
    slices, strings = model.slices, model.strings
    keys = [strings[arg.name] for arg in slices.args]
    values = [
        [strings[i] for i in arg.column.values.tolist()]
        if arg.column.kind is ArgKind.TEXT
        else arg.column.values.tolist()
        for arg in slices.args
    ]
    columns = (slices.thread, slices.start_ns, slices.end_ns, slices.name, slices.category)
    rows = zip(*(column.tolist() for column in columns), zip(*values, strict=True), strict=True)
    for thread, start, end, name, category, args in rows:
        pairs = list(zip(keys, args, strict=True))
        yield thread, start, end, strings[name], strings[category], pairs


def flow_ends(model: TraceModel) -> dict[int, list[tuple[int, bool]]]:
    """Flows by slice: number, and whether it starts there."""
    found: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    pairs = zip(model.flows.source.tolist(), model.flows.target.tolist(), strict=True)
    for number, (source, target) in enumerate(pairs, 1):
        found[source].append((number, True))
        found[target].append((number, False))
    return found


def write_json_dumps(model: TraceModel, file: BinaryIO) -> None:
    """One call of json.dumps an event."""
    _write_events(model, file, lambda event: json.dumps(event).encode())


def write_orjson(model: TraceModel, file: BinaryIO) -> None:
    """One call of orjson.dumps an event."""
    import orjson

    _write_events(model, file, orjson.dumps)


def _write_events(
    model: TraceModel, file: BinaryIO, dumps: Callable[[dict[str, Any]], bytes]
) -> None:
    flows = flow_ends(model)
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n{"ph":"M","pid":1,"name":"start"}')
    for row, (thread, start, end, name, category, args) in enumerate(slices_of(model)):
        place = {"pid": _pid(model, thread), "tid": model.threads[thread].tid, "ts": start / 1000}
        event = {"ph": "X", **place, "dur": (end - start) / 1000, "name": name, "cat": category}
        file.write(b",\n" + dumps({**event, "args": dict(args)}))
        for number, starts in flows.get(row, ()):
            end_fields = {"ph": "s"} if starts else {"ph": "f", "bp": "e"}
            flow = {**end_fields, "id": number, "name": "flow", "cat": "", **place}
            file.write(b",\n" + dumps(flow))
    file.write(b"\n]}\n")


def _pid(model: TraceModel, thread: int) -> int:
    return model.processes[model.threads[thread].process].pid


def write_perfetto_package(model: TraceModel, file: BinaryIO) -> None:
    """Its streaming builder, with interned names."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

    event_type = perfetto_trace_pb2.TrackEvent
    builder = StreamingTraceProtoBuilder(file)
    names = {text: number for number, text in enumerate(model.strings, 1)}
    flows = flow_ends(model)
    _write_names(builder, names)
    _write_tracks(builder, model)
    for row, (thread, start, end, name, category, args) in enumerate(slices_of(model)):
        packet = _event(builder, start, event_type.TYPE_SLICE_BEGIN, thread)
        packet.track_event.name_iid = names[name]
        packet.track_event.category_iids.append(names[category])
        for key, value in args:
            _add_argument(packet, names, key, value)
        for number, starts in flows.get(row, ()):
            event = packet.track_event
            (event.flow_ids if starts else event.terminating_flow_ids).append(number)
        builder.write_packet(packet)
        builder.write_packet(_event(builder, end, event_type.TYPE_SLICE_END, thread))


def _event(builder: Any, ns: int, kind: int, thread: int) -> Any:
    packet = builder.create_packet()
    packet.timestamp, packet.trusted_packet_sequence_id, packet.sequence_flags = ns, 1, 2
    packet.track_event.type, packet.track_event.track_uuid = kind, 1000 + thread
    return packet


def _add_argument(packet: Any, names: dict[str, int], key: str, value: Any) -> None:
    argument = packet.track_event.debug_annotations.add()
    argument.name_iid = names[key]
    if isinstance(value, str):
        argument.string_value_iid = names[value]
    elif isinstance(value, int):
        argument.int_value = value
    else:
        argument.double_value = value


def _write_names(builder: Any, names: dict[str, int]) -> None:
    packet = builder.create_packet()
    packet.trusted_packet_sequence_id, packet.sequence_flags = 1, 1
    data = packet.interned_data
    for text, number in names.items():
        for table in (data.event_names, data.event_categories, data.debug_annotation_names):
            table.add(iid=number, name=text)
        data.debug_annotation_string_values.add(iid=number, str=text.encode())
    builder.write_packet(packet)


def _write_tracks(builder: Any, model: TraceModel) -> None:
    for index, thread in enumerate(model.threads):
        packet = builder.create_packet()
        track = packet.track_descriptor
        track.uuid = 1000 + index
        track.thread.pid, track.thread.tid = _pid(model, index), thread.tid
        track.thread.thread_name = thread.name
        builder.write_packet(packet)
