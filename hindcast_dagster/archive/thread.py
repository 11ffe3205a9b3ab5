"""Threads: the tree of the comments under one post, walked up or down.

Works on keys alone, so that a thread of any size is walked before a single text is read. Parents that are missing
(filtered, deleted, later than t0) and cycles are tolerated: such a comment starts a branch of its own.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Traversal = Literal["all", "ancestors", "descendants"]


class Node(NamedTuple):
    """One visible comment: its bare id, its prefixed parent id, and where it lies. Sorts by time."""

    created_at: int
    id: str
    parent: str
    month: str
    row: int


@dataclass(slots=True)
class Thread:
    """The visible comments of one post."""

    nodes: dict[str, Node]
    parent: dict[str, str] = field(default_factory=dict)
    """Comment to parent comment, where that is visible too."""
    children: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> "Thread":
        """Build the tree; siblings are in order of time."""
        thread = cls({node.id: node for node in sorted(nodes)})
        for node in thread.nodes.values():
            above = node.parent.removeprefix("t1_")
            if node.parent.startswith("t1_") and above in thread.nodes and above != node.id:
                thread.parent[node.id] = above
                thread.children.setdefault(above, []).append(node.id)
        return thread

    def walk(self, *, focus: str | None, traversal: Traversal, depth: int) -> list[Node]:
        """Return the comments that a traversal reaches, oldest first.

        Without a focus: the whole thread, `depth` levels deep. With one: at most `depth` steps up, down, or both with
        the focus itself in between. A focus that is not visible reaches nothing.
        """
        if focus is None:
            reached = self._levels(depth)
        elif focus not in self.nodes:
            reached = set()
        else:
            up = self._up(focus, depth) if traversal != "descendants" else set()
            down = self._down([focus], depth) if traversal != "ancestors" else {focus}
            reached = up | (down if traversal == "all" else down - {focus})
        return [node for node in self.nodes.values() if node.id in reached]

    def _levels(self, depth: int) -> set[str]:
        roots = [name for name in self.nodes if name not in self.parent]
        reached, everything = self._down(roots, depth - 1), self._down(roots, len(self.nodes))
        if len(everything) == len(self.nodes):
            return reached
        for name in self.nodes:  # a cycle has no root: its oldest comment stands in
            if name not in everything:
                reached |= self._down([name], depth - 1)
                everything |= self._down([name], len(self.nodes))
        return reached

    def _down(self, start: list[str], steps: int) -> set[str]:
        reached, queue = set(start), deque((name, 0) for name in start)
        while queue:
            name, step = queue.popleft()
            if step < steps:
                new = [child for child in self.children.get(name, []) if child not in reached]
                reached.update(new)
                queue.extend((child, step + 1) for child in new)
        return reached

    def _up(self, focus: str, steps: int) -> set[str]:
        reached: set[str] = set()
        here = self.parent.get(focus)
        while here is not None and here != focus and here not in reached and len(reached) < steps:
            reached.add(here)
            here = self.parent.get(here)
        return reached
