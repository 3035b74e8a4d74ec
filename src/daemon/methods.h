/* All methods. Each entry is beside its handler, in methods-*.c. */
#pragma once

#include "rpc/method.h"

extern const struct rpc_methods daemon_methods;

extern const struct rpc_method method_daemon_status;
extern const struct rpc_method method_daemon_top;
extern const struct rpc_method method_daemon_top_stream;
extern const struct rpc_method method_daemon_events;
extern const struct rpc_method method_daemon_monitor_stream;
extern const struct rpc_method method_daemon_reload;
extern const struct rpc_method method_job_start;
extern const struct rpc_method method_job_progress;
extern const struct rpc_method method_job_finish;
extern const struct rpc_method method_job_signal;
extern const struct rpc_method method_job_leave;
extern const struct rpc_method method_job_list;
extern const struct rpc_method method_sheet_started;
extern const struct rpc_method method_sheet_completed;
extern const struct rpc_method method_sheet_failed;
extern const struct rpc_method method_resource_context;
extern const struct rpc_method method_pressure_current;
extern const struct rpc_method method_pressure_can_start_sheet;
extern const struct rpc_method method_pressure_should_accept_job;
extern const struct rpc_method method_pressure_report_rate_limit;
extern const struct rpc_method method_estimate_job;
extern const struct rpc_method method_estimate_calibration;
extern const struct rpc_method method_analyze_run;
extern const struct rpc_method method_report_job;
extern const struct rpc_method method_report_machine;
extern const struct rpc_method method_events_list;
extern const struct rpc_method method_strace_attach;
extern const struct rpc_method method_strace_detach;
extern const struct rpc_method method_strace_trace;
