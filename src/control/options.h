/* Settings: data that every layer may read. Filled with the defaults at link time and from the
 * environment once, at start. */
#ifndef HAK_OPTIONS_H
#define HAK_OPTIONS_H

#include "base/atomic.h"
#include "base/base.h"

enum { OPTION_TEXT_MAX = 256 };

#define OPTION_FIELD_SIZE(name) _Atomic size_t name;
#define OPTION_FIELD_COUNT(name) _Atomic size_t name;
#define OPTION_FIELD_SWITCH(name) _Atomic size_t name;
#define OPTION_FIELD_TIME(name) _Atomic size_t name;
#define OPTION_FIELD_WORD(name) _Atomic size_t name;
#define OPTION_FIELD_TEXT(name) char name[OPTION_TEXT_MAX];

struct options {
#define OPTION(name, type, when, initial, least, most, text) OPTION_FIELD_##type(name)
#include "control/options.def"
#undef OPTION
};

/* Where each is from. */
enum option_source { OPTION_DEFAULT, OPTION_ENVIRONMENT, OPTION_PROGRAM };

struct option_sources {
#define OPTION(name, type, when, initial, least, most, text) _Atomic uint8_t name;
#include "control/options.def"
#undef OPTION
};

extern struct option_sources hak_option_sources __attribute__((visibility("hidden")));

#define OPTION_NUMBER_SIZE(value) load_relaxed(&(value))
#define OPTION_NUMBER_COUNT(value) load_relaxed(&(value))
#define OPTION_NUMBER_SWITCH(value) load_relaxed(&(value))
#define OPTION_NUMBER_TIME(value) load_relaxed(&(value))
#define OPTION_NUMBER_WORD(value) load_relaxed(&(value))
#define OPTION_NUMBER_TEXT(value) ((value)[0] != '\0')

extern struct options hak_options __attribute__((visibility("hidden")));

/* A setting that is a number: the program may change it at any time, and nothing else comes with it. */
#define option(name) load_relaxed(&hak_options.name)

/* Standard error was closed when settings were read: what has its number later is a file of the program's. */
extern bool hak_has_no_stderr __attribute__((visibility("hidden")));

/* Reads HAKMEM_CONF and HAKMEM_<KEY>; nothing in a set-user-ID program or its like, whose `live` is 0. Bad ones are warned about
 * and ignored. */
void options_read_environment(void);

/* Sets one by name; NULL, or what is wrong with the value. */
const char *option_set(const char *name, size_t name_length, const char *value, size_t length);

/* Value of a setting, of a text its address, and whether it may still be set; OPTION_NONE: there is none of that
 * name. */
enum option_access { OPTION_NONE, OPTION_READ, OPTION_SET };
enum option_access option_get(const char *name, size_t *value);

/* A size such as 32M in bytes, a time such as 2s in milliseconds; false: the text is none. */
bool option_parse_size(const char *text, size_t length, size_t *out);
bool option_parse_time(const char *text, size_t length, size_t *out);

/* What settings there are, a line each: name, type, what it does. */
const char *options_text(void);

#endif
