"""Where the comments of a legacy policy go when it is converted."""

import pytest

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.convert.rewriting import ConvertOptions, convert_policy
from reactive_desched.policy.documents import SourceText
from tests.support.golden import Golden

HEAD = "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"
LIFE = f"""\
{HEAD}strategies:
  PodLifeTime:
    enabled: true
    params:
      podLifeTime:
        maxPodLifeTimeSeconds: 5
"""


def lines(text: str, **wishes: bool) -> list[str]:
    """Convert a text and give the lines of the new one without their indentation."""
    new = convert_policy(SourceText(text, "p.yaml"), plugin_registry(), ConvertOptions(**wishes))
    return [line.strip() for line in new.text.decode().splitlines()]


def around(text: str, line: str, *, above: int = 0, below: int = 0) -> list[str]:
    """Give a line of the converted text with some of those around it."""
    new = lines(text)
    at = new.index(line)
    return new[at - above : at + below + 1]


def test_what_is_above_a_strategy_goes_above_its_entry_in_plugin_config() -> None:
    text = LIFE.replace("  PodLife", "\n  # old pods\n\n  # must go\n\n  PodLife", 1)

    assert around(text, "- name: PodLifeTime", above=4) == [
        "- name: DefaultEvictor",
        "# old pods",
        "",
        "# must go",
        "- name: PodLifeTime",
    ]


def test_a_mapping_that_is_commented_out_stays_one_comment() -> None:
    text = LIFE.replace(
        "params:\n",
        """params:
      namespaces:
        include:
        - a
        # b is old
      # exclude:
        # - c
        #   - d
""",
    )

    assert around(text, "# exclude:", below=2) == ["# exclude:", "# - c", "#   - d"]
    assert around(text, "# b is old", above=1, below=1) == ["- a", "# b is old", "plugins:"]


def test_what_is_beside_a_strategy_goes_beside_or_above_its_entry() -> None:
    text = LIFE.replace("PodLifeTime:\n", "PodLifeTime: # old\n")

    assert around(text, "- name: PodLifeTime", above=1) == ["# old", "- name: PodLifeTime"]


def test_what_is_moved_is_indented_as_what_it_is_about() -> None:
    text = LIFE.replace("PodLifeTime:\n", "PodLifeTime:          # old\n")
    text = text.replace("podLifeTime:", "podLifeTime:          # block")
    text = text.replace("    params", "#   p\n    params")
    new = convert_policy(
        SourceText(text, "p.yaml"), plugin_registry(), ConvertOptions()
    ).text.decode()

    assert "\n      # old\n      - name: PodLifeTime\n        #   p\n        args:\n" in new
    assert "\n          # block\n          maxPodLifeTimeSeconds" in new


def test_what_is_said_of_the_parameters_goes_to_the_arguments_of_the_plugin() -> None:
    text = LIFE.replace("params:\n", "params: # p\n      thresholdPriority: 5\n")

    assert around(text, "args: # p", above=1) == ["- name: PodLifeTime", "args: # p"]


def test_what_is_said_of_the_switch_goes_to_the_name_that_is_enabled() -> None:
    text = LIFE.replace("    enabled: true", "    # since\n    enabled: true # March")

    assert around(text, "- PodLifeTime # March", above=2) == [
        "enabled:",
        "# since",
        "- PodLifeTime # March",
    ]


def test_what_is_said_of_a_value_stays_with_the_value() -> None:
    text = f"""\
{HEAD}# many
maxNoOfPodsToEvictPerNode: 10 # ten
strategies:
  LowNodeUtilization:
    enabled: true
    params:
      thresholdPriority: 500 # five
      nodeResourceUtilizationThresholds:
        thresholds:
          # of the cores
          cpu: 20 # little
        targetThresholds: {{cpu: 50}} # much
"""
    new = lines(text)

    assert new[2:4] == ["# many", "maxNoOfPodsToEvictPerNode: 10 # ten"]
    assert "value: 500 # five" in new
    assert around(text, "# of the cores", above=1, below=2) == [
        "thresholds:",
        "# of the cores",
        "cpu: 20 # little",
        "targetThresholds: {cpu: 50} # much",
    ]


def test_what_is_said_of_a_switch_of_the_evictor_stays_with_it_in_the_first_profile() -> None:
    text = f"""\
{HEAD}# no state
evictLocalStoragePods: true # scratch
strategies:
  RemoveDuplicates: {{enabled: true}}
  RemoveFailedPods: {{enabled: true}}
"""
    new = lines(text)

    assert [line for line in new if "PodsWithLocalStorage" in line or "#" in line] == [
        "# no state",
        "- PodsWithLocalStorage # scratch",
        "- PodsWithLocalStorage",
    ]
    assert "evictLocalStoragePods: true # scratch" in lines(text, keep_deprecated=True)


def test_what_is_said_of_a_block_goes_above_the_first_argument_from_it() -> None:
    text = LIFE.replace("podLifeTime:", "podLifeTime: # block")
    text = text.replace("    params", "    # p\n    params")

    assert around(text, "maxPodLifeTimeSeconds: 5", above=3) == [
        "# p",
        "args:",
        "# block",
        "maxPodLifeTimeSeconds: 5",
    ]


def test_what_is_said_of_items_stays_with_the_items() -> None:
    text = f"""\
{LIFE}        podStatusPhases: # phases
        # not yet there
        - Pending # p
        states: # states
        - Running # r
        # the end
"""
    assert around(text, "states: # states", below=6) == [
        "states: # states",
        "# phases",
        "# not yet there",
        "- Pending # p",
        "- Running # r",
        "# the end",
        "plugins:",
    ]


def test_a_comment_inside_brackets_makes_them_lines() -> None:
    text = f"""\
{HEAD}strategies:
  RemovePodsViolatingNodeTaints:
    enabled: true
    params:
      excludedTaints: [a, # first
        # second
        b, # both
                              # far away
        c
        ] # end
"""
    assert around(text, "excludedTaints: # first", above=1, below=5) == [
        "# end",
        "excludedTaints: # first",
        "- a",
        "# second",
        "- b # both",
        "# far away",
        "- c",
    ]


def test_a_dash_may_stand_alone() -> None:
    text = f"""\
{LIFE}        states:
        # one
        -
          # two
          Pending # three
        - # four
          Running
          # five
        # six
        -
          Unknown
"""
    assert around(text, "- Pending # three", above=2, below=5) == [
        "# one",
        "# two",
        "- Pending # three",
        "# four",
        "- Running",
        "# five",
        "# six",
        "- Unknown",
    ]


def test_what_is_indented_deeper_than_the_first_of_its_kind_is_about_it() -> None:
    text = LIFE.replace("      podLifeTime", "         # deep\n      podLifeTime")

    assert around(text, "maxPodLifeTimeSeconds: 5", above=1)[0] == "# deep"


def test_settings_that_are_commented_out_stay_at_the_end_of_what_they_were_in() -> None:
    text = f"""\
{LIFE}        # states:
        #   - Pending
      # nodeFit: true
    # weight: 1
  # RemoveDuplicates:
  #   enabled: true
# strategies: none
"""
    new = lines(text)

    assert around(text, "maxPodLifeTimeSeconds: 5", below=3)[1:] == [
        "# states:",
        "#   - Pending",
        "# nodeFit: true",
    ]
    assert new[-4:] == [
        "- PodLifeTime",
        "# RemoveDuplicates:",
        "#   enabled: true",
        "# strategies: none",
    ]


def test_parameters_that_are_commented_out_below_the_switch_go_below_the_entry() -> None:
    text = f"""\
{HEAD}strategies:
  RemoveDuplicates:
    enabled: true
    # params:
    #   nodeFit: true
  RemoveFailedPods: {{enabled: true}}
"""
    assert around(text, "- name: RemoveDuplicates", below=3) == [
        "- name: RemoveDuplicates",
        "# params:",
        "#   nodeFit: true",
        "plugins:",
    ]


def test_settings_that_are_commented_out_below_what_is_dropped_stay_where_they_were() -> None:
    text = f"""\
{LIFE}      nodeFit: true
      # labelSelector: {{}}
"""
    assert around(text, "maxPodLifeTimeSeconds: 5", below=2)[1:] == [
        "# labelSelector: {}",
        "plugins:",
    ]


def test_a_strategy_that_is_commented_out_below_merged_ones_stays_among_them() -> None:
    text = f"""\
{HEAD}strategies:
  RemoveDuplicates: {{enabled: true}}
  RemoveFailedPods: {{enabled: true}}
  # PodLifeTime: {{enabled: true}}
"""
    new = lines(text, merge=True)

    assert new[new.index("- name: RemoveFailedPods") :][1:3] == [
        "# PodLifeTime: {enabled: true}",
        "plugins:",
    ]


def test_what_is_above_and_below_everything_stays_there() -> None:
    text = f"# yaml-language-server: $schema=x\n\n# Ours\n{LIFE}\n# the end\n"

    new = lines(text)

    assert new[:4] == [
        "# yaml-language-server: $schema=x",
        "",
        "# Ours",
        "apiVersion: descheduler/v1alpha2",
    ]
    assert new[-2:] == ["", "# the end"]


def test_comments_on_what_is_dropped_are_kept_at_the_top_with_their_place(golden: Golden) -> None:
    text = f"""\
# Ours
{HEAD}evictDaemonSetPods: false # never
strategies:
  # later
  RemoveDuplicates:
    # it moves too much,
    # we think
    enabled: false
  PodLifeTime:
    enabled: true
    params:
      nodeFit: true #fits
      podLifeTime: {{maxPodLifeTimeSeconds: 5}}
"""
    assert lines(text.replace("# Ours\n", "# Ours\n\n")) == lines(text)
    assert lines(text)[:11] == [
        "# Ours",
        "",
        golden(),
        "# - evictDaemonSetPods: never",
        "# - strategies.RemoveDuplicates: later",
        "# - strategies.RemoveDuplicates.enabled: it moves too much,",
        "#   we think",
        "# - strategies.PodLifeTime.params.nodeFit: fits",
        "",
        "apiVersion: descheduler/v1alpha2",
        "kind: DeschedulerPolicy",
    ]


def test_without_such_comments_nothing_is_added_at_the_top() -> None:
    assert lines(LIFE)[0] == "apiVersion: descheduler/v1alpha2"


def test_empty_lines_stay_between_what_stays_at_the_top() -> None:
    text = LIFE.replace("strategies:", "\n# what runs\nstrategies:")

    assert around(text, "profiles:", above=2) == ["", "# what runs", "profiles:"]


def test_merged_strategies_keep_their_comments() -> None:
    text = f"""\
{HEAD}strategies:
  # one
  RemoveDuplicates: {{enabled: true}}
  # two
  RemoveFailedPods:
    enabled: true # on
"""
    new = lines(text, merge=True)

    assert new[new.index("# one") :][:4] == [
        "# one",
        "- name: RemoveDuplicates",
        "# two",
        "- name: RemoveFailedPods",
    ]
    assert "- RemoveFailedPods # on" in new


@pytest.mark.parametrize(
    ("written", "comment"),
    [
        ('["a #b"] # real', "# real"),
        ("[a#b]   # real", "# real"),
        ("['a # b,\n          # c'] # real", "# real"),
        ("\n        - | # real\n          # b", "# real"),
        ("\n        - &a a # real # still", "# real # still"),
        ("\t#real\n        - a", "#real"),
        ("# real\n          [a]", "# real"),
    ],
    ids=["in quotes", "in a word", "on two lines", "a block", "two signs", "a tab", "line below"],
)
def test_a_comment_begins_where_the_parser_says(written: str, comment: str) -> None:
    text = f"""\
{HEAD}strategies:
  RemovePodsViolatingNodeTaints:
    enabled: true
    params:
      excludedTaints: {written}
"""
    (line,) = [each for each in lines(text) if "real" in each]

    assert line.endswith(f" {comment}")
