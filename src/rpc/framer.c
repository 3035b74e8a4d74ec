/* Splits a stream into lines. Invariants: returned ≤ complete ≤ buffer.length; buffer[complete..]
 * has no newline. Each byte is examined once when it is fed and once when its line is returned, and
 * moved at most once on average. */
#include <errno.h>
#include <string.h>

#include "rpc/codec.h"

/* A larger buffer is freed, so that one large request does not occupy memory for the life of a
 * connection. */
#define KEPT_MAX_BYTES (64 * 1024)

/* Removes the returned lines from the buffer once they fill half of it. */
static void drop_returned_lines(struct rpc_framer *framer)
{
    struct text *buffer = &framer->buffer;
    size_t rest = buffer->length - framer->returned;

    if (framer->returned == 0 || framer->returned < rest)
        return;
    if (rest == 0 && buffer->capacity > KEPT_MAX_BYTES && !buffer->error) {
        text_done(buffer);
    } else {
        memmove(buffer->bytes, buffer->bytes + framer->returned, rest);
        buffer->length = rest;
        buffer->bytes[rest] = '\0';
    }
    framer->complete -= framer->returned;
    framer->returned = 0;
}

/* Returns whether the bytes up to a newline, or up to the current end of the stream, exceed the
 * limit of a line. A carriage return at their end may belong to the newline. */
static bool is_too_long(const struct rpc_framer *framer, size_t length, char last)
{
    size_t max = framer->max_bytes ? framer->max_bytes : RPC_REQUEST_MAX_BYTES;

    return length - (last == '\r') > max;
}

/* Appends one line, or the beginning of one. */
static int feed_piece(struct rpc_framer *framer, const char *bytes, size_t length, bool is_ended)
{
    size_t unfinished = framer->buffer.length - framer->complete;
    size_t line = unfinished + length - is_ended;

    if (line > 0) {
        size_t last = length - is_ended;
        char last_byte = last ? bytes[last - 1] : framer->buffer.bytes[framer->buffer.length - 1];
        if (is_too_long(framer, line, last_byte)) {
            framer->is_lost = true;
            return -EMSGSIZE;
        }
    }
    text_append(&framer->buffer, bytes, length);
    if (text_error(&framer->buffer) < 0)
        return text_error(&framer->buffer);
    if (is_ended)
        framer->complete = framer->buffer.length;
    return 0;
}

int rpc_framer_feed(struct rpc_framer *framer, const char *bytes, size_t length)
{
    int r = framer->is_lost ? -EMSGSIZE : text_error(&framer->buffer);

    if (r == 0)
        drop_returned_lines(framer);
    while (r == 0 && length) {
        const char *newline = memchr(bytes, '\n', length);
        size_t piece = newline ? (size_t)(newline - bytes) + 1 : length;

        r = feed_piece(framer, bytes, piece, newline != NULL);
        bytes += piece;
        length -= piece;
    }
    return r;
}

bool rpc_framer_next(struct rpc_framer *framer, const char **ret_line, size_t *ret_length)
{
    while (framer->returned < framer->complete) {
        const char *line = framer->buffer.bytes + framer->returned;
        size_t length =
            (size_t)((const char *)memchr(line, '\n', framer->complete - framer->returned) - line);

        framer->returned += length + 1;
        length -= length && line[length - 1] == '\r';
        if (length) {
            *ret_line = line;
            *ret_length = length;
            return true;
        }
    }
    return false;
}

void rpc_framer_done(struct rpc_framer *framer)
{
    text_done(&framer->buffer);
    *framer = (struct rpc_framer){.max_bytes = framer->max_bytes};
}
