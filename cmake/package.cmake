# `cpack -G DEB` in a build folder makes a Debian package of what `cmake --install` installs.
set(CPACK_PACKAGE_NAME hakmem)
set(CPACK_PACKAGE_VENDOR "the hakmem authors")
set(CPACK_PACKAGE_CONTACT "the hakmem authors <hakmem@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "drop-in malloc for Linux")
set(CPACK_PACKAGE_DESCRIPTION
    "A memory allocator that replaces malloc of any dynamically linked program, by preloading it or
by linking with it. The package holds both libraries, the headers, what CMake and pkg-config
need to find them, and manual pages.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Also makes the installation run ldconfig, so that a bare name is enough to preload.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
