"""What a schema drops, fills in and refuses; the e2e programs compare it with a real API server."""

from typing import Any

import pytest

from reactive_desched.sim.structural import StructuralSchema
from tests.support.golden import verbatim

Schema = dict[str, Any]
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def spec_of(fields: Schema, **more: Any) -> StructuralSchema:
    """Return the schema of a kind whose spec has these fields."""
    spec = {"type": "object", "properties": fields, **more}
    return StructuralSchema({"type": "object", "properties": {"spec": spec}})


def obj(**spec: Any) -> Schema:
    return {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a", "x": 1}, "spec": spec}


def said(schema: StructuralSchema, new: Schema, old: Schema | None = None) -> dict[str, str]:
    """Return what is refused by field."""
    return {each["field"]: each["message"] for each in schema.faults(new, old)}


def test_fields_that_a_schema_does_not_have_are_dropped_and_named() -> None:
    ports = {"type": "array", "items": {"type": "object", "properties": {"port": NUMBER}}}
    maps = {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}}
    schema = spec_of({"ports": ports, "maps": maps})
    lost = {"ports": [{"port": 1, "lost": {"x": 1}}], "maps": {"k": {"a": "b", "lost": 1}}}

    read, unknown = schema.pruned({**obj(**lost, other=1), "status": {}})

    assert read == obj(ports=[{"port": 1}], maps={"k": {"a": "b"}})
    assert unknown == ["spec.maps.k.lost", "spec.other", "spec.ports[0].lost", "status"]


def test_what_preserves_unknown_fields_is_still_read_along_what_it_names() -> None:
    inner = {"type": "object", "properties": {"a": TEXT}}
    free = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"named": inner},
    }
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}}
    schema = spec_of({"free": free, "embedded": embedded})
    given = obj(
        free={"any": {"thing": [1]}, "named": {"a": "b", "lost": 1}},
        embedded={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
    )

    read, unknown = schema.pruned(given)

    assert read["spec"]["free"] == {"any": {"thing": [1]}, "named": {"a": "b"}}
    assert set(read["spec"]["embedded"]) == {"apiVersion", "kind", "metadata"}
    assert unknown == ["spec.embedded.spec", "spec.free.named.lost"]


def test_a_null_takes_the_default_unless_it_may_be_null() -> None:
    with_default = {"type": "integer", "default": 3}
    schema = spec_of(
        {"a": with_default, "b": {**with_default, "nullable": True}, "c": NUMBER, "d": with_default}
    )

    filled = schema.filled(obj(a=None, b=None, c=None))

    assert filled["spec"] == {"a": 3, "b": None, "d": 3}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "string", "format": "date-time"}, "2026-11-30 02:00"),
        ({"type": "string", "format": "cidr"}, "10.0.0.0"),
        ({"type": "string", "format": "uri"}, "no address"),
        ({"type": "string", "format": "byte"}, "=a"),
        ({"type": "string", "format": "uuid"}, "1-2"),
        ({"type": "string", "format": "hostname"}, "-a"),
        ({"type": "string", "format": "email"}, "a"),
        ({"type": "string", "format": "mac"}, "00:11"),
        ({"type": "string", "format": "ipv6"}, "10.0.0.1"),
        ({"type": "string", "format": "date"}, "30.11.2026"),
        ({"type": "boolean"}, "true"),
        ({"type": "array", "items": TEXT}, "a"),
        ({"type": "string"}, None),
        ({"type": "object", "minProperties": 1}, {}),
        ({"type": "array", "items": NUMBER}, [1, "2"]),
        ({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 2}]}, 3),
        ({"type": "integer", "allOf": [{"minimum": 2}, {"maximum": 2}]}, 3),
        ({"type": "integer", "not": {"minimum": 2}}, 3),
    ],
)
def test_a_value_is_refused(field: Schema, value: object) -> None:
    assert said(spec_of({"field": field}), obj(field=value))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "string", "format": "date-time"}, "2026-11-30T02:00:00Z"),
        ({"type": "string", "format": "nothing-known"}, "x"),
        ({"type": "number"}, 3),
        ({"type": "integer"}, 3.0),
        ({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 2}]}, 1),
        ({"type": "string", "pattern": "^(?i)a["}, "x"),
        ({"x-kubernetes-int-or-string": True}, "50%"),
    ],
)
def test_a_value_is_taken(field: Schema, value: object) -> None:
    assert not said(spec_of({"field": field}), obj(field=value))


def test_what_was_taken_before_the_schema_changed_may_stay_as_it_is() -> None:
    ports = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port"],
        "items": {"type": "object", "properties": {"port": NUMBER, "name": {"enum": ["a"]}}},
    }
    schema = spec_of({"size": {"type": "integer", "maximum": 2}, "ports": ports})
    old = obj(size=3, ports=[{"port": 1, "name": "x"}])

    assert not said(schema, obj(size=3, ports=[{"port": 2}, {"port": 1, "name": "x"}]), old)
    assert set(said(schema, obj(size=4, ports=[{"port": 1, "name": "y"}]), old)) == {
        "spec.size",
        "spec.ports[0].name",
    }
    assert set(said(schema, old)) == {"spec.size", "spec.ports[0].name"}


# --- rules ---


def test_a_rule_that_does_not_hold_is_said_with_its_message() -> None:
    rules = [
        {"rule": "self.least <= self.size", "message": "least is above size"},
        {"rule": "self.list.all(x, x.startsWith('a'))"},
        {"rule": "self.foo__dash__bar == 1", "messageExpression": "'got ' + string(self.size)"},
    ]
    fields = {"least": NUMBER, "size": NUMBER, "foo-bar": NUMBER, "list": {"type": "array"}}
    schema = spec_of(fields, **{"x-kubernetes-validations": rules})

    found = schema.faults(obj(least=2, size=1, list=["b"], **{"foo-bar": 2}), None)

    assert [each["message"] for each in found] == [
        verbatim("Invalid value: least is above size"),
        verbatim("Invalid value: failed rule: self.list.all(x, x.startsWith('a'))"),
        "Invalid value: got 1",
    ]
    assert not said(schema, obj(least=1, size=1, list=["ab"], **{"foo-bar": 1}))


def test_a_rule_that_compares_is_asked_of_a_change_alone() -> None:
    fixed = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    first = {"rule": "oldSelf.hasValue() || self < 3", "optionalOldSelf": True}
    grows = {"type": "integer", "x-kubernetes-validations": [first]}
    schema = spec_of({"fixed": fixed, "grows": grows})

    assert not said(schema, obj(fixed="a"))
    assert set(said(schema, obj(fixed="b"), obj(fixed="a"))) == {"spec.fixed"}
    assert not said(schema, obj(fixed="b"), obj())
    assert set(said(schema, obj(grows=4))) == {"spec.grows"}
    assert not said(schema, obj(grows=4), obj(grows=2))


def test_a_rule_about_a_field_that_is_not_there_fails() -> None:
    schema = spec_of({"a": NUMBER}, **{"x-kubernetes-validations": [{"rule": "self.a > 1"}]})

    (text,) = said(schema, obj()).values()

    assert text == verbatim("Invalid value: no such key: a evaluating rule: self.a > 1")


def test_a_rule_of_the_root_sees_name_and_type() -> None:
    rule = {"rule": "self.metadata.name == 'a' && self.kind == 'A'"}
    schema = StructuralSchema({"type": "object", "x-kubernetes-validations": [rule]})

    assert not said(schema, obj())
    assert said(schema, {**obj(), "metadata": {"name": "b"}})


def test_a_rule_that_calls_a_function_of_kubernetes_own_is_not_asked() -> None:
    rule = {"rule": "url(self.a).getHost() == 'b'"}
    assert not said(spec_of({"a": TEXT}, **{"x-kubernetes-validations": [rule]}), obj(a="x"))
