"""NVIDIA's SXid numbers, of NVSwitch: as ``xid_catalog.py``. The file that is reviewed.

Numbers and names are from ctrl_dev_nvswitch.h of NVIDIA's open kernel modules (names without NVSWITCH_ERR_HW_), and
what is fatal from its interrupt handlers. Most lines say themselves whether they are fatal, and then that counts; the
status here is for those that do not. ``ok``: the Fabric Manager's user guide says that there is nothing to do.
"""

from __future__ import annotations

# number, name, usual fault (hardware, driver, application, system), status, action, meaning
SXIDS = """
10000 HOST hardware fail reboot host side: error of a kind without a number of its own
10001 HOST_PRIV_ERROR driver warn none host side: access to a register failed
10002 HOST_PRIV_TIMEOUT hardware warn none host side: access to a register did not end in time
10003 HOST_UNHANDLED_INTERRUPT driver fail reboot host side: interrupt that nobody handles
10004 HOST_THERMAL_EVENT_START system warn escalate host side: too warm, slowed down
10005 HOST_THERMAL_EVENT_END system ok none host side: cool again, full speed
10006 HOST_THERMAL_SHUTDOWN system fail escalate host side: too hot, shut down
10007 HOST_IO_FAILURE hardware fail reboot host side: it does not answer
10008 HOST_FIRMWARE_INITIALIZATION_FAILURE hardware fail power_cycle host side: firmware did not start
10009 HOST_FIRMWARE_RECOVERY_MODE hardware fail update_firmware host side: firmware is in recovery mode
10010 HOST_TNVL_ERROR driver fail reboot host side: confidential mode failed
11000 NPORT_INGRESS hardware fail reboot ingress: error of a kind without a number of its own
11001 NPORT_INGRESS_CMDDECODEERR hardware fail reboot ingress: command that is not known
11002 NPORT_INGRESS_BDFMISMATCHERR hardware fail reboot ingress: device number does not fit
11003 NPORT_INGRESS_BUBBLEDETECT hardware fail reboot ingress: gap within a packet
11004 NPORT_INGRESS_ACLFAIL application warn none ingress: access that is not allowed
11005 NPORT_INGRESS_PKTPOISONSET hardware warn none ingress: data marked as bad
11006 NPORT_INGRESS_ECCSOFTLIMITERR hardware warn none ingress: corrected memory errors
11007 NPORT_INGRESS_ECCHDRDOUBLEBITERR hardware fail reboot ingress: uncorrectable memory error
11008 NPORT_INGRESS_INVALIDCMD hardware fail reboot ingress: command that is not known
11009 NPORT_INGRESS_INVALIDVCSET hardware fail reboot ingress: wrong virtual channel
11010 NPORT_INGRESS_ERRORINFO hardware warn none ingress: details of an error
11011 NPORT_INGRESS_REQCONTEXTMISMATCHERR application warn none ingress: request of another context
11012 NPORT_INGRESS_NCISOC_HDR_ECC_LIMIT_ERR hardware ok none ingress: corrected memory errors
11013 NPORT_INGRESS_NCISOC_HDR_ECC_DBE_ERR hardware fail reboot ingress: uncorrectable memory error
11014 NPORT_INGRESS_ADDRBOUNDSERR application warn none ingress: address out of bounds
11015 NPORT_INGRESS_RIDTABCFGERR driver warn none ingress: request of an unknown sender
11016 NPORT_INGRESS_RLANTABCFGERR driver warn none ingress: request without a lane
11017 NPORT_INGRESS_REMAPTAB_ECC_DBE_ERR hardware fail reboot ingress: uncorrectable memory error
11018 NPORT_INGRESS_RIDTAB_ECC_DBE_ERR hardware fail reboot ingress: uncorrectable memory error
11019 NPORT_INGRESS_RLANTAB_ECC_DBE_ERR hardware fail reboot ingress: uncorrectable memory error
11020 NPORT_INGRESS_NCISOC_PARITY_ERR hardware fail reboot ingress: parity error
11021 NPORT_INGRESS_REMAPTAB_ECC_LIMIT_ERR hardware ok none ingress: corrected memory errors
11022 NPORT_INGRESS_RIDTAB_ECC_LIMIT_ERR hardware ok none ingress: corrected memory errors
11023 NPORT_INGRESS_RLANTAB_ECC_LIMIT_ERR hardware ok none ingress: corrected memory errors
11024 NPORT_INGRESS_ADDRTYPEERR application warn none ingress: wrong kind of address
11025 NPORT_INGRESS_EXTAREMAPTAB_INDEX_ERR application warn none ingress: address that is not mapped
11026 NPORT_INGRESS_EXTBREMAPTAB_INDEX_ERR application warn none ingress: address that is not mapped
11027 NPORT_INGRESS_MCREMAPTAB_INDEX_ERR application warn none ingress: address that is not mapped
11028 NPORT_INGRESS_EXTAREMAPTAB_ECC_DBE_ERR hardware fail reboot ingress: uncorrectable memory error
11029 NPORT_INGRESS_EXTBREMAPTAB_ECC_DBE_ERR hardware fail reboot ingress: uncorrectable memory error
11030 NPORT_INGRESS_MCREMAPTAB_ECC_DBE_ERR hardware fail reboot ingress: uncorrectable memory error
11031 NPORT_INGRESS_EXTAREMAPTAB_REQCONTEXTMISMATCHERR application warn none ingress: request of another context
11032 NPORT_INGRESS_EXTBREMAPTAB_REQCONTEXTMISMATCHERR application warn none ingress: request of another context
11033 NPORT_INGRESS_MCREMAPTAB_REQCONTEXTMISMATCHERR application warn none ingress: request of another context
11034 NPORT_INGRESS_EXTAREMAPTAB_ACLFAIL application warn none ingress: access that is not allowed
11035 NPORT_INGRESS_EXTBREMAPTAB_ACLFAIL application warn none ingress: access that is not allowed
11036 NPORT_INGRESS_MCREMAPTAB_ACLFAIL application warn none ingress: access that is not allowed
11037 NPORT_INGRESS_EXTAREMAPTAB_ADDRBOUNDSERR application warn none ingress: address out of bounds
11038 NPORT_INGRESS_EXTBREMAPTAB_ADDRBOUNDSERR application warn none ingress: address out of bounds
11039 NPORT_INGRESS_MCREMAPTAB_ADDRBOUNDSERR application warn none ingress: address out of bounds
11040 NPORT_INGRESS_EXTAREMAPTAB_ECC_LIMIT_ERR hardware warn none ingress: corrected memory errors
11041 NPORT_INGRESS_EXTBREMAPTAB_ECC_LIMIT_ERR hardware warn none ingress: corrected memory errors
11042 NPORT_INGRESS_MCREMAPTAB_ECC_LIMIT_ERR hardware warn none ingress: corrected memory errors
11043 NPORT_INGRESS_MCCMDTOUCADDRERR application warn none ingress: multicast to a single address
11044 NPORT_INGRESS_READMCREFLECTMEMERR application warn none ingress: read of mirrored memory
11045 NPORT_INGRESS_EXTAREMAPTAB_ADDRTYPEERR application warn none ingress: wrong kind of address
11046 NPORT_INGRESS_EXTBREMAPTAB_ADDRTYPEERR application warn none ingress: wrong kind of address
11047 NPORT_INGRESS_MCREMAPTAB_ADDRTYPEERR application warn none ingress: wrong kind of address
12000 NPORT_EGRESS hardware fail reboot egress: error of a kind without a number of its own
12001 NPORT_EGRESS_EGRESSBUFERR hardware fail reboot egress: buffer error
12002 NPORT_EGRESS_PKTROUTEERR hardware fail reboot egress: packet at the wrong port
12003 NPORT_EGRESS_ECCSINGLEBITLIMITERR0 hardware warn none egress: corrected memory errors
12004 NPORT_EGRESS_ECCHDRDOUBLEBITERR0 hardware fail reboot egress: uncorrectable memory error
12005 NPORT_EGRESS_ECCDATADOUBLEBITERR0 hardware fail reboot egress: uncorrectable memory error
12006 NPORT_EGRESS_ECCSINGLEBITLIMITERR1 hardware warn none egress: corrected memory errors
12007 NPORT_EGRESS_ECCHDRDOUBLEBITERR1 hardware fail reboot egress: uncorrectable memory error
12008 NPORT_EGRESS_ECCDATADOUBLEBITERR1 hardware fail reboot egress: uncorrectable memory error
12009 NPORT_EGRESS_NCISOCHDRCREDITOVFL hardware fail reboot egress: flow control overflow
12010 NPORT_EGRESS_NCISOCDATACREDITOVFL hardware fail reboot egress: flow control overflow
12011 NPORT_EGRESS_ADDRMATCHERR hardware fail reboot egress: address does not fit
12012 NPORT_EGRESS_TAGCOUNTERR hardware fail reboot egress: wrong number of tags
12013 NPORT_EGRESS_FLUSHRSPERR hardware fail reboot egress: wrong answer to a flush
12014 NPORT_EGRESS_DROPNPURRSPERR hardware fail reboot egress: answer: request not supported
12015 NPORT_EGRESS_POISONERR hardware warn none egress: data marked as bad
12016 NPORT_EGRESS_PACKET_HEADER hardware warn none egress: header of a packet with an error
12017 NPORT_EGRESS_BUFFER_DATA hardware warn none egress: details of a buffer
12018 NPORT_EGRESS_NCISOC_CREDITS hardware warn none egress: details of flow control
12019 NPORT_EGRESS_TAG_DATA hardware warn none egress: details of tags
12020 NPORT_EGRESS_SEQIDERR hardware fail reboot egress: wrong order of packets
12021 NPORT_EGRESS_NXBAR_HDR_ECC_LIMIT_ERR hardware ok none egress: corrected memory errors
12022 NPORT_EGRESS_NXBAR_HDR_ECC_DBE_ERR hardware fail reboot egress: uncorrectable memory error
12023 NPORT_EGRESS_RAM_OUT_HDR_ECC_LIMIT_ERR hardware ok none egress: corrected memory errors
12024 NPORT_EGRESS_RAM_OUT_HDR_ECC_DBE_ERR hardware fail reboot egress: uncorrectable memory error
12025 NPORT_EGRESS_NCISOCCREDITOVFL hardware fail reboot egress: flow control overflow
12026 NPORT_EGRESS_REQTGTIDMISMATCHERR hardware fail reboot egress: request for another receiver
12027 NPORT_EGRESS_RSPREQIDMISMATCHERR hardware fail reboot egress: answer for another receiver
12028 NPORT_EGRESS_PRIVRSPERR application warn none egress: answer: not allowed
12029 NPORT_EGRESS_HWRSPERR hardware fail reboot egress: answer: hardware error
12030 NPORT_EGRESS_NXBAR_HDR_PARITY_ERR hardware fail reboot egress: parity error
12031 NPORT_EGRESS_NCISOC_CREDIT_PARITY_ERR hardware fail reboot egress: parity error of flow control
12032 NPORT_EGRESS_NXBAR_FLITTYPE_MISMATCH_ERR hardware fail reboot egress: wrong kind of packet part
12033 NPORT_EGRESS_CREDIT_TIME_OUT_ERR hardware fail reboot egress: flow control did not go on in time
12034 NPORT_EGRESS_INVALIDVCSET_ERR hardware fail reboot egress: wrong virtual channel
12035 NPORT_EGRESS_NXBAR_SIDEBAND_PD_PARITY_ERR hardware fail reboot egress: parity error
12036 NPORT_EGRESS_NXBAR_REDUCTION_HDR_ECC_LIMIT_ERR hardware warn none egress: corrected memory errors
12037 NPORT_EGRESS_NXBAR_REDUCTION_HDR_ECC_DBE_ERR hardware warn none egress: uncorrectable memory error
12038 NPORT_EGRESS_MCRSPCTRLSTORE_ECC_LIMIT_ERR hardware warn none egress: corrected memory errors
12039 NPORT_EGRESS_MCRSPCTRLSTORE_ECC_DBE_ERR hardware fail reboot egress: uncorrectable memory error
12040 NPORT_EGRESS_RBCTRLSTORE_ECC_LIMIT_ERR hardware warn none egress: corrected memory errors
12041 NPORT_EGRESS_RBCTRLSTORE_ECC_DBE_ERR hardware fail reboot egress: uncorrectable memory error
12042 NPORT_EGRESS_MCREDSGT_ECC_LIMIT_ERR hardware warn none egress: corrected memory errors
12043 NPORT_EGRESS_MCREDSGT_ECC_DBE_ERR hardware fail reboot egress: uncorrectable memory error
12044 NPORT_EGRESS_MCREDBUF_ECC_LIMIT_ERR hardware warn none egress: corrected memory errors
12045 NPORT_EGRESS_MCREDBUF_ECC_DBE_ERR hardware warn none egress: uncorrectable memory error
12046 NPORT_EGRESS_MCRSP_RAM_HDR_ECC_LIMIT_ERR hardware warn none egress: corrected memory errors
12047 NPORT_EGRESS_MCRSP_RAM_HDR_ECC_DBE_ERR hardware fail reboot egress: uncorrectable memory error
12048 NPORT_EGRESS_NXBAR_REDUCTION_HDR_PARITY_ERR hardware warn none egress: parity error
12049 NPORT_EGRESS_NXBAR_REDUCTION_FLITTYPE_MISMATCH_ERR hardware warn none egress: wrong kind of packet part
12050 NPORT_EGRESS_MCRSP_CNT_ERR hardware warn none egress: wrong number of answers
12051 NPORT_EGRESS_RBRSP_CNT_ERR hardware warn none egress: wrong number of answers
13000 NPORT_FSTATE hardware fail reboot flush tracking: error of a kind without a number of its own
13001 NPORT_FSTATE_TAGPOOLBUFERR hardware fail reboot flush tracking: pointers into a table crossed
13002 NPORT_FSTATE_CRUMBSTOREBUFERR hardware fail reboot flush tracking: buffer overflow or underflow
13003 NPORT_FSTATE_SINGLEBITECCLIMITERR_CRUMBSTORE hardware warn none flush tracking: corrected memory errors
13004 NPORT_FSTATE_UNCORRECTABLEECCERR_CRUMBSTORE hardware fail reboot flush tracking: uncorrectable memory error
13005 NPORT_FSTATE_SINGLEBITECCLIMITERR_TAGSTORE hardware warn none flush tracking: corrected memory errors
13006 NPORT_FSTATE_UNCORRECTABLEECCERR_TAGSTORE hardware fail reboot flush tracking: uncorrectable memory error
13007 NPORT_FSTATE_SINGLEBITECCLIMITERR_FLUSHREQSTORE hardware warn none flush tracking: corrected memory errors
13008 NPORT_FSTATE_UNCORRECTABLEECCERR_FLUSHREQSTORE hardware fail reboot flush tracking: uncorrectable memory error
14000 NPORT_TSTATE hardware fail reboot tag tracking: error of a kind without a number of its own
14001 NPORT_TSTATE_TAGPOOLBUFERR hardware fail reboot tag tracking: pointers into a table crossed
14002 NPORT_TSTATE_CRUMBSTOREBUFERR hardware fail reboot tag tracking: buffer overflow or underflow
14003 NPORT_TSTATE_SINGLEBITECCLIMITERR_CRUMBSTORE hardware warn none tag tracking: corrected memory errors
14004 NPORT_TSTATE_UNCORRECTABLEECCERR_CRUMBSTORE hardware fail reboot tag tracking: uncorrectable memory error
14005 NPORT_TSTATE_SINGLEBITECCLIMITERR_TAGSTORE hardware warn none tag tracking: corrected memory errors
14006 NPORT_TSTATE_UNCORRECTABLEECCERR_TAGSTORE hardware fail reboot tag tracking: uncorrectable memory error
14007 NPORT_TSTATE_TAGPOOL_ECC_LIMIT_ERR hardware warn none tag tracking: corrected memory errors
14008 NPORT_TSTATE_TAGPOOL_ECC_DBE_ERR hardware fail reboot tag tracking: uncorrectable memory error
14009 NPORT_TSTATE_CRUMBSTORE_ECC_LIMIT_ERR hardware warn none tag tracking: corrected memory errors
14010 NPORT_TSTATE_CRUMBSTORE_ECC_DBE_ERR hardware fail reboot tag tracking: uncorrectable memory error
14011 NPORT_TSTATE_COL_CRUMBSTOREBUFERR hardware fail reboot tag tracking: buffer overflow or underflow
14012 NPORT_TSTATE_COL_CRUMBSTORE_ECC_LIMIT_ERR hardware warn none tag tracking: corrected memory errors
14013 NPORT_TSTATE_COL_CRUMBSTORE_ECC_DBE_ERR hardware fail reboot tag tracking: uncorrectable memory error
14014 NPORT_TSTATE_TD_TID_RAMBUFERR hardware fail reboot tag tracking: pointers into a table crossed
14015 NPORT_TSTATE_TD_TID_RAM_ECC_LIMIT_ERR hardware warn none tag tracking: corrected memory errors
14016 NPORT_TSTATE_TD_TID_RAM_ECC_DBE_ERR hardware fail reboot tag tracking: uncorrectable memory error
14017 NPORT_TSTATE_ATO_ERR hardware fail reboot tag tracking: no answer in time
14018 NPORT_TSTATE_CAMRSP_ERR hardware fail reboot tag tracking: answer with a wrong tag
15000 NPORT_ROUTE hardware fail reboot routing: error of a kind without a number of its own
15001 NPORT_ROUTE_ROUTEBUFERR hardware fail reboot routing: buffer overflow or underflow
15002 NPORT_ROUTE_NOPORTDEFINEDERR driver warn none routing: no route is set
15003 NPORT_ROUTE_INVALIDROUTEPOLICYERR driver warn none routing: wrong route is set
15004 NPORT_ROUTE_ECCLIMITERR hardware warn none routing: corrected memory errors
15005 NPORT_ROUTE_UNCORRECTABLEECCERR hardware fail reboot routing: uncorrectable memory error
15006 NPORT_ROUTE_TRANSDONERESVERR hardware fail reboot routing: overflow or underflow of a reservation
15007 NPORT_ROUTE_PACKET_HEADER hardware warn none routing: header of a packet with an error
15008 NPORT_ROUTE_GLT_ECC_LIMIT_ERR hardware ok none routing: corrected memory errors
15009 NPORT_ROUTE_GLT_ECC_DBE_ERR hardware fail reboot routing: uncorrectable memory error
15010 NPORT_ROUTE_PDCTRLPARERR hardware fail reboot routing: parity error
15011 NPORT_ROUTE_NVS_ECC_LIMIT_ERR hardware ok none routing: corrected memory errors
15012 NPORT_ROUTE_NVS_ECC_DBE_ERR hardware fail reboot routing: uncorrectable memory error
15013 NPORT_ROUTE_CDTPARERR hardware fail reboot routing: parity error of flow control
15014 NPORT_ROUTE_MCRID_ECC_LIMIT_ERR hardware warn none routing: corrected memory errors
15015 NPORT_ROUTE_MCRID_ECC_DBE_ERR hardware fail reboot routing: uncorrectable memory error
15016 NPORT_ROUTE_EXTMCRID_ECC_LIMIT_ERR hardware warn none routing: corrected memory errors
15017 NPORT_ROUTE_EXTMCRID_ECC_DBE_ERR hardware fail reboot routing: uncorrectable memory error
15018 NPORT_ROUTE_RAM_ECC_LIMIT_ERR hardware warn none routing: corrected memory errors
15019 NPORT_ROUTE_RAM_ECC_DBE_ERR hardware fail reboot routing: uncorrectable memory error
15020 NPORT_ROUTE_INVALID_MCRID_ERR driver warn none routing: unknown multicast group
16000 NPORT hardware fail reboot port: error of a kind without a number of its own
16001 NPORT_DATAPOISONED hardware warn none port: data marked as bad
16002 NPORT_UCINTERNAL hardware fail reboot port: internal error, uncorrected
16003 NPORT_CINTERNAL hardware warn none port: internal error, corrected
17000 NVLCTRL hardware fail reboot link control: error of a kind without a number of its own
17001 NVLCTRL_INGRESSECCSOFTLIMITERR hardware warn none link control: corrected memory errors
17002 NVLCTRL_INGRESSECCHDRDOUBLEBITERR hardware fail reboot link control: uncorrectable memory error
17003 NVLCTRL_INGRESSECCDATADOUBLEBITERR hardware fail reboot link control: uncorrectable memory error
17004 NVLCTRL_INGRESSBUFFERERR hardware fail reboot link control: buffer error
17005 NVLCTRL_EGRESSECCSOFTLIMITERR hardware warn none link control: corrected memory errors
17006 NVLCTRL_EGRESSECCHDRDOUBLEBITERR hardware fail reboot link control: uncorrectable memory error
17007 NVLCTRL_EGRESSECCDATADOUBLEBITERR hardware fail reboot link control: uncorrectable memory error
17008 NVLCTRL_EGRESSBUFFERERR hardware fail reboot link control: buffer error
18000 NVLIPT hardware fail reboot link interface: error of a kind without a number of its own
18001 NVLIPT_DLPROTOCOL hardware fail reboot link interface: protocol error of the link layer
18002 NVLIPT_DATAPOISONED hardware warn none link interface: data marked as bad
18003 NVLIPT_FLOWCONTROL hardware fail reboot link interface: flow control error
18004 NVLIPT_RESPONSETIMEOUT hardware fail reboot link interface: no answer in time
18005 NVLIPT_TARGETERROR hardware fail reboot link interface: error of the receiver
18006 NVLIPT_UNEXPECTEDRESPONSE hardware fail reboot link interface: answer that nobody asked for
18007 NVLIPT_RECEIVEROVERFLOW hardware fail reboot link interface: receive buffer overflow
18008 NVLIPT_MALFORMEDPACKET hardware fail reboot link interface: malformed packet
18009 NVLIPT_STOMPEDPACKETRECEIVED hardware fail reboot link interface: packet cancelled by its sender
18010 NVLIPT_UNSUPPORTEDREQUEST hardware fail reboot link interface: request not supported
18011 NVLIPT_UCINTERNAL hardware fail reboot link interface: internal error, uncorrected
18012 NVLIPT_PHYRECEIVER hardware fail reboot link interface: receiver error
18013 NVLIPT_BADAN0PKT hardware fail reboot link interface: malformed control packet
18014 NVLIPT_REPLAYTIMEOUT hardware fail reboot link interface: a packet was not acknowledged in time
18015 NVLIPT_ADVISORYERROR hardware warn none link interface: error that was already handled
18016 NVLIPT_CINTERNAL hardware warn none link interface: internal error, corrected
18017 NVLIPT_HEADEROVERFLOW hardware fail reboot link interface: header overflow
18018 NVLIPT_RSTSEQ_PHYARB_TIMEOUT hardware fail reboot link interface: no answer of the physical part at reset
18019 NVLIPT_RSTSEQ_PLL_TIMEOUT hardware fail reboot link interface: the clock did not lock at reset
18020 NVLIPT_CLKCTL_ILLEGAL_REQUEST driver fail reboot link interface: wrong request for a clock
19000 NVLTLC hardware fail reboot link transactions: error of a kind without a number of its own
19001 NVLTLC_TXHDRCREDITOVFERR hardware fail reboot link transactions: flow control overflow
19002 NVLTLC_TXDATACREDITOVFERR hardware fail reboot link transactions: flow control overflow
19003 NVLTLC_TXDLCREDITOVFERR hardware fail reboot link transactions: flow control overflow
19004 NVLTLC_TXDLCREDITPARITYERR hardware fail reboot link transactions: parity error of flow control
19005 NVLTLC_TXRAMHDRPARITYERR hardware fail reboot link transactions: parity error
19006 NVLTLC_TXRAMDATAPARITYERR hardware fail reboot link transactions: parity error
19007 NVLTLC_TXUNSUPVCOVFERR hardware fail reboot link transactions: unknown virtual channel
19008 NVLTLC_TXSTOMPDET hardware fail reboot link transactions: packet cancelled by its sender
19009 NVLTLC_TXPOISONDET hardware fail reboot link transactions: data marked as bad
19010 NVLTLC_TARGETERR hardware fail reboot link transactions: error of the receiver
19011 NVLTLC_TX_PACKET_HEADER hardware warn none link transactions: header of a packet with an error
19012 NVLTLC_UNSUPPORTEDREQUESTERR hardware fail reboot link transactions: request not supported
19013 NVLTLC_RXDLHDRPARITYERR hardware fail reboot link transactions: parity error
19014 NVLTLC_RXDLDATAPARITYERR hardware fail reboot link transactions: parity error
19015 NVLTLC_RXDLCTRLPARITYERR hardware fail reboot link transactions: parity error
19016 NVLTLC_RXRAMDATAPARITYERR hardware fail reboot link transactions: parity error
19017 NVLTLC_RXRAMHDRPARITYERR hardware fail reboot link transactions: parity error
19018 NVLTLC_RXINVALIDAEERR hardware fail reboot link transactions: wrong address extension
19019 NVLTLC_RXINVALIDBEERR hardware fail reboot link transactions: wrong byte mask
19020 NVLTLC_RXINVALIDADDRALIGNERR hardware fail reboot link transactions: wrong alignment
19021 NVLTLC_RXPKTLENERR hardware fail reboot link transactions: wrong packet length
19022 NVLTLC_RSVCMDENCERR hardware fail reboot link transactions: reserved command
19023 NVLTLC_RSVDATLENENCERR hardware fail reboot link transactions: reserved length
19024 NVLTLC_RSVADDRTYPEERR application warn none link transactions: wrong kind of address
19025 NVLTLC_RSVRSPSTATUSERR hardware fail reboot link transactions: reserved status
19026 NVLTLC_RSVPKTSTATUSERR hardware fail reboot link transactions: reserved status
19027 NVLTLC_RSVCACHEATTRPROBEREQERR hardware fail reboot link transactions: reserved cache attribute
19028 NVLTLC_RSVCACHEATTRPROBERSPERR hardware fail reboot link transactions: reserved cache attribute
19029 NVLTLC_DATLENGTATOMICREQMAXERR hardware fail reboot link transactions: data too long
19030 NVLTLC_DATLENGTRMWREQMAXERR hardware fail reboot link transactions: data too long
19031 NVLTLC_DATLENLTATRRSPMINERR hardware fail reboot link transactions: data too short
19032 NVLTLC_INVALIDCACHEATTRPOERR hardware fail reboot link transactions: wrong cache attribute
19033 NVLTLC_INVALIDCRERR hardware fail reboot link transactions: wrong compressed answer
19034 NVLTLC_RXRESPSTATUSTARGETERR hardware fail reboot link transactions: error of the receiver
19035 NVLTLC_RXRESPSTATUSUNSUPPORTEDREQUESTERR hardware fail reboot link transactions: request not supported
19036 NVLTLC_RXHDROVFERR hardware fail reboot link transactions: header overflow
19037 NVLTLC_RXDATAOVFERR hardware fail reboot link transactions: data overflow
19038 NVLTLC_STOMPDETERR hardware fail reboot link transactions: packet cancelled by its sender
19039 NVLTLC_RXPOISONERR hardware fail reboot link transactions: data marked as bad
19040 NVLTLC_CORRECTABLEINTERNALERR hardware warn none link transactions: internal error, corrected
19041 NVLTLC_RXUNSUPVCOVFERR hardware fail reboot link transactions: flow control of an unknown channel
19042 NVLTLC_RXUNSUPNVLINKCREDITRELERR hardware fail reboot link transactions: flow control of an unknown channel
19043 NVLTLC_RXUNSUPNCISOCCREDITRELERR hardware fail reboot link transactions: flow control of an unknown channel
19044 NVLTLC_RX_PACKET_HEADER hardware warn none link transactions: header of a packet with an error
19045 NVLTLC_RX_ERR_HEADER hardware warn none link transactions: header of a packet with an error
19046 NVLTLC_TX_SYS_NCISOC_PARITY_ERR hardware fail reboot link transactions: parity error
19047 NVLTLC_TX_SYS_NCISOC_HDR_ECC_DBE_ERR hardware fail reboot link transactions: uncorrectable memory error
19048 NVLTLC_TX_SYS_NCISOC_DAT_ECC_DBE_ERR hardware fail reboot link transactions: uncorrectable memory error
19049 NVLTLC_TX_SYS_NCISOC_ECC_LIMIT_ERR hardware ok none link transactions: corrected memory errors
19050 NVLTLC_TX_SYS_TXRSPSTATUS_HW_ERR hardware fail reboot link transactions: answer: hardware error
19051 NVLTLC_TX_SYS_TXRSPSTATUS_UR_ERR hardware fail reboot link transactions: answer: request not supported
19052 NVLTLC_TX_SYS_TXRSPSTATUS_PRIV_ERR application fail reboot link transactions: answer: not allowed
19053 NVLTLC_RX_SYS_NCISOC_PARITY_ERR hardware fail reboot link transactions: parity error
19054 NVLTLC_RX_SYS_HDR_RAM_ECC_DBE_ERR hardware fail reboot link transactions: uncorrectable memory error
19055 NVLTLC_RX_SYS_HDR_RAM_ECC_LIMIT_ERR hardware ok none link transactions: corrected memory errors
19056 NVLTLC_RX_SYS_DAT0_RAM_ECC_DBE_ERR hardware fail reboot link transactions: uncorrectable memory error
19057 NVLTLC_RX_SYS_DAT0_RAM_ECC_LIMIT_ERR hardware ok none link transactions: corrected memory errors
19058 NVLTLC_RX_SYS_DAT1_RAM_ECC_DBE_ERR hardware fail reboot link transactions: uncorrectable memory error
19059 NVLTLC_RX_SYS_DAT1_RAM_ECC_LIMIT_ERR hardware ok none link transactions: corrected memory errors
19060 NVLTLC_TX_LNK_CREQ_RAM_HDR_ECC_DBE_ERR hardware fail reboot link transactions: uncorrectable memory error
19061 NVLTLC_TX_LNK_CREQ_RAM_DAT_ECC_DBE_ERR hardware warn none link transactions: uncorrectable memory error
19062 NVLTLC_TX_LNK_CREQ_RAM_ECC_LIMIT_ERR hardware ok none link transactions: corrected memory errors
19063 NVLTLC_TX_LNK_RSP_RAM_HDR_ECC_DBE_ERR hardware fail reboot link transactions: uncorrectable memory error
19064 NVLTLC_TX_LNK_RSP_RAM_DAT_ECC_DBE_ERR hardware warn none link transactions: uncorrectable memory error
19065 NVLTLC_TX_LNK_RSP_RAM_ECC_LIMIT_ERR hardware ok none link transactions: corrected memory errors
19066 NVLTLC_TX_LNK_COM_RAM_HDR_ECC_DBE_ERR hardware fail reboot link transactions: uncorrectable memory error
19067 NVLTLC_TX_LNK_COM_RAM_DAT_ECC_DBE_ERR hardware warn none link transactions: uncorrectable memory error
19068 NVLTLC_TX_LNK_COM_RAM_ECC_LIMIT_ERR hardware ok none link transactions: corrected memory errors
19069 NVLTLC_TX_LNK_RSP1_RAM_HDR_ECC_DBE_ERR hardware fail reboot link transactions: uncorrectable memory error
19070 NVLTLC_TX_LNK_RSP1_RAM_DAT_ECC_DBE_ERR hardware fail reboot link transactions: uncorrectable memory error
19071 NVLTLC_TX_LNK_RSP1_RAM_ECC_LIMIT_ERR hardware ok none link transactions: corrected memory errors
19072 NVLTLC_TX_LNK_AN1_TIMEOUT_VC0 hardware warn none link transactions: packets waited too long
19073 NVLTLC_TX_LNK_AN1_TIMEOUT_VC1 hardware warn none link transactions: packets waited too long
19074 NVLTLC_TX_LNK_AN1_TIMEOUT_VC2 hardware warn none link transactions: packets waited too long
19075 NVLTLC_TX_LNK_AN1_TIMEOUT_VC3 hardware warn none link transactions: packets waited too long
19076 NVLTLC_TX_LNK_AN1_TIMEOUT_VC4 hardware warn none link transactions: packets waited too long
19077 NVLTLC_TX_LNK_AN1_TIMEOUT_VC5 hardware warn none link transactions: packets waited too long
19078 NVLTLC_TX_LNK_AN1_TIMEOUT_VC6 hardware warn none link transactions: packets waited too long
19079 NVLTLC_TX_LNK_AN1_TIMEOUT_VC7 hardware warn none link transactions: packets waited too long
19080 NVLTLC_RX_LNK_RXRSPSTATUS_HW_ERR hardware fail reboot link transactions: answer: hardware error
19081 NVLTLC_RX_LNK_RXRSPSTATUS_UR_ERR hardware fail reboot link transactions: answer: request not supported
19082 NVLTLC_RX_LNK_RXRSPSTATUS_PRIV_ERR application warn none link transactions: answer: not allowed
19083 NVLTLC_RX_LNK_INVALID_COLLAPSED_RESPONSE_ERR hardware fail reboot link transactions: wrong combined answer
19084 NVLTLC_RX_LNK_AN1_HEARTBEAT_TIMEOUT_ERR hardware warn none link transactions: heartbeat of the peer is missing
20000 DLPL hardware fail reboot link layer: error of a kind without a number of its own
20001 DLPL_TX_REPLAY hardware warn none link layer: packets were sent again
20002 DLPL_TX_RECOVERY_SHORT hardware warn none link layer: the link recovered
20003 DLPL_TX_RECOVERY_LONG hardware fail reboot link layer: the link took long to recover
20004 DLPL_TX_FAULT_RAM hardware fail reboot link layer: memory fault of the sender
20005 DLPL_TX_FAULT_INTERFACE hardware fail reboot link layer: interface fault of the sender
20006 DLPL_TX_FAULT_SUBLINK_CHANGE hardware fail reboot link layer: a change of the link state failed
20007 DLPL_RX_FAULT_SUBLINK_CHANGE hardware fail reboot link layer: a change of the link state failed
20008 DLPL_RX_FAULT_DL_PROTOCOL hardware fail reboot link layer: protocol error
20009 DLPL_RX_SHORT_ERROR_RATE hardware warn none link layer: many bit errors within a short time
20010 DLPL_RX_LONG_ERROR_RATE hardware warn none link layer: many bit errors over a long time
20011 DLPL_RX_ILA_TRIGGER hardware warn none link layer: the link analyser was triggered
20012 DLPL_RX_CRC_COUNTER hardware warn none link layer: many checksum errors
20013 DLPL_LTSSM_FAULT hardware fail reboot link layer: the link failed
20014 DLPL_LTSSM_PROTOCOL hardware fail reboot link layer: protocol error of the link state
20015 DLPL_MINION_REQUEST hardware fail reboot link layer: request to the microcontroller
20016 DLPL_FIFO_DRAIN_ERR hardware fail reboot link layer: a queue was not empty
20017 DLPL_CONST_DET_ERR hardware fail reboot link layer: constant pattern seen
20018 DLPL_OFF2SAFE_LINK_DET_ERR hardware fail reboot link layer: link detection failed
20019 DLPL_SAFE2NO_LINK_DET_ERR hardware fail reboot link layer: link detection failed
20020 DLPL_SCRAM_LOCK_ERR hardware fail reboot link layer: scrambler did not lock
20021 DLPL_SYM_LOCK_ERR hardware fail reboot link layer: symbols did not lock
20022 DLPL_SYM_ALIGN_END_ERR hardware fail reboot link layer: symbols not aligned
20023 DLPL_FIFO_SKEW_ERR hardware fail reboot link layer: lanes are skewed
20024 DLPL_TRAIN2SAFE_LINK_DET_ERR hardware fail reboot link layer: link detection failed
20025 DLPL_HS2SAFE_LINK_DET_ERR hardware fail reboot link layer: link detection failed
20026 DLPL_FENCE_ERR hardware fail reboot link layer: fence error
20027 DLPL_SAFE_NO_LD_ERR hardware fail reboot link layer: link detection failed
20028 DLPL_E2SAFE_LD_ERR hardware fail reboot link layer: link detection failed
20029 DLPL_RC_RXPWR_ERR hardware fail reboot link layer: power state of the receiver
20030 DLPL_RC_TXPWR_ERR hardware fail reboot link layer: power state of the sender
20031 DLPL_RC_DEADLINE_ERR hardware fail reboot link layer: recovery took too long
20032 DLPL_TX_HS2LP_ERR hardware fail reboot link layer: change to low power failed
20033 DLPL_RX_HS2LP_ERR hardware fail reboot link layer: change to low power failed
20034 DLPL_LTSSM_FAULT_UP hardware fail reboot link layer: the link failed while it was up
20035 DLPL_LTSSM_FAULT_DOWN hardware fail reboot link layer: the link failed and went down
20036 DLPL_PHY_A hardware fail reboot link layer: error of the physical part
20037 DLPL_TX_PL_ERROR hardware fail reboot link layer: error of the sending part
20038 DLPL_RX_PL_ERROR hardware fail reboot link layer: error of the receiving part
21000 AFS hardware fail reboot crossbar: error of a kind without a number of its own
21001 AFS_UC_INGRESS_CREDIT_OVERFLOW hardware fail reboot crossbar: flow control overflow
21002 AFS_UC_INGRESS_CREDIT_UNDERFLOW hardware fail reboot crossbar: flow control underflow
21003 AFS_UC_EGRESS_CREDIT_OVERFLOW hardware fail reboot crossbar: flow control overflow
21004 AFS_UC_EGRESS_CREDIT_UNDERFLOW hardware fail reboot crossbar: flow control underflow
21005 AFS_UC_INGRESS_NON_BURSTY_PKT_DETECTED hardware fail reboot crossbar: packet was interrupted
21006 AFS_UC_INGRESS_NON_STICKY_PKT_DETECTED hardware fail reboot crossbar: packet changed its way
21007 AFS_UC_INGRESS_BURST_GT_17_DATA_VC_DETECTED hardware fail reboot crossbar: too long a burst
21008 AFS_UC_INGRESS_BURST_GT_1_NONDATA_VC_DETECTED hardware fail reboot crossbar: too long a burst
21009 AFS_UC_INVALID_DST hardware fail reboot crossbar: wrong destination
21010 AFS_UC_PKT_MISROUTE hardware fail reboot crossbar: packet at the wrong port
22000 MINION hardware fail reboot link microcontroller: error of a kind without a number of its own
22001 MINION_UCODE_IMEM hardware fail reboot link microcontroller: memory error of its program
22002 MINION_UCODE_DMEM hardware fail reboot link microcontroller: memory error of its data
22003 MINION_HALT hardware fail reboot link microcontroller: it halted
22004 MINION_BOOT_ERROR hardware fail reboot link microcontroller: it did not start
22005 MINION_TIMEOUT hardware fail reboot link microcontroller: it did not answer in time
22006 MINION_DLCMD_FAULT hardware warn none link microcontroller: command failed
22007 MINION_DLCMD_TIMEOUT hardware warn none link microcontroller: command did not end in time
22008 MINION_DLCMD_FAIL hardware fail reboot link microcontroller: command failed
22009 MINION_FATAL_INTR hardware fail reboot link microcontroller: it cannot go on
22010 MINION_WATCHDOG hardware fail reboot link microcontroller: its watchdog ran out
22011 MINION_EXTERR hardware fail reboot link microcontroller: error on its bus
22012 MINION_FATAL_LINK_INTR hardware fail reboot link microcontroller: a link cannot go on
22013 MINION_NONFATAL hardware ok none link microcontroller: notice about a link
23000 NXBAR hardware fail reboot crossbar: error of a kind without a number of its own
23001 NXBAR_TILE_INGRESS_BUFFER_OVERFLOW hardware fail reboot crossbar: buffer overflow
23002 NXBAR_TILE_INGRESS_BUFFER_UNDERFLOW hardware fail reboot crossbar: buffer underflow
23003 NXBAR_TILE_EGRESS_CREDIT_OVERFLOW hardware fail reboot crossbar: flow control overflow
23004 NXBAR_TILE_EGRESS_CREDIT_UNDERFLOW hardware fail reboot crossbar: flow control underflow
23005 NXBAR_TILE_INGRESS_NON_BURSTY_PKT hardware fail reboot crossbar: packet was interrupted
23006 NXBAR_TILE_INGRESS_NON_STICKY_PKT hardware fail reboot crossbar: packet changed its way
23007 NXBAR_TILE_INGRESS_BURST_GT_9_DATA_VC hardware fail reboot crossbar: too long a burst
23008 NXBAR_TILE_INGRESS_PKT_INVALID_DST hardware fail reboot crossbar: wrong destination
23009 NXBAR_TILE_INGRESS_PKT_PARITY_ERROR hardware fail reboot crossbar: parity error
23010 NXBAR_TILEOUT_INGRESS_BUFFER_OVERFLOW hardware fail reboot crossbar: buffer overflow
23011 NXBAR_TILEOUT_INGRESS_BUFFER_UNDERFLOW hardware fail reboot crossbar: buffer underflow
23012 NXBAR_TILEOUT_EGRESS_CREDIT_OVERFLOW hardware fail reboot crossbar: flow control overflow
23013 NXBAR_TILEOUT_EGRESS_CREDIT_UNDERFLOW hardware fail reboot crossbar: flow control underflow
23014 NXBAR_TILEOUT_INGRESS_NON_BURSTY_PKT hardware fail reboot crossbar: packet was interrupted
23015 NXBAR_TILEOUT_INGRESS_NON_STICKY_PKT hardware fail reboot crossbar: packet changed its way
23016 NXBAR_TILEOUT_INGRESS_BURST_GT_9_DATA_VC hardware fail reboot crossbar: too long a burst
23017 NXBAR_TILEOUT_EGRESS_CDT_PARITY_ERROR hardware fail reboot crossbar: parity error of flow control
24000 NPORT_SOURCETRACK hardware fail reboot tracking: error of a kind without a number of its own
24001 NPORT_SOURCETRACK_CREQ_TCEN0_CRUMBSTORE_ECC_LIMIT_ERR hardware ok none tracking: corrected memory errors
24002 NPORT_SOURCETRACK_CREQ_TCEN0_TD_CRUMBSTORE_ECC_LIMIT_ERR hardware ok none tracking: corrected memory errors
24003 NPORT_SOURCETRACK_CREQ_TCEN1_CRUMBSTORE_ECC_LIMIT_ERR hardware ok none tracking: corrected memory errors
24004 NPORT_SOURCETRACK_CREQ_TCEN0_CRUMBSTORE_ECC_DBE_ERR hardware fail reboot tracking: uncorrectable memory error
24005 NPORT_SOURCETRACK_CREQ_TCEN0_TD_CRUMBSTORE_ECC_DBE_ERR hardware fail reboot tracking: uncorrectable memory error
24006 NPORT_SOURCETRACK_CREQ_TCEN1_CRUMBSTORE_ECC_DBE_ERR hardware fail reboot tracking: uncorrectable memory error
24007 NPORT_SOURCETRACK_SOURCETRACK_TIME_OUT_ERR hardware fail reboot tracking: no answer in time
24008 NPORT_SOURCETRACK_DUP_CREQ_TCEN0_TAG_ERR hardware fail reboot tracking: same request twice
24009 NPORT_SOURCETRACK_INVALID_TCEN0_RSP_ERR hardware fail reboot tracking: answer that nobody asked for
24010 NPORT_SOURCETRACK_INVALID_TCEN1_RSP_ERR hardware fail reboot tracking: answer that nobody asked for
25000 NVLIPT_LNK hardware fail reboot link interface: error of a kind without a number of its own
25001 NVLIPT_LNK_ILLEGALLINKSTATEREQUEST driver warn none link interface: wrong request for a link state
25002 NVLIPT_LNK_FAILEDMINIONREQUEST hardware warn none link interface: the microcontroller refused a request
25003 NVLIPT_LNK_RESERVEDREQUESTVALUE driver warn none link interface: reserved request
25004 NVLIPT_LNK_LINKSTATEWRITEWHILEBUSY driver warn none link interface: request while another ran
25005 NVLIPT_LNK_LINK_STATE_REQUEST_TIMEOUT hardware warn none link interface: a link state was not reached in time
25006 NVLIPT_LNK_WRITE_TO_LOCKED_SYSTEM_REG_ERR driver warn none link interface: write to a locked register
25007 NVLIPT_LNK_SLEEPWHILEACTIVELINK driver fail reboot link interface: sleep while links are in use
25008 NVLIPT_LNK_RSTSEQ_PHYCTL_TIMEOUT hardware fail reboot link interface: no answer of the physical part at reset
25009 NVLIPT_LNK_RSTSEQ_CLKCTL_TIMEOUT hardware fail reboot link interface: no answer of the clock at reset
25010 NVLIPT_LNK_ALI_TRAINING_FAIL hardware fail reboot link interface: link training failed
26000 SOE hardware fail reboot switch's own processor: error of a kind without a number of its own
26001 SOE_RESET driver fail reboot switch's own processor: it could not be reset
26002 SOE_BOOTSTRAP hardware fail reboot switch's own processor: it did not start
26003 SOE_COMMAND_QUEUE driver fail reboot switch's own processor: it takes no commands
26004 SOE_TIMEOUT hardware fail reboot switch's own processor: it did not answer in time
26005 SOE_SHUTDOWN hardware fail reboot switch's own processor: it did not shut down
26006 SOE_HALT hardware fail reboot switch's own processor: it halted
26007 SOE_EXTERR hardware fail reboot switch's own processor: error on its bus
26008 SOE_WATCHDOG hardware fail reboot switch's own processor: its watchdog ran out
27000 CCI hardware fail reboot optical module control: error of a kind without a number of its own
27001 CCI_RESET driver fail reboot optical module control: it could not be reset
27002 CCI_INIT hardware fail reboot optical module control: it could not be initialised
27003 CCI_TIMEOUT hardware fail reboot optical module control: it did not answer in time
27004 CCI_SHUTDOWN hardware fail reboot optical module control: it did not shut down
27005 CCI_MODULE hardware fail reseat optical module control: a module failed
27006 CCI_MODULE_BOOT hardware fail reseat optical module control: a module did not start
27007 CCI_MODULE_RECOVERY hardware fail reseat optical module control: recovery of a module failed
28000 OSFP_THERM hardware fail reboot optical module: error of a kind without a number of its own
28001 OSFP_THERM_WARN_ACTIVATED system warn escalate optical module: warm
28002 OSFP_THERM_WARN_DEACTIVATED system ok none optical module: no longer warm
28003 OSFP_THERM_OVERT_ACTIVATED system fail escalate optical module: too hot
28004 OSFP_THERM_OVERT_DEACTIVATED system ok none optical module: no longer too hot
28005 OSFP_THERM_HEARTBEAT_SHUTDOWN system fail escalate optical module: shut down, nobody read its sensor
29000 NPORT_MULTICASTTSTATE hardware fail reboot multicast tracking: error of a kind without a number of its own
29001 NPORT_MULTICASTTSTATE_TAGPOOL_ECC_LIMIT_ERR hardware warn none multicast tracking: corrected memory errors
29002 NPORT_MULTICASTTSTATE_TAGPOOL_ECC_DBE_ERR hardware fail reboot multicast tracking: uncorrectable memory error
29003 NPORT_MULTICASTTSTATE_CRUMBSTORE_ECC_LIMIT_ERR hardware warn none multicast tracking: corrected memory errors
29004 NPORT_MULTICASTTSTATE_CRUMBSTORE_ECC_DBE_ERR hardware fail reboot multicast tracking: uncorrectable memory error
29005 NPORT_MULTICASTTSTATE_CRUMBSTORE_BUF_OVERWRITE_ERR hardware fail reboot multicast tracking: entry overwritten
29006 NPORT_MULTICASTTSTATE_CRUMBSTORE_MCTO_ERR hardware warn none multicast tracking: a multicast did not end in time
30000 NPORT_REDUCTIONTSTATE hardware fail reboot reduction tracking: error of a kind without a number of its own
30001 NPORT_REDUCTIONTSTATE_TAGPOOL_ECC_LIMIT_ERR hardware warn none reduction tracking: corrected memory errors
30002 NPORT_REDUCTIONTSTATE_TAGPOOL_ECC_DBE_ERR hardware fail reboot reduction tracking: uncorrectable memory error
30003 NPORT_REDUCTIONTSTATE_CRUMBSTORE_ECC_LIMIT_ERR hardware warn none reduction tracking: corrected memory errors
30004 NPORT_REDUCTIONTSTATE_CRUMBSTORE_ECC_DBE_ERR hardware fail reboot reduction tracking: uncorrectable memory error
30005 NPORT_REDUCTIONTSTATE_CRUMBSTORE_BUF_OVERWRITE_ERR hardware fail reboot reduction tracking: entry overwritten
30006 NPORT_REDUCTIONTSTATE_CRUMBSTORE_RTO_ERR hardware warn none reduction tracking: a reduction did not end in time
"""
