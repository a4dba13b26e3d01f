/* SPDX-License-Identifier: Apache-2.0
 * The runtime interface that a network.c is written against: names and fields, our own words. */
#ifndef LL_ATON_H
#define LL_ATON_H

#include "ll_aton_NN_interface.h"
#include "ll_aton_caches_interface.h"

enum AccelUnitsType { STRENG, STRENG64, CONVACC, DECUN, ACTIV, ARITH, POOL, IMC, RECBUF };
typedef struct { enum AccelUnitsType unit_type; unsigned short unit_num; } AccelUnits;

typedef enum { ACTIV_RELU = 1, ACTIV_PRELU, ACTIV_TRELU, ACTIV_FUNC, ACTIV_LUT } LL_Activacc_Op;
typedef struct {
  BITS(rounding_f, 1); BITS(saturation_f, 1); BITS(round_mode_f, 2);
  BITS(inbytes_f, 2); BITS(outbytes_f, 2);
  BITS(rounding_o, 1); BITS(saturation_o, 1); BITS(round_mode_o, 1);
  BITS(relu_mode_o, 1); BITS(outbytes_o, 2); BITS(signedop, 1);
  unsigned char shift_f, shift_o;
  unsigned parameter, parameter_2, nbytes;
  npuscope_pointer ROM0_vector, ROM1_vector, LUT_vector;
  unsigned ROM0_nbytes, ROM1_nbytes;
  unsigned char shift_b, shift_c, shift_norm, bwidth;
  int fsub;
  LL_Activacc_Op operation;
} LL_Activacc_InitTypeDef;
int LL_Activacc_Init(int id, const LL_Activacc_InitTypeDef *conf);

typedef enum {
  ARITH_AFFINE = 1, ARITH_MIN, ARITH_MAX, ARITH_MUL, ARITH_X_AND_Y, ARITH_X_OR_Y, ARITH_NOT_X,
  ARITH_X_XOR_Y, ARITH_X_EQ_Y, ARITH_X_LT_Y, ARITH_X_LE_Y, ARITH_X_GT_Y, ARITH_X_GE_Y,
  ARITH_ABS_X, ARITH_SIGN_X, ARITH_CLIP
} LL_Arithacc_Op;
typedef enum {
  ARITH_BCAST_NONE, ARITH_BCAST_CHAN, ARITH_BCAST_HEIGHT, ARITH_BCAST_WIDTH,
  ARITH_BCAST_HEIGHT_WIDTH, ARITH_BCAST_SCALAR
} LL_Arithacc_Bcast;
typedef struct {
  BITS(rounding_x, 1); BITS(saturation_x, 1); BITS(round_mode_x, 2);
  BITS(inbytes_x, 2); BITS(outbytes_x, 2);
  signed char shift_x;
  BITS(rounding_y, 1); BITS(saturation_y, 1); BITS(round_mode_y, 2);
  BITS(inbytes_y, 2); BITS(outbytes_y, 2);
  BITS(combinebc, 1); BITS(clipout, 1);
  signed char shift_y;
  BITS(rounding_o, 1); BITS(saturation_o, 1); BITS(round_mode_o, 1);
  BITS(relu_mode_o, 1); BITS(outbytes_o, 2);
  unsigned char shift_o;
  BITS(scalar, 1); BITS(dualinput, 1);
  LL_Arithacc_Op operation;
  LL_Arithacc_Bcast bcast;
  unsigned char Ax_shift, By_shift, C_shift;
  unsigned fWidth, fHeight;
  unsigned short fChannels, batchDepth;
  short clipmin, clipmax, A_scalar, B_scalar, C_scalar;
  npuscope_pointer A_vector, B_vector, C_vector;
  unsigned char vec_precision[3];
} LL_Arithacc_InitTypeDef;
int LL_Arithacc_Init(int id, const LL_Arithacc_InitTypeDef *conf);

typedef enum {
  AFILT_MODE_NONE, AFILT_MODE_PIXELDROP, AFILT_MODE_FRAMEDROP, AFILT_MODE_FRAMEZERO
} LL_Convacc_Afilt_Mode;
typedef struct {
  BITS(rounding_f, 1); BITS(saturation_f, 1); BITS(round_mode_f, 2); BITS(inbytes_f, 2);
  BITS(rounding_o, 1); BITS(saturation_o, 1); BITS(round_mode_o, 1);
  BITS(relu_mode_o, 1); BITS(outbytes_o, 2); BITS(simd, 2);
  BITS(accumulate, 1); BITS(accumulate_first, 1); BITS(accumulate_gen_first, 1);
  BITS(fstat, 1); BITS(raw_o, 1); BITS(kt1_mode, 1); BITS(deepmode, 1); BITS(dss2mode, 1);
  BITS(f_unsigned, 1); BITS(k_unsigned, 1); BITS(kseten, 2);
  unsigned char shift_f, shift_a, shift_o;
  unsigned fWidth, fHeight;
  unsigned char kernelWidth, kernelHeight, nKernels;
  unsigned short batchDepth;
  unsigned char hstride, vstride;
  unsigned short left_padding, right_padding, top_padding, bot_padding;
  unsigned short left_crop, right_crop, top_crop, bot_crop, fstatcnt;
  LL_Convacc_Afilt_Mode afilt_mode;
  unsigned char afilt_tot, afilt_first, afilt_last, kfilt_tot, kfilt_first, kfilt_last;
  int fsub;
  short zfbias;
  BITS(vshift, 2); /* of later units; must be 0 here */
} LL_Convacc_InitTypeDef;
int LL_Convacc_Init(int id, const LL_Convacc_InitTypeDef *conf);

typedef enum { POOL_MAX = 1, POOL_MIN, POOL_AVG, POOL_GMAX, POOL_GMIN, POOL_GAVG } LL_Poolacc_Op;
typedef struct {
  LL_Poolacc_Op operation;
  BITS(avgnopad, 1);
  unsigned short inputX, inputY, outputX, outputY;
  unsigned char poolWinX, poolWinY, strideX, strideY;
  unsigned short topCrop, bottomCrop, leftCrop, rightCrop;
  unsigned short topPad, bottomPad, leftPad, rightPad, batchSize;
  unsigned char shift_f, shift_o;
  BITS(dualLine, 1); BITS(nbytes, 2);
  BITS(rounding_f, 1); BITS(saturation_f, 1); BITS(round_mode_f, 2);
  BITS(inbytes_f, 2); BITS(outbytes_f, 2);
  BITS(rounding_o, 1); BITS(saturation_o, 1); BITS(round_mode_o, 1);
  BITS(relu_mode_o, 1); BITS(outbytes_o, 2);
  short mulval;
  BITS(pad_val_en, 1);
  short pad_val;
} LL_Poolacc_InitTypeDef;
int LL_Poolacc_Init(int id, const LL_Poolacc_InitTypeDef *conf);

typedef struct {
  unsigned short nCVperCB;
  unsigned char nCWperCV, nRCWlastCV, nFormatBytes;
  unsigned short nBatches;
  BITS(noDualInput, 1); BITS(noOverWrite, 1);
  npuscope_pointer CBs_vector;
  unsigned CBs_size;
} LL_Decun_InitTypeDef;
int LL_Decun_Init(int id, const LL_Decun_InitTypeDef *conf);

typedef struct {
  BITS(dir, 1); BITS(raw, 1); BITS(raw_out, 1); BITS(continuous, 1); BITS(noblk, 1);
  BITS(noinc, 1); BITS(align_right, 1); BITS(mem_lsb, 1); BITS(sync_with_other, 1);
  BITS(nbits_unsigned, 1); BITS(bus_cid, 3); BITS(cacheable, 1); BITS(cache_allocate, 1);
  BITS(bus_pfetch, 1); BITS(cache_linesize, 2); BITS(cipher_en, 1); BITS(key_sel, 1);
  unsigned char sync_dma;
  npuscope_pointer addr_base;
  unsigned offset_start, offset_end, offset_limit, frame_count, fwidth, fheight;
  unsigned batch_depth, batch_offset, frame_offset, line_offset, loop_offset;
  unsigned frame_loop_cnt, frame_tot_cnt;
  unsigned loop_offset2, frame_loop_cnt2; /* of later units; must be 0 here */
  unsigned char nbits_in, nbits_out;
} LL_Streng_TensorInitTypeDef;
int LL_Streng_TensorInit(int id, const LL_Streng_TensorInitTypeDef *conf, int n);

/* Ports of the stream switch. A source is its number among all sources; a destination is the
 * offset in bytes of its register. Units of a kind follow each other, ports within a unit. */
enum SwitchUnitsType { STRSWITCH };
enum {
  NPUSCOPE_SRC_STRENG = 0, NPUSCOPE_SRC_CONVACC = 10, NPUSCOPE_SRC_DECUN = 14,
  NPUSCOPE_SRC_ACTIV = 16, NPUSCOPE_SRC_ARITH = 18, NPUSCOPE_SRC_POOL = 22,
  NPUSCOPE_SRC_RECBUF = 24
};
#define NPUSCOPE_DST(first, ports, I, P) (4u * ((first) + (ports) * (I) + (P)))
#define NPUSCOPE_DST_STRENG(I, P) NPUSCOPE_DST(2u, 1u, I, P)
#define NPUSCOPE_DST_CONVACC(I, P) NPUSCOPE_DST(12u, 3u, I, P)
#define NPUSCOPE_DST_DECUN(I, P) NPUSCOPE_DST(24u, 2u, I, P)
#define NPUSCOPE_DST_ACTIV(I, P) NPUSCOPE_DST(28u, 1u, I, P)
#define NPUSCOPE_DST_ARITH(I, P) NPUSCOPE_DST(30u, 2u, I, P)
#define NPUSCOPE_DST_POOL(I, P) NPUSCOPE_DST(38u, 1u, I, P)
#define NPUSCOPE_DST_RECBUF(I, P) NPUSCOPE_DST(40u, 3u, I, P)
#define ATONN_SRCPORT(S, J, U, I, P) (NPUSCOPE_SRC_##U + (I) + (P))
#define ATONN_DSTPORT(S, J, U, I, P) NPUSCOPE_DST_##U(I, P)
#define LL_Switch_Init_Dest() .dest
#define LL_Switch_Init_Source(x) .source##x
#define LL_Switch_Init_Context(x) .context##x
#define LL_Switch_Init_Frames(x) .frames##x
typedef struct {
  unsigned source0, source1, dest;
  unsigned char frames0, frames1;
  BITS(context0, 1); BITS(context1, 1);
} LL_Switch_InitTypeDef;
typedef LL_Switch_InitTypeDef LL_Switch_DeinitTypeDef;
int LL_Switch_Init(const LL_Switch_InitTypeDef *table, int n);
int LL_Switch_Deinit(const LL_Switch_DeinitTypeDef *table, int n);

typedef struct { AccelUnits unit; } LL_ATON_EnableUnits_InitTypeDef;
typedef LL_ATON_EnableUnits_InitTypeDef LL_ATON_DisableUnits_InitTypeDef;
int LL_ATON_EnableUnits_Init(const LL_ATON_EnableUnits_InitTypeDef *table, int n);
int LL_ATON_DisableUnits_Init(const LL_ATON_DisableUnits_InitTypeDef *table, int n);

#endif
