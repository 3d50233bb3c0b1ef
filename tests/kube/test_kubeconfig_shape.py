from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.kubeconfig_shape import read_kubeconfig
from tests.support.golden import Golden

SECRET = "c4n4ry"


def refusal(folder: Path, text: str) -> str:
    path = folder / "config"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_kubeconfig(str(path))
    return str(caught.value).replace(str(path), "FILE")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("just words", id="a text"),
        pytest.param(
            "kind: DeschedulerPolicy\n---\nkind: ReactiveSettings\n",
            id="a policy and settings",
        ),
        pytest.param("[1, 2]", id="a list"),
        pytest.param("clusters: 7", id="a number"),
        pytest.param(
            f"users: [{{name: u, user: {SECRET}}}]",
            id="no user",
        ),
        pytest.param(
            f"users: [{{name: u, user: {{token: [{SECRET}]}}}}]",
            id="no token",
        ),
    ],
)
def test_what_is_not_of_the_shape_is_reported_with_its_place_on_one_line(
    tmp_path: Path, text: str, golden: Golden
) -> None:
    words = refusal(tmp_path, text)
    assert words.startswith(
        "kubeconfig FILE cannot be used: " if "$" in golden() else "FILE is not a kubeconfig: "
    )
    assert golden() in words
    assert "--kubeconfig" in words
    assert "\n" not in words
    assert SECRET not in words


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param(
            f"users:\n- name: u\n  user: {{token: {SECRET}\n", "at line 4, column 1", id="no end"
        ),
        pytest.param(f"a: b\ntoken: *{SECRET}\n", "at line 2, column 8", id="a star"),
        pytest.param("\x00", "at all", id="binary"),
    ],
)
def test_what_is_no_yaml_is_reported_with_line_and_column_on_one_line(
    tmp_path: Path, text: str, place: str
) -> None:
    words = refusal(tmp_path, text)
    assert words.startswith(f"kubeconfig FILE is not valid YAML {place}: ")
    assert "\n" not in words
    assert SECRET not in words


@pytest.mark.parametrize("value", ["007", "1e3", "0x10", "1_000", "4.0", "yes", "on", "false"])
@pytest.mark.parametrize("name", ["token", "as", "password"])
def test_a_number_is_no_text_as_for_kubectl(tmp_path: Path, name: str, value: str) -> None:
    """It was sent as another text: `as: 007` asked for the rights of the user 7."""
    words = refusal(tmp_path, f"users: [{{name: u, user: {{{name}: {value}}}}}]")
    assert f"`$.users[0].user.{name}`: put it in quotes" in words
    assert f"`{value}`" not in words


@pytest.mark.parametrize("value", ["12:30", "2026-01-01", "0x_", "2026-13-45", "1__0e", "0o8"])
def test_a_word_that_is_no_number_to_kubectl_is_a_text(tmp_path: Path, value: str) -> None:
    path = tmp_path / "config"
    path.write_text(f"users: [{{name: u, user: {{token: {value}}}}}]")
    [found] = read_kubeconfig(str(path)).users or [None]
    assert found is not None
    assert found.user is not None
    assert found.user.token == value


@pytest.mark.parametrize(
    "value", [".inf", f"!!bool {SECRET}", f"!!timestamp {SECRET}", f"!!int {SECRET}"]
)
def test_a_value_that_the_yaml_loader_stumbles_over_is_reported_with_the_remedy(
    tmp_path: Path, value: str, golden: Golden
) -> None:
    words = refusal(tmp_path, f"users: [{{name: u, user: {{token: {value}}}}}]")
    assert words.startswith(golden() + " ")
    assert "in quotes" in words
    assert SECRET not in words


def test_a_file_that_cannot_be_read_is_reported_with_the_reason(
    tmp_path: Path, golden: Golden
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_kubeconfig(str(tmp_path))

    assert golden() in str(caught.value)


@pytest.mark.parametrize("second", ["", "kind: Pod\n", "kind: [\n"])
@pytest.mark.parametrize("first", ["current-context: a\n", "---\ncurrent-context: a\n...\n"])
def test_of_several_documents_the_first_counts(tmp_path: Path, first: str, second: str) -> None:
    path = tmp_path / "config"
    path.write_text(f"{first}---\n{second}")
    assert read_kubeconfig(str(path)).current_context == "a"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# nothing\n", id="nothing"),
        pytest.param("users: [{user: {}}]", id="an entry without a name"),
        pytest.param("users: [{user: {}}]\n---\n", id="a mark at its end"),
        pytest.param('{\n\t"users": [{"name": "u", "user": {"token": "a"}}]\n}', id="tabs in JSON"),
        pytest.param("clusters: null\nusers:\ncontexts: []", id="nothing in its sections"),
        pytest.param("preferences: {colors: true}\nextensions: []", id="more than we read"),
        pytest.param("users: [{name: 12:30, user: {token: 2026-01-01}}]", id="times"),
        pytest.param("users: [null, {name: u, user: {token: t}}]", id="null for an entry"),
        pytest.param("users: [{name: u, user: {exec: {command: x}}}]", id="half a plugin"),
        pytest.param("clusters: [{name: c}]\ncontexts: [{name: c, context: }]", id="unused halves"),
    ],
)
def test_what_kubectl_takes_is_taken(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    read_kubeconfig(str(path))
