# 64-bit ARM, built with Debian's cross compiler and run under QEMU's user-mode emulation. HAK_ARM64_PACKAGES:
# where tests/machines/run_aarch64.py unpacks what the cross compiler does not bring along.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

set(HAK_ARM64_PACKAGES ${CMAKE_CURRENT_LIST_DIR}/../../build/machines/arm64 CACHE PATH "")
cmake_path(ABSOLUTE_PATH HAK_ARM64_PACKAGES NORMALIZE OUTPUT_VARIABLE packages)
set(CMAKE_FIND_ROOT_PATH ${packages} /usr/aarch64-linux-gnu)
include_directories(SYSTEM ${packages}/usr/include/aarch64-linux-gnu)
set(CMAKE_REQUIRED_INCLUDES ${packages}/usr/include/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${packages}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${packages})
