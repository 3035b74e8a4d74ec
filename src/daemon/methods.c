#include "daemon/methods.h"

#include "base/macros.h"

/* In the order of docs/RPC.md. */
static const struct rpc_method *const items[] = {
    &method_daemon_status,
    &method_daemon_top,
    &method_daemon_top_stream,
    &method_daemon_events,
    &method_daemon_monitor_stream,
    &method_daemon_reload,
    &method_job_start,
    &method_job_progress,
    &method_job_finish,
    &method_job_signal,
    &method_job_leave,
    &method_job_list,
    &method_sheet_started,
    &method_sheet_completed,
    &method_sheet_failed,
    &method_resource_context,
    &method_pressure_current,
    &method_pressure_can_start_sheet,
    &method_pressure_should_accept_job,
    &method_pressure_report_rate_limit,
    &method_estimate_job,
    &method_estimate_calibration,
    &method_analyze_run,
    &method_report_job,
    &method_report_machine,
    &method_events_list,
    &method_strace_attach,
    &method_strace_detach,
    &method_strace_trace,
};

const struct rpc_methods daemon_methods = {.items = items, .count = ARRAY_SIZE(items)};
