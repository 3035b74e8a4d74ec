#include "probe/gpu/drm-cards.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "base/number.h"
#include "base/utf8.h"
#include "probe/gpu/drm-clients.h"
#include "probe/gpu/drm-fdinfo.h"
#include "probe/gpu/drm-uevent.h"

#define CARDS_MAX 64
#define NAME_SIZE 96

/* Over a shorter time the steps of an energy counter dominate the computed power. */
#define POWER_OVER_NS (NS_PER_SEC / 10)

/* The directory of a figure's file. */
enum place {
    IN_CARD,   /* class/drm/cardN */
    IN_DEVICE, /* … /device */
    IN_HWMON,  /* … /device/hwmon/hwmonN */
    PLACES,
};

struct card {
    unsigned number;       /* N of cardN */
    unsigned render;       /* N of its renderDN */
    int place_fds[PLACES]; /* -1: missing */
    struct drm_uevent identity;
    const char *vendor; /* NULL: not known */
    char name[NAME_SIZE];

    /* for drivers that report energy instead of power */
    int64_t energy_uj;
    uint64_t energy_mono_ns; /* 0: not read yet */
    double power_w;          /* over the last two readings */
};

struct drm_cards {
    struct VEC(struct card) list;
    struct drm_clients *clients;
};

/* ---- files ---- */

static int read_int(int dir_fd, const char *path, int64_t *ret)
{
    char bytes[64];
    const char *at = bytes;

    ssize_t length = dir_fd < 0 ? -ENOENT : fd_read_file(dir_fd, path, bytes, sizeof(bytes));
    if (length < 0)
        return (int)length;
    const char *end = bytes + length;
    int64_t value;
    if (number_scan_int(&at, end, &value) < 0 || (at != end && *at != '\n'))
        return -EBADMSG;
    *ret = value;
    return 0;
}

/* Returns the first line, or NULL if it is empty or cannot be read. */
static const char *read_line(int dir_fd, const char *path, char *into, size_t capacity)
{
    char bytes[256];

    ssize_t length = dir_fd < 0 ? -ENOENT : fd_read_file(dir_fd, path, bytes, sizeof(bytes));
    if (length <= 0)
        return NULL;
    size_t until = strcspn(bytes, "\n");
    return until && utf8_clean(into, capacity, bytes, until) ? into : NULL;
}

/* The files of the drivers for one figure, in the order of preference. */
struct figure_file {
    enum place place;
    const char *path;
    double unit;
};

static const struct figure_file busy_files[] = {{IN_DEVICE, "gpu_busy_percent", 1}};
static const struct figure_file used_files[] = {
    {IN_DEVICE, "mem_info_vram_used", 1 / BYTES_PER_MB}};
static const struct figure_file total_files[] = {
    {IN_DEVICE, "mem_info_vram_total", 1 / BYTES_PER_MB}};
static const struct figure_file temperature_files[] = {
    {IN_HWMON, "temp1_input", 1e-3}, {IN_HWMON, "temp2_input", 1e-3}, /* xe: the package */
};
static const struct figure_file clock_files[] = {
    {IN_HWMON, "freq1_input", 1e-6},            /* amdgpu */
    {IN_CARD, "gt_act_freq_mhz", 1},            /* i915: the actual frequency */
    {IN_CARD, "gt/gt0/rps_act_freq_mhz", 1},    /* its newer name */
    {IN_CARD, "gt_cur_freq_mhz", 1},            /* i915: the requested frequency */
    {IN_DEVICE, "tile0/gt0/freq0/act_freq", 1}, /* xe */
    {IN_DEVICE, "tile0/gt0/freq0/cur_freq", 1},
};
static const struct figure_file power_files[] = {
    {IN_HWMON, "power1_average", 1e-6},
    {IN_HWMON, "power1_input", 1e-6},
};
static const struct figure_file energy_files[] = {
    {IN_HWMON, "energy1_input", 1}, /* i915, xe: the card */
    {IN_HWMON, "energy2_input", 1}, /* xe: the package */
};

/* Uses the first file that can be read now; a file may exist and fail (EBUSY, ENODATA). */
static int read_first(const struct card *card, const struct figure_file *files, size_t count,
                      int64_t *ret, double *ret_unit)
{
    for (size_t i = 0; i < count; i++)
        if (read_int(card->place_fds[files[i].place], files[i].path, ret) == 0) {
            *ret_unit = files[i].unit;
            return 0;
        }
    return -ENOENT;
}

static double read_figure(const struct card *card, const struct figure_file *files, size_t count)
{
    int64_t value;
    double unit;

    return read_first(card, files, count, &value, &unit) == 0 ? (double)value * unit : REAL_UNKNOWN;
}
#define READ_FIGURE(card, files) read_figure(card, files, ARRAY_SIZE(files))

/* ---- finding cards ---- */

/* Matches `cardN` or `renderDN`, but not a connector such as `cardN-DP-1`. */
static bool is_node(const char *name, const char *kind, unsigned *ret)
{
    int64_t number;

    if (strncmp(name, kind, strlen(kind)) != 0 ||
        number_parse_int(name + strlen(kind), &number) < 0 || number < 0 || number > UINT16_MAX)
        return false;
    *ret = (unsigned)number;
    return true;
}

static bool has_node(int dir_fd, const char *path, const char *kind, unsigned *ret)
{
    _cleanup_closedir_ DIR *directory = fd_open_directory(dir_fd, path);
    struct dirent *entry;

    while (directory && (entry = readdir(directory)))
        if (is_node(entry->d_name, kind, ret))
            return true;
    return false;
}

/* Opens the hwmon directory of the whole device: i915 has more for its parts, `i915_gt0`. */
static int open_hwmon(int device_fd)
{
    _cleanup_closedir_ DIR *directory = fd_open_directory(device_fd, "hwmon");
    struct dirent *entry;
    char name[64], path[NAME_MAX + 8];

    while (directory && (entry = readdir(directory))) {
        if (strncmp(entry->d_name, "hwmon", 5) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/name", entry->d_name);
        const char *of = read_line(dirfd(directory), path, name, sizeof(name));
        if (of && strstr(of, "_gt"))
            continue;
        return openat(dirfd(directory), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    return -1;
}

static const char *vendor_name(const char *pci_id)
{
    if (strncasecmp(pci_id, "1002:", 5) == 0)
        return "AMD";
    if (strncasecmp(pci_id, "8086:", 5) == 0)
        return "Intel";
    if (strncasecmp(pci_id, "10DE:", 5) == 0)
        return "NVIDIA"; /* with the kernel's own driver */
    return NULL;
}

static void card_close(struct card *card)
{
    for (size_t i = 0; i < PLACES; i++)
        card->place_fds[i] = close_fd(card->place_fds[i]);
}

static int open_card(int class_fd, unsigned number, struct card *ret)
{
    struct card card = {.number = number, .place_fds = {-1, -1, -1}, .power_w = REAL_UNKNOWN};
    char path[32], bytes[1024];

    snprintf(path, sizeof(path), "card%u", number);
    card.place_fds[IN_CARD] = openat(class_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof(path), "card%u/device", number);
    card.place_fds[IN_DEVICE] = openat(class_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ssize_t length = card.place_fds[IN_DEVICE] < 0
                         ? -ENODEV
                         : fd_read_file(card.place_fds[IN_DEVICE], "uevent", bytes, sizeof(bytes));
    if (length < 0 || drm_uevent_parse(bytes, (size_t)length, &card.identity) < 0 ||
        strcmp(card.identity.driver, "nvidia") == 0 ||
        !has_node(card.place_fds[IN_DEVICE], "drm", "renderD", &card.render)) {
        card_close(&card);
        return -ENODEV;
    }
    card.place_fds[IN_HWMON] = open_hwmon(card.place_fds[IN_DEVICE]);
    card.vendor = vendor_name(card.identity.pci_id);
    if (!read_line(card.place_fds[IN_DEVICE], "product_name", card.name, sizeof(card.name)))
        snprintf(card.name, sizeof(card.name), "%s%s%s", card.identity.driver,
                 card.identity.pci_id[0] ? " " : "", card.identity.pci_id);
    *ret = card;
    return 0;
}

static int compare_cards(const void *a, const void *b)
{
    const struct card *first = a, *second = b;

    return (first->number > second->number) - (first->number < second->number);
}

static int find_cards(struct drm_cards *cards, const char *sys_root)
{
    _cleanup_close_ int sys_fd = open(sys_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *directory = sys_fd < 0 ? NULL : fd_open_directory(sys_fd, "class/drm");
    struct dirent *entry;
    struct card card;
    unsigned number;

    while (directory && cards->list.count < CARDS_MAX && (entry = readdir(directory))) {
        if (!is_node(entry->d_name, "card", &number) ||
            open_card(dirfd(directory), number, &card) < 0)
            continue;
        if (VEC_PUSH(&cards->list, card) < 0) {
            card_close(&card);
            return -ENOMEM;
        }
    }
    if (!cards->list.count)
        return -ENODEV;
    qsort(cards->list.items, cards->list.count, sizeof(card), compare_cards);
    return 0;
}

int drm_cards_open(const char *sys_root, const char *proc_root, struct drm_cards **ret,
                   const char **ret_reason)
{
    struct drm_cards *cards = calloc(1, sizeof(*cards));
    if (!cards)
        return -ENOMEM;

    int r = find_cards(cards, sys_root);
    if (r == 0)
        r = drm_clients_new(proc_root, &cards->clients);
    if (r < 0) {
        drm_cards_close(cards);
        if (r == -ENODEV)
            *ret_reason = "no card with a render node in /sys/class/drm";
        return r;
    }
    *ret = cards;
    return 0;
}

void drm_cards_close(struct drm_cards *cards)
{
    if (!cards)
        return;
    for (size_t i = 0; i < cards->list.count; i++)
        card_close(&cards->list.items[i]);
    VEC_DONE(&cards->list);
    drm_clients_free(cards->clients);
    free(cards);
}

bool drm_cards_exist(const char *sys_root)
{
    _cleanup_close_ int sys_fd = open(sys_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    unsigned number;

    return sys_fd >= 0 && has_node(sys_fd, "class/drm", "card", &number);
}

unsigned drm_cards_count(const struct drm_cards *cards)
{
    return (unsigned)cards->list.count;
}

/* ---- reading a card ---- */

/* An energy counter that runs backwards was reset. */
static double read_power(struct card *card, uint64_t mono_ns)
{
    double power_w = READ_FIGURE(card, power_files);
    uint64_t elapsed_ns = mono_ns - card->energy_mono_ns;
    int64_t energy_uj;
    double unit;

    if (real_is_known(power_w))
        return power_w;
    if (read_first(card, energy_files, ARRAY_SIZE(energy_files), &energy_uj, &unit) < 0)
        return REAL_UNKNOWN;
    if (card->energy_mono_ns && elapsed_ns < POWER_OVER_NS)
        return card->power_w;
    card->power_w = card->energy_mono_ns && energy_uj >= card->energy_uj
                        ? (double)(energy_uj - card->energy_uj) * 1e3 / (double)elapsed_ns
                        : REAL_UNKNOWN;
    card->energy_uj = energy_uj;
    card->energy_mono_ns = mono_ns;
    return card->power_w;
}

static bool is_asleep(const struct card *card)
{
    char status[32];

    return read_line(card->place_fds[IN_DEVICE], "power/runtime_status", status, sizeof(status)) &&
           strcmp(status, "suspended") == 0;
}

static struct drm_device device_of(const struct card *card)
{
    return (struct drm_device){
        .pdev = card->identity.pdev, .card = card->number, .render = card->render};
}

static void update_clients(struct drm_cards *cards, uint64_t mono_ns)
{
    struct drm_device asleep[CARDS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < cards->list.count; i++)
        if (is_asleep(&cards->list.items[i]))
            asleep[count++] = device_of(&cards->list.items[i]);
    drm_clients_update(cards->clients, mono_ns, asleep, count);
}

static double read_busy(struct drm_cards *cards, const struct card *card, uint64_t mono_ns)
{
    double busy_pct = READ_FIGURE(card, busy_files);

    if (real_is_known(busy_pct))
        return busy_pct >= 0 && busy_pct <= 100 ? busy_pct : REAL_UNKNOWN;
    update_clients(cards, mono_ns);
    const struct drm_device device = device_of(card);
    return drm_clients_busy_pct(cards->clients, &device);
}

int drm_cards_read(struct drm_cards *cards, unsigned index, uint64_t mono_ns,
                   struct gpu_metric *ret)
{
    struct card *card = index < cards->list.count ? &cards->list.items[index] : NULL;

    if (!card || faccessat(card->place_fds[IN_DEVICE], "uevent", F_OK, 0) < 0)
        return -ENODEV;
    record_init(&gpu_metric_record, ret);
    ret->index = index;
    ret->name = card->name;
    ret->vendor = card->vendor;
    if (is_asleep(card)) {
        ret->utilization_pct = 0;
        card->energy_mono_ns = 0;
        return 0;
    }
    ret->utilization_pct = read_busy(cards, card, mono_ns);
    ret->memory_used_mb = READ_FIGURE(card, used_files);
    ret->memory_total_mb = READ_FIGURE(card, total_files);
    ret->temperature_c = READ_FIGURE(card, temperature_files);
    ret->clock_mhz = READ_FIGURE(card, clock_files);
    ret->power_w = read_power(card, mono_ns);
    return 0;
}

/* Reports only clients of these cards: NVML reports those of NVIDIA's driver. */
int drm_cards_read_processes(struct drm_cards *cards, uint64_t mono_ns, struct gpu_reading *reading)
{
    struct drm_device devices[CARDS_MAX];

    for (size_t i = 0; i < cards->list.count; i++)
        devices[i] = device_of(&cards->list.items[i]);
    update_clients(cards, mono_ns);
    return drm_clients_read_processes(cards->clients, devices, cards->list.count, reading);
}
