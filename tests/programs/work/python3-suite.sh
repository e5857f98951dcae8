# More of Python's own test suite: threads, processes, forks, garbage collection, large containers.
set -eu
exec python3 "$WORK/lib/suite.py" test_threading test_thread test_multiprocessing_fork \
    test_queue test_fork1 test_gc test_weakref test_sort test_re \
    test_memoryview test_array test_deque test_zlib test_ctypes test_pickle
