/* SPDX-License-Identifier: Apache-2.0
 * The runtime interface that a network.c is written against: names and fields, our own words. */
#ifndef LL_SW_H
#define LL_SW_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
  LL_SW_CONV, LL_SW_RELU, LL_SW_PRELU, LL_SW_ELU, LL_SW_MAXPOOL, LL_SW_AVGPOOL, LL_SW_SOFTMAX,
  LL_SW_ARITHADD, LL_SW_ARITHSUM, LL_SW_ARITHSUB, LL_SW_ARITHMUL, LL_SW_ARITHDIV, LL_SW_SIGMOID,
  LL_SW_TANH, LL_SW_COS, LL_SW_SIN, LL_SW_SQRT, LL_SW_CEIL, LL_SW_FLOOR, LL_SW_EXP, LL_SW_LOG,
  LL_SW_QUANTIZELINEAR, LL_SW_REQUANTIZELINEAR, LL_SW_DEQUANTIZELINEAR, LL_SW_GEMM, LL_SW_RESIZE,
  LL_SW_ERF, LL_SW_POW, LL_SW_EQUAL, LL_SW_GREATER, LL_SW_LESS, LL_SW_GREATEROREQUAL,
  LL_SW_LESSOREQUAL, LL_SW_CLIP, LL_SW_HARDSIGMOID, LL_SW_HARDSWISH, LL_SW_ABS, LL_SW_REDUCESUM,
  LL_SW_REDUCEMIN, LL_SW_REDUCEMAX, LL_SW_REDUCEPROD, LL_SW_SOFTPLUS, LL_SW_MIN, LL_SW_MAX,
  LL_SW_NEG, LL_SW_ROUND
} NodeType;

typedef struct {
  struct { uint32_t tensor_h, tensor_w, tensor_c, tensor_b, num_elem; } dim;
  struct { uint32_t h, w, c, b; } stride;
  struct { unsigned char *start_offset; } mem;
  struct { bool is_signed; } format;
} Tensor_info;
typedef struct { NodeType type; Tensor_info input, output; } General;

typedef enum { RESIZE_ZEROS, RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } resize_mode;
typedef enum {
  HALF_PIXEL, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, TF_HALF_PIXEL_FOR_NN
} coord_transf_mode;
typedef enum { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, FLOOR, CEIL } nearest_mode;

#define KERNEL(stem, function, ...)                               \
  typedef struct { General general; __VA_ARGS__ } stem##_sw_info; \
  void ll_sw_forward_##function(stem##_sw_info *sw_info);
#define QUANTIZED Tensor_info is, izp, os, ozp;
#define WINDOW int ngroup; long int pads[4], strides[4], k_shape[2]; bool count_include_pad;
#define SIZES                             \
  Tensor_info scales, roi, sizes;         \
  float cubic_coeff_a, extrapol_val;      \
  bool exclude_outside;                   \
  resize_mode mode;                       \
  nearest_mode nearest_mode;              \
  coord_transf_mode coord_transf_mode;
#define PRODUCT float alpha, beta; uint8_t tA, tB;

KERNEL(Quantizelinear, quantizelinear, Tensor_info os, ozp;)
KERNEL(Dequantizelinear, dequantizelinear, Tensor_info is, izp;)
KERNEL(Requantizelinear, requantizelinear, QUANTIZED)
KERNEL(Softmax, softmax, Tensor_info scratch; int axis;)
KERNEL(Softmax_integer, softmax_integer, Tensor_info scratch; QUANTIZED
       int32_t quantized_multiplier, left_shift, diff_min, axis;)
KERNEL(Activ, activ, Tensor_info operand; float alpha, beta, gamma, min, max;)
KERNEL(Arith, arith, Tensor_info operand, operand1, operand2; unsigned int num_of_inputs;)
KERNEL(Eltwise_integer, eltwise_integer, Tensor_info operand, operand_s, operand_zp; QUANTIZED
       unsigned int num_of_inputs;)
KERNEL(Pool, pool, WINDOW)
KERNEL(Pool_integer, pool_integer, QUANTIZED WINDOW)
KERNEL(Reduce, reduce, int axis;)
KERNEL(Conv, conv, Tensor_info weights, scratch, bias, weights_permuted; int ngroup;
       long int pads[4], strides[4], dilations[2];)
KERNEL(Gemm, gemm, Tensor_info operand_b, operand_c; PRODUCT)
KERNEL(Gemm_integer, gemm_integer, Tensor_info weights, scratch, bias, ws, wzp; QUANTIZED PRODUCT)
KERNEL(Conv_integer, conv_integer, Tensor_info weights, scratch, bias, ws, wzp; QUANTIZED
       int ngroup; long int pads[4], strides[4], dilations[2];)
KERNEL(Resize, resize, SIZES)
KERNEL(Resize_integer, resize_integer, QUANTIZED SIZES)

#endif
