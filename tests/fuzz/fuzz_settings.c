/* The parser of settings, against a plain reading of what options.def says: by name, as hak_ctl sets them, and as
 * an environment. */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "control/options.h"
#include "fuzz.h"

enum { TEXT_MOST = 600, VARIABLES_MOST = 12 };
enum type { SIZE, TIME, COUNT, SWITCH, WORD, TEXT };

static const struct setting {
    const char *name, *words;
    enum type type;
    size_t offset, least, most;
} settings[] = {
#define OPTION(name, type, when, initial, least, most, text)                                       \
    {#name, text, type, offsetof(struct options, name), least, most},
#include "control/options.def"
#undef OPTION
};

enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* ---- what a value means, read in the slow and obvious way ---- */

static bool is_word(const char *value, const char *word)
{
    return strcasecmp(value, word) == 0;
}

/* The number before a unit; false: there is none, or it has more than 64 bits. */
static bool digits(const char *value, unsigned __int128 *number, const char **unit)
{
    *number = 0;
    for (*unit = value; isdigit((unsigned char)**unit); (*unit)++) {
        *number = *number * 10 + (unsigned)(**unit - '0');
        if (*number > SIZE_MAX)
            return false;
    }
    return *unit > value;
}

static unsigned factor(enum type type, const char *unit)
{
    if (*unit == '\0')
        return 1;
    if (type == SIZE)
        return is_word(unit, "k")   ? 1u << 10
               : is_word(unit, "m") ? 1u << 20
               : is_word(unit, "g") ? 1u << 30
                                    : 0;
    return type != TIME ? 0 : is_word(unit, "ms") ? 1 : is_word(unit, "s") ? 1000 : 0;
}

static bool place_of_word(const struct setting *s, const char *value, unsigned __int128 *number)
{
    char words[TEXT_MOST];
    strcpy(words, s->words);
    *strchr(words, ':') = '\0';
    char *rest = words;
    for (*number = 0; rest != NULL; ++*number) {
        if (is_word(value, strsep(&rest, "|")))
            return true;
    }
    return false;
}

/* Whether a setting takes the value, and as what. */
static bool meaning(const struct setting *s, const char *value, size_t *out)
{
    unsigned __int128 number = 0;
    const char *unit;
    bool on = is_word(value, "on") || is_word(value, "true");
    if (s->type == SWITCH && (on || is_word(value, "off") || is_word(value, "false"))) {
        number = on;
    } else if (s->type != WORD || !place_of_word(s, value, &number)) {
        if (!digits(value, &number, &unit) || factor(s->type, unit) == 0)
            return false;
        number *= factor(s->type, unit);
    }
    *out = (size_t)number;
    return number >= s->least && number <= s->most;
}

/* ---- names and values made of the input ---- */

/* Mostly characters that mean something to the parser. */
static char character(struct input *in)
{
    static const char usual[] = "0123456789kKmMgGsS:,=%-+ .xonfalsetrui_|";
    uint64_t byte = input_take(in, 1);
    char c = byte < 224 ? usual[byte % (sizeof usual - 1)] : (char)(byte * 7);
    return c == '\0' ? ' ' : c;
}

static size_t text_of(struct input *in, char *out, size_t most)
{
    uint64_t kind = input_take(in, 1);
    size_t length = kind < 240 ? kind % 24 : input_take(in, 2) % most;
    for (size_t i = 0; i < length; i++)
        out[i] = character(in);
    out[length] = '\0';
    return length;
}

/* A setting's, perhaps in capitals, or any. */
static void name_of(struct input *in, char *out, size_t most)
{
    uint64_t kind = input_take(in, 1);
    if (kind % 8 == 0) {
        text_of(in, out, most);
        return;
    }
    strcpy(out, settings[kind / 8 % SETTINGS].name);
    for (char *c = out; kind % 2 != 0 && *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
}

/* ---- checks ---- */

static const struct setting *setting_of(const char *name)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        if (is_word(name, settings[i].name))
            return &settings[i];
    }
    return NULL;
}

static void bounds_check(void)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        const struct setting *s = &settings[i];
        const char *field = (const char *)&hak_options + s->offset;
        size_t number;
        memcpy(&number, field, sizeof number);
        if (s->type == TEXT ? strnlen(field, OPTION_TEXT_MAX) == OPTION_TEXT_MAX
                            : number < s->least || number > s->most)
            broken("'%s' has left its bounds", s->name);
    }
}

static void taken_check(const struct setting *s, const char *value, struct options *expected)
{
    char *field = (char *)expected + s->offset;
    size_t number;
    if (s->type == TEXT && strlen(value) < OPTION_TEXT_MAX)
        strcpy(field, value);
    else if (s->type != TEXT && meaning(s, value, &number))
        memcpy(field, &number, sizeof number);
    else
        broken("'%s' took '%s'", s->name, value);
    /* Text behind its end is nobody's. */
    if (s->type == TEXT ? strcmp(field, (const char *)&hak_options + s->offset) != 0
                        : memcmp(expected, &hak_options, sizeof hak_options) != 0)
        broken("'%s' is not what '%s' says", s->name, value);
}

static void set_one(struct input *in)
{
    char name[TEXT_MOST], value[TEXT_MOST];
    name_of(in, name, sizeof name);
    size_t length = text_of(in, value, sizeof value), number;
    const struct setting *s = setting_of(name);
    struct options before = hak_options;
    const char *wrong = option_set(name, strlen(name), value, length);
    if (wrong == NULL && s == NULL)
        broken("there is no setting '%s'", name);
    if (wrong == NULL) {
        taken_check(s, value, &before);
        return;
    }
    if (memcmp(&before, &hak_options, sizeof before) != 0)
        broken("'%s' was refused with '%s', and something changed", name, value);
    if (s != NULL && (s->type == TEXT ? length < OPTION_TEXT_MAX : meaning(s, value, &number)))
        broken("'%s' refused '%s': it %s", name, value, wrong);
}

static void read_one_environment(struct input *in)
{
    static char texts[VARIABLES_MOST][2 * TEXT_MOST];
    char *variables[VARIABLES_MOST + 1], **before = environ;
    static const char *const prefixes[] = {"HAKMEM_CONF=", "HAKMEM_", "HKM_WHALE_CAPACITY=", "HA",
                                           ""};
    size_t count = input_take(in, 1) % (VARIABLES_MOST + 1);
    for (size_t i = 0; i < count; i++) {
        uint64_t kind = input_take(in, 1);
        char *at = stpcpy(texts[i], prefixes[kind % 5]);
        for (uint64_t pairs = kind / 5 % 3; pairs > 0; pairs--) {
            name_of(in, at, TEXT_MOST / 4);
            at += strlen(at);
            *at++ = kind % 5 == 1 ? '=' : ':';
            at += text_of(in, at, TEXT_MOST / 4);
            *at++ = ',';
        }
        *at = '\0';
        variables[i] = texts[i];
    }
    variables[count] = NULL;
    environ = variables;
    options_read_environment();
    environ = before;
}

/* The warnings are not to be read: there are thousands. */
static void silently(void (*what)(struct input *), struct input *in)
{
    static int nowhere = -1, terminal;
    if (nowhere < 0) {
        nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    }
    dup2(nowhere, STDERR_FILENO);
    what(in);
    dup2(terminal, STDERR_FILENO);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct options defaults = hak_options;
    while (in.at < in.end) {
        if (input_take(&in, 1) % 4 == 0)
            silently(read_one_environment, &in);
        else
            set_one(&in);
        bounds_check();
    }
    hak_options = defaults;
    return 0;
}
