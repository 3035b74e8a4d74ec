/* Excerpts of the kernel's type information: synthetic, damaged, and that of this kernel. */
#include "unit.h"

#include <errno.h>
#include <linux/btf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "probe/bpf/type-excerpt.h"

#define KERNEL_TYPES "/sys/kernel/btf/vmlinux"
#define MANY         5000

static const char text[] = "\0int\0near\0far\0a\0b\0last";

enum {
    TEXT_INT = 1,
    TEXT_NEAR = 5,
    TEXT_FAR = 10,
    TEXT_A = 14,
    TEXT_B = 16,
    TEXT_LAST = 18,
};

static struct {
    struct btf_header header;
    uint32_t words[20 * MANY];
    char text[sizeof(text)];
} types;

static size_t word_count;

static void add(uint32_t word)
{
    types.words[word_count++] = word;
}

static void add_type(uint32_t name, uint32_t kind, uint32_t items, uint32_t size_or_type)
{
    add(name);
    add(kind << 24 | items);
    add(size_or_type);
}

static void add_member(uint32_t name, uint32_t type, uint32_t offset)
{
    add(name);
    add(type);
    add(offset);
}

/* 1: int; 2: near {int a; pointer b}; 3: a pointer to the last type; then many ints; the last: far
 * { int a }. */
static size_t make_types(void)
{
    word_count = 0;
    add_type(TEXT_INT, BTF_KIND_INT, 0, 4);
    add(32);
    add_type(TEXT_NEAR, BTF_KIND_STRUCT, 2, 16);
    add_member(TEXT_A, 1, 0);
    add_member(TEXT_B, 3, 64);
    add_type(0, BTF_KIND_PTR, 0, MANY + 4);
    for (int i = 0; i < MANY; i++) {
        add_type(TEXT_LAST, BTF_KIND_INT, 0, 4);
        add(32);
    }
    add_type(TEXT_FAR, BTF_KIND_STRUCT, 1, 4);
    add_member(TEXT_A, 1, 0);
    types.header = (struct btf_header){.magic = BTF_MAGIC,
                                       .version = BTF_VERSION,
                                       .hdr_len = sizeof(types.header),
                                       .type_len = (uint32_t)(word_count * sizeof(uint32_t)),
                                       .str_off = (uint32_t)(word_count * sizeof(uint32_t)),
                                       .str_len = sizeof(text)};
    memcpy(types.words + word_count, text, sizeof(text));
    return sizeof(types.header) + types.header.str_off + sizeof(text);
}

static void test_types_in_front(void **state _unused_)
{
    static const char *const names[] = {"near"};
    size_t size = make_types(), excerpt_size;
    void *excerpt;

    assert_int_equal(type_excerpt_make(&types, size, names, 1, &excerpt, &excerpt_size), 0);
    const struct btf_header *header = excerpt;
    const uint32_t *words = (const uint32_t *)(header + 1);
    assert_true(excerpt_size < size / 2);
    assert_int_equal(excerpt_size, sizeof(*header) + header->str_off + header->str_len);
    assert_memory_equal(words, types.words, 15 * sizeof(words[0])); /* the same numbers */
    assert_int_equal(words[15], 0); /* what the pointer refers to is outside */
    assert_memory_equal((const char *)words + header->str_off, text, sizeof(text));
    free(excerpt);
}

static void test_type_at_the_end(void **state _unused_)
{
    static const char *const names[] = {"near", "far"};
    size_t size = make_types(), excerpt_size;
    void *excerpt;

    assert_int_equal(type_excerpt_make(&types, size, names, 2, &excerpt, &excerpt_size), 0);
    assert_int_equal(excerpt_size, size);
    assert_memory_equal(excerpt, &types, size);
    free(excerpt);
}

static void test_missing_type(void **state _unused_)
{
    static const char *const names[] = {"near", "nowhere"};
    size_t size = make_types(), excerpt_size;
    void *excerpt;

    assert_int_equal(type_excerpt_make(&types, size, names, 2, &excerpt, &excerpt_size), -ENOENT);
}

/* No byte outside the input is read: run with ASan. */
static void test_damaged_types(void **state _unused_)
{
    static const char *const names[] = {"near", "far"};
    size_t size = make_types(), excerpt_size;
    void *excerpt;

    for (size_t length = 0; length < size; length += length < 200 ? 1 : 997) {
        void *copy = malloc(length + !length);
        memcpy(copy, &types, length);
        assert_true(type_excerpt_make(copy, length, names, 2, &excerpt, &excerpt_size) < 0);
        free(copy);
    }
    types.words[5] = 31U << 24; /* an unknown kind */
    assert_int_equal(type_excerpt_make(&types, size, names, 2, &excerpt, &excerpt_size), -EBADMSG);
    make_types();
    types.words[7] = 1U << 30; /* a name outside the text */
    assert_int_equal(type_excerpt_make(&types, size, names, 1, &excerpt, &excerpt_size), -EBADMSG);
    make_types();
    types.header.magic = 0;
    assert_int_equal(type_excerpt_make(&types, size, names, 1, &excerpt, &excerpt_size), -EBADMSG);
}

static void test_types_of_this_kernel(void **state _unused_)
{
    static const char *const names[] = {"task_struct", "mm_struct"};
    struct stat st, excerpt_st;

    int fd = type_excerpt_open(KERNEL_TYPES, names, ARRAY_SIZE(names));
    if (fd == -ENOENT || fd == -ENODEV || fd == -EACCES) /* the kernel has none to map */
        skip();
    assert_true(fd >= 0);
    assert_int_equal(stat(KERNEL_TYPES, &st), 0);
    assert_int_equal(fstat(fd, &excerpt_st), 0);
    assert_true(excerpt_st.st_size <= st.st_size);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_in_front),       cmocka_unit_test(test_type_at_the_end),
        cmocka_unit_test(test_missing_type),         cmocka_unit_test(test_damaged_types),
        cmocka_unit_test(test_types_of_this_kernel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
