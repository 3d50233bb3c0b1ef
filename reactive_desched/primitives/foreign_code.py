"""Distinguishes what the code of another package raises from what only passes through it."""


def is_fault(error: BaseException) -> bool:
    """Say whether the code that was called raised an exception of its own, of whatever type.

    An exit, or memory that a call asked for in vain, ends that call and nothing else. A signal
    raises KeyboardInterrupt wherever the process is; GeneratorExit closes a generator.
    """
    return not isinstance(error, (KeyboardInterrupt, GeneratorExit))
