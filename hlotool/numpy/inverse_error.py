"""The inverse of the error function.

M. Giles, "Approximating the erfinv function" (GPU Computing Gems 2, 2012): polynomials in w = -log(1 - x^2), or in its
root where x is near to 1; relative errors of a few units in the last place.
"""

from __future__ import annotations

from typing import Any

from hlotool.numpy import standard as np

__all__ = ["inverse_error"]

# Lowest degree first.
_SINGLE_CENTRAL = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
    3.43273939e-07, 2.81022636e-08,
)  # fmt: skip
_SINGLE_TAIL = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
    0.000100950558, -0.000200214257,
)  # fmt: skip
_CENTRAL = (
    1.6536545626831027, 0.24015818242558962, -0.0060336708714301491, -0.000740702534166267, 0.00018673420803405714,
    -1.3882523362786469e-05, -1.3654692000834679e-06, 4.2347877827932404e-07, -2.9070369957882005e-08,
    -4.1126339803469837e-09, 1.0512122733215323e-09, -5.4154120542946279e-11, -1.2975133253453532e-11,
    2.6335093153082323e-12, -8.1519341976054722e-14, -4.0545662729752069e-14, 6.6376381343583238e-15,
    2.0972767875968562e-17, -1.3331716628546209e-16, 1.1157877678025181e-17, 1.28584807152564e-18,
    -1.6850591381820166e-19, -3.64441206401782e-21,
)  # fmt: skip
_MIDDLE = (
    3.0838856104922208, 1.0052589676941592, 0.0053709145535900636, -0.0037512085075692412, 0.0024914420961078508,
    -0.0016882755560235047, 0.0009532893797373805, -0.00035503752036284748, 2.4031110387097894e-05,
    6.8284851459573175e-05, -4.7318229009055734e-05, 1.2475304481671779e-05, 2.9234449089955446e-06,
    -4.013867526981546e-06, 1.5027403968909828e-06, 1.8239629214389228e-08, -2.7517406297064545e-07,
    9.0756561938885391e-08, 2.2137376921775787e-09,
)  # fmt: skip
_TAIL = (
    4.8499064014085844, 1.0103004648645344, -0.00013871931833623122, -0.00021503011930044477,
    7.5995277030017761e-05, -1.9681778105531671e-05, 4.5260625972231537e-06, -9.9298272942317e-07,
    2.2900482228026655e-07, -6.7711997758452339e-08, 2.9147953450901081e-08, -1.496002662714924e-08,
    7.61570120807834e-09, -3.789465440126737e-09, 1.5076572693500548e-09, -2.5556418169965252e-10,
    -2.7109920616438573e-11,
)  # fmt: skip


def inverse_error(x: Any) -> Any:
    """x in [-1, 1], of f32 or f64, to y with erf(y) = x; infinite at the ends, NaN outside."""
    w = -np.log((1 - x) * (1 + x))
    root = np.sqrt(w)
    if x.dtype.itemsize == 4:
        factor = np.where(w < 5, _polynomial(_SINGLE_CENTRAL, w - 2.5), _polynomial(_SINGLE_TAIL, root - 3))
    else:
        beyond = np.where(w < 16, _polynomial(_MIDDLE, root - 3.25), _polynomial(_TAIL, root - 5))
        factor = np.where(w < 6.25, _polynomial(_CENTRAL, w - 3.125), beyond)
    return np.where(np.abs(x) == 1, x * float("inf"), factor * x)


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    result = x * 0 + coefficients[-1]
    for one in coefficients[-2::-1]:
        result = result * x + one
    return result
