#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "config/config.h"
#include "config/paths.h"

/* An environment for the functions that take one. */
static struct {
    const char *name;
    char value[128];
} environment[4];

static char *get_variable(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(environment); i++)
        if (environment[i].name && strcmp(environment[i].name, name) == 0)
            return environment[i].value;
    return NULL;
}

static void set_variable(size_t slot, const char *name, const char *value)
{
    environment[slot].name = name;
    snprintf(environment[slot].value, sizeof(environment[slot].value), "%s", value);
}

static int set_up(void **state)
{
    memset(environment, 0, sizeof(environment));
    return make_directory(state);
}

static char *make_file(const char *directory, const char *name, const char *content)
{
    char *path = NULL;

    assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
    _cleanup_fclose_ FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(content, file);
    return path;
}

static void expect_found(const char *option, const char *expected)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    _cleanup_free_ char *path = NULL;

    assert_int_equal(config_find_file(option, get_variable, &path, &errors), 0);
    assert_int_equal(errors.count, 0);
    if (expected)
        assert_string_equal(path, expected);
    else if (path) /* this machine has one */
        assert_string_equal(path, "/etc/sonde/sonde.yaml");
}

static void test_search_order(void **state)
{
    const char *directory = *state;
    char name[128];
    snprintf(name, sizeof(name), "%s/.config", directory);
    mkdir(name, 0700);
    snprintf(name, sizeof(name), "%s/.config/sonde", directory);
    mkdir(name, 0700);
    snprintf(name, sizeof(name), "%s/sonde", directory);
    mkdir(name, 0700);
    _cleanup_free_ char *option = make_file(directory, "option.yaml", "");
    _cleanup_free_ char *variable = make_file(directory, "variable.yaml", "");
    _cleanup_free_ char *xdg = make_file(directory, "sonde/sonde.yaml", "");
    _cleanup_free_ char *home = make_file(directory, ".config/sonde/sonde.yaml", "");

    expect_found(NULL, NULL);
    set_variable(0, "HOME", directory);
    expect_found(NULL, home);
    set_variable(1, "XDG_CONFIG_HOME", "relative");
    expect_found(NULL, home);
    set_variable(1, "XDG_CONFIG_HOME", directory);
    expect_found(NULL, xdg);
    set_variable(2, "SONDE_CONFIG", "");
    expect_found(NULL, xdg);
    set_variable(2, "SONDE_CONFIG", variable);
    expect_found(NULL, variable);
    expect_found(option, option);
    unlink(xdg);
    set_variable(2, "SONDE_CONFIG", "");
    expect_found(NULL, NULL);

    /* Never from the working directory. */
    free(make_file(directory, "sonde.yaml", ""));
    assert_int_equal(chdir(directory), 0);
    expect_found(NULL, NULL);
    assert_int_equal(chdir("/"), 0);
}

static void test_named_file_is_missing(void **state)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    char *path = NULL;
    (void)state;

    assert_int_equal(config_find_file("/no/a.yaml", get_variable, &path, &errors), -ENOENT);
    set_variable(0, "SONDE_CONFIG", "/no/b.yaml");
    assert_int_equal(config_find_file(NULL, get_variable, &path, &errors), -ENOENT);
    assert_null(path);
    assert_string_equal(errors.lines[0], "/no/a.yaml: no such file (named by --config)");
    assert_string_equal(errors.lines[1], "/no/b.yaml: no such file (named by $SONDE_CONFIG)");
}

static void expect_load_error(const char *path, int error, const char *problem)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    struct config *config = NULL;
    char expected[256];

    snprintf(expected, sizeof(expected), "%s: %s", path, problem);
    assert_int_equal(config_load(path, &config, &errors), error);
    assert_null(config);
    assert_int_equal(errors.count, 1);
    assert_string_equal(errors.lines[0], expected);
}

static void test_load_file(void **state)
{
    const char *directory = *state;
    _cleanup_config_errors_ struct config_errors errors = {0};
    _cleanup_config_ struct config *config = NULL;
    _cleanup_free_ char *path = make_file(directory, "a.yaml", "profiler:\n  scope: all\n");

    assert_int_equal(config_load(path, &config, &errors), 0);
    assert_int_equal(config->scope, SCOPE_ALL);
    assert_string_equal(config->file, path);
    assert_int_equal(config_origin_line(config, "profiler.scope"), 2);

    expect_load_error("/no/a.yaml", -ENOENT, "no such file");
    expect_load_error(directory, -EISDIR, "is a directory, not a file");
    expect_load_error("/dev/zero", -EFBIG, "larger than 1 MiB, the limit for a configuration");
    if (geteuid() != 0) {
        chmod(path, 0);
        expect_load_error(path, -EACCES, "not readable: permission denied");
    }
}

static void expect_state_dir(const char *option, uid_t uid, const char *expected)
{
    _cleanup_free_ char *path = NULL;
    int r = paths_state_dir(option, get_variable, uid, &path);

    assert_int_equal(r, expected ? 0 : -ENOENT);
    if (expected)
        assert_string_equal(path, expected);
}

static void test_state_dir(void **state)
{
    (void)state;
    expect_state_dir(NULL, 0, "/var/lib/sonde");
    expect_state_dir(NULL, 1000, NULL);
    set_variable(0, "HOME", "/home/ann");
    expect_state_dir(NULL, 0, "/var/lib/sonde");
    expect_state_dir(NULL, 1000, "/home/ann/.local/state/sonde");
    set_variable(1, "XDG_STATE_HOME", "relative");
    expect_state_dir(NULL, 1000, "/home/ann/.local/state/sonde");
    set_variable(1, "XDG_STATE_HOME", "/xdg");
    expect_state_dir(NULL, 1000, "/xdg/sonde");
    set_variable(2, "STATE_DIRECTORY", "/var/lib/private/sonde:/other");
    expect_state_dir(NULL, 0, "/var/lib/private/sonde");
    expect_state_dir(NULL, 1000, "/var/lib/private/sonde");
    set_variable(3, "SONDE_STATE_DIR", "/own");
    expect_state_dir(NULL, 0, "/own");
    expect_state_dir("/option", 0, "/option");
}

static void expect_socket(const char *option, uid_t uid, const char *expected)
{
    _cleanup_free_ char *path = NULL;
    int r = paths_socket(option, NULL, get_variable, uid, &path);

    assert_int_equal(r, expected ? 0 : -ENOENT);
    if (expected)
        assert_string_equal(path, expected);
}

static void test_socket(void **state)
{
    (void)state;

    expect_socket(NULL, 0, "/run/sonde/sonde.sock");
    expect_socket(NULL, 1000, NULL);
    set_variable(0, "HOME", "/home/ann");
    expect_socket(NULL, 1000, "/home/ann/.local/state/sonde/sonde.sock");
    set_variable(1, "XDG_RUNTIME_DIR", "/run/user/1000");
    expect_socket(NULL, 0, "/run/sonde/sonde.sock");
    expect_socket(NULL, 1000, "/run/user/1000/sonde/sonde.sock");
    set_variable(2, "SONDE_SOCKET", "/own.sock");
    expect_socket(NULL, 0, "/own.sock");
    expect_socket("/option.sock", 1000, "/option.sock");
}

static void test_private_state_directory_has_its_own_socket(void **state)
{
    _cleanup_free_ char *path = NULL;
    (void)state;

    set_variable(0, "HOME", "/home/ann");
    set_variable(1, "XDG_RUNTIME_DIR", "/run/user/1000");
    assert_int_equal(paths_socket(NULL, "/s", get_variable, 1000, &path), 0);
    assert_string_equal(path, "/s/sonde.sock");
    set_variable(2, "SONDE_STATE_DIR", "/own");
    expect_socket(NULL, 1000, "/own/sonde.sock");
    expect_socket(NULL, 0, "/own/sonde.sock");
    set_variable(2, "SONDE_STATE_DIR", "");
    expect_socket(NULL, 0, "/run/sonde/sonde.sock");
    /* systemd's state directory does not make a private instance. */
    set_variable(2, "STATE_DIRECTORY", "/var/lib/sonde");
    expect_socket(NULL, 0, "/run/sonde/sonde.sock");
    set_variable(3, "SONDE_SOCKET", "/own.sock");
    expect_socket(NULL, 1000, "/own.sock");
}

static void expect_sockets(const char *option, const char *state_dir, uid_t uid, const char *first,
                           const char *second)
{
    _cleanup_socket_paths_ struct socket_paths paths = {0};
    const char *expected[] = {first, second, NULL};

    assert_int_equal(paths_sockets(option, state_dir, get_variable, uid, &paths), 0);
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        if (!expected[i]) {
            assert_null(paths.items[i]);
            break;
        }
        assert_non_null(paths.items[i]);
        assert_string_equal(paths.items[i], expected[i]);
    }
    assert_int_equal(paths.is_named, option || get_variable("SONDE_SOCKET"));
}

static void test_socket_paths_of_a_client(void **state)
{
    static const char system_socket[] = "/run/sonde/sonde.sock";
    (void)state;

    expect_sockets(NULL, NULL, 0, system_socket, NULL);
    expect_sockets(NULL, NULL, 1000, system_socket,
                   NULL); /* the user has no directory for a socket */
    set_variable(0, "HOME", "/home/ann");
    expect_sockets(NULL, NULL, 1000, "/home/ann/.local/state/sonde/sonde.sock", system_socket);
    set_variable(1, "XDG_RUNTIME_DIR", "/run/user/1000");
    expect_sockets(NULL, NULL, 1000, "/run/user/1000/sonde/sonde.sock", system_socket);
    expect_sockets("/a.sock", NULL, 1000, "/a.sock", NULL);
    expect_sockets(NULL, "/s", 1000, "/s/sonde.sock", NULL);
    expect_sockets(NULL, "/s", 0, "/s/sonde.sock", NULL);
    expect_sockets("/a.sock", "/s", 0, "/a.sock", NULL);
    set_variable(2, "SONDE_STATE_DIR", "/own");
    expect_sockets(NULL, NULL, 1000, "/own/sonde.sock", NULL);
    set_variable(3, "SONDE_SOCKET", "/b.sock");
    expect_sockets(NULL, NULL, 1000, "/b.sock", NULL);
    expect_sockets("/a.sock", NULL, 1000, "/a.sock", NULL);
}

static void test_socket_path_length_is_limited(void **state)
{
    char path[PATHS_SOCKET_MAX_BYTES + 2];
    (void)state;

    memset(path, 'x', sizeof(path));
    path[PATHS_SOCKET_MAX_BYTES] = '\0';
    assert_true(paths_socket_fits(path));
    path[PATHS_SOCKET_MAX_BYTES] = 'x';
    path[PATHS_SOCKET_MAX_BYTES + 1] = '\0';
    assert_false(paths_socket_fits(path));
    assert_int_equal(PATHS_SOCKET_MAX_BYTES + 1, sizeof(((struct sockaddr_un *)NULL)->sun_path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_search_order, set_up, remove_directory),
        cmocka_unit_test_setup_teardown(test_named_file_is_missing, set_up, remove_directory),
        cmocka_unit_test_setup_teardown(test_load_file, set_up, remove_directory),
        cmocka_unit_test_setup_teardown(test_state_dir, set_up, remove_directory),
        cmocka_unit_test_setup_teardown(test_socket, set_up, remove_directory),
        cmocka_unit_test_setup_teardown(test_private_state_directory_has_its_own_socket, set_up,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(test_socket_paths_of_a_client, set_up, remove_directory),
        cmocka_unit_test_setup_teardown(test_socket_path_length_is_limited, set_up,
                                        remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
