"""When a node that keeps being overloaded is believed to be, as koordinator counts."""

from reactive_desched.model.anomaly import AnomalyDetector, AnomalyDetectors, AnomalyLimits

TWICE = AnomalyLimits(abnormalities=2, normalities=2, timeout_s=60)


def marks(detector: AnomalyDetector, count: int, now_s: float = 0.0) -> list[bool]:
    return [detector.mark_abnormal(now_s) for _ in range(count)]


def test_a_node_is_abnormal_when_found_so_more_often_than_asked() -> None:
    assert marks(AnomalyDetector(TWICE), 4) == [False, False, True, True]


def test_by_default_the_sixth_time_counts() -> None:
    assert marks(AnomalyDetector(AnomalyLimits()), 6) == [False] * 5 + [True]


def test_the_abnormal_state_ends_after_its_timeout_and_counts_begin_anew() -> None:
    detector = AnomalyDetector(TWICE)
    marks(detector, 3)

    assert detector.mark_abnormal(60.0)
    assert not detector.mark_abnormal(60.1)
    assert marks(detector, 2, 60.2) == [False, True]


def test_it_ends_when_found_normal_more_often_than_asked() -> None:
    detector = AnomalyDetector(TWICE)
    marks(detector, 3)
    for _ in range(2):
        detector.mark_normal(1.0)
    assert detector.mark_abnormal(1.0), "which breaks the run"

    for _ in range(3):
        detector.mark_normal(1.0)

    assert not detector.mark_abnormal(1.0)


def test_a_reset_ends_the_state_and_leaves_the_counts_of_a_normal_node() -> None:
    detector = AnomalyDetector(TWICE)
    marks(detector, 3)
    detector.reset()
    assert marks(detector, 1) == [False]
    detector.reset()

    assert marks(detector, 2) == [False, True]


def test_a_normal_observation_breaks_a_run_of_abnormal_ones() -> None:
    detector = AnomalyDetector(TWICE)
    marks(detector, 2)
    detector.mark_normal(0.0)

    assert marks(detector, 3) == [False, False, True]


def observe(detectors: AnomalyDetectors, *evidence: float, now_s: float = 0.0) -> list[bool]:
    detectors.begin(now_s)
    return [detectors.observe_abnormal("n1", TWICE, each) for each in evidence]


def test_the_same_evidence_is_one_observation() -> None:
    assert observe(AnomalyDetectors(300), 1, 1, 1, 2, 2, 3, 3) == [False] * 5 + [True] * 2


def test_what_follows_from_an_observation_counts_with_the_next() -> None:
    detectors = AnomalyDetectors(300)
    observe(detectors, 1, 2, 3)
    detectors.relieve("n1")
    assert observe(detectors, 3) == [True], "nothing new was seen"
    detectors.relieve("n1")

    assert observe(detectors, 4, 5, 6) == [False, False, True]


def test_a_condition_of_one_counts_at_once() -> None:
    detectors = AnomalyDetectors(300)
    detectors.begin(0.0)

    assert detectors.observe_abnormal("n1", AnomalyLimits(abnormalities=1), 1)
    assert len(detectors) == 0


def test_a_node_that_was_not_abnormal_for_a_while_is_forgotten() -> None:
    detectors = AnomalyDetectors(300)
    observe(detectors, 1, 2)
    detectors.begin(300.0)
    assert len(detectors) == 1

    detectors.begin(300.1)
    assert len(detectors) == 0
    assert observe(detectors, 3, now_s=300.1) == [False]
