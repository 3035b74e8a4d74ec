#include "fuzz.h"

#include "probe/connector.h"

static void ignore(void *context, const struct lifecycle_event *event)
{
    *(int *)context += event->kind;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    int sum = 0;
    connector_parse(bytes, length, ignore, &sum);
    connector_parse_answer(bytes, length, 0);
    return 0;
}
