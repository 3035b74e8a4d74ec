#include "probe/bpf/type-excerpt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/macros.h"

/* Types behind the last structure: those of its members may follow it. */
#define MORE_TYPES 1024

/* What follows a type: a part of fixed size, then as many items as the type says. */
struct tail {
    bool is_known;
    bool has_type; /* the type refers to another one, e.g. a pointer */
    uint8_t fixed_bytes;
    uint8_t item_bytes;
    bool has_item_names; /* an item begins with its name */
    bool has_item_types; /* the name is followed by a type */
};

static const struct tail tails[] = {
    [BTF_KIND_INT] = {.is_known = true, .fixed_bytes = sizeof(uint32_t)},
    [BTF_KIND_PTR] = {.is_known = true, .has_type = true},
    [BTF_KIND_ARRAY] = {.is_known = true, .fixed_bytes = sizeof(struct btf_array)},
    [BTF_KIND_STRUCT] = {true, false, 0, sizeof(struct btf_member), true, true},
    [BTF_KIND_UNION] = {true, false, 0, sizeof(struct btf_member), true, true},
    [BTF_KIND_ENUM] = {true, false, 0, sizeof(struct btf_enum), true, false},
    [BTF_KIND_FWD] = {.is_known = true},
    [BTF_KIND_TYPEDEF] = {.is_known = true, .has_type = true},
    [BTF_KIND_VOLATILE] = {.is_known = true, .has_type = true},
    [BTF_KIND_CONST] = {.is_known = true, .has_type = true},
    [BTF_KIND_RESTRICT] = {.is_known = true, .has_type = true},
    [BTF_KIND_FUNC] = {.is_known = true, .has_type = true},
    [BTF_KIND_FUNC_PROTO] = {true, true, 0, sizeof(struct btf_param), true, true},
    [BTF_KIND_VAR] = {.is_known = true, .has_type = true, .fixed_bytes = sizeof(struct btf_var)},
    [BTF_KIND_FLOAT] = {.is_known = true},
    [BTF_KIND_DECL_TAG] = {.is_known = true,
                           .has_type = true,
                           .fixed_bytes = sizeof(struct btf_decl_tag)},
    [BTF_KIND_TYPE_TAG] = {.is_known = true, .has_type = true},
    [BTF_KIND_ENUM64] = {true, false, 0, sizeof(struct btf_enum64), true, false},
};

/* The sections of the information. */
struct sections {
    const void *types;
    size_t types_size;
    const char *text;
    size_t text_size;
};

static int parse_header(const void *bytes, size_t size, struct sections *ret)
{
    const struct btf_header *header = bytes;

    if (size < sizeof(*header) || header->magic != BTF_MAGIC || header->hdr_len > size)
        return -EBADMSG;
    size_t room = size - header->hdr_len;
    if (header->type_off % sizeof(uint32_t) || header->hdr_len % sizeof(uint32_t) ||
        (size_t)header->type_off + header->type_len > room ||
        (size_t)header->str_off + header->str_len > room || !header->str_len)
        return -EBADMSG;
    const char *content = (const char *)bytes + header->hdr_len;
    *ret = (struct sections){.types = content + header->type_off,
                             .types_size = header->type_len,
                             .text = content + header->str_off,
                             .text_size = header->str_len};
    return ret->text[ret->text_size - 1] ? -EBADMSG : 0;
}

/* Returns the size of a type with all that follows it; 0 if it is not known or incomplete. */
static size_t type_size(const struct btf_type *type, size_t room)
{
    if (room < sizeof(*type))
        return 0;
    uint32_t kind = BTF_INFO_KIND(type->info);
    if (kind >= ARRAY_SIZE(tails) || !tails[kind].is_known)
        return 0;
    size_t size = sizeof(*type) + tails[kind].fixed_bytes +
                  (size_t)tails[kind].item_bytes * BTF_INFO_VLEN(type->info);
    return size <= room ? size : 0;
}

/* Returns the bit of the name in the list; 0 if it is not in it. */
static uint64_t name_bit(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return 1ULL << i;
    return 0;
}

/* Finds how many types, and how many bytes of them, the excerpt has. */
static int find_end(const struct sections *all, const char *const *names, size_t name_count,
                    uint32_t *ret_types, size_t *ret_size)
{
    const uint64_t wanted = name_count < 64 ? (1ULL << name_count) - 1 : ~0ULL;
    uint64_t found = 0;
    uint32_t types = 0, more = 0;
    size_t at = 0;

    while (at < all->types_size && more < MORE_TYPES) {
        const struct btf_type *type = (const void *)((const char *)all->types + at);
        size_t size = type_size(type, all->types_size - at);
        if (!size || type->name_off >= all->text_size)
            return found == wanted ? 0 : -EBADMSG;
        at += size;
        types++;
        if (found == wanted)
            more++;
        else if (BTF_INFO_KIND(type->info) == BTF_KIND_STRUCT)
            found |= name_bit(all->text + type->name_off, names, name_count);
        *ret_types = types;
        *ret_size = at;
    }
    return found == wanted ? 0 : -ENOENT;
}

static void limit_type(uint32_t *type, uint32_t types)
{
    if (*type > types)
        *type = 0;
}

/* Makes all references stay within the excerpt. Returns the offset of the last name. */
static uint32_t limit_types(void *bytes, uint32_t types)
{
    char *at = bytes;
    uint32_t last_name = 0;

    for (uint32_t number = 0; number < types; number++) {
        struct btf_type *type = (void *)at;
        const struct tail *tail = &tails[BTF_INFO_KIND(type->info)];
        uint32_t items = tail->item_bytes ? BTF_INFO_VLEN(type->info) : 0;

        last_name = MAX(last_name, type->name_off);
        if (tail->has_type)
            limit_type(&type->type, types);
        at += sizeof(*type);
        if (BTF_INFO_KIND(type->info) == BTF_KIND_ARRAY) {
            struct btf_array *array = (void *)at;
            limit_type(&array->type, types);
            limit_type(&array->index_type, types);
        }
        at += tail->fixed_bytes;
        for (uint32_t i = 0; i < items; i++, at += tail->item_bytes) {
            uint32_t *item = (void *)at;
            last_name = MAX(last_name, item[0]);
            if (tail->has_item_types)
                limit_type(&item[1], types);
        }
    }
    return last_name;
}

int type_excerpt_make(const void *types, size_t size, const char *const *names, size_t name_count,
                      void **ret, size_t *ret_size)
{
    struct sections all;
    uint32_t count = 0;
    size_t types_size = 0;

    int r = parse_header(types, size, &all);
    if (r == 0)
        r = find_end(&all, names, name_count, &count, &types_size);
    if (r < 0)
        return r;
    /* The names of the excerpt are a part of the text that is not longer than the whole. */
    _cleanup_free_ struct btf_header *excerpt =
        malloc(sizeof(*excerpt) + types_size + all.text_size);
    if (!excerpt)
        return -ENOMEM;
    char *content = (char *)(excerpt + 1);
    memcpy(content, all.types, types_size);
    size_t last_name = limit_types(content, count);
    if (last_name >= all.text_size)
        return -EBADMSG;
    size_t text_size = last_name + strlen(all.text + last_name) + 1;
    memcpy(content + types_size, all.text, text_size);
    *excerpt = (struct btf_header){.magic = BTF_MAGIC,
                                   .version = BTF_VERSION,
                                   .hdr_len = sizeof(*excerpt),
                                   .type_len = (uint32_t)types_size,
                                   .str_off = (uint32_t)types_size,
                                   .str_len = (uint32_t)text_size};
    *ret = TAKE_PTR(excerpt);
    *ret_size = sizeof(struct btf_header) + types_size + text_size;
    return 0;
}

static int write_to_memory(const void *bytes, size_t size)
{
    _cleanup_close_ int fd = memfd_create("types", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;

    int r = fd_write_all(fd, bytes, size);
    return r < 0 ? r : TAKE_FD(fd);
}

int type_excerpt_open(const char *path, const char *const *names, size_t name_count)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    size_t size = (size_t)st.st_size;
    void *types = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (types == MAP_FAILED)
        return -errno;

    _cleanup_free_ void *excerpt = NULL;
    size_t excerpt_size;
    int r = type_excerpt_make(types, size, names, name_count, &excerpt, &excerpt_size);
    if (r == 0)
        r = write_to_memory(excerpt, excerpt_size);
    munmap(types, size);
    return r;
}
