"""Evaluates the CEL expressions by which DeviceClasses and ResourceClaims select devices.

The library is Google's, and an extra. The API server admits no expression that costs much; what one
says of a device is kept, so that a question about a thousand nodes is answered once.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from reactive_desched.errors import QuantityError
from reactive_desched.model.devices import Attribute, Device
from reactive_desched.model.quantities import parse_quantity

MAX_KEPT: Final = 100_000
"""So many answers about a device are kept; at the bound all are forgotten."""

MISSING_LIBRARY: Final = (
    "the package cel-expr-python is not installed: install reactive-desched[devices], or build the "
    "image with REQUIREMENTS=devices"
)

_VERSION: Final = "version"
_PARTS_OF_VERSION: Final = ("major", "minor", "patch")


class DeviceError(Exception):
    """It cannot be said whether a device suits; the kube-scheduler finds no node then, either."""


class DeviceSelectors:
    """Says which devices satisfy expressions; keeps compiled ones, and what they said."""

    def __init__(self, load_environment: Callable[[], Any] | None = None) -> None:
        self._load_environment = load_environment or _environment
        self._compiled: dict[str, Any] = {}
        self._answers: dict[tuple[str, str, int], tuple[Device, bool]] = {}

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        """Say whether a device of a driver satisfies an expression."""
        key = (expression, driver, id(device))
        known = self._answers.get(key)
        if known is not None and known[0] is device:
            return known[1]
        if len(self._answers) >= MAX_KEPT:
            self._answers.clear()
            self._compiled.clear()
        found = self._evaluate(expression, driver, device)
        self._answers[key] = device, found
        return found

    def _evaluate(self, expression: str, driver: str, device: Device) -> bool:
        environment = self._load_environment()
        if environment is None:
            raise DeviceError(MISSING_LIBRARY)
        try:
            if (compiled := self._compiled.get(expression)) is None:
                compiled = self._compiled[expression] = environment.compile(expression)
            result = compiled.eval(data={"device": _input(driver, device, expression)})
            value = result.plain_value()
        except (RuntimeError, ValueError, TypeError) as error:
            raise DeviceError(f"CEL expression {expression}: {_first_line(error)}") from error
        if not isinstance(value, bool):
            raise DeviceError(f"CEL expression {expression}: {_first_line(value)}")
        return value


def _first_line(what: object) -> str:
    return str(what).partition("\n")[0]


def _input(driver: str, device: Device, expression: str) -> Mapping[str, Any]:
    """Return the variable `device`; a domain that an expression may name has a map in any case."""
    domains = {part for part in expression.replace("'", '"').split('"') if "." in part}
    attributes: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    capacity: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    for name, value in device.attributes.items():
        domain, own = _split(name, driver)
        attributes.setdefault(domain, {})[own] = _value(value)
    for name, text in device.capacity.items():
        domain, own = _split(name, driver)
        capacity.setdefault(domain, {})[own] = _quantity(text)
    return {
        "driver": driver,
        "allowMultipleAllocations": device.is_shared,
        "attributes": attributes,
        "capacity": capacity,
    }


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


def _value(value: Attribute) -> object:
    return {_VERSION: _checked_version(value[0])} if isinstance(value, tuple) else value


# --- Kubernetes' functions: quantities are numbers, versions are maps with their text ---


@lru_cache(maxsize=1_000)
def _quantity(text: str) -> float:
    return float(parse_quantity(text))


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def _checked_version(text: str) -> str:
    _version_key(text)
    return text


def _version(text: str) -> dict[str, str]:
    return {_VERSION: _checked_version(text)}


def _is_version(text: str) -> bool:
    try:
        _version_key(text)
    except ValueError:
        return False
    return True


def _version_key(text: str) -> tuple[tuple[int, ...], bool, list[tuple[bool, int, str]]]:
    """Return what versions are compared by: Semantic Versioning 2.0.0, without the build."""
    core, dash, rest = text.partition("+")[0].partition("-")
    numbers = tuple(map(int, core.split(".")))
    if len(numbers) != len(_PARTS_OF_VERSION) or not all(part.isascii() for part in core):
        raise ValueError(f"{text} is not a semantic version")
    parts = [
        (not part.isdecimal(), int(part) if part.isdecimal() else 0, part)
        for part in (rest.split(".") if dash else ())
    ]
    return numbers, not dash, parts


def _compare(one: Any, other: Any) -> int:  # Any: both are of one ordered type
    return int(one > other) - int(one < other)


def _compare_versions(one: Mapping[str, str], other: Mapping[str, str]) -> int:
    return _compare(_version_key(one[_VERSION]), _version_key(other[_VERSION]))


@cache
def _environment() -> Any:
    """Return what compiles expressions over a device; None where the library is missing."""
    try:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings
    except ImportError:
        return None
    return cel.NewEnv(
        variables={"device": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)},
        functions=list(_functions(cel)),
        extensions=[
            ext_bindings.ExtBindings(),
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
        ],
    )


def _functions(cel: Any) -> Iterator[Any]:  # Any: the module of the library, and its objects
    """Yield Kubernetes' functions over quantities and versions."""
    kind = cel.Type
    version = kind.Map(kind.STRING, kind.STRING)
    yield _function(cel, "quantity", kind.DOUBLE, (_quantity, kind.STRING))
    yield _function(cel, "isQuantity", kind.BOOL, (_is_quantity, kind.STRING))
    yield _function(cel, "semver", version, (_version, kind.STRING))
    yield _function(cel, "isSemver", kind.BOOL, (_is_version, kind.STRING))
    for name, result, decide in (
        ("compareTo", kind.INT, lambda sign: sign),
        ("isGreaterThan", kind.BOOL, lambda sign: sign > 0),
        ("isLessThan", kind.BOOL, lambda sign: sign < 0),
    ):
        by_number, by_version = _comparing(decide, _compare), _comparing(decide, _compare_versions)
        yield _function(
            *(cel, name, result),
            (by_number, kind.DOUBLE, kind.DOUBLE),
            (by_version, version, version),
        )


def _comparing(
    decide: Callable[[int], Any], compare: Callable[[Any, Any], int]
) -> Callable[[Any, Any], Any]:
    return lambda one, other: decide(compare(one, other))


def _function(cel: Any, name: str, result: Any, *overloads: tuple[Any, ...]) -> Any:
    """Declare a function; one of two arguments is called as a method of the first."""
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(
                id=f"{name}_{number}",
                return_type=result,
                parameters=takes,
                is_member=len(takes) > 1,
                impl=implementation,
            )
            for number, (implementation, *takes) in enumerate(overloads)
        ],
    )
