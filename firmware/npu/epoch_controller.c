/* SPDX-License-Identifier: Apache-2.0
 * The epoch controller runs a blob: it writes the other units' registers by itself. */
#include "npu.h"

#define REGISTER(name) NPU_OFFSET(NPU_EPOCHCTRL_PAGE, NPU_EPOCHCTRL_##name)
#define BLOB_ALIGN 8u

int npu_blob_start(uint32_t address)
{
  if (address % BLOB_ALIGN)
    return npu_fail(NPU_REFUSED);
  npu_clock_on(NPU_EPOCHCTRL_PAGE);
  npu_write(REGISTER(CTRL), NPU_EPOCHCTRL_CTRL_RESET);
  npu_write(REGISTER(ADDR), address);
  npu_write(REGISTER(CTRL), NPU_EPOCHCTRL_CTRL_RESET | NPU_CTRL_EN);
  return NPU_OK;
}

bool npu_blob_running(void) { return (npu_read(REGISTER(CTRL)) & NPU_CTRL_RUNNING) != 0; }

uint32_t npu_blob_label(void) { return npu_read(REGISTER(LABEL)); }

int npu_blob_stop(void)
{
  int code = npu_clear(NPU_EPOCHCTRL_PAGE, NPU_EPOCHCTRL_CTRL_RESET);

  npu_clock_off(NPU_EPOCHCTRL_PAGE);
  return code;
}
