"""The protobuf wire format: numbered fields, before they are given a meaning."""

from collections.abc import Iterator

from reactive_desched.sim.status import bad_request

__all__ = ["fields", "signed"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BITS = 63
_SIGN = 1 << 63


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield each field's number and raw value; raise 400 for what is cut off or unknown."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        match tag & 7:
            case 0:
                value, position = _varint(data, position)
                yield tag >> 3, value
            case 2:
                length, position = _varint(data, position)
                yield tag >> 3, _piece(data, position, length)
                position += length
            case 1 | 5 as kind:
                length = 8 if kind == _FIXED64 else 4
                yield tag >> 3, _piece(data, position, length)
                position += length
            case other:
                raise bad_request(f"protobuf wire type {other} is not used by Kubernetes")


def signed(value: int) -> int:
    """Read a varint as the 64-bit integer Go wrote."""
    return value - (1 << 64) if value & _SIGN else value


def _piece(data: bytes, position: int, length: int) -> bytes:
    if position + length > len(data):
        raise bad_request("the protobuf body is cut off")
    return data[position : position + length]


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift <= _MOST_VARINT_BITS:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 -- the continuation bit of a varint
            return value, position
    raise bad_request("the protobuf body is cut off")
