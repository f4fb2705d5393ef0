#!/usr/bin/env python3
"""llama.cpp's server with an OpenAI API, for `scripts/real-model`: model_server.py MODEL.gguf PORT"""

import sys
import time

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = int(sys.argv[2])
params.n_ctx = 4096
params.n_parallel = 1
# One thread: several wait for each other, which on a busy machine takes far longer than one alone.
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
while True:
    time.sleep(3600)
