# Packages from Debian, and ggml and the jinja sources from the pinned archive
# (cmake/fetch.sh puts them into the cache).
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(Boost 1.74 REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
if(BATON_TESTS)
  find_package(GTest REQUIRED)
endif()

execute_process(
  COMMAND ${CMAKE_SOURCE_DIR}/cmake/fetch.sh --print-llama
  OUTPUT_VARIABLE BATON_LLAMA_DIR
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${CMAKE_SOURCE_DIR}/cmake/fetch.sh --print
  OUTPUT_VARIABLE BATON_CACHE_DIR
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT EXISTS ${BATON_LLAMA_DIR}/.complete)
  message(FATAL_ERROR "third-party sources are missing: run ./dev setup")
endif()

# ggml for strict numerics: no llamafile GEMM, no repacked weights, no OpenMP.
set(BUILD_SHARED_LIBS OFF)
set(GGML_LLAMAFILE OFF CACHE BOOL "" FORCE)
set(GGML_CPU_REPACK OFF CACHE BOOL "" FORCE)
set(GGML_OPENMP OFF CACHE BOOL "" FORCE)
set(GGML_CCACHE OFF CACHE BOOL "" FORCE)
# For this machine, or for every x86-64-v3 machine (images, packages). Our own
# kernels choose at run time either way.
option(BATON_PORTABLE "Run on any machine with AVX2, FMA and F16C" OFF)
if(BATON_PORTABLE)
  set(GGML_NATIVE OFF CACHE BOOL "" FORCE)
  foreach(set AVX AVX2 FMA F16C BMI2 SSE42)
    set(GGML_${set} ON CACHE BOOL "" FORCE)
  endforeach()
else()
  set(GGML_NATIVE ON CACHE BOOL "")
endif()
set(GGML_BACKEND_DL OFF CACHE BOOL "" FORCE)
add_subdirectory(${BATON_LLAMA_DIR}/ggml ${CMAKE_BINARY_DIR}/ggml
                 EXCLUDE_FROM_ALL SYSTEM)

# The chat-template engine. Its headers are included as "jinja/...".
add_library(baton_jinja STATIC EXCLUDE_FROM_ALL
  ${BATON_LLAMA_DIR}/common/jinja/lexer.cpp
  ${BATON_LLAMA_DIR}/common/jinja/parser.cpp
  ${BATON_LLAMA_DIR}/common/jinja/runtime.cpp
  ${BATON_LLAMA_DIR}/common/jinja/string.cpp
  ${BATON_LLAMA_DIR}/common/jinja/value.cpp)
foreach(source unicode.cpp json.cpp)
  if(EXISTS ${BATON_LLAMA_DIR}/common/${source})
    target_sources(baton_jinja PRIVATE ${BATON_LLAMA_DIR}/common/${source})
  endif()
endforeach()
target_include_directories(baton_jinja SYSTEM PUBLIC
  ${BATON_LLAMA_DIR}/common ${BATON_LLAMA_DIR}/vendor)
# Its assertions are about the source it parses, which may be anything.
target_compile_definitions(baton_jinja PRIVATE NDEBUG)
target_compile_options(baton_jinja PRIVATE -w)
target_link_libraries(baton_jinja PRIVATE ggml-base)
