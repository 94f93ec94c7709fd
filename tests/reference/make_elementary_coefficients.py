#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The coefficients in kernels/ddp/kernels/detail/elementary.h, and the largest relative errors.

    python3 tests/reference/make_elementary_coefficients.py

Each polynomial equals its function at the Chebyshev nodes of the interval, which is close to the
best polynomial of that degree. Needs mpmath.
"""
from mpmath import atanh, cos, erfc, exp, expm1, log, lu_solve, matrix, mp, mpf, pi, polyval, sqrt

mp.dps = 40


def fit(function, low, high, degree):
    """The coefficients, the highest first."""
    low, high = mpf(low), mpf(high)
    angles = [pi * (2 * i + 1) / (2 * degree + 2) for i in range(degree + 1)]
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(angle) for angle in angles]
    powers = matrix([[x ** (degree - j) for j in range(degree + 1)] for x in nodes])
    return list(lu_solve(powers, matrix([function(x) for x in nodes])))


def show(name, coefficients, approximated, function, low, high):
    points = [low + (high - low) * (mpf(i) + mpf(1) / 2) / 1000 for i in range(1000)]
    error = max(abs(approximated(coefficients, x) / function(x) - 1) for x in points)
    print(f"{name}: {', '.join(f'{float(c):.9g}F' for c in coefficients)}")
    print(f"  relative error {float(error):.1e}")


half = log(2) / 2 * mpf("1.0001")  # rounding to a multiple of log(2) may leave a little more
show("expm1(r) = r + r^2 P(r)", fit(lambda r: (expm1(r) - r) / r**2, -half, half, 5),
     lambda c, r: r + r**2 * polyval(c, r), expm1, -half, half)

show("log1p(e) = 2 s P(s^2), s = e / (2 + e)",
     fit(lambda z: atanh(sqrt(z)) / sqrt(z), 0, mpf(1) / 9, 4), lambda c, z: sqrt(z) * polyval(c, z),
     lambda z: atanh(sqrt(z)), 0, mpf(1) / 9)

largest = (sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1) * mpf("1.0001")  # of s for m from 1/sqrt(2) to sqrt(2)
show("log(m) = 2 s P(s^2), s = (m - 1) / (m + 1)",
     fit(lambda z: atanh(sqrt(z)) / sqrt(z), 0, largest**2, 3),
     lambda c, z: sqrt(z) * polyval(c, z), lambda z: atanh(sqrt(z)), 0, largest**2)


def mills(t):
    """The normal distribution's tail beyond t, times exp(t^2 / 2)."""
    return exp(t * t / 2) * erfc(t / sqrt(mpf(2))) / 2


slope = mpf("0.35")
farthest = 15  # beyond it the tail is 0 in float32
nearest = 1 / (1 + slope * farthest)
show("tail(t) = exp(-t^2 / 2) u P(u), u = 1 / (1 + 0.35 t)",
     fit(lambda u: mills((1 / u - 1) / slope) / u, nearest, 1, 8), lambda c, u: u * polyval(c, u),
     lambda u: mills((1 / u - 1) / slope), nearest, 1)
