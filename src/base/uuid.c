#include "base/uuid.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/clock.h"

int uuid_make(uint64_t real_ns, char ret_text[static UUID_TEXT_SIZE])
{
    uint64_t ms = real_ns / NS_PER_MSEC;
    uint8_t bytes[16];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return -errno;
    for (int i = 0; i < 6; i++)
        bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    bytes[6] = 0x70 | (bytes[6] & 0x0F); /* version 7 */
    bytes[8] = 0x80 | (bytes[8] & 0x3F); /* variant 10 */

    char *into = ret_text;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *into++ = '-';
        into += sprintf(into, "%02x", bytes[i]);
    }
    return 0;
}

bool uuid_looks_like(const char *text)
{
    static const char shape[UUID_TEXT_SIZE] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    size_t i = 0;

    while (shape[i] && (shape[i] == 'x' ? isxdigit((unsigned char)text[i]) : text[i] == '-'))
        i++;
    return !shape[i] && !text[i];
}
