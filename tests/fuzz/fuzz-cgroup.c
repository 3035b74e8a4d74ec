/* PID/cgroup and the files of a cgroup: the same bytes as each of them. */
#include "fuzz.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "model/field.h"
#include "probe/cgroup-files.h"
#include "probe/cgroup.h"

static void check_path(const char path[static CGROUP_PATH_SIZE])
{
    assert(memchr(path, '\0', CGROUP_PATH_SIZE));
    assert(!*path || *path == '/');
    assert(!strstr(path, "/../"));
    size_t length = strlen(path);
    assert(length < 3 || strcmp(path + length - 3, "/..") != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static struct cgroup_paths paths;
    const char *text = (const char *)bytes;
    int64_t number;
    double cpu_count;

    if (cgroup_paths_parse(text, length, &paths) == 0) {
        check_path(paths.unified);
        check_path(paths.memory);
        check_path(paths.cpu);
        check_path(paths.pids);
    }
    if (cgroup_number_parse(text, length, &number) == 0)
        assert(!int_is_known(number) || number >= 0);
    if (cgroup_memory_stat_parse(text, length, &number) == 0)
        assert(!int_is_known(number) || number >= 0);
    if (cgroup_cpu_max_parse(text, length, &cpu_count) == 0)
        assert(!real_is_known(cpu_count) || (isfinite(cpu_count) && cpu_count > 0));
    return 0;
}
