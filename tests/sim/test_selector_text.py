from reactive_desched.sim.selector_text import selector_text


def test_a_selector_is_said_as_one_would_type_it() -> None:
    assert selector_text({"matchLabels": {"b": "2", "a": "1"}}) == "a=1,b=2"
    assert selector_text({"app": "web"}) == "app=web"
    assert selector_text(None) == ""


def test_all_terms_are_in_the_order_of_their_keys() -> None:
    terms = [
        {"key": "z", "operator": "DoesNotExist"},
        {"key": "y", "operator": "Exists"},
        {"key": "app", "operator": "In", "values": ["d2", "d1"]},
        {"key": "b", "operator": "NotIn", "values": ["c"]},
    ]
    selector = {"matchLabels": {"x": "1", "app": "d1"}, "matchExpressions": terms}
    assert selector_text(selector) == "app=d1,app in (d1,d2),b notin (c),x=1,y,!z"
