"""What --fix corrects: at its place, once, and nothing else."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.corrections import CorrectedText, correct
from reactive_desched.policy.documents import SourceText
from tests.support.small_plugins import HEAD


def corrected(text: str | bytes, *, lenient: bool = False) -> CorrectedText:
    return correct(SourceText(text, "p.yaml"), plugin_registry(), lenient=lenient)


def text_of(text: str) -> str:
    return corrected(dedent(text)).text.decode()


def test_comments_quotes_and_spaces_stay() -> None:
    assert text_of("""\
        # ours
        apiVersion:   "v1alpha2"   # short
        Kind: DeschedulerPolicy
        'nodeSelectr':  a=b    # which

        profiles:   # all
          -   name: x
              plugin_config:
              - {name: 'DefaultEvictr', args: {nodefit: "true", min-replicas: 2}} # last
        """) == dedent("""\
        # ours
        apiVersion:   "descheduler/v1alpha2"   # short
        kind: DeschedulerPolicy
        'nodeSelector':  a=b    # which

        profiles:   # all
          -   name: x
              pluginConfig:
              - {name: 'DefaultEvictor', args: {nodeFit: true, minReplicas: 2}} # last
        """)


def test_json_stays_json() -> None:
    text = '{"apiVersion":"descheduler/v1alpha2","kind":"DeschedulrPolicy",\n\t"nodeSelectr":"a"}'
    assert corrected(text).text.decode() == text.replace("Schedulr", "").replace(
        "DeschedulrPolicy", "DeschedulerPolicy"
    ).replace("nodeSelectr", "nodeSelector")


def test_a_byte_order_mark_and_line_ends_stay() -> None:
    text = f"{HEAD}nodeSelectr: a\n".replace("\n", "\r\n").encode("utf-8-sig")
    assert corrected(text).text == text.replace(b"Selectr", b"Selector")


def test_what_is_written_twice_goes_with_its_line_and_its_comma() -> None:
    assert text_of(f"""\
{HEAD}profiles:
- name: default
  pluginConfig:
  - name: RemoveDuplicates
    args: {{}}   # counts
  # another
  - name: RemoveDuplicates
    args:
      excludeOwnerKinds: []  # does not
  - name: DefaultEvictor
  plugins:
    balance:
      enabled: [RemoveDuplicates,  RemoveDuplicates , HighNodeUtilization]
    filter:
      enabled:
      - DefaultEvictor
      - DefaultEvictor # again
""").endswith("""\
  pluginConfig:
  - name: RemoveDuplicates
    args: {}   # counts
  # another
  - name: DefaultEvictor
  plugins:
    balance:
      enabled: [RemoveDuplicates , HighNodeUtilization]
    filter:
      enabled:
      - DefaultEvictor
""")


def test_what_goes_is_not_corrected_inside() -> None:
    head = f"{HEAD}profiles:\n- pluginConfig:\n  - name: DefaultEvictor\n"
    twice = "  - name: DefaultEvictor\n    args: {nodefit: true}\n"

    result = corrected(head + twice)

    assert result.text.decode() == head
    assert [each.before for each in result.corrections] == ["name: DefaultEvictor …"]


def test_a_mistake_that_a_correction_brings_to_light_is_corrected_too() -> None:
    text = f"{HEAD}Profiles:\n- name: x\n  plugins: {{balance: {{enabled: [removeDuplicates]}}}}\n"

    result = corrected(text)

    assert result.text.decode() == text.replace("Profiles", "profiles").replace(
        "removeDuplicates", "RemoveDuplicates"
    )
    assert [(each.before, each.after) for each in result.corrections] == [
        ("Profiles", "profiles"),
        ("removeDuplicates", "RemoveDuplicates"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("nodeSelector: a\nnodeSelector: b\n", id="two values: either may be meant"),
        pytest.param("nodeSelectr: a\nnodeSelector: b\n", id="the known name is there"),
        pytest.param("bogus: 1\n", id="a name like no other"),
        pytest.param("ignorePvcPods: true\n", id="another place"),
        pytest.param("maxNoOfPodsToEvictPerNod: 1\nmaxNoOfPodsToEvict: 2\n", id="one of several"),
    ],
)
def test_what_needs_a_decision_stays(text: str) -> None:
    left = corrected(f"{HEAD}{text}").text.decode()
    assert left == f"{HEAD}{text}".replace("PerNod:", "PerNode:")


def test_a_part_that_is_shared_does_not_go() -> None:
    text = f"{HEAD}x: &two [DefaultEvictor, DefaultEvictor]\nprofiles:\n- plugins:\n"
    text += "    filter: {enabled: *two}\n    preevictionfilter: {enabled: *two}\n"
    assert corrected(text).text.decode() == text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("5 minutes", "5m"),
        ("'1 Hour, 30 min'", "'1h30m'"),
        ('"2 days"', '"2d"'),
        ("1 hour and 5 seconds", "1h5s"),
        ("1 year", None),
        ("60", None),
        ("soon", None),
    ],
)
def test_durations_in_words_are_written_with_units(written: str, meant: str | None) -> None:
    text = f"{HEAD}profiles: [{{name: x, pluginConfig: [{{name: DefaultEvictor, args: {{minPodAge: "
    rest = "}}]}]\n"
    assert corrected(f"{text}{written}{rest}").text.decode() == f"{text}{meant or written}{rest}"


def test_a_valid_policy_that_does_something_else_afterwards_says_so() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    plugin = "RemovePodsViolatingNodeAffinity"
    text = (
        f"{HEAD}profiles: [{{name: x, pluginConfig: [{{name: {plugin}, args: {{nodeAffinityType: "
        f"[{required}, {preferred[:-1]}]}}}}], plugins: {{deschedule: {{enabled: [{plugin}]}}}}}}]"
    )
    assert corrected(text).is_other_policy
    assert not corrected(f"{HEAD}gracePeriodSeconds: 0600\n").is_other_policy


def test_a_policy_in_a_config_map_is_corrected_there() -> None:
    inner = "".join(f"    {line}\n" for line in f"{HEAD}nodeSelectr: a".splitlines())
    text = (
        f"apiVersion: v1\nkind: ConfigMap\ndata:\n  policy.yaml: |\n{inner}  other: nodeSelectr\n"
    )
    assert corrected(text).text.decode() == text.replace("nodeSelectr: a", "nodeSelector: a")


WORDS = st.sampled_from(
    [
        *("apiVersion", "kind", "Kind", "profiles", "Profiles", "name", "plugins", "pluginConfig"),
        *("args", "params", "enabled", "balance", "nodeSelectr", "RemoveDuplicates", "removeDups"),
        *("descheduler/v1alpha2", "v1alpha2", "DeschedulerPolicy", "0600", '"3"', "5 minutes"),
        *("nodeFit", "minPodAge", "DefaultEvictor", "DefaultEvictr", "balance:", "true"),
    ]
)
PARTS = st.one_of(
    WORDS, st.sampled_from([": ", "\n", "\n  ", "\n- ", "\n  - ", "{", "}", "[", "]", ", "])
)


@given(st.lists(PARTS, max_size=30))
def test_a_correction_of_anything_ends_and_leaves_nothing_to_correct(parts: list[str]) -> None:
    result = corrected(HEAD + "".join(parts))

    again = corrected(result.text)
    assert again.corrections == ()
    assert again.text == result.text
    if not result.corrections:
        assert result.text.decode() == HEAD + "".join(parts)
