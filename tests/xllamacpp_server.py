"""llama.cpp's own server, from the package xllamacpp: ``python -m tests.xllamacpp_server FILE.gguf PORT``."""

from __future__ import annotations

import signal
import sys

import xllamacpp

if __name__ == "__main__":
    told = xllamacpp.CommonParams()
    told.model.path, told.port = sys.argv[1], int(sys.argv[2])
    told.hostnames, told.model_alias = ["127.0.0.1"], {"tiny"}
    told.n_ctx, told.n_parallel, told.cpuparams.n_threads = 1024, 2, 1
    # The usual attention and cache, in half precision, are off by up to 1e-2 nats.
    told.cache_type_k = told.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    told.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(told)
    signal.pause()
