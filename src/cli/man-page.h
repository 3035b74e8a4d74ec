/* The parts of the man pages that come from the table of verbs, as scdoc sources. docs/generate.c
 * writes them into docs/man.
 *
 * The texts of the table are plain. Names of values (FILE) become underlined; options, `quoted`
 * text and other pages (strace(1)) become bold. */
#pragma once

#include "base/text.h"
#include "cli/command.h"

/* The line of NAME: "sonde-ps - show processes". */
void man_page_name(const struct command *command, struct text *out);
/* The forms of the command line. */
void man_page_synopsis(const struct command *command, struct text *out);
/* The verb's options. The last entry names those that every verb accepts. */
void man_page_options(const struct command *command, struct text *out);

/* For sonde(1): all verbs, and the options that every verb accepts. */
void man_page_verbs(struct text *out);
void man_page_common_options(struct text *out);
