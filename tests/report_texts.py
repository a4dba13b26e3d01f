# ruff: noqa: E501
"""Small reports and logs with made-up networks, in the forms that tools print."""

from __future__ import annotations

_POOL = (
    "\t{name:<8} [0x{start:08X} - 0x{end:08X}]: {used} / {size}  ({share:6.2f} % used)"
    " -- weights: {weights} ({w:6.2f} % used)  activations: {activations} ({a:6.2f} % used)"
)

HEAD = """Some Tool v2.2.0-77 abcdef012
Created date          : 2026-01-02 03:04:05
Parameters            : generate -m tiny.tflite --target stm32n6

Model name - tiny
------ ------------------ ---------------------- ------------ ----------- --------------
m_id   layer (original)   oshape                 param/size          macc   connected to
------ ------------------ ---------------------- ------------ ----------- --------------
0      image ()           [b:1,h:64,w:64,c:3]
       first (CONV_2D)    [b:1,h:64,w:64,c:32]   896/1,024      3,538,976          image
------ ------------------ ---------------------- ------------ ----------- --------------
1      sum (ADD)          [b:1,h:64,w:64,c:32]                    131,072          first
                                                                                   image
------ ------------------ ---------------------- ------------ ----------- --------------
2      77 (SOFTMAX)       [b:1,c:32]                                                 sum
------ ------------------ ---------------------- ------------ ----------- --------------
model: macc=3,670,048 weights=1,024 activations=-- io=--
"""

COMPILER = """
Compilation details
---------------------------------------
Compiler version: 1.1.1-14
Compiler arguments:  -i tiny_OE_3_3_0.onnx --optimization 3
=======================================
"""


def _pools() -> str:
    ram = _POOL.format(
        name="npuRAM5",
        start=0x342E0000,
        end=0x34350000,
        used="    12.031 kB",
        size="   448.000 kB",
        share=2.69,
        weights="         0  B",
        w=0,
        activations="    12.031 kB",
        a=2.69,
    )
    flash = _POOL.format(
        name="octoFlash",
        start=0x71000000,
        end=0x78000000,
        used="       993  B",
        size="   112.000 MB",
        share=0.01,
        weights="       993  B",
        w=0.01,
        activations="         0  B",
        a=0,
    )
    total = "Total:     13.001 kB      -- weights:        993  B      activations:     12.031 kB"
    return "\n".join(["Memory usage information  (all of it)", "-----", ram, flash, "---", total])


MEMORY = f"""
{_pools()}
=======================================

Used memory ranges
---------------------------------------
\tnpuRAM5   [0x342E0000 - 0x34350000]: 0x342E0000-0x342E3020
\toctoFlash [0x71000000 - 0x78000000]: 0x71000000-0x710003F0
=======================================
"""

OLD_EPOCHS = """
Epochs details
---------------------------------------
Total number of epochs: 5 of which 2 implemented in software
---
epoch ID   HW/SW/EC Operation (SW only)
epoch 1       HW
epoch 2      -SW-   (   QuantizeLinear   )
epoch 3       EC
epoch 4       ??
epoch 5      -SW-   (   Sub(float)   )
=======================================
"""

NEW_EPOCHS = """
Epochs details
---------------------------------------
Total number of epochs                               56
>> pure software (SW) epochs                          2
>> hybrid epochs (using both software and hardware)   1
>> pure hardware (HW or EC) epochs                   53  (implemented in 1 epoch controller blobs/meta epochs)
---
+--------------------+--------+------------+
| epoch ID           |  Type  | Details    |
+--------------------+--------+------------+
| epochs    1 -> 53  |   EC   |            |
| epoch_54           |   SW   | Sub(float) |
| epoch_55           | Hybrid | Concat     |
| epoch_56           |   SW   | Softmax    |
+--------------------+--------+------------+
=======================================
"""

SECTIONS = """ Requested memory size by section - "stm32n6npu" target
 ------------------- -------- -------- ------ --------
 module                  text   rodata   data      bss
 ------------------- -------- -------- ------ --------
 network.o                220    2,049      0        0
 lib (toolchain)*           0        0      0        0
 ------------------- -------- -------- ------ --------
 TOTAL                  6,442    9,457      0   12,349
 ------------------- -------- -------- ------ --------
 *  objects of the toolchain

  Summary - "stm32n6npu" target
  --------------------------------------------------
               FLASH (ro)      %*   RAM (rw)      %
  --------------------------------------------------
  RT total         14,906   93.8%         29   0.2%
  --------------------------------------------------
  TOTAL            15,899             12,349
  --------------------------------------------------
"""

OLD_REPORT = HEAD + COMPILER + MEMORY + OLD_EPOCHS + SECTIONS
NEW_REPORT = HEAD.replace("v2.2.0-77", "v4.0.0-99") + COMPILER + MEMORY + NEW_EPOCHS

CONSOLE = """
 model file         :   /somewhere/tiny.tflite
 model_hash         :   0x0123456789abcdef0123456789abcdef
 params #           :   896 items (1.00 KiB)
 weights (ro)       :   993 B (993 B) (1 segment)
"""

RESULTS = """
  I[1/1] 'Input_0_out_0'   :   int8[1,64,64,3], 12288 Bytes, QLinear(0.007843102,-1,int8), activations
  device.attrs             :   fpu,npu_cache=1,mcu_freq=800MHz,noc_freq=400MHz,npu_freq=1000MHz,nic_freq=900MHz

  ST.AI Profiling results v2.0 - "tiny"
  ------------------------------------------------------------
  nb sample(s)   :   10
  duration       :   2.147 ms by sample (2.146/2.156/0.003)
  CPU cycles     :   [8,412 1,106,920 602,599]
  ------------------------------------------------------------

   Inference time per node
   --------------------------------------------------------------------------------------------
   c_id    m_id   type               dur (ms)        %    cumul  CPU cycles           name
   --------------------------------------------------------------------------------------------
   0       -      epoch                 1.000    46.6%    46.6%  [ 8,000 780,000 12,000 ]   EpochBlock_1
   1       -      epoch - Conv2D_PW     0.400    18.6%    65.2%  [   200 318,000  1,800 ]   EpochBlock_2 -> 53

   2       -      epoch (HYBRID)        0.500    23.3%    88.5%  [   100   8,000 391,900 ]   EpochBlock_55
   3       -      epoch (extra HW.7)    0.047     2.2%    90.7%  [    67     900  36,633 ]   EpochBlock_55 (1)
   4       -      epoch (SW)            0.200     9.3%   100.0%  [    45      20 160,266 ]   EpochBlock_56
   --------------------------------------------------------------------------------------------
   total                                2.147                    [ 8,412 1,106,920 602,599 ]
                                  465.77 inf/s                   [   0.5%  64.4%  35.1% ]
   --------------------------------------------------------------------------------------------

   Statistic per tensor
   tensor   #    type[shape]:size         min   max     mean      std  name
   I.0      10   i8[1,64,64,3]:12288     -128   127   -0.623   73.567  Input_0_out_0
   O.0      10   i8[1,32]:32               37   127   76.447   17.572  Quantize_9_out_0

  acc=n.a. rmse=0.000062930 mae=0.000008617 l2r=0.000667301 mean=0.000003 nse=0.999939 cos=1.000000

Output       acc    rmse          mae           l2r           mean       nse        cos        tensor
X-cross #1   n.a.   0.000062930   0.000008617   0.000667301   0.000003   0.999939   1.000000   'conv2d_0', 10 x int8(1x32), m_id=[1]
"""

VALIDATE_REPORT = HEAD + RESULTS

EVENTS = """[T] [TARGET:1] s:config:version:1.0
[T] [TARGET:1] s:config:mcu_freq:800000000
[T] [TARGET:1] s:config:npu_freq:1000000000
[D] name: "tiny"
[D] -> collecting statistics (b=10)
[T]   [TARGET:1] s:node:evt_pre_start:0:1:1:22:00000017:05000004:EC
[T]   [TARGET:1] s:node:evt_post_end:0:1:1:22:3
[T]   [TARGET:1] s:node:mcu_cycles:393:817152:372
[T]   [TARGET:1] s:node:npu_cycles:547:1021650:629
[T]   [TARGET:1] s:node:streng_active:i:0:147425:874225
[T]   [TARGET:1] s:node:streng_active:o:4:228262:793388
[T]   [TARGET:1] s:node:streng_active:max:o:4:228262
[T]   [TARGET:1] s:node:npu_cache:r:7:1920:3:2
[T]   [TARGET:1] s:node:npu_cache:w:0:5:0:1
[D]  name="" counters="CPU cycles"[393, 817152, 372] dur=1.022ms id=1.22 type=0x1000004/INTERNAL,"epoch (EC)"
[T]   [TARGET:1] s:node:evt_pre_start:1:23:23:23:00000033:05000002:SW
[T]   [TARGET:1] s:node:mcu_cycles:45:30:91702
[T]   [TARGET:1] s:node:port0:burst:r:72679:4216:4218:10459
[T]   [TARGET:1] s:node:portx:burst:rw:2796104:1648488:4444592:0
[T]   [TARGET:1] s:node:something_new:5:6
[D]  name="tiny" counters="CPU cycles"[0, 0, 0, 824122, 0] dur=1.030ms id=0.0 type=0x0/NONE,"epoch"
"""

EPOCH_TEXT = """[I] EpochBlock_1 (c_idx=0, num=1:22, c_type=EC, extra=0)
[I]    duration        : 1.022ms (100.0%) total=1.022ms
[I]    mcu cycles      : [395, 817199, 368] -> 0.000,1.021,0.000 ms (mcu_freq=800MHz), 1.022ms
[I]    core npu cycles : 1021580 -> 1.022 ms (npu_freq=1000MHz)
[I]    busif 0         : r=1453240  w=677432   rburst[1,2,4,8]x8=(72679,4216,4218,10459) wburst[1,2,4,8]x8=(35309,9177,5566,3599) -> 2.09 GB/s
[I]    busif (total)   : r=2796104  w=1648488    -> 4.35 GB/s
[I]    active          : STRENG.3.i: busif=0, 48172 cycles, 1234 bytes, 5%
[I]    NPU cache cnts  : R[hit=1, miss=1920, alloc-miss=4, evict=0], W[hit=0, miss=2, alloc-miss=0, through=3]
"""

PROFILER_LOG = EVENTS + RESULTS + EPOCH_TEXT


def as_ide_log(text: str) -> str:
    """The text as an IDE's log holds it: prefixes, indented rulers, a stranger's lines between."""
    rows = []
    for number, line in enumerate(text.split("\n")):
        stamp = f"2026-06-16 21:{number // 60 % 60:02d}:{number % 60:02d},359 [INFO]"
        ruler = set(line) == {"-"}
        rows.append(f"{stamp} CmdLine:76 - {'   ' + line[6:] if ruler else line}")
    rows.insert(3, "2026-06-16 21:39:00,140 [INFO] Builder:184 - flashing 4 files")
    return "\n".join(rows)


def without_blank_lines(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if line.strip())
