#include "fuzz.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "model/field.h"
#include "probe/gpu/drm-fdinfo.h"
#include "probe/gpu/drm-uevent.h"

static void check_name(const char *name)
{
    size_t length = strnlen(name, DRM_NAME_SIZE);

    assert(length > 0 && length < DRM_NAME_SIZE && !strchr(name, '\n'));
}

static void check_count(int64_t value)
{
    assert(value >= 0 || !int_is_known(value));
}

static void check_fdinfo(const struct drm_fdinfo *info)
{
    check_name(info->driver);
    check_count(info->client_id);
    assert(info->engine_count <= DRM_ENGINES_MAX && info->region_count <= DRM_REGIONS_MAX);
    for (size_t i = 0; i < info->engine_count; i++) {
        check_name(info->engines[i].name);
        check_count(info->engines[i].busy_ns);
        check_count(info->engines[i].cycles);
        check_count(info->engines[i].total_cycles);
        assert(info->engines[i].capacity > 0);
        for (size_t j = 0; j < i; j++)
            assert(strcmp(info->engines[i].name, info->engines[j].name) != 0);
    }
    for (size_t i = 0; i < info->region_count; i++) {
        check_name(info->regions[i].name);
        check_count(info->regions[i].resident_bytes);
        check_count(info->regions[i].total_bytes);
    }
    check_count(drm_fdinfo_memory_bytes(info));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct drm_fdinfo info;
    struct drm_uevent uevent;

    int r = drm_fdinfo_parse((const char *)bytes, length, &info);
    assert(r == 0 || r == -ENODATA || r == -EBADMSG);
    if (r == 0)
        check_fdinfo(&info);
    r = drm_uevent_parse((const char *)bytes, length, &uevent);
    assert(r == 0 || r == -ENODATA || r == -EBADMSG);
    if (r == 0)
        check_name(uevent.driver);
    return 0;
}
