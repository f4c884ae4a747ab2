# SPDX-License-Identifier: GPL-2.0-only
# How Node itself was compiled, which is no matter of an addon's: without this file node-gyp would ask the Node that runs it.
{ "variables": {}, "target_defaults": {} }
