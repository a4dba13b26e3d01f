/* SPDX-License-Identifier: Apache-2.0
 * One tensor into several, lines of one tensor, and padding. */
#include "library.h"

#include "npuscope_memory.h"

#define MOST_PADDED_AXES 8u

typedef LL_Buffer_InfoTypeDef info_t;

int NPUSCOPE_OUTPUTS(Flat_Copy)(const info_t *input, const info_t *outputs, unsigned int noutputs,
                                int dma_in, int dma_out NPUSCOPE_TAIL) {
  const uint8_t *from = library_data(input);
  uint32_t left = library_bytes(input);
  IGNORE_ENGINES;
  for (unsigned int i = 0; i < noutputs; i++) {
    const uint32_t bytes = library_bytes(&outputs[i]);
    if (bytes > left) return LIBRARY_NOT_VALID;
    memcpy(library_data(&outputs[i]), from, bytes);
    from += bytes;
    left -= bytes;
  }
  return LIBRARY_OK;
}

/* Shapes are in the caller's order here: the channels stand before the last two axes. */
static uint32_t channels_of(const info_t *info) {
  return info->ndims < 3 ? 0 : info->shape[info->ndims - 3u];
}

static uint32_t all_channels(const info_t *outputs, unsigned int noutputs) {
  uint32_t channels = 0;
  for (unsigned int i = 0; i < noutputs; i++) channels += channels_of(&outputs[i]);
  return channels;
}

/* The channels of each output follow each other in every pixel of the input. In an output `batch`
 * of them lie together, 0 for all. */
static int split_channels(const info_t *input, const info_t *outputs, unsigned int noutputs,
                          bool in_batches) {
  const uint32_t bytes = input->nbits / 8u, channels = all_channels(outputs, noutputs);
  const uint8_t *from = library_data(input);
  if (!bytes || !channels || library_bytes(input) % (channels * bytes)) return LIBRARY_NOT_VALID;
  const uint32_t pixels = library_bytes(input) / (channels * bytes);
  for (unsigned int i = 0; i < noutputs; i++) {
    const uint32_t mine = channels_of(&outputs[i]);
    const uint32_t batch = in_batches && outputs[i].batch ? outputs[i].batch : mine;
    if (!mine || mine % batch) return LIBRARY_NOT_VALID;
    const library_copy copy = {
        .rank = 3,
        .element_bytes = bytes,
        .count = {mine / batch, pixels, batch},
        .from_step = {batch * bytes, channels * bytes, bytes},
        .to_step = {pixels * batch * bytes, batch * bytes, bytes},
    };
    library_do(&copy, library_data(&outputs[i]), from);
    from += mine * bytes;
  }
  return LIBRARY_OK;
}

int NPUSCOPE_OUTPUTS(Channel_Split_Aton)(const info_t *input, const info_t *outputs,
                                         unsigned int noutputs, unsigned int leading_dims,
                                         int dma_in, int dma_out NPUSCOPE_TAIL) {
  IGNORE_ENGINES;
  (void)leading_dims;
  return split_channels(input, outputs, noutputs, false);
}

int NPUSCOPE_OUTPUTS(Channel_Split_Batched)(const info_t *input, const info_t *outputs,
                                            unsigned int noutputs, int dma_in,
                                            int dma_out NPUSCOPE_TAIL) {
  IGNORE_ENGINES;
  return split_channels(input, outputs, noutputs, true);
}

/* Lines of the input that lie `line_offset` apart, one after the other in the output. */
int LL_ATON_LIB_DMA_Outputs_Slice_SplitLike(const info_t *input, const info_t *output,
                                            int32_t out_bytes, int32_t width_bytes, int32_t height,
                                            int32_t line_offset, int8_t nbits, int dma_in,
                                            int dma_out NPUSCOPE_TAIL) {
  IGNORE_ENGINES;
  (void)height, (void)nbits;
  if (out_bytes < 0 || width_bytes <= 0 || line_offset < 0 || out_bytes % width_bytes)
    return LIBRARY_NOT_VALID;
  const library_copy copy = {
      .rank = 2,
      .element_bytes = 1,
      .count = {(uint32_t)(out_bytes / width_bytes), (uint32_t)width_bytes},
      .from_step = {(uint32_t)line_offset, 1},
      .to_step = {(uint32_t)width_bytes, 1},
  };
  library_do(&copy, library_data(output), library_data(input));
  return LIBRARY_OK;
}

/* The layout is that of the runtime with which this call was seen. */
struct __ll_pad_sw_params {
  const uint8_t *in;
  uint8_t *out;
  const uint8_t *in_limit, *out_limit;
  uint32_t copied_axis; /* from here on bytes are copied in one piece */
  uint32_t copied_bytes;
  uint8_t element_bytes, mode;
  const uint8_t *saved_in, *saved_out;
  size_t rank;
  uint8_t *out_end;
  void *then; /* the image's own function that fills; what it does is done here */
  int dma_in, dma_out;
  const uint32_t *repeats;
  /* Bytes by axis: negative where the input is cut, positive where the output is padded. */
  const int32_t *in_before, *in_after, *out_before, *out_after;
  const int32_t *out_shape, *out_offsets;
  uint32_t *indexes;
};

typedef struct {
  const uint8_t *in;
  uint8_t *out;
} place_t;

static void pass(place_t *at, int32_t in_bytes, int32_t out_bytes) {
  if (in_bytes < 0) at->in -= in_bytes;
  if (out_bytes > 0) at->out += out_bytes;
}

/* Calls itself once for each axis, of which there are at most eight. */
static void fill(const struct __ll_pad_sw_params *pad, place_t *at, uint32_t axis) {
  pass(at, pad->in_before[axis], pad->out_before[axis]);
  if (axis == pad->copied_axis) {
    memcpy(at->out, at->in, pad->copied_bytes);
    at->in += pad->copied_bytes;
    at->out += pad->copied_bytes;
  } else {
    for (uint32_t i = 0; i < pad->repeats[axis]; i++) fill(pad, at, axis + 1);
  }
  pass(at, pad->in_after[axis], pad->out_after[axis]);
}

int LL_ATON_LIB_DMA_Pad_Filling(__ll_pad_sw_params_t *parameters) {
  if (!parameters || parameters->mode || parameters->copied_axis >= parameters->rank ||
      parameters->rank > MOST_PADDED_AXES)
    return LIBRARY_NOT_VALID;
  place_t at = {parameters->in, parameters->out};
  fill(parameters, &at, 0);
  return LIBRARY_OK;
}

int LL_ATON_LIB_DMA_Pad_Memset(void *output, int32_t constant, size_t count,
                               __ll_pad_sw_params_t *parameters) {
  const uint32_t bytes = parameters->element_bytes;
  uint8_t *to = output;
  if (!bytes || bytes > sizeof constant) return LIBRARY_NOT_VALID;
  for (size_t i = 0; i + bytes <= count; i += bytes) memcpy(to + i, &constant, bytes);
  return parameters->then ? LL_ATON_LIB_DMA_Pad_Filling(parameters) : LIBRARY_OK;
}
