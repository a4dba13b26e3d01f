"""The order of ops that the alternative scheduler starts from."""

from __future__ import annotations

from npuscope.graph.model import Graph


def last_reader_first(graph: Graph) -> Graph:
    """Ops by descending end of a depth-first walk: of a value's readers the last one comes first.

    Builds with --Oalt-sched start the branches of a TFLite network so [code: YOLOX, CenterFace,
    MoveNet; 2.1 and 2.2]. An ONNX file keeps its order [code: text detection, 2.2]. The usual
    scheduler starts them in the order of the file: RAM of published YOLOX is exact with that alone.
    """
    readers = graph.consumers()
    place = {id(op): n for n, op in enumerate(graph.ops)}
    after = [[place[id(r)] for made in op.outputs for r in readers[made]] for op in graph.ops]
    ordered = graph.copy()
    ordered.ops = [graph.ops[n] for n in reversed(_ended(after))]
    return ordered


def _ended(after: list[list[int]]) -> list[int]:
    """Nodes in the order in which a depth-first walk is done with them."""
    seen: set[int] = set()
    done: list[int] = []
    for start in range(len(after)):
        path = [] if start in seen else [(start, iter(after[start]))]
        seen.add(start)
        while path:
            node, followers = path[-1]
            follower = next((n for n in followers if n not in seen), None)
            if follower is None:
                done.append(node)
                path.pop()
            else:
                seen.add(follower)
                path.append((follower, iter(after[follower])))
    return done
