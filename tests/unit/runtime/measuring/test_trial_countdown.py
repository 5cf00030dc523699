"""The countdown of trials."""

from supervisor.runtime.measuring.trial_countdown import TrialCountdown


def test_each_trial_says_which_of_how_many_it_is_and_how_long_the_rest_takes() -> None:
    """The first cannot know; then it is by the mean of those that took a process."""
    countdown = TrialCountdown()
    assert countdown.begin() == (
        "how many trials there are, and how long they take, is known after it"
    )
    countdown.took(30)
    countdown.expect(11)
    assert countdown.begin() == (
        "2 of at most 12; about 5 min 30 s at most, if all take 30 s as so far"
    )
    countdown.took(50)
    assert countdown.left == 10
    countdown.expect(3)
    assert countdown.begin().startswith("3 of at most 5; about 2 min 00 s at most")


def test_no_time_is_told_where_none_was_taken() -> None:
    """A trial that could be ruled out took none."""
    countdown = TrialCountdown()
    countdown.expect(2)
    assert countdown.begin() == "1 of at most 2"


def test_how_many_are_left_is_not_known_before_it_is_expected() -> None:
    """The first trial decides it."""
    countdown = TrialCountdown()
    countdown.begin()
    assert countdown.left is None
