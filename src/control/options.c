#define _GNU_SOURCE
#include "control/options.h"

#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "os/os.h"

#define INITIAL_SIZE(value) (value)
#define INITIAL_COUNT(value) (value)
#define INITIAL_SWITCH(value) (value)
#define INITIAL_TIME(value) (value)
#define INITIAL_WORD(value) (value)
#define INITIAL_TEXT(value) ""

struct options hak_options = {
#define OPTION(name, type, when, initial, least, most, text) .name = INITIAL_##type(initial),
#include "control/options.def"
#undef OPTION
};

struct option_sources hak_option_sources;
bool hak_has_no_stderr;

enum type { SIZE, TIME, COUNT, SWITCH, WORD, TEXT };
enum when { START, LATER };

static const struct row {
    const char *name;
    enum type type;
    enum when when;
    size_t offset, source, least, most;
} rows[] = {
#define OPTION(name, type, when, initial, least, most, text)                                       \
    {#name, type, when, offsetof(struct options, name), offsetof(struct option_sources, name),     \
     least, most},
#include "control/options.def"
#undef OPTION
};

enum { ROWS = sizeof rows / sizeof rows[0], NAME_MAX_LENGTH = 32 };

HAK_COLD const char *options_text(void)
{
#define OPTION(name, type, when, initial, least, most, text) #name " " #type " " text "\n"
    return
#include "control/options.def"
        ;
#undef OPTION
}

/* ---- values ---- */

static bool parse_digits(const char **at, const char *end, size_t *out)
{
    const char *from = *at;
    size_t value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (size_t)(**at - '0'), &value))
            return false;
    }
    *out = value;
    return *at > from;
}

static bool equals(const char *a, size_t length, const char *b)
{
    return strlen(b) == length && strncasecmp(a, b, length) == 0;
}

/* How many of the smallest unit it is; 0: no unit of the type. */
static size_t unit_of_type(enum type type, const char *unit, size_t length)
{
    static const struct {
        enum type type;
        char name[4];
        size_t factor;
    } units[] = {{SIZE, "k", (size_t)1 << 10},
                 {SIZE, "m", (size_t)1 << 20},
                 {SIZE, "g", (size_t)1 << 30},
                 {TIME, "ms", 1},
                 {TIME, "s", 1000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (units[i].type == type && equals(unit, length, units[i].name))
            return units[i].factor;
    }
    return length == 0;
}

static bool parse_number(const char *at, size_t length, enum type type, size_t *out)
{
    const char *end = at + length;
    if (!parse_digits(&at, end, out))
        return false;
    size_t factor = unit_of_type(type, at, (size_t)(end - at));
    return factor != 0 && !__builtin_mul_overflow(*out, factor, out);
}

HAK_COLD bool option_parse_size(const char *text, size_t length, size_t *out)
{
    return parse_number(text, length, SIZE, out);
}

HAK_COLD bool option_parse_time(const char *text, size_t length, size_t *out)
{
    return parse_number(text, length, TIME, out);
}

/* What the row's line says after its name and type. */
static const char *text_of(const struct row *r)
{
    const char *at = options_text();
    for (ptrdiff_t i = r - rows; i > 0; i--)
        at = strchr(at, '\n') + 1;
    return strchr(strchr(at, ' ') + 1, ' ') + 1;
}

/* The place of a word among those that begin the text; `most` + 1: it is none of them. */
static size_t find_word(const struct row *r, const char *value, size_t length)
{
    const char *at = text_of(r);
    for (size_t i = 0; i <= r->most; i++) {
        size_t n = strcspn(at, "|:");
        if (n == length && strncasecmp(at, value, n) == 0)
            return i;
        at += n + 1;
    }
    return r->most + 1;
}

static bool parse_value(const struct row *r, const char *value, size_t length, size_t *out)
{
    if (r->type == SWITCH && (equals(value, length, "on") || equals(value, length, "true")))
        *out = 1;
    else if (r->type == SWITCH && (equals(value, length, "off") || equals(value, length, "false")))
        *out = 0;
    else if (r->type == WORD && find_word(r, value, length) <= r->most)
        *out = find_word(r, value, length);
    else
        return parse_number(value, length, r->type, out);
    return true;
}

/* What is to be said of a value that is none. */
static const char not_a_value[][37] = {
    [SIZE] = "is not a size such as 64K, 32M or 1G",
    [TIME] = "is not a time such as 500ms or 2s",
    [COUNT] = "is not a number",
    [SWITCH] = "is neither 0 nor 1",
};

static const char out_of_range[] = "is out of range";

static const char *wrong_value(const struct row *r)
{
    return r->type == WORD ? "is none of its words" : not_a_value[r->type];
}

static const char *set_row(const struct row *r, enum option_source source, const char *value,
                           size_t length)
{
    char *field = (char *)&hak_options + r->offset;
    _Atomic uint8_t *from = (_Atomic uint8_t *)&hak_option_sources + r->source;
    if (r->type == TEXT) {
        if (length >= OPTION_TEXT_MAX)
            return "is longer than 255 characters";
        memcpy(field, value, length);
        field[length] = '\0';
        store_relaxed(from, (uint8_t)source);
        return NULL;
    }
    size_t number;
    if (!parse_value(r, value, length, &number))
        return wrong_value(r);
    if (number < r->least || number > r->most)
        return r->type == SWITCH || r->type == WORD ? wrong_value(r) : out_of_range;
    store_relaxed((_Atomic size_t *)(void *)field, number);
    store_relaxed(from, (uint8_t)source);
    return NULL;
}

/* ---- names ---- */

static const struct row *find(const char *name, size_t length)
{
    for (int i = 0; i < ROWS; i++) {
        if (equals(name, length, rows[i].name))
            return &rows[i];
    }
    return NULL;
}

/* Edit distance, one row at a time. */
static size_t distance(const char *a, size_t length, const char *b)
{
    size_t row[NAME_MAX_LENGTH + 1], width = strlen(b);
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            size_t best = diagonal + ((a[i - 1] | 0x20) != b[j - 1]);
            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }
    return row[width];
}

/* NULL: none is near. */
static const char *nearest(const char *name, size_t length)
{
    const char *best = NULL;
    size_t least = length / 2;
    for (int i = 0; i < ROWS; i++) {
        size_t apart = distance(name, length, rows[i].name);
        if (apart < least) {
            best = rows[i].name;
            least = apart;
        }
    }
    return best;
}

HAK_COLD const char *option_set(const char *name, size_t name_length, const char *value,
                                size_t length)
{
    const struct row *r = find(name, name_length);
    return r == NULL ? "is not a setting" : set_row(r, OPTION_PROGRAM, value, length);
}

HAK_COLD enum option_access option_get(const char *name, size_t *value)
{
    const struct row *r = find(name, strlen(name));
    if (r == NULL)
        return OPTION_NONE;
    const char *field = (const char *)&hak_options + r->offset;
    if (r->type == TEXT)
        *value = (size_t)field;
    else
        *value = load_relaxed((const _Atomic size_t *)(const void *)field);
    return r->when == START ? OPTION_READ : OPTION_SET;
}

/* ---- environment ---- */

static HAK_COLD void warn_unknown(const char *source, const char *name, size_t length)
{
    char shown[NAME_MAX_LENGTH + 1];
    os_copy_text(shown, sizeof shown, name, length);
    const char *meant = nearest(shown, strlen(shown));
    if (meant != NULL)
        os_warn("%s: unknown setting '%s' is ignored; did you mean '%s'?", source, shown, meant);
    else
        os_warn("%s: unknown setting '%s' is ignored", source, shown);
}

static HAK_COLD void warn_bad_value(const char *source, const struct row *r, const char *wrong,
                                    const char *value, size_t length)
{
    char shown[64], values[96] = "";
    os_copy_text(shown, sizeof shown, value, length);
    if (r->type == WORD)
        os_copy_text(values, sizeof values, text_of(r), strcspn(text_of(r), ":"));
    else if (wrong == out_of_range)
        os_format(values, sizeof values, "%u to %u%s", r->least, r->most,
                  r->type == TIME ? " ms" : "");
    os_warn("%s: value '%s' of '%s' is ignored: it %s%s%s", source, shown, r->name, wrong,
            values[0] != '\0' ? ": " : "", values);
}

static HAK_COLD void set_or_warn(const char *source, const char *name, size_t name_length,
                                 const char *value, size_t length)
{
    const struct row *r = find(name, name_length);
    const char *wrong = r != NULL ? set_row(r, OPTION_ENVIRONMENT, value, length) : NULL;
    if (r == NULL)
        warn_unknown(source, name, name_length);
    else if (wrong != NULL)
        warn_bad_value(source, r, wrong, value, length);
}

static HAK_COLD void read_conf(const char *conf)
{
    while (*conf != '\0') {
        size_t length = strcspn(conf, ",");
        const char *colon = memchr(conf, ':', length);
        size_t name = colon != NULL ? (size_t)(colon - conf) : length,
               before = name + (colon != NULL);
        if (length > 0)
            set_or_warn("HAKMEM_CONF", conf, name, conf + before, length - before);
        conf += length + (conf[length] == ',');
    }
}

/* Of a file that is written later: the program may be in another folder by then. One that gets too long stays as it is. */
static HAK_COLD void make_absolute(char *path)
{
    char folder[OPTION_TEXT_MAX];
    size_t length = strlen(path), before;
    if (length == 0 || path[0] == '/' || !os_read_folder(folder, sizeof folder) ||
        strstr(folder, "%p") != NULL) /* the first would be the process id */
        return;
    before = strlen(folder);
    if (before > 1)
        folder[before++] = '/';
    if (before + length >= OPTION_TEXT_MAX)
        return;
    memmove(path + before, path, length + 1);
    for (size_t i = 0; i < before; i++)
        path[i] = folder[i];
}

static HAK_COLD void read_environment(void)
{
    static const char prefix[] = "HAKMEM_",
                      conf[] = "HAKMEM_CONF=", whale[] = "HKM_WHALE_CAPACITY=";
    hak_has_no_stderr = !os_is_open(STDERR_FILENO);
    /* The former name of one counts least, wherever it stands. */
    for (char **e = environ; *e != NULL; e++) {
        if (strncmp(*e, conf, sizeof conf - 1) == 0)
            read_conf(*e + sizeof conf - 1);
        else if (strncmp(*e, whale, sizeof whale - 1) == 0 &&
                 load_relaxed(&hak_option_sources.whale_capacity) == OPTION_DEFAULT)
            set_or_warn("environment", "whale_capacity", strlen("whale_capacity"),
                        *e + sizeof whale - 1, strlen(*e + sizeof whale - 1));
    }
    /* Single variables second: the more specific wins. */
    for (char **e = environ; *e != NULL; e++) {
        const char *equal = strchr(*e, '=');
        if (equal == NULL || strncmp(*e, prefix, sizeof prefix - 1) != 0 ||
            strncmp(*e, conf, sizeof conf - 1) == 0)
            continue;
        const char *name = *e + sizeof prefix - 1;
        set_or_warn("environment", name, (size_t)(equal - name), equal + 1, strlen(equal + 1));
    }
    make_absolute(hak_options.output);
    make_absolute(hak_options.profile_output);
}

/* Most processes have no setting: those need none of the above, nor its pages. One that has more rights than who started it shows
 * nothing, as that user may be its own. */
void options_read_environment(void)
{
    if (getauxval(AT_SECURE) != 0) {
        hak_options.live = false;
        return;
    }
    if (environ == NULL)
        return;
    bool may_be_one = false;
    for (char **e = environ; *e != NULL; e++)
        may_be_one |= (*e)[0] == 'H' && ((*e)[1] == 'A' || (*e)[1] == 'K');
    if (may_be_one)
        read_environment();
}
