#include "fuzz.h"

#include <assert.h>
#include <math.h>

#include "probe/sys-files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct psi_line psi;

    if (psi_parse((const char *)bytes, length, &psi) < 0)
        return 0;
    assert(!real_is_known(psi.some_avg10) || (isfinite(psi.some_avg10) && psi.some_avg10 >= 0));
    assert(!real_is_known(psi.full_avg10) || (isfinite(psi.full_avg10) && psi.full_avg10 >= 0));
    return 0;
}
