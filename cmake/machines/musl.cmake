# The musl C library beside the system's own, by Debian's musl-tools. They bring no headers of the kernel and no C++:
# the former are the system's, whatever is C++ is left out.
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_C_FLAGS_INIT "-idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu")
