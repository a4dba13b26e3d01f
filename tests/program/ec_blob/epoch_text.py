"""Two epochs written by hand, as text for the assembler."""

COPY = """
label 4
writefield CLKCTRL.BGATES[0] 1
writefield CLKCTRL.BGATES[9] 1
write STRENG0.CTRL 0x80100              ; raw, 8 bits
write STRENG0.ADDR 0x34200010
write STRENG0.FSIZE 64
write STRENG0.LIMIT 2
write STRENG0.FOFFSET 64
write STRENG9.CTRL 0x80008
burstwriteinc STRENG9.ADDR
  0x34201000                            ; ADDR
  0x40008                               ; FSIZE: 8 x 4
  0x100004                              ; DEPTH: 4 of 16 bytes
  0x100                                 ; a line takes 256 bytes
write STRENG9.LIMIT 1
write STRSWITCH.CTRL 1
write STRSWITCH.DSTSTRENG9 0x1          ; from engine 0
writefield STRENG9.CTRL[0] 1
writefield STRENG0.CTRL[0] 1
poll STRENG9.CTRL[31] 0 100
write STRENG9.CTRL 0x40000000
write STRENG0.CTRL 0x40000000
irq 0
"""

CONVOLUTION = """
label 7
burstwriteinc CONVACC1.KFORMAT
  0x08030303                            ; 3x3, 3 channels, 8 kernels
  0x2211                                ; stride 2, one pixel at the left and the top
  0x10634700                            ; 2 bytes out, shifted by 7
  0x700150                              ; 112 lines of 112 x 3
write CONVACC1.ZFRAME 0x00010300        ; one more at the right and the top
write CONVACC1.FSUB 0xffffff            ; -1
write ARITH2.CTRL 0x156000fc            ; vectors over channels, {B,C}
burstwriteinc ARITH2.SHIFT
  0xa0000 0 0x3 0x1f 0x3f 5 0
write ARITH2.TRANSLATEADDR 1
burstwriteinc ARITH2.@256
  0x00010007 0x8000 0xffff0008 0xfffe
write STRENG3.CTRL 0x80008
write STRENG3.ADDR 0x34200000
write STRENG3.FSIZE 0x10001
write STRSWITCH.DSTARITH20 0xff2817     ; dropped and passed in turn
write STRSWITCH.DSTARITH20 0x01170217
write STRSWITCH.DSTSTRENG3 0x29
write CONVACC1.CTRL 0x35
writefield ARITH2.CTRL[0] 1
writefield STRENG3.CTRL[0] 1
poll STRENG3.CTRL[31] 0 100
irq 0
"""
