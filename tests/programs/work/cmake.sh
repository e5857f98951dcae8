# Configures a project of many targets and options, and generates its build files.
set -eu
mkdir project
cd project
{
    echo 'cmake_minimum_required(VERSION 3.18)'
    echo 'project(many LANGUAGES C)'
    echo 'include(CheckIncludeFile)'
    echo 'check_include_file(unistd.h HAVE_UNISTD_H)'
    echo 'find_package(Threads REQUIRED)'
    echo 'foreach(n RANGE 1 120)'
    echo '  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/f${n}.c "int f${n}(void) { return ${n}; }\n")'
    echo '  add_library(lib${n} STATIC ${CMAKE_CURRENT_BINARY_DIR}/f${n}.c)'
    echo '  target_link_libraries(lib${n} PRIVATE Threads::Threads)'
    echo '  math(EXPR previous "${n} - 1")'
    echo '  if(n GREATER 1)'
    echo '    target_link_libraries(lib${n} PUBLIC lib${previous})'
    echo '  endif()'
    echo '  string(SHA256 sum "text ${n}")'
    echo '  string(REGEX REPLACE "([a-f]+)([0-9]+)" "\\\\2\\\\1" turned "${sum}")'
    echo '  list(APPEND sums ${turned})'
    echo 'endforeach()'
    echo 'list(SORT sums)'
    echo 'string(JOIN "\n" text ${sums})'
    echo 'message(STATUS "${text}")'
} >CMakeLists.txt
cmake -S . -B build -G 'Unix Makefiles' -DCMAKE_C_COMPILER=gcc >../configure.txt
grep -v 'Configuring done\|Generating done' ../configure.txt
find build -name '*.make' -o -name Makefile -o -name link.txt | LC_ALL=C sort | xargs cat >../out/generated
cd ..
cmake -E tar cf out/list.tar --mtime=2020-01-01 --format=gnutar project/CMakeLists.txt
