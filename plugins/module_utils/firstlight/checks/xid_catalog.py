"""NVIDIA's Xid numbers: what each means, whose doing it usually is, and what to do. The file that is reviewed.

Numbers and names are NVIDIA's: nverror.h of its open kernel modules, and the Xid catalogue in its documentation, which
also advises what to do; meanings are our own words, and its advice is put into our actions ("reset the GPU" is a
reboot here). It is Python because Ansible ships to hosts only what a module imports. Read it with ``xid.py``.
"""

from __future__ import annotations

# number, name (without ROBUST_CHANNEL_), usual fault (hardware, driver, application, system), status, action, meaning.
# system: the host or what is around it: power, cooling, cabling, settings.
XIDS = """
1 FIFO_ERROR_FIFO_METHOD application warn none broken command stream to the GPU
2 FIFO_ERROR_SW_METHOD application warn none broken command stream to the GPU
3 FIFO_ERROR_UNK_METHOD application warn none broken command stream to the GPU
4 FIFO_ERROR_CHANNEL_BUSY application warn none broken command stream to the GPU
5 FIFO_ERROR_RUNOUT_OVERFLOW driver warn none command buffer ran out or over
6 FIFO_ERROR_PARSE_ERR application warn none broken command stream to the GPU
7 FIFO_ERROR_PTE_ERR application warn none broken address of a command stream
8 FIFO_ERROR_IDLE_TIMEOUT application warn none a channel waited too long for the GPU
9 GR_ERROR_INSTANCE driver fail reboot the driver programmed the GPU wrongly
10 GR_ERROR_SINGLE_STEP driver warn none single step of the compute engine
11 GR_ERROR_MISSING_HW application warn none broken command stream to the GPU
12 GR_ERROR_SW_METHOD driver fail reboot the driver failed to handle an exception of the GPU
13 GR_EXCEPTION application warn none exception of the compute engine: wrong address, illegal instruction or the like
14 FAKE_ERROR driver ok none test notice of the driver
15 SCANLINE_TIMEOUT driver warn none display: a scan line did not come in time
16 VBLANK_CALLBACK_TIMEOUT driver warn none display: a blanking callback did not come in time
17 PARAMETER_ERROR driver warn none a channel was given wrong parameters
18 BUS_MASTER_TIMEOUT_ERROR system fail reboot bus mastering is switched off in the GPU's PCI configuration
19 DISP_MISSED_NOTIFIER driver warn none display: a notification was missed
20 MPEG_ERROR_SW_METHOD application warn none broken command stream to a video engine (MPEG)
21 ME_ERROR_SW_METHOD application warn none broken command stream to a video engine (motion estimation)
22 VP_ERROR_SW_METHOD application warn none broken command stream to a video engine
23 RC_LOGGING_ENABLED driver ok none the driver logs channel errors now
24 GR_SEMAPHORE_TIMEOUT application warn none a semaphore was waited for too long
25 GR_ILLEGAL_NOTIFY application warn none illegal or broken command stream to the GPU
26 FIFO_ERROR_FBISTATE_TIMEOUT hardware fail reboot GPU memory did not answer in time
27 VP_ERROR driver warn none exception of a video engine
28 VP2_ERROR driver warn none exception of a video engine
29 BSP_ERROR driver warn none exception of a video engine
30 BAD_ADDR_ACCESS driver fail reboot a semaphore could not be accessed
31 FIFO_ERROR_MMU_ERR_FLT application warn none memory page fault: an address that is not mapped was accessed
32 PBDMA_ERROR application warn none broken command stream, or one that was damaged on its way over PCIe
33 SEC_ERROR driver fail reboot error of an internal microcontroller
34 MSVLD_ERROR driver warn none exception of a video engine
35 MSPDEC_ERROR driver warn none exception of a video engine
36 MSPPP_ERROR driver warn none exception of a video engine
37 FECS_ERR_UNIMP_FIRMWARE_METHOD driver warn none firmware of the GPU got a method that it does not know
38 FECS_ERR_WATCHDOG_TIMEOUT driver warn none firmware of the GPU: its watchdog ran out
39 CE0_ERROR driver warn none exception of copy engine 0
40 CE1_ERROR driver warn none exception of copy engine 1
41 CE2_ERROR driver warn none exception of copy engine 2
42 VIC_ERROR driver warn none exception of a video engine
43 RESETCHANNEL_VERIF_ERROR application warn none a channel was stopped after an error of its program; the GPU goes on
44 GR_FAULT_DURING_CTXSW driver warn none fault of the compute engine while it switched programs
45 PREEMPTIVE_REMOVAL application warn none a channel was cleaned up: its program ended, or another error came before
46 GPU_TIMEOUT_ERROR hardware fail reboot the GPU stopped processing
47 NVENC0_ERROR driver warn none exception of video encoder 0
48 GPU_ECC_DBE hardware fail reboot uncorrectable (double-bit) memory error
49 SILENT_RUNNING_CONSTANT_LEVEL_SET_BY_REGISTRY driver warn none clock and power policy set by a driver option
50 SILENT_RUNNING_LEVEL_TRANSITION_DUE_TO_RC_ERROR driver warn none clock and power level changed after a channel error
51 SILENT_RUNNING_STRESS_TEST_FAILURE hardware fail escalate a stress test of clocks and power failed
52 SILENT_RUNNING_LEVEL_TRANS_DUE_TO_TEMP_RISE system warn escalate clocks and power reduced: temperature rose
53 SILENT_RUNNING_TEMP_REDUCED_CLOCKING system warn escalate clocks reduced by temperature
54 SILENT_RUNNING_PWR_REDUCED_CLOCKING system fail reseat auxiliary power is not connected to the GPU's board
55 SILENT_RUNNING_TEMPERATURE_READ_ERROR hardware warn escalate the GPU's temperature could not be read
56 DISPLAY_CHANNEL_EXCEPTION driver warn none exception of a display channel
57 FB_LINK_TRAINING_FAILURE_ERROR hardware fail reboot training of the memory interface failed
58 FB_MEMORY_ERROR hardware fail escalate the memory interface is unstable
59 PMU_ERROR driver fail reboot error of the power management controller
60 SEC2_ERROR driver warn none exception of the security engine for video
61 PMU_BREAKPOINT driver fail reboot the power management controller hit a breakpoint
62 PMU_HALT_ERROR hardware fail reboot the power management controller halted
63 INFOROM_PAGE_RETIREMENT_EVENT hardware warn none a bad memory row or page was noted; it is replaced at the next reset
64 INFOROM_PAGE_RETIREMENT_FAILURE hardware fail replace a bad memory row or page could not be noted to be replaced
65 NVENC1_ERROR driver warn none exception of video encoder 1
66 FECS_ERR_REG_ACCESS_VIOLATION driver warn none the driver accessed a register that it may not
67 FECS_ERR_VERIF_VIOLATION driver warn none the driver broke a rule that firmware checks
68 NVDEC0_ERROR driver warn none exception of video decoder 0
69 GR_CLASS_ERROR application warn none the compute engine got a command that its class does not have
70 CE3_ERROR driver warn none exception of copy engine 3
71 CE4_ERROR driver warn none exception of copy engine 4
72 CE5_ERROR driver warn none exception of copy engine 5
73 NVENC2_ERROR driver warn none exception of video encoder 2
74 NVLINK_ERROR hardware fail reboot NVLink error; several links or one GPU again and again mean hardware
75 CE6_ERROR driver warn none exception of copy engine 6
76 CE7_ERROR driver warn none exception of copy engine 7
77 CE8_ERROR driver warn none exception of copy engine 8
78 VGPU_START_ERROR driver warn none a virtual GPU did not start; host and guest drivers must fit
79 GPU_HAS_FALLEN_OFF_THE_BUS hardware fail power_cycle the GPU has fallen off the bus: it does not answer on PCIe
80 PBDMA_PUSHBUFFER_CRC_MISMATCH application warn none data to the GPU does not have its checksum
81 VGA_SUBSYSTEM_ERROR hardware fail escalate error of the VGA part
82 NVJPG0_ERROR driver warn none error of JPEG engine 0
83 NVDEC1_ERROR driver warn none error of video decoder 1
84 NVDEC2_ERROR driver warn none error of video decoder 2
85 CE9_ERROR driver warn none exception of copy engine 9
86 OFA0_ERROR driver warn none exception of optical flow engine 0
87 NVTELEMETRY_DRIVER_REPORT driver ok none telemetry notice of the driver
88 NVDEC3_ERROR driver warn none error of video decoder 3
89 NVDEC4_ERROR driver warn none error of video decoder 4
90 LTC_ERROR hardware fail reboot error of the level 2 cache
91 RESERVED_XID driver fail escalate reserved number
92 EXCESSIVE_SBE_INTERRUPTS hardware warn escalate many single-bit memory errors, all corrected
93 INFOROM_ERASE_LIMIT_EXCEEDED hardware warn none the GPU's settings memory (InfoROM) is written too often
94 CONTAINED_ERROR hardware warn none uncorrectable memory error, contained: only the programs that used it were stopped
95 UNCONTAINED_ERROR hardware fail reboot uncorrectable memory error, not contained: no program can be trusted
96 NVDEC5_ERROR driver warn none error of video decoder 5
97 NVDEC6_ERROR driver warn none error of video decoder 6
98 NVDEC7_ERROR driver warn none error of video decoder 7
99 NVJPG1_ERROR driver warn none error of JPEG engine 1
100 NVJPG2_ERROR driver warn none error of JPEG engine 2
101 NVJPG3_ERROR driver warn none error of JPEG engine 3
102 NVJPG4_ERROR driver warn none error of JPEG engine 4
103 NVJPG5_ERROR driver warn none error of JPEG engine 5
104 NVJPG6_ERROR driver warn none error of JPEG engine 6
105 NVJPG7_ERROR driver warn none error of JPEG engine 7
106 SMBPBI_TEST_MESSAGE driver ok none test message of the management bus
107 SMBPBI_TEST_MESSAGE_SILENT driver ok none test message of the management bus, silent
108 NVLINK_REMOTE_TRANSLATION_ERROR driver warn none a peer's address could not be translated over NVLink
109 CTXSW_TIMEOUT_ERROR driver fail reboot the GPU did not switch between programs in time
110 SEC_FAULT_ERROR hardware fail reboot security fault
111 BUNDLE_ERROR_EVENT driver warn none display: event of an error bundle
112 DISP_SUPERVISOR_ERROR driver warn none display: supervisor error
113 DP_LT_FAILURE driver warn none display: DisplayPort link training failed
114 HEAD_RG_UNDERFLOW driver warn none display: too little data in time
115 CORE_CHANNEL_REGS driver warn none display: error of the core channel
116 WINDOW_CHANNEL_REGS driver warn none display: error of a window channel
117 CURSOR_CHANNEL_REGS driver warn none display: error of a cursor channel
118 HEAD_REGS driver warn none display: error of a head
119 GSP_RPC_TIMEOUT driver fail reboot the GPU's system processor (GSP) did not answer the driver in time
120 GSP_ERROR driver fail reboot error of the GPU's system processor (GSP)
121 C2C_ERROR hardware warn none corrected error of the link between GPU and CPU (C2C)
122 SPI_PMU_RPC_READ_FAIL hardware warn escalate the GPU's flash memory could not be read
123 SPI_PMU_RPC_WRITE_FAIL hardware warn escalate the GPU's flash memory could not be written
124 SPI_PMU_RPC_ERASE_FAIL hardware warn escalate the GPU's flash memory could not be erased
125 INFOROM_FS_ERROR hardware warn escalate the GPU's settings memory (InfoROM) is damaged
126 CE10_ERROR driver warn none exception of copy engine 10
127 CE11_ERROR driver warn none exception of copy engine 11
128 CE12_ERROR driver warn none exception of copy engine 12
129 CE13_ERROR driver warn none exception of copy engine 13
130 CE14_ERROR driver warn none exception of copy engine 14
131 CE15_ERROR driver warn none exception of copy engine 15
132 CE16_ERROR driver warn none exception of copy engine 16
133 CE17_ERROR driver warn none exception of copy engine 17
134 CE18_ERROR driver warn none exception of copy engine 18
135 CE19_ERROR driver warn none exception of copy engine 19
136 ALI_TRAINING_FAIL hardware fail reboot training of an NVLink failed
137 NVLINK_PRIV_ERR application warn none access over NVLink that the peer does not allow
138 DLA_ERROR driver warn none error of a deep learning accelerator
139 OFA1_ERROR driver warn none exception of optical flow engine 1
140 UNRECOVERABLE_ECC_ERROR_ESCAPE hardware fail reboot uncorrectable memory error that was not recovered from
141 FAST_PATH_ERROR application warn none error on CUDA's fast path
142 NVENC3_ERROR driver warn none exception of video encoder 3
143 GPU_INIT_ERROR driver fail reboot the GPU could not be initialised
144 NVLINK_SAW_ERROR hardware fail reboot NVLink: error of the unit SAW
145 NVLINK_RLW_ERROR hardware fail reboot NVLink: error of the receiving unit RLW
146 NVLINK_TLW_ERROR hardware fail reboot NVLink: error of the sending unit TLW
147 NVLINK_TREX_ERROR driver fail reboot NVLink: error of the unit TREX
148 NVLINK_NVLPW_CTRL_ERROR driver fail reboot NVLink: error of the control unit NVLPW
149 NVLINK_NETIR_ERROR hardware fail reboot NVLink: error of the network part NETIR, such as a link that went down
150 NVLINK_MSE_ERROR hardware fail reboot NVLink: error of the management engine MSE
151 KEY_ROTATION_ERROR driver fail reboot encryption keys could not be renewed (confidential computing)
152 DLA_SMMU_ERROR driver warn none a deep learning accelerator accessed memory that is not mapped
153 DLA_TIMEOUT driver warn none a deep learning accelerator did not end in time
154 GPU_RECOVERY_ACTION_CHANGED hardware warn none what the driver advises for the GPU changed
155 NVLINK_SW_DEFINED_ERROR driver fail reboot NVLink: error that software defined
156 RESOURCE_RETIREMENT_EVENT hardware fail reboot a bad unit of the GPU is taken out of use at the next reset
157 RESOURCE_RETIREMENT_FAILURE hardware warn escalate a bad unit of the GPU could not be noted to be taken out of use
158 GPU_FATAL_TIMEOUT hardware fail reboot the GPU did not answer in time, for good
159 CHI_NON_DATA_ERROR hardware warn escalate error between CPU and GPU that is not about data (CHI)
160 CHANNEL_RETIREMENT_EVENT hardware warn none a bad memory channel was noted; it is repaired at the next reset
161 CHANNEL_RETIREMENT_FAILURE hardware warn escalate a bad memory channel could not be noted to be repaired
162 PSHC_REENGAGED hardware ok none power smoothing works again
163 PSHC_DISENGAGED hardware warn escalate power smoothing is off
164 PSHC_LOW_LIFETIME hardware warn none power smoothing: little of its lifetime is left
165 PSHC_ZERO_LIFETIME hardware warn escalate power smoothing: its lifetime is used up
166 NVLINK_SECURE_CRYPTO_ERR driver fail reboot NVLink: traffic before the link was set up for encryption
167 PCIE_FATAL_TIMEOUT hardware fail reboot PCIe timeout, for good
168 REDUCED_GPU_MEMORY_CAPACITY hardware warn escalate bad memory in the protected region; the GPU has less memory
169 SEC2_HALT_ERROR driver fail reboot the security processor (SEC2) halted
170 NVLINK_SECURE_OTHER driver warn escalate NVLink: unexpected interrupt in confidential mode
171 UNCORRECTABLE_DRAM_ERROR hardware fail reboot uncorrectable error of GPU memory (DRAM); more about an Xid 48
172 UNCORRECTABLE_SRAM_ERROR hardware fail reboot uncorrectable error of on-chip memory (SRAM); more about an Xid 48
173 C2C_FATAL_LINK_FAILURE hardware fail reboot the link between GPU and CPU (C2C) failed
174 RESETCHANNEL_KILL_PROCESS_SILENT application warn none a program was stopped after an error
175 MEMORY_SUBSYSTEM_ERROR hardware fail escalate error of the memory subsystem; no advice is published
176 PCIE_CORRECTABLE_ERROR_FAULT hardware fail escalate too many corrected PCIe errors; no advice is published
"""

# Xid 144 to 150 say more: their unit, then two words in hexadecimal. number, names of the unit, bits 20 to 25 of the
# first word, second word (for 144 to 148 single bits), then as above.
NVLINK = """
144 SAW_MVB 0 0x1,0x8 hardware warn none bad data, marked as such; Xid 48 and 94 follow
144 SAW_MVB 0 0x2,0x10 hardware fail reboot uncorrectable error; packets may be lost
144 SAW_MVB 0 0x4,0x20 hardware ok none corrected error
145 RLW_CTRL 0 0x80000000 driver warn none unexpected access to registers
145 RLW_REMAP 0 0x1,0x2,0x4,0x8,0x10,0x20 driver warn none access failed, its program was stopped; see Xid 154
145 RLW_REMAP 0 0x40,0x80 hardware fail reboot uncorrectable error; packets may be lost
145 RLW_REMAP 0 0x100,0x200 hardware ok none corrected error
145 RLW_REMAP 0 0x80000000 driver warn none unexpected access to registers
145 RLW_RSPCOL 0 0x1 hardware ok none corrected error
145 RLW_RSPCOL 0 0x2 hardware fail reboot uncorrectable error; packets may be lost
145 RLW_RSPCOL 0 0x80000000 driver warn none unexpected access to registers
145 RLW_RXPIPE 0 0x8 hardware warn none packet that was not expected
145 RLW_RXPIPE 0 0x80000000 driver warn none unexpected access to registers
145 RLW_SRC_TRACK 0 0x1,0x10,0x20 hardware fail reboot uncorrectable error; packets may be lost
145 RLW_SRC_TRACK 0 0x2 hardware ok none corrected error
145 RLW_SRC_TRACK 0 0x4,0x8 hardware warn none access failed, its program was stopped; see Xid 154
145 RLW_SRC_TRACK 0 0x80000000 driver warn none unexpected access to registers
145 RLW_TAGSTATE 0 0x1,0x10000 hardware ok none corrected error
145 RLW_TAGSTATE 0 0x2,0x20000,0x100000 hardware fail reboot uncorrectable error; packets may be lost
145 RLW_TAGSTATE 0 0x80000000 driver warn none unexpected access to registers
146 TLW_CTRL 0 0x1 hardware ok none corrected error
146 TLW_CTRL 0 0x2 hardware warn none bad data, marked as such; Xid 48 and 94 follow
146 TLW_CTRL 0 0x4 hardware fail reboot uncorrectable error; packets may be lost
146 TLW_CTRL 0 0x80000000 driver warn none unexpected access to registers
146 TLW_RX/TLW_RX_PIPE0/TLW_RX_PIPE1 0 0x1 hardware ok none corrected error
146 TLW_RX/TLW_RX_PIPE0/TLW_RX_PIPE1 0 0x2 hardware warn none bad data, marked as such; Xid 48 and 94 follow
146 TLW_RX/TLW_RX_PIPE0/TLW_RX_PIPE1 0 0x4 hardware fail reboot uncorrectable error; packets may be lost
146 TLW_RX/TLW_RX_PIPE0/TLW_RX_PIPE1 0 0x80000000 driver warn none unexpected access to registers
146 TLW_TX/TLW_TX_PIPE0/TLW_TX_PIPE1 0 0x1 hardware ok none corrected error
146 TLW_TX/TLW_TX_PIPE0/TLW_TX_PIPE1 0 0x2 hardware warn none bad data, marked as such; Xid 48 and 94 follow
146 TLW_TX/TLW_TX_PIPE0/TLW_TX_PIPE1 0 0x4 hardware fail reboot uncorrectable error; packets may be lost
146 TLW_TX/TLW_TX_PIPE0/TLW_TX_PIPE1 0 0x80000000 driver warn none unexpected access to registers
147 TREX 0 0x1 driver warn none event that production drivers do not raise
147 TREX 0 0x80000000 driver warn none unexpected access to registers
148 NVLPW_CTRL/NVLPW 0 0x80000000 driver warn none unexpected access to registers
149 NETIR/NETIR_INT 0 0x0 hardware fail reboot internal event of the network part; link down
149 NETIR_BER_EVENT 0 0x0,0x1,0x2,0x3 hardware warn none many bit errors: the signal is bad, look at cables and contacts
149 NETIR_LINK_EVT/NETIR_LINK_DOWN 0 0x0 hardware fail reboot link down
149 NETIR_LINK_EVT/NETIR_LINK_DOWN 1 0x0 hardware fail reboot link down: more than once a day means a defect
149 NETIR_LINK_EVT/NETIR_LINK_DOWN 2,4,10 0x0 hardware fail reboot link down: bad signal
149 NETIR_LINK_EVT/NETIR_LINK_DOWN 15,17,22 0x0 system fail reboot link down: it was switched off by software
149 NETIR_LINK_EVT/NETIR_LINK_DOWN 16,18 0x0 system fail reboot link down: by software, or a bad signal
149 NETIR_LINK_EVT/NETIR_LINK_DOWN 21,32,33,34,35,36,37 0x0 hardware fail reboot link down: caused at its other end
149 NETIR_LINK_EVT/NETIR_LINK_DOWN 38 0x0 hardware warn none link down: it was switched off by software; nothing to do
149 NETIR_LINK_EVT/NETIR_LINK_DOWN 40 0x0 system fail escalate link down: the host took its firmware down
149 NETIR_LINK_EVT/NETIR_LINK_DOWN 42,43 0x0 hardware fail reboot link down: bad signal, look at cables and contacts
149 NETIR_MFDE_EVENT 0 0x1,0x4,0x5,0x7 hardware fail reboot fatal event of the network firmware
149 NETIR_MFDE_EVENT 0 0x3 hardware ok none event of the network firmware, harmless
150 MSE_WATCHDOG 0 0x0 driver fail reboot the management engine does not run any more
"""
