/* Identification of the initial pid namespace. */
#pragma once

/* The inode of the initial pid namespace is fixed (PROC_PID_INIT_INO). */
#define INITIAL_PID_NAMESPACE 0xEFFFFFFCU
