/* SPDX-License-Identifier: Apache-2.0
 * Functions of the circle and the hyperbola, operation by operation those of the simulator
 * (circle_math.py). */
#include "math_float.h"

#define HALF_PI 1.5707964f
#define LN2 0.6931472f
#define FAR 4096.0f /* from here on x * x + 1 is x * x */

/* x + x^3 times a polynomial in x^2, coefficients from the constant on. */
static float odd(float x, const float *coefficients, int count) {
  float z = x * x, result = coefficients[count - 1];
  for (int i = count - 2; i >= 0; i--)
    result = result * z + coefficients[i];
  return x + x * (z * result);
}

static float asin_near(float x) {
  static const float ASIN[] = {0.1666666f,   0.07500504f,  0.044516955f,
                               0.031807717f, 0.014438605f, 0.03751645f};
  return odd(x, ASIN, 6);
}

/* acos(size) for size from 1/2 to 1. */
static float acos_from_end(float size) {
  float half = asin_near(npuscope_sqrt_of((1.0f - size) * 0.5f));
  return half + half;
}

float npuscope_tan_of(float x) {
  return npuscope_sin_of(x) / npuscope_cos_of(x);
}

float npuscope_atan_of(float x) {
  static const float ATAN[] = {-0.33333316f, 0.19998465f, -0.14243422f, 0.10592943f, -0.06075908f};
  float size = npuscope_absolute(x), start = 0.0f;
  if (size > 2.4142137f) { /* tangent of 3 / 8 pi */
    start = HALF_PI;
    size = -1.0f / size;
  } else if (size > 0.41421357f) { /* tangent of pi / 8 */
    start = 0.7853982f;
    size = (size - 1.0f) / (size + 1.0f);
  }
  return npuscope_with_sign(start + odd(size, ATAN, 5), x);
}

float npuscope_asin_of(float x) {
  float size = npuscope_absolute(x);
  if (size > 0.5f)
    return npuscope_with_sign(HALF_PI - acos_from_end(size), x);
  return npuscope_with_sign(asin_near(size), x);
}

float npuscope_acos_of(float x) {
  float size = npuscope_absolute(x);
  if (!(size > 0.5f))
    return HALF_PI - asin_near(x);
  return x < 0.0f ? 3.1415927f - acos_from_end(size) : acos_from_end(size);
}

/* exp(size) / 2 and exp(-size) / 2; in two steps, as exp(size) overflows first. */
static float grown(float size, float *shrunk) {
  float root = npuscope_exp_of(size * 0.5f);
  *shrunk = 0.5f / root / root;
  return 0.5f * root * root;
}

float npuscope_sinh_of(float x) {
  static const float SINH[] = {0.16666667f, 0.00833335f, 0.0001983616f, 2.8169513e-06f};
  float size = npuscope_absolute(x), large, small;
  if (size < 1.0f)
    return npuscope_with_sign(odd(size, SINH, 4), x);
  large = grown(size, &small);
  return npuscope_with_sign(large - small, x);
}

float npuscope_cosh_of(float x) {
  float small, large = grown(npuscope_absolute(x), &small);
  return large + small;
}

float npuscope_asinh_of(float x) {
  static const float ASINH[] = {-0.16666666f, 0.07499889f,  -0.04461325f,
                                0.030012948f, -0.01997997f, 0.009167694f};
  float size = npuscope_absolute(x);
  if (size < 0.5f)
    return npuscope_with_sign(odd(size, ASINH, 6), x);
  if (size < FAR)
    return npuscope_with_sign(npuscope_log_of(size + npuscope_sqrt_of(size * size + 1.0f)), x);
  return npuscope_with_sign(npuscope_log_of(size) + LN2, x);
}

float npuscope_acosh_of(float x) {
  float above = x - 1.0f;
  if (!(x >= 1.0f))
    return __builtin_nanf("");
  if (x < 1.25f)
    return npuscope_log1p_fraction_of(above + npuscope_sqrt_of(above * (above + 2.0f)));
  if (x < FAR)
    return npuscope_log_of(x + npuscope_sqrt_of(above * (x + 1.0f)));
  return npuscope_log_of(x) + LN2;
}

float npuscope_atanh_of(float x) {
  static const float ATANH[] = {0.33333337f, 0.19999728f, 0.14294852f, 0.10967182f,
                                0.10282685f, 0.02452207f, 0.17594236f};
  float size = npuscope_absolute(x);
  if (size < 0.5f)
    return npuscope_with_sign(odd(size, ATANH, 7), x);
  return npuscope_with_sign(0.5f * npuscope_log_of((1.0f + size) / (1.0f - size)), x);
}
