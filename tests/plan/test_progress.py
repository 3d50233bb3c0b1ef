import io

from reactive_desched.plan.progress import ProgressBar, progress_on

CLEAR = "\r\x1b[K"


def test_a_bar_shows_the_share_and_is_taken_away_at_the_end() -> None:
    terminal = io.StringIO()
    bar = ProgressBar(terminal, lambda: 1.0)
    bar.update("reading a", 1, 2)
    bar.finish()

    assert terminal.getvalue() == f"{CLEAR}reading a [{'#' * 15}{'.' * 15}]  50%{CLEAR}"


def test_without_an_end_the_number_is_shown() -> None:
    terminal = io.StringIO()
    ProgressBar(terminal, lambda: 1.0).update("listing pods:", 12345)

    assert terminal.getvalue() == f"{CLEAR}listing pods: 12,345"


def test_it_changes_ten_times_a_second_at_most() -> None:
    terminal, now = io.StringIO(), iter([0.0, 0.05, 0.09, 0.1, 0.15])
    bar = ProgressBar(terminal, lambda: next(now))
    for done in range(5):
        bar.update("", done)

    assert terminal.getvalue() == f"{CLEAR} 0{CLEAR} 3"


def test_a_share_beyond_the_end_is_the_whole() -> None:
    terminal = io.StringIO()
    ProgressBar(terminal, lambda: 0.0).update("", 7, 5)

    assert terminal.getvalue().endswith("100%")


def test_a_note_takes_the_bar_away_and_stays() -> None:
    terminal = io.StringIO()
    bar = ProgressBar(terminal, lambda: 1.0)
    bar.update("", 7)
    bar.note("no answer")
    bar.finish()

    assert terminal.getvalue() == f"{CLEAR} 7{CLEAR}waiting: no answer\n"


def test_elsewhere_notes_alone_are_shown() -> None:
    output = io.StringIO()
    progress = progress_on(output, lambda: 1.0)
    progress.update("a", 1, 2)
    progress.note("no answer")
    progress.finish()

    assert output.getvalue() == "waiting: no answer\n"


def test_a_bar_that_was_never_shown_is_not_taken_away() -> None:
    terminal = io.StringIO()
    ProgressBar(terminal, lambda: 0.0).finish()

    assert terminal.getvalue() == ""
