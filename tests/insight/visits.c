/* A module for Redis that reckons with a note per visit, and that forgets to free it if built with LEAK.
 * redismodule.h is in no package: what is used of the interface is declared here. */
#include <stddef.h>
#include <string.h>

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef int command(RedisModuleCtx *context, RedisModuleString **words, int count);

enum { OK = 0, FAILED = 1, API_VERSION = 1, NOTE = 3000 };

static void *(*allocate)(size_t size);
static void (*release)(void *block);
static const char *(*text_of)(const RedisModuleString *word, size_t *length);
static int (*reply_number)(RedisModuleCtx *context, long long number);

/* Stays a function of its own, so that it is in the stack. */
__attribute__((noinline)) static char *remember_visit(const char *who, size_t length)
{
    char *note = allocate(NOTE);
    memset(note, 0, NOTE);
    memcpy(note, who, length < NOTE ? length : NOTE);
    return note;
}

static int visit(RedisModuleCtx *context, RedisModuleString **words, int count)
{
    size_t length = 0;
    const char *who = text_of(words[count - 1], &length);
    char *note = remember_visit(who, length);
    long long sum = 0;
    for (int i = 0; i < NOTE; i++) {
        sum += note[i];
    }
#ifndef LEAK
    release(note);
#endif
    return reply_number(context, sum);
}

int RedisModule_OnLoad(RedisModuleCtx *context, RedisModuleString **words, int count);

int RedisModule_OnLoad(RedisModuleCtx *context, RedisModuleString **words, int count)
{
    (void)words;
    (void)count;
    /* A context begins with the function that finds all others by name. */
    int (*find)(const char *name, void *function);
    memcpy(&find, context, sizeof find);
    void (*introduce)(RedisModuleCtx *, const char *name, int version, int api);
    int (*create)(RedisModuleCtx *, const char *name, command *, const char *flags, int first,
                  int last, int step);
    if (find("RedisModule_SetModuleAttribs", &introduce) != OK ||
        find("RedisModule_CreateCommand", &create) != OK ||
        find("RedisModule_Alloc", &allocate) != OK || find("RedisModule_Free", &release) != OK ||
        find("RedisModule_StringPtrLen", &text_of) != OK ||
        find("RedisModule_ReplyWithLongLong", &reply_number) != OK) {
        return FAILED;
    }
    introduce(context, "visits", 1, API_VERSION);
    return create(context, "visits.add", visit, "write", 0, 0, 0);
}
