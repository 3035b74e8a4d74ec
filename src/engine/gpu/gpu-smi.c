#include "engine/gpu/gpu-smi.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "probe/gpu/nvidia-smi.h"

#define GRACE_MS   500
#define OUTPUT_MAX (256 << 10) /* a thousand devices, or ten thousand processes */
/* After a failure; doubled by each further one. */
#define RETRY_NS     (20 * NS_PER_SEC)
#define RETRY_MAX_NS (320 * NS_PER_SEC)

struct gpu_smi {
    struct gpu_smi_options options;
    char path[PATH_MAX];
    struct helper *helper; /* NULL: none runs */
    struct gpu_reading *reading;
    uint64_t not_before_mono_ns;
    uint64_t retry_ns;
    uint64_t apps_not_before_mono_ns; /* the same for the query of processes */
    uint64_t apps_retry_ns;
    char reason[128];
};

static void on_gpus(void *context, const struct helper_end *end);
static void on_apps(void *context, const struct helper_end *end);

static int start_query(struct gpu_smi *smi, const char *query,
                       void (*on_end)(void *context, const struct helper_end *end))
{
    const char *const argv[] = {smi->path, query, NVIDIA_SMI_FORMAT, NULL};
    const struct helper_options options = {
        .argv = argv,
        .stop_signal = SIGTERM,
        .deadline_ms = GPU_SMI_LIMIT_MS,
        .grace_ms = GRACE_MS,
        .reads = HELPER_READ_STDOUT,
        .output_max = OUTPUT_MAX,
        .on_end = on_end,
        .context = smi,
    };

    return helper_start(smi->options.helpers, &options, &smi->helper);
}

static uint64_t next_retry(uint64_t retry_ns)
{
    return retry_ns ? MIN(retry_ns * 2, RETRY_MAX_NS) : RETRY_NS;
}

static void fail(struct gpu_smi *smi)
{
    gpu_reading_free(TAKE_PTR(smi->reading));
    smi->retry_ns = next_retry(smi->retry_ns);
    smi->not_before_mono_ns = clock_mono_ns() + smi->retry_ns;
    smi->options.on_answer(smi->options.context, NULL, smi->reason);
}

static void succeed(struct gpu_smi *smi)
{
    smi->retry_ns = 0;
    gpu_reading_identify(smi->reading, smi->options.proc_fd);
    smi->options.on_answer(smi->options.context, TAKE_PTR(smi->reading), NULL);
}

/* Returns whether the output is complete and valid; if not, sets the reason. */
static bool is_valid(struct gpu_smi *smi, const struct helper_end *end)
{
    int status = end->wait_status;

    if (end->report.error)
        snprintf(smi->reason, sizeof(smi->reason), "nvidia-smi cannot be executed: %s",
                 strerror(end->report.error));
    else if (end->was_cut)
        snprintf(smi->reason, sizeof(smi->reason), "nvidia-smi printed too much");
    else if (end->was_late)
        snprintf(smi->reason, sizeof(smi->reason), "nvidia-smi does not answer within %d s",
                 GPU_SMI_LIMIT_MS / 1000);
    else if (WIFSIGNALED(status))
        snprintf(smi->reason, sizeof(smi->reason), "nvidia-smi was killed by signal %d",
                 WTERMSIG(status));
    else if (WEXITSTATUS(status))
        snprintf(smi->reason, sizeof(smi->reason), "nvidia-smi ended with status %d",
                 WEXITSTATUS(status));
    else
        return true;
    return false;
}

static void on_gpus(void *context, const struct helper_end *end)
{
    struct gpu_smi *smi = context;

    smi->helper = NULL;
    if (!is_valid(smi, end)) {
        fail(smi);
        return;
    }
    int r = nvidia_smi_gpus_parse(end->output, end->length, smi->reading);
    if (r < 0 || !smi->reading->gpus.count) {
        snprintf(smi->reason, sizeof(smi->reason), "%s",
                 r < 0 ? "out of memory for the output of nvidia-smi"
                       : "nvidia-smi lists no device");
        fail(smi);
        return;
    }
    if (!gpu_reading_knows_pids(smi->options.proc_fd) ||
        clock_mono_ns() < smi->apps_not_before_mono_ns ||
        start_query(smi, NVIDIA_SMI_QUERY_APPS, on_apps) < 0)
        succeed(smi);
}

/* A failure here leaves the devices known. */
static void on_apps(void *context, const struct helper_end *end)
{
    struct gpu_smi *smi = context;

    smi->helper = NULL;
    if (is_valid(smi, end)) {
        nvidia_smi_apps_parse(end->output, end->length, smi->reading);
        smi->apps_retry_ns = 0;
    } else {
        smi->apps_retry_ns = next_retry(smi->apps_retry_ns);
        smi->apps_not_before_mono_ns = clock_mono_ns() + smi->apps_retry_ns;
    }
    succeed(smi);
}

int gpu_smi_new(const struct gpu_smi_options *options, struct gpu_smi **ret)
{
    _cleanup_free_ struct gpu_smi *smi = calloc(1, sizeof(*smi));

    if (!smi)
        return -ENOMEM;
    smi->options = *options;
    int r = helper_find("nvidia-smi", smi->path, sizeof(smi->path));
    if (r < 0)
        return r;
    *ret = TAKE_PTR(smi);
    return 0;
}

void gpu_smi_free(struct gpu_smi *smi)
{
    if (!smi)
        return;
    gpu_reading_free(smi->reading);
    free(smi);
}

void gpu_smi_stop(struct gpu_smi *smi)
{
    if (smi && smi->helper)
        helper_stop(smi->helper, GRACE_MS);
}

void gpu_smi_query(struct gpu_smi *smi, uint64_t mono_ns)
{
    if (smi->helper || mono_ns < smi->not_before_mono_ns)
        return;
    smi->not_before_mono_ns = mono_ns + GPU_SMI_EVERY_NS;
    smi->reading = gpu_reading_new();
    int r = smi->reading ? start_query(smi, NVIDIA_SMI_QUERY_GPUS, on_gpus) : -ENOMEM;
    if (r < 0) {
        snprintf(smi->reason, sizeof(smi->reason), "nvidia-smi cannot be started: %s",
                 strerror(-r));
        fail(smi);
    }
}
