#include "probe/huge-pages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "base/number.h"
#include "model/field.h"
#include "probe/sys-files.h"

#define SETTINGS "kernel/mm/transparent_hugepage"

/* The file has 200 lines; this is enough for a kernel with ten times as many. */
#define VMSTAT_BYTES (64 * 1024)

/* A size of which nothing is known is that of most machines. */
#define USUAL_HUGE_BYTES (UINT64_C(2) << 20)

/* Whether a setting such as "always [madvise] never" permits pages. "inherit" stands for the
 * setting of all sizes. */
static bool is_permitted(int settings_fd, const char *name)
{
    char text[64];
    ssize_t length = fd_read_file(settings_fd, name, text, sizeof(text));

    if (length == -ENOENT) /* this size is for files only */
        return false;
    if (length <= 0)
        return true;
    if (strstr(text, "[inherit]"))
        return is_permitted(settings_fd, "enabled");
    return !strstr(text, "[never]");
}

/* Returns the size in the name "hugepages-64kB" of a directory, or 0. */
static uint64_t size_of_entry(const char *name)
{
    unsigned long kilobytes;
    char unit;

    return sscanf(name, "hugepages-%9lu%c", &kilobytes, &unit) == 2 && unit == 'k'
               ? (uint64_t)kilobytes * 1024
               : 0;
}

static void read_sizes(struct huge_pages *pages, int settings_fd)
{
    _cleanup_closedir_ DIR *directory = fd_open_directory(settings_fd, ".");

    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        uint64_t size = size_of_entry(entry->d_name);
        char path[NAME_MAX + sizeof("/enabled")];

        snprintf(path, sizeof(path), "%s/enabled", entry->d_name);
        if (size && size < pages->huge_bytes && is_permitted(settings_fd, path))
            pages->fault_bytes = MAX(pages->fault_bytes, size);
    }
}

void huge_pages_init(struct huge_pages *pages, const char *proc_root, const char *sys_root)
{
    _cleanup_close_ int proc_fd = open(proc_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int sys_fd = open(sys_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int settings_fd = openat(sys_fd, SETTINGS, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char text[32];
    int64_t size;

    *pages = (struct huge_pages){.huge_bytes = USUAL_HUGE_BYTES,
                                 .fault_bytes = (uint64_t)sysconf(_SC_PAGESIZE)};
    pages->vmstat_fd = openat(proc_fd, "vmstat", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd_read_file(settings_fd, "hpage_pmd_size", text, sizeof(text));
    if (length > 0 && text[length - 1] == '\n')
        text[length - 1] = '\0';
    if (length > 0 && number_parse_int(text, &size) == 0 && size > 0) {
        pages->huge_bytes = (uint64_t)size;
        read_sizes(pages, settings_fd);
    } else {
        pages->fault_bytes = pages->huge_bytes;
    }
    if (pages->vmstat_fd < 0)
        pages->fault_bytes = pages->huge_bytes;
}

void huge_pages_done(struct huge_pages *pages)
{
    pages->vmstat_fd = close_fd(pages->vmstat_fd);
}

static uint64_t read_count(int vmstat_fd)
{
    char bytes[VMSTAT_BYTES];
    int64_t count = 0;

    ssize_t length = vmstat_fd < 0 ? 0 : fd_read_start(vmstat_fd, bytes, sizeof(bytes));
    if (length > 0)
        vmstat_parse_huge_pages(bytes, (size_t)length, &count);
    return (uint64_t)count;
}

uint64_t huge_pages_made(const struct huge_pages *pages)
{
    return read_count(pages->vmstat_fd) * pages->huge_bytes;
}

uint64_t huge_pages_count(const char *proc_root)
{
    _cleanup_close_ int proc_fd = open(proc_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int vmstat_fd = openat(proc_fd, "vmstat", O_RDONLY | O_CLOEXEC);

    return read_count(vmstat_fd);
}
