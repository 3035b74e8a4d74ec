#include "probe/gpu/drm-uevent.h"

#include <errno.h>

#include "probe/lines.h"

int drm_uevent_parse(const char *bytes, size_t length, struct drm_uevent *ret)
{
    struct drm_uevent uevent = {0};
    const char *at = bytes;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        int r = 0;
        if (line_skip_key(&line, "DRIVER="))
            r = line_copy(&line, uevent.driver, DRM_NAME_SIZE);
        else if (line_skip_key(&line, "PCI_SLOT_NAME="))
            r = line_copy(&line, uevent.pdev, DRM_NAME_SIZE);
        else if (line_skip_key(&line, "PCI_ID="))
            r = line_copy(&line, uevent.pci_id, DRM_NAME_SIZE);
        if (r < 0)
            return r;
    }
    if (!uevent.driver[0])
        return -ENODATA;
    *ret = uevent;
    return 0;
}
