# baton_library(NAME folder SOURCES … [DEPS …] [PUBLIC_DEPS …])
#   One library per folder: services/base becomes baton::services_base.
# baton_binary(NAME … SOURCES … DEPS …)
# baton_proto(NAME … PROTOS …)
# baton_test(NAME … SOURCES … DEPS … [LABELS …] [TIMEOUT s])
set(BATON_WARNINGS -Wall -Wextra -Werror=unused-result -Werror=return-type
                   -Wno-unused-parameter -Wno-missing-field-initializers)
# Explicit fma only: a compiler that fuses by itself changes bits by flags.
set(BATON_OPTIONS ${BATON_WARNINGS} -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(APPEND BATON_OPTIONS -Wthread-safety -Werror=thread-safety)
endif()
if(BATON_SANITIZE)
  string(REPLACE ";" "," _sanitize "${BATON_SANITIZE}")
  add_compile_options(-fsanitize=${_sanitize} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${_sanitize})
  if(_sanitize MATCHES undefined)
    list(APPEND BATON_OPTIONS -fno-sanitize-recover=undefined)
  endif()
endif()

function(baton_library)
  cmake_parse_arguments(A "" "NAME" "SOURCES;DEPS;PUBLIC_DEPS" ${ARGN})
  if(A_SOURCES)
    add_library(baton_${A_NAME} STATIC ${A_SOURCES})
    target_compile_options(baton_${A_NAME} PRIVATE ${BATON_OPTIONS})
    target_include_directories(baton_${A_NAME} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(baton_${A_NAME} PRIVATE ${A_DEPS}
                                          PUBLIC ${A_PUBLIC_DEPS})
  else()
    add_library(baton_${A_NAME} INTERFACE)
    target_include_directories(baton_${A_NAME} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(baton_${A_NAME} INTERFACE ${A_PUBLIC_DEPS} ${A_DEPS})
  endif()
  add_library(baton::${A_NAME} ALIAS baton_${A_NAME})
endfunction()

function(baton_binary)
  cmake_parse_arguments(A "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_executable(${A_NAME} ${A_SOURCES})
  target_compile_options(${A_NAME} PRIVATE ${BATON_OPTIONS})
  target_include_directories(${A_NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${A_NAME} PRIVATE ${A_DEPS})
endfunction()

function(baton_proto)
  cmake_parse_arguments(A "" "NAME" "PROTOS" ${ARGN})
  set(generated)
  set(out ${CMAKE_BINARY_DIR}/gen)
  file(MAKE_DIRECTORY ${out})
  foreach(proto ${A_PROTOS})
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    set(files ${out}/${stem}.pb.cc ${out}/${stem}.pb.h
              ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h)
    add_custom_command(
      OUTPUT ${files}
      COMMAND protobuf::protoc -I ${CMAKE_SOURCE_DIR}/proto
              --cpp_out=${out} --grpc_out=${out}
              --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>
              ${CMAKE_SOURCE_DIR}/proto/${proto}
      DEPENDS ${CMAKE_SOURCE_DIR}/proto/${proto}
      VERBATIM)
    list(APPEND generated ${files})
    # Each .pb.cc defines the same file-scope names.
    set_source_files_properties(${out}/${stem}.pb.cc PROPERTIES
                                SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
  add_library(baton_${A_NAME} STATIC ${generated})
  # Generated code is most of the build time and none of the run time.
  target_compile_options(baton_${A_NAME} PRIVATE -O1 -g0 -w)
  set_target_properties(baton_${A_NAME} PROPERTIES UNITY_BUILD ON
                                                   UNITY_BUILD_BATCH_SIZE 8)
  target_include_directories(baton_${A_NAME} SYSTEM PUBLIC ${out})
  target_link_libraries(baton_${A_NAME} PUBLIC gRPC::grpc++ protobuf::libprotobuf)
  add_library(baton::${A_NAME} ALIAS baton_${A_NAME})
endfunction()

function(baton_test)
  cmake_parse_arguments(A "" "NAME;TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_executable(${A_NAME} ${A_SOURCES})
  target_compile_options(${A_NAME} PRIVATE ${BATON_OPTIONS})
  target_include_directories(${A_NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${A_NAME} PRIVATE ${A_DEPS} GTest::gmock GTest::gtest
                                          GTest::gtest_main)
  add_test(NAME ${A_NAME} COMMAND ${A_NAME})
  foreach(label core sanitized)
    if(A_NAME IN_LIST BATON_TESTS_${label})
      list(APPEND A_LABELS ${label})
      add_dependencies(baton_${label}_tests ${A_NAME})
    endif()
  endforeach()
  set_tests_properties(${A_NAME} PROPERTIES TIMEOUT ${A_TIMEOUT}
                                            LABELS "${A_LABELS}")
endfunction()
