"""Stream switch: a queue at each destination port, behind the two contexts of its link."""

from __future__ import annotations

from collections import deque

import numpy as np

from npuscope.program.units import Link
from npuscope.sim.arithmetic.words import ANY_FRAME, Words


class Contexts:
    """Two contexts alternate for ever, each for its count of frames; 0 means no limit."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.frame = 0

    def let_pass(self) -> bool:
        """Count one frame of the source; a disabled context drops it."""
        link, frame = self.link, self.frame
        self.frame += 1
        if not link.frames0:
            return link.enable0
        if not link.frames1:
            return link.enable0 if frame < link.frames0 else link.enable1
        place = frame % (link.frames0 + link.frames1)
        return link.enable0 if place < link.frames0 else link.enable1


class Inbox:
    """Words that wait at a destination port. Frames keep their borders until they are cut."""

    def __init__(self, link: Link) -> None:
        self.contexts = Contexts(link)
        self.frames: deque[Words] = deque()
        self.words = 0

    def put(self, frame: Words) -> None:
        if self.contexts.let_pass():
            self.frames.append(frame)
            self.words += len(frame)

    def holds(self, words: int) -> bool:
        return bool(self.frames) if words == ANY_FRAME else self.words >= words

    def take(self, words: int) -> Words:
        """Remove so many words; the caller has asked `holds`."""
        first = self.frames.popleft()
        if words == ANY_FRAME or len(first) == words:
            self.words -= len(first)
            return first
        return self._cut(first, words)

    def _cut(self, first: Words, words: int) -> Words:
        pieces, found = [first], len(first)
        while found < words:
            pieces.append(self.frames.popleft())
            found += len(pieces[-1])
        joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if found > words:
            self.frames.appendleft(joined[words:])
        self.words -= words
        return joined[:words]
