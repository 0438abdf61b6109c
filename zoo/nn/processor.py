"""What the system says about the processor."""

from __future__ import annotations

import functools
import platform
from pathlib import Path


@functools.cache
def processor(what: str) -> str:
    """Return a line of Linux's description, such as `vendor_id` or `flags`; elsewhere a name."""
    information = Path("/proc/cpuinfo")
    if information.is_file():
        with information.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == what:
                    return value.strip()
    return platform.processor()


@functools.cache
def has(instructions: str) -> bool:
    """Return whether the processor has instructions of this name, such as `amx_bf16`."""
    return instructions in processor("flags").split()


@functools.cache
def emulates_bf16() -> bool:
    """Return whether this is an x86 processor without instructions for products in bfloat16.

    There torch takes up to twelve times as long for them as for products in float32.
    """
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    return is_x86 and not (has("avx512_bf16") or has("amx_bf16"))


@functools.cache
def is_slow_in_bf16() -> bool:
    """Return whether products in bfloat16 take longer than in float32 on this x86 processor.

    With the instructions of AVX-512 for them, Intel's without AMX take twice as long as in float32.
    """
    return emulates_bf16() or ("Intel" in processor("vendor_id") and not has("amx_bf16"))


@functools.cache
def emulates_int8() -> bool:
    """Return whether torch would compute a product in int8 without instructions for it.

    Then it takes 30 to 50 times as long as one in float32. Where the instructions are unknown, as
    on other processors than x86 and other systems than Linux, the answer is yes.
    """
    return not any(has(instructions) for instructions in ("avx512_vnni", "avx_vnni", "amx_int8"))
