# Configures a project of many targets and options, and generates its build files.
set -eu
mkdir project
cd project
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.18)
project(many LANGUAGES C)
include(CheckIncludeFile)
check_include_file(unistd.h HAVE_UNISTD_H)
find_package(Threads REQUIRED)
foreach(n RANGE 1 120)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/f${n}.c "int f${n}(void) { return ${n}; }\n")
  add_library(lib${n} STATIC ${CMAKE_CURRENT_BINARY_DIR}/f${n}.c)
  target_link_libraries(lib${n} PRIVATE Threads::Threads)
  math(EXPR previous "${n} - 1")
  if(n GREATER 1)
    target_link_libraries(lib${n} PUBLIC lib${previous})
  endif()
  string(SHA256 sum "text ${n}")
  string(REGEX REPLACE "([a-f]+)([0-9]+)" "\\2\\1" turned "${sum}")
  list(APPEND sums ${turned})
endforeach()
list(SORT sums)
string(JOIN "\n" text ${sums})
message(STATUS "${text}")
END
cmake -S . -B build -G 'Unix Makefiles' -DCMAKE_C_COMPILER=gcc >../configure.txt
grep -v 'Configuring done\|Generating done' ../configure.txt
find build -name '*.make' -o -name Makefile -o -name link.txt | LC_ALL=C sort | xargs cat >../out/generated
cd ..
cmake -E tar cf out/list.tar --mtime=2020-01-01 --format=gnutar project/CMakeLists.txt
