from reactive_desched.controller.sync import SyncStatus


class Bench:
    """Two resources, and how often something differed."""

    def __init__(self) -> None:
        self.changes = 0
        self.synced = SyncStatus(("nodes", "pods"), self._changed, optional={"nodes"})

    def _changed(self) -> None:
        self.changes += 1

    def list_and_watch(self, *resources: str) -> None:
        for resource in resources:
            self.synced.list_started(resource)
            self.synced.list_finished(resource)
            self.synced.watch_started(resource)


def test_what_was_never_listed_is_named_first() -> None:
    synced = Bench().synced

    assert not synced.is_synced
    assert synced.first_reason() == "nodes: not listed yet"
    assert synced.reasons() == {"nodes": "not listed yet", "pods": "not listed yet"}


def test_everything_listed_and_watched_is_complete() -> None:
    bench = Bench()
    bench.list_and_watch("nodes")
    assert bench.synced.first_reason() == "pods: not listed yet"

    bench.list_and_watch("pods")
    assert bench.synced.is_synced
    assert bench.synced.first_reason() is None
    assert bench.synced.reasons() == {"nodes": "", "pods": ""}


def test_a_list_counts_only_once_a_watch_is_open_on_it() -> None:
    bench = Bench()
    bench.list_and_watch("nodes", "pods")
    bench.synced.list_started("pods")
    assert bench.synced.first_reason() == "pods: a new list is being taken in"
    bench.synced.list_finished("pods")
    assert bench.synced.first_reason() == "pods: waiting for a watch"
    bench.synced.watch_started("pods")
    assert bench.synced.is_synced


def test_a_watch_does_not_make_half_a_list_whole() -> None:
    bench = Bench()
    bench.list_and_watch("nodes", "pods")
    bench.synced.list_started("pods")
    bench.synced.watch_started("pods")

    assert bench.synced.first_reason() == "pods: a new list is being taken in"


def test_a_watch_without_any_list_counts_for_nothing() -> None:
    bench = Bench()
    bench.list_and_watch("nodes")
    bench.synced.watch_started("pods")

    assert not bench.synced.is_synced


def test_a_lost_link_is_told_with_its_reason_until_the_watch_is_open_again() -> None:
    bench = Bench()
    bench.list_and_watch("nodes", "pods")
    bench.synced.stale("nodes", "connection refused")
    assert bench.synced.first_reason() == "nodes: connection refused"

    bench.synced.watch_started("nodes")
    assert bench.synced.is_synced


def test_a_link_lost_without_a_reason_is_lost_all_the_same() -> None:
    bench = Bench()
    bench.list_and_watch("nodes", "pods")
    bench.synced.stale("nodes", "")

    assert bench.synced.first_reason() == "nodes: link lost"


def test_only_differences_are_told() -> None:
    bench = Bench()
    bench.list_and_watch("nodes", "pods")
    before = bench.changes
    for _ in range(3):
        bench.synced.watch_started("nodes")
    assert bench.changes == before

    for _ in range(3):
        bench.synced.stale("nodes", "reset")
    assert bench.changes == before + 1
    bench.synced.stale("nodes", "refused")
    assert bench.changes == before + 2


def test_a_dispensable_resource_that_is_refused_is_done_without_until_it_can_be_read() -> None:
    bench, told = Bench(), []
    bench.synced.resource_missing = lambda *words: told.append(words)
    bench.list_and_watch("pods")
    bench.synced.denied("nodes", "403")
    bench.synced.denied("nodes", "403")
    assert bench.synced.is_synced
    assert told == [("nodes", "403")]

    bench.synced.stale("nodes", "500")
    assert bench.synced.is_synced

    bench.synced.list_started("nodes")
    assert not bench.synced.is_synced
    bench.synced.list_finished("nodes")
    bench.synced.watch_started("nodes")
    assert bench.synced.is_synced
    bench.synced.stale("nodes", "lost")
    assert bench.synced.first_reason() == "nodes: lost"


def test_all_that_is_refused_is_named_at_once_also_what_was_given_up() -> None:
    synced = Bench().synced
    assert synced.all_reasons() == "nodes, pods: not listed yet"
    synced.stale("nodes", "403")
    assert synced.all_reasons() == "nodes: 403; pods: not listed yet"
    synced.stale("pods", "403")
    assert synced.all_reasons() == "nodes, pods: 403"

    synced.denied("nodes", "403")
    assert synced.all_reasons() == "nodes, pods: 403"
    assert synced.missing() == {"nodes": "403"}

    synced.list_started("nodes")
    synced.list_finished("nodes")
    synced.watch_started("nodes")
    assert (synced.all_reasons(), synced.missing()) == ("pods: 403", {})


def test_nothing_is_held_up_for_what_was_given_up() -> None:
    bench = Bench()
    bench.list_and_watch("pods")
    bench.synced.denied("nodes", "403")

    assert bench.synced.all_reasons() == ""


def test_a_resource_that_is_needed_is_waited_for_however_often_it_is_refused() -> None:
    bench = Bench()
    bench.list_and_watch("nodes")
    bench.synced.denied("pods", "403")

    assert bench.synced.first_reason() == "pods: not listed yet"
