/*
 * One misuse of the allocator per run: `misuse NAME` does it, `misuse --list` names them all with their kind and
 * what they do. Before the misuse the address is written to standard output, since the report has to name it;
 * after it the program says "passed", goes on as programs do and returns from main.
 */
#include "misuse.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { SKIPPED = 77, FORMS = 4, NAME_MOST = 96 };

static const struct {
    const char *name, *text;
    size_t size;
} sizes[] = {
    {"16", "16 bytes", 16},         {"48", "48 bytes", 48},   {"200", "200 bytes", 200},
    {"1000", "1,000 bytes", 1000},  {"8k", "8 KiB", 8 * KIB}, {"100k", "100 KiB", 100 * KIB},
    {"300k", "300 KiB", 300 * KIB}, {"4m", "4 MiB", 4 * MIB},
};

/* ---- steps ---- */

void *announce(void *address)
{
    dprintf(STDOUT_FILENO, "address 0x%llx\n", (unsigned long long)(uintptr_t)address);
    return opaque(address);
}

void *block_of(size_t size)
{
    void *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 1, size);
    return opaque(block);
}

void *offset(void *block, long bytes)
{
    return opaque((unsigned char *)block + bytes);
}

size_t crowd_of(size_t size)
{
    return size <= 8 * KIB ? CROWD_MOST : size <= MIB ? 16 : 4;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t left, right;
    memcpy(&left, a, sizeof(left));
    memcpy(&right, b, sizeof(right));
    return (left > right) - (left < right);
}

size_t make_crowd(void **out, size_t size)
{
    const size_t n = crowd_of(size);
    for (size_t i = 0; i < n; i++) {
        out[i] = block_of(size);
    }
    qsort(out, n, sizeof(*out), by_address);
    return n;
}

void free_all(void *const *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(opaque(blocks[i]));
    }
}

static void *thread_that_frees(void *block)
{
    free(opaque(block));
    return NULL;
}

void free_in_thread(void *block)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, thread_that_frees, block) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Looked up at run time, since the C library may not have them. */
void *find_or_skip(const char *symbol)
{
    void *address = dlsym(RTLD_DEFAULT, symbol);
    if (address == NULL) {
        _exit(SKIPPED);
    }
    return address;
}

void free_by(const char *call, void *block, size_t size)
{
    if (strcmp(call, "realloc") == 0) {
        opaque(realloc(block, size * 2));
    } else if (strcmp(call, "free_sized") == 0 || strcmp(call, "_ZdlPvm") == 0) {
        free_by_sized(call, block, size);
    } else {
        void (*function)(void *) = NULL;
        *(void **)&function = find_or_skip(call);
        function(block);
    }
}

void free_by_sized(const char *call, void *block, size_t size)
{
    void (*function)(void *, size_t) = NULL;
    *(void **)&function = find_or_skip(call);
    function(block, size);
}

void *mapped_memory(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(memory != MAP_FAILED);
    return opaque(memory);
}

/* ---- programs ---- */

/* As a program does that knows nothing of what went wrong: blocks of the size come and go, and are written to. */
static void go_on(size_t size)
{
    void *blocks[CROWD_MOST];
    for (int round = 0; round < 3; round++) {
        const size_t n = make_crowd(blocks, size);
        free_all(blocks, n);
    }
}

struct program {
    char name[NAME_MOST];
    const struct form *form;
    struct how how;
    const char *size_text; /* NULL: none to tell */
};

typedef void visit_function(const struct program *program, const void *context);

static void visit_sizes(struct program *p, const char *prefix, visit_function *visit,
                        const void *context)
{
    if (p->form->sizes == ONE_SIZE) {
        snprintf(p->name, sizeof(p->name), "%s", prefix);
        p->how.size = sizes[1].size;
        p->size_text = NULL;
        visit(p, context);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        if ((p->form->sizes >> i & 1) != 0) {
            snprintf(p->name, sizeof(p->name), "%s_%s", prefix, sizes[i].name);
            p->how.size = sizes[i].size;
            p->size_text = sizes[i].text;
            visit(p, context);
        }
    }
}

static void visit_form(const struct form *form, visit_function *visit, const void *context)
{
    struct program p = {.form = form};
    if (form->variant_count == 0) {
        visit_sizes(&p, form->name, visit, context);
    }
    for (size_t i = 0; i < form->variant_count; i++) {
        char prefix[NAME_MOST / 2];
        p.how.variant = &form->variants[i];
        snprintf(prefix, sizeof(prefix), "%s_%s", form->name, form->variants[i].name);
        visit_sizes(&p, prefix, visit, context);
    }
}

static void visit_all(visit_function *visit, const void *context)
{
    const struct form *const forms[FORMS] = {double_frees, bad_pointers, bad_accesses, exploits};
    const size_t counts[FORMS] = {double_frees_count, bad_pointers_count, bad_accesses_count,
                                  exploits_count};
    for (int file = 0; file < FORMS; file++) {
        for (size_t i = 0; i < counts[file]; i++) {
            visit_form(&forms[file][i], visit, context);
        }
    }
}

static void list(const struct program *p, const void *context)
{
    (void)context;
    const struct variant *v = p->how.variant;
    printf("%s\t%s\t%s%s%s%s%s\n", p->form->kind, p->name, p->form->text, v != NULL ? " " : "",
           v != NULL ? v->text : "", p->size_text != NULL ? ", " : "",
           p->size_text != NULL ? p->size_text : "");
}

static void run_if_named(const struct program *p, const void *name)
{
    if (strcmp(p->name, name) != 0) {
        return;
    }
    const struct rlimit no_core = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
    free(block_of(p->how.size)); /* as if the program had run for a while */
    p->form->run(&p->how);
    dprintf(STDOUT_FILENO, "passed\n");
    go_on(p->how.size);
    exit(0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (strcmp(argv[1], "--list") == 0) {
        visit_all(list, NULL);
        return 0;
    }
    require_hakmem();
    visit_all(run_if_named, argv[1]);
    dprintf(STDERR_FILENO, "no misuse named %s\n", argv[1]);
    return 2;
}
