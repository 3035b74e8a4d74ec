#include "base/charset.h"

#include <langinfo.h>
#include <locale.h>
#include <pthread.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_utf8;

static void read_locale(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);

    if (!locale)
        return;
    is_utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
}

bool charset_is_utf8(void)
{
    pthread_once(&once, read_locale);
    return is_utf8;
}
