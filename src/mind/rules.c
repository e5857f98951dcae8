#include "mind/rules.h"

#include <string.h>

#include "control/options.h"
#include "mind/keep.h"
#include "os/os.h"

enum { TEXT_ROOM = 32 << 10, SITE_DIGITS = 16, SHOWN = 32 };

/* Not beside what every process uses: cmake/layout.ld. */
__attribute__((section(".bss.rules_text"))) static char text[TEXT_ROOM];

struct word {
    const char *at;
    size_t length;
};

/* Of a line; empty: there is none left. */
static struct word next_word(const char **line)
{
    *line += strspn(*line, " \t\r");
    struct word w = {*line, strcspn(*line, " \t\r\n#")};
    *line += w.length;
    return w;
}

static bool is(struct word w, const char *text_of_it)
{
    return strlen(text_of_it) == w.length && memcmp(w.at, text_of_it, w.length) == 0;
}

static bool read_key(struct word w, struct keep_known *out)
{
    size_t size;
    out->key = is(w, "any") ? KEEP_ANY : 0;
    if (is(w, "any") || is(w, "classes"))
        return true;
    if (!option_parse_size(w.at, w.length, &size) || size < KEYS_FROM)
        return false;
    out->key = keep_key_of_size(size);
    return true;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_site(struct word w, struct keep_known *out)
{
    out->signature = 0;
    if (is(w, "-"))
        return true;
    for (size_t i = 0; i < w.length; i++) {
        if (digit(w.at[i]) < 0)
            return false;
        out->signature = out->signature << 4 | (uint64_t)digit(w.at[i]);
    }
    return w.length == SITE_DIGITS;
}

static bool read_count(struct word w, uint64_t *out)
{
    size_t number;
    if (w.length == 0 || !option_parse_size(w.at, w.length, &number) || number > KEEP_KIB_MOST)
        return false;
    *out = number;
    return true;
}

/* What is wrong with the line, of the word; NULL: nothing. */
static const char *read_rule(const char *line, struct keep_known *out, struct word *w)
{
    *w = next_word(&line);
    if (!read_key(*w, out))
        return "is neither 'classes', 'any' nor a size from 256K on";
    *w = next_word(&line);
    if (!read_site(*w, out))
        return "is neither '-' nor a call site of 16 hexadecimal digits";
    *w = next_word(&line);
    if (!option_parse_time(w->at, w->length, &out->keep_ms))
        return "is not a time such as 500ms or 2s";
    for (int i = 0; i < KEEP_TIMES; i++) {
        *w = next_word(&line);
        if (!read_count(*w, &out->kib[i]))
            return "is not the KiB that each of the times would have kept";
    }
    *w = next_word(&line);
    return w->length == 0 ? NULL : "is more than a rule has";
}

static bool is_empty(const char *line)
{
    return next_word(&line).length == 0;
}

/* Whether something is known now that was not. */
static bool load_line(const char *path, size_t number, const char *line, uint64_t now_ms)
{
    struct keep_known known;
    struct word w;
    const char *wrong = read_rule(line, &known, &w);
    if (wrong == NULL)
        return keep_know(&known, now_ms);
    char shown[SHOWN];
    os_copy_text(shown, SHOWN, w.at, w.length);
    os_warn("rules: line %u of '%s' is ignored: '%s' %s", number, path, shown, wrong);
    return false;
}

static void load_lines(const char *path, uint64_t now_ms)
{
    size_t known = 0, rules = 0, number = 0;
    for (const char *line = text; *line != '\0';) {
        number++;
        if (!is_empty(line)) {
            rules++;
            known += load_line(path, number, line, now_ms);
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    if (rules != 0 && known == 0)
        os_warn("rules: '%s' has none for this setting of 'keep'; it is ignored", path);
}

HAK_COLD void rules_load(const char *path, uint64_t now_ms)
{
    if (!os_read_file(path, text, sizeof text))
        os_warn("rules: '%s' cannot be read or is empty; nothing is known from before", path);
    else if (strlen(text) == sizeof text - 1)
        os_warn("rules: '%s' is longer than %u bytes and ignored", path, sizeof text - 2);
    else
        load_lines(path, now_ms);
}
