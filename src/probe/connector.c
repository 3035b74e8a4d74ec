#include "probe/connector.h"

#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Room for a burst while the reader sleeps. The kernel allows an ordinary user up to
 * net.core.rmem_max. */
#define QUEUE_BYTES    (16 << 20)
#define EVENT_BYTES    768 /* that an event occupies in the queue */
#define DATAGRAM_BYTES 4096
/* Events per drain: processes may fork as fast as we read, and the loop has other work. */
#define DRAIN_MAX 16384

struct connector {
    int fd;
};

/* An event filter, supported since Linux 6.6; older headers do not define it. */
struct listen_request {
    uint32_t operation;
    uint32_t event_types;
};

#define WANTED_EVENTS (PROC_EVENT_FORK | PROC_EVENT_EXEC | PROC_EVENT_EXIT)

static int send_request(int fd, uint32_t ack, const void *payload, size_t length)
{
    const struct nlmsghdr header = {.nlmsg_len =
                                        (uint32_t)(NLMSG_LENGTH(sizeof(struct cn_msg)) + length),
                                    .nlmsg_type = NLMSG_DONE};
    const struct cn_msg message = {
        .id = {.idx = CN_IDX_PROC, .val = CN_VAL_PROC}, .ack = ack, .len = (uint16_t)length};
    unsigned char request[NLMSG_SPACE(sizeof(struct cn_msg) + sizeof(struct listen_request))] = {0};

    memcpy(request, &header, sizeof(header));
    memcpy(request + NLMSG_HDRLEN, &message, sizeof(message));
    memcpy(request + NLMSG_HDRLEN + sizeof(message), payload, length);
    return send(fd, request, header.nlmsg_len, 0) < 0 ? -errno : 0;
}

/* Returns the next process event in a datagram; NULL at its end or, with *ret_error, if it is
 * malformed. */
static const struct proc_event *next_event(const unsigned char **at, size_t *left,
                                           struct cn_msg *ret_message, int *ret_error)
{
    while (*left >= sizeof(struct nlmsghdr)) {
        struct nlmsghdr header;
        struct cn_msg message;
        memcpy(&header, *at, sizeof(header));

        if (header.nlmsg_len < NLMSG_LENGTH(0) || header.nlmsg_len > *left) {
            *ret_error = -EBADMSG;
            return NULL;
        }
        const unsigned char *body = *at + NLMSG_HDRLEN;
        size_t body_length = header.nlmsg_len - NLMSG_HDRLEN;
        size_t step = NLMSG_ALIGN(header.nlmsg_len);
        *at += step < *left ? step : *left;
        *left -= step < *left ? step : *left;

        if (body_length < sizeof(message))
            continue;
        memcpy(&message, body, sizeof(message));
        if (message.id.idx == CN_IDX_PROC && message.id.val == CN_VAL_PROC &&
            message.len >= sizeof(struct proc_event) &&
            body_length >= sizeof(message) + sizeof(struct proc_event)) {
            *ret_message = message;
            return (const struct proc_event *)(body + sizeof(message));
        }
    }
    return NULL;
}

static bool decode_event(const struct proc_event *raw, struct lifecycle_event *ret)
{
    struct proc_event event;

    memcpy(&event, raw, sizeof(event)); /* the datagram may not be aligned */
    lifecycle_event_init(ret, LIFECYCLE_FORK);
    ret->mono_ns = event.timestamp_ns;
    switch (event.what) {
    case PROC_EVENT_FORK:
        ret->pid = event.event_data.fork.child_tgid;
        ret->tid = event.event_data.fork.child_pid;
        ret->ppid = event.event_data.fork.parent_tgid;
        ret->kind = ret->pid == ret->tid ? LIFECYCLE_FORK : LIFECYCLE_THREAD;
        return true;
    case PROC_EVENT_EXEC:
        ret->kind = LIFECYCLE_EXEC;
        ret->pid = event.event_data.exec.process_tgid;
        ret->tid = event.event_data.exec.process_pid;
        return true;
    case PROC_EVENT_EXIT:
        ret->kind = LIFECYCLE_EXIT;
        ret->pid = event.event_data.exit.process_tgid;
        ret->tid = event.event_data.exit.process_pid;
        ret->wait_status = (int)event.event_data.exit.exit_code;
        return true;
    default: return false;
    }
}

int connector_parse(const void *bytes, size_t length, lifecycle_fn on_event, void *context)
{
    const unsigned char *at = bytes;
    struct cn_msg message;
    int error = 0;

    for (const struct proc_event *raw; (raw = next_event(&at, &length, &message, &error));) {
        struct lifecycle_event event;
        if (decode_event(raw, &event))
            on_event(context, &event);
    }
    return error;
}

int connector_parse_answer(const void *bytes, size_t length, uint32_t ack)
{
    const unsigned char *at = bytes;
    struct cn_msg message;
    int error = 0;

    for (const struct proc_event *raw; (raw = next_event(&at, &length, &message, &error));) {
        struct proc_event event;
        memcpy(&event, raw, sizeof(event));
        if (event.what == PROC_EVENT_NONE && message.ack == ack + 1)
            return -(int)event.event_data.ack.err;
    }
    return 1;
}

/* Receives one datagram from the kernel; ignores datagrams of other senders. */
static ssize_t receive(int fd, void *into, size_t size)
{
    for (;;) {
        struct sockaddr_nl from = {0};
        socklen_t from_length = sizeof(from);
        ssize_t n = recvfrom(fd, into, size, MSG_DONTWAIT, (struct sockaddr *)&from, &from_length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (from.nl_pid == 0)
            return n;
    }
}

/* The kernel queues its answer to a listen request before send() returns. Returns the answer, or
 * -EOPNOTSUPP if there is none. */
static int read_answer(int fd, uint32_t ack)
{
    _Alignas(struct nlmsghdr) unsigned char bytes[DATAGRAM_BYTES];
    ssize_t length;

    while ((length = receive(fd, bytes, sizeof(bytes))) >= 0) {
        int r = connector_parse_answer(bytes, (size_t)length, ack);
        if (r <= 0)
            return r;
    }
    return -EOPNOTSUPP;
}

static int start_listening(int fd)
{
    const uint32_t plain = PROC_CN_MCAST_LISTEN;
    const struct listen_request filtered = {.operation = PROC_CN_MCAST_LISTEN,
                                            .event_types = (uint32_t)WANTED_EVENTS};
    uint32_t ack;

    /* Random, because the kernel sends each answer to all listeners, and `ack` is the only part of
     * the request that the answer repeats. */
    if (getrandom(&ack, sizeof(ack), 0) != sizeof(ack))
        return -EIO;
    int r = send_request(fd, ack, &plain, sizeof(plain));
    if (r == 0)
        r = read_answer(fd, ack);
    /* Set the filter last, because it would drop the answer. Kernels without filters ignore it. */
    return r < 0 ? r : send_request(fd, ack, &filtered, sizeof(filtered));
}

int connector_open(struct connector **ret)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC};
    const int queue_bytes = QUEUE_BYTES;
    _cleanup_close_ int fd =
        socket(PF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR);
    if (fd < 0)
        return errno == EPROTONOSUPPORT ? -EOPNOTSUPP : -errno;

    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &queue_bytes, sizeof(queue_bytes)) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &queue_bytes, sizeof(queue_bytes));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    int r = start_listening(fd);
    if (r < 0)
        return r;

    struct connector *connector = malloc(sizeof(*connector));
    if (!connector)
        return -ENOMEM;
    connector->fd = TAKE_FD(fd);
    *ret = connector;
    return 0;
}

void connector_close(struct connector *connector)
{
    if (!connector)
        return;
    close_fd(connector->fd);
    free(connector);
}

int connector_fd(const struct connector *connector)
{
    return connector->fd;
}

size_t connector_capacity(const struct connector *connector)
{
    int bytes = 0;
    socklen_t length = sizeof(bytes);

    if (getsockopt(connector->fd, SOL_SOCKET, SO_RCVBUF, &bytes, &length) < 0 || bytes < 0)
        return 0;
    return (size_t)bytes / EVENT_BYTES;
}

int connector_drain(struct connector *connector, lifecycle_fn on_event, void *context)
{
    _Alignas(struct nlmsghdr) unsigned char bytes[DATAGRAM_BYTES];
    int lost = 0;

    for (unsigned drained = 0; drained < DRAIN_MAX; drained++) {
        ssize_t length = receive(connector->fd, bytes, sizeof(bytes));
        if (length == -EAGAIN)
            return lost;
        /* The queue overflowed: the events still in it are valid, later ones are lost. */
        if (length == -ENOBUFS ||
            (length >= 0 && connector_parse(bytes, (size_t)length, on_event, context) < 0))
            lost = 1;
        else if (length < 0)
            return (int)length;
    }
    return lost;
}
