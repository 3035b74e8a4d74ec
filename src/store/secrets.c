#include "store/secrets.h"

#include <errno.h>

#include "model/redact.h"

int secrets_hide(const struct text_list *words, struct arena *arena, const char **text)
{
    _cleanup_text_ struct text hidden = {0};

    if (!*text || !words)
        return 0;
    int r = redact_text(*text, words, &hidden);
    if (r <= 0)
        return r;
    char *copy = arena_strdup(arena, text_string(&hidden));
    if (!copy)
        return -ENOMEM;
    *text = copy;
    return 0;
}
