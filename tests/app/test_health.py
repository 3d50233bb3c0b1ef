"""What /readyz says of the sinks: which of them takes no records, and why."""

from reactive_desched.app.health import add_sink_check
from reactive_desched.web.health import Health


def test_a_sink_that_takes_no_records_is_named_and_does_not_make_the_controller_unready() -> None:
    errors: dict[str, str] = {}
    health = Health(lambda: 0.0)
    add_sink_check(health, lambda: errors)
    assert "sinks" in health.readyz().text(verbose=True)
    assert "all take records" in health.readyz().text(verbose=True)

    errors["kafka"] = "no such topic"
    report = health.readyz()
    assert report.ok
    assert "[!]sinks: kafka: no such topic" in report.text(verbose=True)
