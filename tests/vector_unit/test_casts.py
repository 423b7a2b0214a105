"""The 16-bit casts: all patterns of either format, and float32 densely and around every tie."""

from __future__ import annotations

import re

import ml_dtypes
import numba
import numpy as np
import pytest

from fastgrad.vector_unit import casts

HALF, BFLOAT = np.uint16, np.int16
STORED = {HALF: np.float16, BFLOAT: ml_dtypes.bfloat16}
WIDENING = {
    "hardware_half_to_float": HALF,
    "generic_half_to_float": HALF,
    "half_to_float": HALF,
    "bfloat_to_float": BFLOAT,
}
NARROWING = {
    "hardware_float_to_half": HALF,
    "generic_float_to_half": HALF,
    "float_to_half": HALF,
    "float_to_bfloat": BFLOAT,
}
if not casts.HAS_HALF_CONVERSION:
    del WIDENING["hardware_half_to_float"], NARROWING["hardware_float_to_half"]


@pytest.fixture(scope="session")
def loops():
    """One compiled loop for each cast, made when it is asked for."""
    made: dict = {}

    def loop(name):
        if name not in made:
            cast = getattr(casts, name)

            @numba.njit(error_model="numpy")
            def run(x, o):
                for i in range(x.size):
                    o[i] = cast(x[i])

            made[name] = run
        return made[name]

    return loop


def all_patterns(integer):
    return np.arange(1 << 16, dtype=np.uint16).view(integer)


def floats():
    """Float32 bit patterns: every 997th, all around the ties of both formats, and the edges."""
    dense = np.arange(0, 1 << 32, 997, dtype=np.uint64).astype(np.uint32)
    patterns = np.arange(1 << 16, dtype=np.uint32)
    values = patterns.astype(np.uint16).view(np.float16).astype(np.float32)
    half = values[np.isfinite(values)].view(np.uint32)
    near = [
        (base + off)
        for base in (half, patterns << 16)
        for off in (0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001)
    ]
    near.append((values[:0x3FF] + np.float32(2.0**-25)).view(np.uint32))
    edges = np.array(
        [
            0x7F7FFFFF,
            0xFF7FFFFF,
            0x477FEFFF,
            0x477FF000,
            0x477FF001,
            0x33000000,
            0x33000001,
            0x7F800001,
            0xFFFFFFFF,
            0x7FA00000,
        ],
        np.uint32,
    )
    return np.concatenate([dense, *near, edges]).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("name", WIDENING)
def test_widening_is_exact(loops, name):
    stored = all_patterns(WIDENING[name])
    result = np.empty(stored.size, np.float32)
    loops(name)(stored, result)
    with np.errstate(invalid="ignore"):
        wanted = stored.view(STORED[WIDENING[name]]).astype(np.float32)
    np.testing.assert_array_equal(result, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(result.view(np.int32)[numbers], wanted.view(np.int32)[numbers])


@pytest.mark.parametrize("name", NARROWING)
def test_narrowing_rounds_to_the_nearest_even(loops, name):
    x = floats()
    result = np.empty(x.size, NARROWING[name])
    loops(name)(x, result)
    with np.errstate(all="ignore"):
        wanted = x.astype(STORED[NARROWING[name]])
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(result[numbers], wanted.view(result.dtype)[numbers])
    assert np.isnan(result.view(wanted.dtype)[~numbers]).all()


def test_narrowed_nan_is_quiet_and_keeps_its_sign(loops):
    x = np.array([0x7F800001, 0xFF800001], np.uint32).view(np.float32)
    bfloat = np.empty(2, np.int16)
    loops("float_to_bfloat")(x, bfloat)
    assert bfloat.view(np.uint16).tolist() == [0x7FC0, 0xFFC0]


@pytest.mark.skipif(not casts.HAS_HALF_CONVERSION, reason="no float16 conversion in hardware")
@pytest.mark.parametrize("cast", ["half_to_float", "float_to_half"])
def test_generic_lowering_gives_the_bits_of_the_hardware(loops, cast):
    narrowing = cast == "float_to_half"
    x = floats() if narrowing else all_patterns(HALF)
    hardware, generic = (np.empty(x.size, HALF if narrowing else np.float32) for _ in range(2))
    loops(f"hardware_{cast}")(x, hardware)
    loops(f"generic_{cast}")(x, generic)
    np.testing.assert_array_equal(hardware.view(np.uint16), generic.view(np.uint16))


@pytest.mark.parametrize("name", [*WIDENING, *NARROWING])
def test_remainder_agrees_with_the_vector_body(loops, name):
    x = floats()[:: 1 << 12] if name in NARROWING else all_patterns(WIDENING[name])[::901]
    result = np.empty(x.size, NARROWING.get(name, np.float32))
    single = np.empty_like(result)
    for length in range(1, 68):
        loops(name)(x[:length], result[:length])
        for i in range(length):
            loops(name)(x[i : i + 1], single[i : i + 1])
        assert result[:length].tobytes() == single[:length].tobytes()


@pytest.mark.parametrize("name", [*WIDENING, *NARROWING])
def test_cast_is_vectorised(loops, name):
    x = np.ones(100, WIDENING.get(name, np.float32))
    loops(name)(x, np.ones(100, NARROWING.get(name, np.float32)))
    assembly = loops(name).inspect_asm(loops(name).signatures[0])
    assert len(re.findall(r"[yz]mm\d+|v\d+\.\d+[sh]", assembly)) > 4
    assert not re.search(r"__(extend|trunc)\w+f2|__gnu_\w2\w_ieee", assembly)
