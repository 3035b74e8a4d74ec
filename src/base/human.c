#include "base/human.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *human_duration(struct human *buffer, double seconds)
{
    char *into = buffer->text;
    size_t size = sizeof(buffer->text);

    if (isnan(seconds))
        return strcpy(into, "-");
    if (seconds < 0.01)
        snprintf(into, size, "%.2f ms", seconds * 1e3);
    else if (seconds < 0.9995) /* from here on it would print as 1000 ms */
        snprintf(into, size, "%.0f ms", seconds * 1e3);
    else if (seconds < 60)
        snprintf(into, size, "%.2f s", seconds);
    else if (seconds < 3600)
        snprintf(into, size, "%" PRIu64 " m %02.0f s", (uint64_t)seconds / 60,
                 floor(fmod(seconds, 60)));
    else
        snprintf(into, size, "%" PRIu64 " h %02" PRIu64 " m", (uint64_t)seconds / 3600,
                 (uint64_t)seconds / 60 % 60);
    return into;
}

const char *human_mb(struct human *buffer, double mb)
{
    if (isnan(mb))
        return strcpy(buffer->text, "-");
    if (mb < 1024)
        snprintf(buffer->text, sizeof(buffer->text), "%.1f MB", mb);
    else if (mb < 1024 * 1024)
        snprintf(buffer->text, sizeof(buffer->text), "%.2f GB", mb / 1024);
    else
        snprintf(buffer->text, sizeof(buffer->text), "%.2f TB", mb / 1024 / 1024);
    return buffer->text;
}

const char *human_count(struct human *buffer, uint64_t count)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
    char *into = buffer->text;

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *into++ = ',';
        *into++ = digits[i];
    }
    *into = '\0';
    return buffer->text;
}

const char *human_signal(struct human *buffer, int number)
{
    const char *abbreviation = sigabbrev_np(number);

    if (abbreviation)
        snprintf(buffer->text, sizeof(buffer->text), "SIG%s", abbreviation);
    else
        snprintf(buffer->text, sizeof(buffer->text), "signal %d", number);
    return buffer->text;
}
