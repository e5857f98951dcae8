/* false_sharing: threads that write to small objects of their own, which an allocator may have put
 * into one cache line. */
#include "common.h"
#include "lanes.h"

enum kind { ACTIVE, PASSIVE };

struct worker {
    unsigned char *given; /* by the main thread, to be freed; NULL where nothing is */
    size_t size;
    uint64_t objects;
    uint64_t writes;
};

static void write_often(unsigned char *object, uint64_t writes)
{
    volatile unsigned char *counter = object;
    *counter = 0;
    for (uint64_t i = 0; i < writes; i++) {
        *counter = (unsigned char)(*counter + 1);
    }
    if (*counter != (unsigned char)writes) {
        die_corrupt(object);
    }
}

static void work(void *lane)
{
    struct worker *w = lane;
    free(w->given);
    for (uint64_t i = 0; i < w->objects; i++) {
        unsigned char *object = allocate(w->size);
        write_often(object, w->writes);
        free(object);
    }
}

enum { KIND, THREADS, SIZE, OBJECTS, WRITES, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [KIND] = {"KIND", "active: all from the threads' own malloc; passive: also main's", 0, 0,
              "active passive", 0, 0},
    [THREADS] = {"THREADS", "that write", 1, MOST_LANES, NULL, 0, 0},
    [SIZE] = {"SIZE", "bytes of an object", 1, 4096, NULL, 0, 0},
    [OBJECTS] = {"OBJECTS", "by each thread, one after another", 1, 1000000000, NULL, 0, 0},
    [WRITES] = {"WRITES", "to each object", 1, 1000000000, NULL, 0, 0},
};

int main(int argc, char **argv)
{
    static struct worker workers[MOST_LANES];
    parse_arguments("Threads write to small objects of their own; do they share cache lines?",
                    parameters, PARAMETERS, argc, argv);
    unsigned threads = (unsigned)parameters[THREADS].value;
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){
            .given = parameters[KIND].value == PASSIVE ? allocate(parameters[SIZE].value) : NULL,
            .size = parameters[SIZE].value,
            .objects = parameters[OBJECTS].value,
            .writes = parameters[WRITES].value,
        };
    }
    uint64_t elapsed = run_lanes(
        &(struct lanes){.count = threads, .state = workers, .size = sizeof *workers, .body = work});
    report(threads * workers[0].objects, elapsed);
    return 0;
}
