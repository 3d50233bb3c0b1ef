from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.kubeconfig_shape import validate_kubeconfig

SECRET = "c4n4ry"


def refusal(folder: Path, text: str) -> str:
    path = folder / "config"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        validate_kubeconfig(str(path))
    return str(caught.value).replace(str(path), "FILE")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("just words", "it is not a mapping of fields", id="a text"),
        pytest.param(
            "kind: DeschedulerPolicy\n---\nkind: ReactiveSettings\n",
            "it holds more than one YAML document",
            id="a policy and settings",
        ),
        pytest.param("[1, 2]", "it is not a mapping of fields", id="a list"),
        pytest.param(
            "clusters: 7", "Expected `array | null`, got `int` - at `$.clusters`", id="a number"
        ),
        pytest.param(
            "users: [{user: {}}]", "required field `name` - at `$.users[0]`", id="no name"
        ),
        pytest.param(
            f"users: [{{name: u, user: {SECRET}}}]",
            "got `str` - at `$.users[0].user`",
            id="no user",
        ),
        pytest.param(
            f"users: [{{name: u, user: {{token: [{SECRET}]}}}}]",
            "got `array` - at `$.users[0].user.token`",
            id="no token",
        ),
    ],
)
def test_what_is_not_of_the_shape_is_reported_with_its_place_on_one_line(
    tmp_path: Path, text: str, told: str
) -> None:
    words = refusal(tmp_path, text)
    assert words.startswith(
        "kubeconfig FILE cannot be used: " if "$" in told else "FILE is not a kubeconfig: "
    )
    assert told in words
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


@pytest.mark.parametrize(
    "value", ["0x_", "2026-13-45", f"!!bool {SECRET}", f"!!timestamp {SECRET}", f"!!int {SECRET}"]
)
def test_a_value_that_the_yaml_loader_stumbles_over_is_reported_with_the_remedy(
    tmp_path: Path, value: str
) -> None:
    words = refusal(tmp_path, f"users: [{{name: u, user: {{token: {value}}}}}]")
    assert words.startswith("kubeconfig FILE holds a number, date or tag that YAML cannot read: ")
    assert "in quotes" in words
    assert SECRET not in words


def test_an_empty_file_is_reported(tmp_path: Path) -> None:
    assert refusal(tmp_path, "# nothing\n").startswith("kubeconfig FILE is empty: pass another")


def test_a_file_that_cannot_be_read_is_reported_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory: let this process"):
        validate_kubeconfig(str(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("clusters: null\nusers:\ncontexts: []", id="nothing in its sections"),
        pytest.param("preferences: {colors: true}\nextensions: []", id="more than we read"),
        pytest.param("users: [{name: 1, user: {token: 123}}]", id="numbers for texts"),
        pytest.param("users: [{name: u, user: {exec: {command: x}}}]", id="half a plugin"),
        pytest.param("clusters: [{name: c}]\ncontexts: [{name: c, context: }]", id="unused halves"),
    ],
)
def test_what_kubectl_takes_is_taken(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    validate_kubeconfig(str(path))
