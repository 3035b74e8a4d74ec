#include "daemon/service-manager.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/number.h"

void service_notify(const char *format, ...)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[512];
    va_list arguments;

    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof(address.sun_path))
        return;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || length < 0 || (size_t)length >= sizeof(text))
        return;
    strcpy(address.sun_path, path);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (*path == '@') /* an abstract name */
        address.sun_path[0] = '\0';
    /* A manager that does not listen is ignored. */
    sendto(fd, text, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
           size);
}

uint64_t service_watchdog_ms(void)
{
    const char *interval = getenv("WATCHDOG_USEC");
    const char *whose = getenv("WATCHDOG_PID");
    int64_t usec, pid;

    if (!interval || number_parse_int(interval, &usec) < 0 || usec <= 0)
        return 0;
    if (whose && (number_parse_int(whose, &pid) < 0 || pid != getpid()))
        return 0;
    return (uint64_t)usec / 1000;
}
