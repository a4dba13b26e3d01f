"""The bare firmware: its commands, how it ends on faults, and the runtime's loop over epochs."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from firmware.bare import M33, M55, BareError, BareM33, BareM55, Code, Do, build_firmware
from firmware.bare_build import Core
from firmware.loading import HERE, THERE, accepts, infer
from firmware.sample_image import build_sample

_KERNELS = r"""
#include "npuscope_kernels.h"
static void add_one(const npuscope_call *call) {
  const int32_t *from = call->inputs[0].data;
  int32_t *to = call->outputs[0].data;
  for (uint32_t i = 0; i < call->inputs[0].shape[0]; i++) to[i] = from[i] + call->numbers[0];
}
static void divide(const npuscope_call *call) {
  int64_t *values = call->outputs[0].data;
  values[0] /= values[1];
}
static void never_ends(const npuscope_call *call) {
  (void)call;
  for (;;) __asm volatile("nop");
}
static void touches_nothing_there(const npuscope_call *call) {
  *(volatile uint32_t *)0x24000000 = call->ninputs;
}
npuscope_kernel *const npuscope_test_kernels[] = {add_one, divide, never_ends,
                                                  touches_nothing_there};
const uint32_t npuscope_test_kernel_count = 4;
"""

# A network that is linked in. What happens is written down as one letter each.
_LINKED = r"""
#include "npuscope_kernels.h"
#include "npuscope_runtime.h"
typedef const NPUSCOPE_ITEM *block_t;
typedef const NN_Instance_TypeDef *network_t;
static char *trace;
static int waits;
static NN_Instance_TypeDef instance;
static void note(char letter) { *trace++ = letter; }
static void note_name(const NPUSCOPE_ITEM *block, char kind) {
  note(kind);
  note((char)('a' + (block->epoch_num < 0 ? 25 + block->epoch_num : block->epoch_num)));
}
static void start(block_t block, network_t nn) { (void)nn; note_name(block, 's'); }
static void end(block_t block, network_t nn) { (void)nn; note_name(block, 'e'); }
static NPUSCOPE_ITEM inner[] = {
    {.start_epoch_block = start, .end_epoch_block = end, .flags = 0x83, .epoch_num = -2},
    {.start_epoch_block = start, .end_epoch_block = end, .flags = 0x83, .epoch_num = -1},
    {.flags = 8}};
static void insert(block_t block, network_t nn) {
  end(block, nn);
  note(npuscope_insert_epoch_blocks(&instance, inner) ? '+' : '-');
  note(npuscope_insert_epoch_blocks(&instance, inner) ? '+' : '-');
}
static const NPUSCOPE_ITEM items[] = {
    {.start_epoch_block = start, .end_epoch_block = end, .flags = 0x23, .epoch_num = 1},
    {.start_epoch_block = start, .end_epoch_block = insert, .flags = 0x43, .epoch_num = 2},
    {.start_epoch_block = start, .flags = 0x17, .epoch_num = 3, .wait_mask = 1},
    {.flags = 8}};
bool npuscope_start_npu(network_t nn, block_t block) {
  (void)nn;
  waits = block->wait_mask ? 2 : 0;
  note_name(block, 'N');
  return true;
}
void npuscope_run_blob(network_t nn, block_t block) { (void)nn; note_name(block, 'B'); }
bool npuscope_npu_finished(network_t nn, block_t block) {
  (void)nn, (void)block;
  return waits-- <= 0;
}
void npuscope_stop_npu(network_t nn, block_t block) { (void)nn; note_name(block, 'X'); }
static bool network_init(void) { note('I'); return true; }
static bool inference_init(void) { note('i'); return true; }
static block_t blocks(void) { return items; }
static const NN_Interface_TypeDef network = {.network_name = "linked",
    .ec_network_init = network_init, .ec_inference_init = inference_init,
    .epoch_block_items = blocks};
static void runtime(LL_ATON_RT_Callbacktype_t type) { note('R'); note((char)('0' + type)); }
static void epoch(LL_ATON_RT_Callbacktype_t type, network_t nn, block_t block) {
  (void)nn, (void)block;
  if (type >= 4) note((char)('0' + type));
}
static void run(const npuscope_call *call) {
  trace = call->outputs[0].data;
  instance.network = &network;
  LL_ATON_RT_SetRuntimeCallback(runtime);
  LL_ATON_RT_SetEpochCallback(epoch, &instance);
  LL_ATON_RT_RuntimeInit();
  LL_ATON_RT_Init_Network(&instance);
  for (int value = 0; value != LL_ATON_RT_DONE;) {
    value = LL_ATON_RT_RunEpochBlock(&instance);
    if (value == LL_ATON_RT_WFE) note('w');
  }
  note(LL_ATON_RT_RunEpochBlock(&instance) == LL_ATON_RT_DONE ? '.' : '?');
  LL_ATON_RT_DeInit_Network(&instance);
  LL_ATON_RT_RuntimeDeInit();
}
npuscope_kernel *const npuscope_test_kernels[] = {run};
const uint32_t npuscope_test_kernel_count = 1;
"""

_TENSOR = struct.Struct("<3I8I4B")
_CALL = struct.Struct("<4I2B2x")
DATA = 0x90100000


def kernel_call(numbers: int, first: bytes) -> bytes:
    """A call at DATA with one tensor of 4 values as input and output, at DATA + 256."""
    tensor = _TENSOR.pack(DATA + 256, 0, 0, 4, *(0,) * 7, 1, 5, 255, 0)
    call = _CALL.pack(DATA + 64, DATA + 64, DATA + 192, 0, 1, 1)
    head = call.ljust(64, b"\0") + tensor.ljust(128, b"\0") + struct.pack("<i", numbers)
    return head.ljust(256, b"\0") + first


def firmware_with(core: Core, folder: Path, text: str) -> Path:
    (folder / "kernels.c").write_text(text)
    return build_firmware(core, [folder / "kernels.c"])


@pytest.mark.parametrize("core", [M33, M55])
@pytest.mark.parametrize("defines", [(), ("NPUSCOPE_DIALECT=2",), ("NPUSCOPE_ASYNC=0",)])
def test_builds_without_a_warning(core: Core, defines: tuple[str, ...]) -> None:
    assert build_firmware(core, defines=defines).stat().st_size > 0


def test_same_sources_are_built_once() -> None:
    first = build_firmware(M33)
    assert build_firmware(M33) == first
    assert build_firmware(M33, defines=("NPUSCOPE_ASYNC=0",)) != first


def test_commands_that_do_not_exist() -> None:
    board = BareM33(build_firmware(M33))
    asked = [board.command(99), board.command(Do.KERNEL, 0, DATA), board.command(Do.BUFFER, 0, 0)]  # type: ignore[arg-type]
    assert [reply.status for reply in asked] == [Code.UNKNOWN] * 3
    assert [reply.reason for reply in asked] == [
        "no such command",
        "no such kernel",
        "no such buffer",
    ]


def test_nothing_to_run() -> None:
    reply = BareM33(build_firmware(M33)).command(Do.RUN, 1)
    assert (reply.status, reply.reason) == (Code.INVALID_HDL, "no image is installed here")


def test_overwritten_image_is_not_run() -> None:
    board = accepts(build_sample(HERE).sealed)
    board.load(HERE.exec_ram, bytes(4))
    reply = board.command(Do.RUN, 1)
    assert (reply.status, reply.reason) == (
        Code.INVALID_BIN,
        "the installed image was overwritten",
    )


def test_kernel_in_unicorn(tmp_path: Path) -> None:
    board = BareM33(firmware_with(M33, tmp_path, _KERNELS))
    board.load(DATA, kernel_call(5, struct.pack("<4i", 1, -2, 3, 4)))
    assert board.command(Do.KERNEL, 0, DATA).status == Code.NONE
    assert struct.unpack("<4i", board.read(DATA + 256, 16)) == (6, 3, 8, 9)
    board.load(DATA + 256, struct.pack("<2q", -(10**15), 7))
    board.command(Do.KERNEL, 1, DATA)
    assert struct.unpack("<q", board.read(DATA + 256, 8)) == (-(10**15 // 7),)


def test_kernel_in_qemu(tmp_path: Path) -> None:
    script = BareM55(firmware_with(M55, tmp_path, _KERNELS))
    script.load(DATA, kernel_call(-5, struct.pack("<4i", 1, -2, 3, 4)))
    script.command(Do.KERNEL, 0, DATA)
    script.save(DATA + 256, 16)
    (reply,), (data,) = script.run()
    assert reply.status == Code.NONE
    assert struct.unpack("<4i", data) == (-4, -7, -2, -1)


def test_unicorn_ends_on_faults_and_limits(tmp_path: Path) -> None:
    firmware = firmware_with(M33, tmp_path, _KERNELS)
    with pytest.raises(BareError, match=r"^no answer after at most 5000 instructions"):
        BareM33(firmware).command(Do.KERNEL, 2, DATA, limit=5000)
    with pytest.raises(BareError, match=r"^fault at 0x34\w+: Invalid memory write"):
        BareM33(firmware).command(Do.KERNEL, 3, DATA)


def test_flash_cannot_be_written(tmp_path: Path) -> None:
    board = BareM33(firmware_with(M33, tmp_path, _KERNELS))
    call = bytearray(kernel_call(5, bytes(16)))
    struct.pack_into("<I", call, 64, 0x70000000)
    board.load(DATA, bytes(call))
    with pytest.raises(BareError, match="write"):
        board.command(Do.KERNEL, 0, DATA)


def test_qemu_ends_on_faults_and_time(tmp_path: Path) -> None:
    firmware = firmware_with(M55, tmp_path, _KERNELS)
    script = BareM55(firmware)
    script.command(Do.KERNEL, 3, 0x60000000)
    with pytest.raises(BareError, match=r"^fault: pc, lr, CFSR, HFSR = "):
        script.run()
    endless = BareM55(firmware)
    endless.command(Do.KERNEL, 2, DATA)
    with pytest.raises(BareError, match=r"^no end of the script after 2.0 s"):
        endless.run(timeout_s=2.0)


def test_qemu_script_with_a_region_that_does_not_exist() -> None:
    script = BareM55(build_firmware(M55))
    script.load(0x24000000, b"four")
    with pytest.raises(BareError, match=r"^fault: "):
        script.run()


def test_linked_network_with_inserted_blocks(tmp_path: Path) -> None:
    """Two blocks are put behind the hybrid epoch; the blob is waited for."""
    board = BareM33(firmware_with(M33, tmp_path, _LINKED))
    board.load(DATA, kernel_call(0, bytes(128)))
    assert board.command(Do.KERNEL, 0, DATA).status == Code.NONE
    trace = board.read(DATA + 256, 128).rstrip(b"\0").decode()
    inner = "".join(f"N{name}s{name}e{name}X{name}" for name in "xy")
    assert trace == f"R6I4isbebscec+-{inner}NdsdBdwwXd.5R7"


def test_buffers_of_an_installed_network() -> None:
    board = accepts(build_sample(HERE).sealed)
    names = []
    for kind in range(3):
        info = board.command(Do.BUFFER, kind, 0).results[0]
        (name,) = struct.unpack("<I", board.read(info, 4))
        names.append(board.read(name, 8).split(b"\0")[0])
    assert names == [b"in", b"out", b"middle"]
    assert board.command(Do.BUFFER, 0, 1).status == Code.UNKNOWN
    assert board.command(Do.SET_INPUT, 1, DATA, 64).results[0] == 3
    assert board.command(Do.SET_INPUT, 0, DATA, 1).results[0] == 2
    board.command(Do.SET_INPUT, 0, DATA, 64)
    assert board.command(Do.GET_INPUT, 0).results[0] == DATA
    assert board.command(Do.GET_OUTPUT, 0).status == Code.UNKNOWN


def test_inference_without_buffers_is_refused() -> None:
    reply = accepts(build_sample(HERE).sealed).command(Do.RUN, 1)
    assert (reply.status, reply.reason) == (Code.REFUSED, "the inference could not be initialised")


def test_callbacks_are_counted() -> None:
    board = accepts(build_sample(HERE).sealed)
    infer(board, 1)
    done, *calls = board.command(Do.RUN, 3).results[:9]
    assert (done, calls) == (3, [6, 6, 6, 6, 1, 1, 1, 1])


def test_epoch_for_the_npu_is_refused() -> None:
    board = accepts(build_sample(HERE, defines=("NPU_EPOCH",)).sealed)
    board.command(Do.SET_INPUT, 0, HERE.buffers, 64)
    board.command(Do.SET_OUTPUT, 0, HERE.buffers + 64, 64)
    reply = board.command(Do.RUN, 1)
    assert reply.status == Code.REFUSED
    assert reply.reason == "an epoch needs the NPU, which this firmware has not"
    assert reply.results[1:5] == (3, 2, 2, 2)


def test_log_of_an_image() -> None:
    image = build_sample(THERE).sealed
    board = BareM33(build_firmware(M33))
    board.load(HERE.file, image)
    lines = board.command(Do.LOG, HERE.file, len(image)).log.splitlines()
    assert lines[:2] == ["network: sample", "runtime: 1.1.3-262"]
    assert lines[-1] == "checksum: right"
    board.load(HERE.file, b"none")
    lines = board.command(Do.LOG, HERE.file, len(image)).log.splitlines()
    assert lines == ["not a usable image: this is not an image: wrong magic"]
