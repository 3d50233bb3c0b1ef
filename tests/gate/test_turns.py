"""The order in which pods of several namespaces take their turns."""

from collections.abc import Iterable
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.gate.turns import PODS_IN_A_ROW, WaitingPods

OTHERS = ("a", "b", "c", "d")


class Queue:
    """Pods that wait for tokens of one bucket; each is named by its namespace and a number."""

    def __init__(self) -> None:
        self.waiting = WaitingPods()
        self.pods: dict[str, str] = {}
        self._numbers = count()

    def come(self, namespace: str, pods: int = 1) -> list[str]:
        """Let pods come to the end, and name them."""
        names = [f"{namespace}-{next(self._numbers)}" for _ in range(pods)]
        for name in names:
            self.pods[name] = namespace
            self.waiting.enter(name, namespace, (("cluster", "cluster"),), 0.0, 0.0)
        return names

    def serve(self, held: Iterable[str] = ()) -> str:
        """Let the first pod leave that is not held by another bucket, and name it."""
        first = min(self.pods.keys() - set(held), key=self.waiting.ticket)
        self.waiting.serve(first)
        del self.pods[first]
        return first

    def waits_of(self, namespace: str) -> int:
        return sum(each == namespace for each in self.pods.values())


def test_pods_of_namespaces_that_have_few_leave_as_they_came() -> None:
    queue = Queue()
    came = [name for number in range(PODS_IN_A_ROW) for name in queue.come("ab"[number % 2])]

    assert [queue.serve() for _ in came] == came


def test_pods_of_one_namespace_leave_as_they_came() -> None:
    queue = Queue()
    came = [*queue.come("a", 500), *queue.come("b", 3), *queue.come("a", 20)]

    left = [queue.serve() for _ in came]

    assert [name for name in left if name[0] == "a"] == [name for name in came if name[0] == "a"]


@given(before=st.integers(0, 400), held=st.booleans())
def test_those_who_came_first_with_many_pods_keep_a_row_before_others(
    *, before: int, held: bool
) -> None:
    """Of held pods of low tickets nothing follows for those who come later."""
    queue = Queue()
    kept = [queue.come(namespace, 250)[0] for namespace in OTHERS] if held else []
    if not held:
        for namespace in OTHERS:
            queue.come(namespace, 250)
    for _ in range(before):
        queue.serve(kept)
    shop = queue.come("shop", 10)

    served = 0
    while any(name in queue.pods for name in shop):
        queue.serve(kept)
        served += 1

    assert served <= (len(OTHERS) + 1) * 2 * PODS_IN_A_ROW


@given(pods=st.integers(1, 150), others=st.integers(1, 6), is_new=st.booleans())
def test_no_namespace_is_passed_for_ever_by_those_that_come_again_and_again(
    *, pods: int, others: int, is_new: bool
) -> None:
    queue = Queue()
    shop = queue.come("shop", pods)
    names = (f"n{number if is_new else number % others}" for number in count())
    most = (others + 1) * (pods + PODS_IN_A_ROW)

    for _ in range(most):
        while queue.waits_of("shop") + others > len(queue.pods):
            queue.come(next(names))
        queue.serve()

    assert not queue.pods.keys() & set(shop)


def test_when_no_pod_waits_any_more_the_rows_begin_anew() -> None:
    queue = Queue()
    queue.come("a", 3 * PODS_IN_A_ROW)
    while queue.pods:
        queue.serve()

    [of_a] = queue.come("a")
    [of_b] = queue.come("b")

    assert queue.waiting.ticket(of_a)[0] == queue.waiting.ticket(of_b)[0] == 0
