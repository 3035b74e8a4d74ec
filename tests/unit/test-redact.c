#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "model/job.h"
#include "model/redact.h"
#include "model/snapshot.h"

static const char *default_items[] = {
    "token", "password",      "secret", "key",    "pass",       "passwd",      "passphrase", "pwd",
    "auth",  "authorization", "bearer", "cookie", "credential", "credentials", "pat",
};
static const struct text_list default_words = {default_items, ARRAY_SIZE(default_items)};

struct pair {
    const char *text;
    const char *expected; /* NULL: it stays */
};

static void check(const struct pair *pair, const struct text_list *words)
{
    _cleanup_text_ struct text out = {0};

    int r = redact_text(pair->text, words, &out);
    const char *found = r == 0 ? pair->text : text_string(&out);
    const char *expected = pair->expected ? pair->expected : pair->text;
    if (strcmp(found, expected) != 0)
        fail_msg("<%s>\n gave <%s>\n not  <%s>", pair->text, found, expected);
    assert_int_equal(r, pair->expected != NULL);
    assert_true(r || !out.bytes);
}

static void check_all(const struct pair *pairs, size_t count, const struct text_list *words)
{
    for (size_t i = 0; i < count; i++)
        check(&pairs[i], words);
}

static void test_names(void **state _unused_)
{
    static const struct pair pairs[] = {
        {"--api-key=x1", "--api-key=***"},
        {"API_KEY=x1", "API_KEY=***"},
        {"apikey=x1", "apikey=***"},
        {"dbPassword=x1", "dbPassword=***"},
        {"accessToken=x1", "accessToken=***"},
        {"accessTokenId=x1", "accessTokenId=***"},
        {"APIKey=x1", "APIKey=***"},
        {"APIKEYId=x1", "APIKEYId=***"},
        {"KeyId=x1", "KeyId=***"},
        {"passWord=x1", "passWord=***"},
        {"PASSWORD2=x1", "PASSWORD2=***"},
        {"spring.datasource.password=x1", "spring.datasource.password=***"},
        {"-Dsecret=x1", "-Dsecret=***"},
        {"-Djavax.net.ssl.keyStorePassword=x1", "-Djavax.net.ssl.keyStorePassword=***"},
        {"AWS_SECRET_ACCESS_KEY=x1", "AWS_SECRET_ACCESS_KEY=***"},
        {"user[password]=x1", "user[password]=***"},
        {"münz-key=x1", "münz-key=***"},
        {"keyboard=x1", NULL},
        {"tokenizer=x1", NULL},
        {"max_tokens=x1", NULL},
        {"--keyfile x1", NULL},
        {"secretary=x1", NULL},
        {"keyé=x1", NULL},
    };

    check_all(pairs, ARRAY_SIZE(pairs), &default_words);
}

/* Words that ordinary names contain, too. */
static void test_narrow_words(void **state _unused_)
{
    static const struct pair pairs[] = {
        {"--pass x1", "--pass ***"},
        {"DB_PASS=x1", "DB_PASS=***"},
        {"dbPass=x1", "dbPass=***"},
        {"pass2=x1", "pass2=***"},
        {"SMTP_PASS_1=x1", "SMTP_PASS_1=***"},
        {"--passwd=x1", "--passwd=***"},
        {"gpg --passphrase x1 -c", "gpg --passphrase *** -c"},
        {"SA_PWD=x1", "SA_PWD=***"},
        {"Driver=x;UID=sa;PWD=x1", "Driver=x;UID=sa;PWD=***"},
        {"\"PWD=x1\"", "\"PWD=***\""},
        {"--http-auth=x1", "--http-auth=***"},
        {"npm.config._auth=x1", "npm.config._auth=***"},
        {"GITHUB_PAT=ghp_1 git push", "GITHUB_PAT=*** git push"},
        {"--pat ghp_1", "--pat ***"},
        {"curl --oauth2-bearer x1 h", "curl --oauth2-bearer *** h"},
        {"--cookie=a", "--cookie=***"},
        {"SESSION_COOKIE=a", "SESSION_COOKIE=***"},
        {"--credential x1", "--credential ***"},
        {"userCredentials=x1", "userCredentials=***"},
        {"openssl rsa -passin pass:x1", "openssl rsa -passin pass:***"},
        /* not secrets */
        {"--path /usr --pattern=x --author=me --patch=1", NULL},
        {"--pass-through=x --pass-manager new --passes=3 --password-less", NULL},
        {"--bypass=x --compass=x --compat=11 --oauth-url=x", NULL},
        {"--auth-type basic --author x --authenticationDatabase=admin", NULL},
        {"git -c credential.helper=store fetch", NULL},
        {"curl --cookie-jar jar --cookiejar=jar", NULL},
        {"env PWD=/home/me OLDPWD=/ make", NULL},
        {"PWD=/home/me make", NULL},
        {"clang -fpass-plugin=x.so -Rpass=inline -patch x", NULL},
        {"PATH=/bin PATTERN=x PASSES=2 FORMAT=x", NULL},
        {"fix the auth cookie pat bearer parser", NULL},
        {"./auth server", NULL},
    };

    check_all(pairs, ARRAY_SIZE(pairs), &default_words);
}

/* A command line has lost the quotes of the header, so its value has several words. */
static void test_headers(void **state _unused_)
{
    static const struct pair pairs[] = {
        {"curl -H Authorization: Bearer abc https://x",
         "curl -H Authorization: Bearer *** https://x"},
        {"curl -H authorization: basic YTpi https://x",
         "curl -H authorization: basic *** https://x"},
        {"curl -H Authorization:Token abc x", "curl -H Authorization:Token *** x"},
        {"curl -H Authorization: abc https://x", "curl -H Authorization: *** https://x"},
        {"curl -H 'Authorization: Bearer abc' x", "curl -H 'Authorization: Bearer ***' x"},
        {"curl -H Proxy-Authorization: Basic abc x", "curl -H Proxy-Authorization: Basic *** x"},
        {"{\"Authorization\": \"Bearer abc\", \"x\": 1}", "{\"Authorization\": \"***\", \"x\": 1}"},
        {"x Authorization: Bearer", "x Authorization: ***"},
        {"x Authorization: Bearer -x", "x Authorization: *** -x"},
        {"x --header=X-Any: Bearer abc y", "x --header=X-Any: Bearer *** y"},
        {"AUTHORIZATION=Bearer abc curl", "AUTHORIZATION=Bearer *** curl"},
        {"--auth=basic http://host", "--auth=*** http://host"},
        {"curl -H Cookie: a=b; c=d https://x", "curl -H Cookie: *** https://x"},
        {"curl -H 'Cookie: a=b; c=d' https://x", "curl -H 'Cookie: ***' https://x"},
        {"curl --cookie a=b; c=d; e=f https://x?y=z", "curl --cookie *** https://x?y=z"},
        {"-H Set-Cookie: id=a; HttpOnly x=y", "-H Set-Cookie: *** HttpOnly x=y"},
        {"TOKEN=a; FOO=b make", "TOKEN=*** FOO=b make"},
    };

    check_all(pairs, ARRAY_SIZE(pairs), &default_words);
}

static void test_options_and_variables(void **state _unused_)
{
    static const struct pair pairs[] = {
        {"mysql --password=hunter2 db", "mysql --password=*** db"},
        {"mysql --password hunter2 db", "mysql --password *** db"},
        {"mysql -password hunter2 db", "mysql -password *** db"},
        {"env PASSWORD=hunter2 make", "env PASSWORD=*** make"},
        {"PASSWORD=hunter2", "PASSWORD=***"},
        {"password = hunter2", "password = ***"},
        {"password =hunter2", "password =***"},
        {"x --password --user root", NULL},
        {"x --password -", NULL},
        {"x --password", NULL},
        {"x --password ", NULL},
        {"x --password= --user root", NULL},
        {"x --password= root", NULL},
        {"x --password='' root", NULL},
        {"x password: ", NULL},
        {"x --password\thunter2\troot", "x --password\t***\troot"},
        {"--password=correct horse battery", "--password=*** horse battery"},
        {"--password=a&b|c;d,e", "--password=***"},
        {"--password=token=x", "--password=***"},
        {"--password token=x y", "--password *** y"},
        {"--password a --token b --secret=c", "--password *** --token *** --secret=***"},
        {"--password=*** x", NULL},
        {"--password ***", NULL},
        {"--password=****", "--password=***"},
        {"--password=пароль x", "--password=*** x"},
        {"fix the token parser", NULL},
        {"./key foo", NULL},
        {"password", NULL},
        {"--key==x", "--key=***"},
        {"", NULL},
        {"   ", NULL},
    };

    check_all(pairs, ARRAY_SIZE(pairs), &default_words);
}

static void test_colons_and_json(void **state _unused_)
{
    static const struct pair pairs[] = {
        {"curl -H X-Api-Key: abc https://x", "curl -H X-Api-Key: *** https://x"},
        {"dbPassword:abc", "dbPassword:***"},
        {"password : abc", "password : ***"},
        {"{\"password\": \"a b\", \"user\": \"x\"}", "{\"password\": \"***\", \"user\": \"x\"}"},
        {"{\"password\":\"a\\\"b c\",\"x\":1}", "{\"password\":\"***\",\"x\":1}"},
        {"{\"password\" : \"\"}", NULL},
        {"{'password': 'a b'}", "{'password': '***'}"},
        {"{\"key\": 123, \"x\": 4}", "{\"key\": ***, \"x\": 4}"},
        {"{\"key\":123}", "{\"key\":***}"},
        {"{\"a\":{\"key\":null}}", "{\"a\":{\"key\":***}}"},
        {"{\"key\": [\"a]\", {\"b\": 1}], \"x\": 4}", "{\"key\": ***, \"x\": 4}"},
        {"{\"key\": [\"a", "{\"key\": ***"},
        {"{\\\"password\\\": \\\"a b\\\", \\\"x\\\": 1}",
         "{\\\"password\\\": \\\"***\\\", \\\"x\\\": 1}"},
        {"{:password=>\"abc\", :x=>1}", "{:password=>\"***\", :x=>1}"},
        {"{\"password\" => \"a b\"}", "{\"password\" => \"***\"}"},
        {"config['password'] = 'a b'", "config['password'] = '***'"},
        /* the end is cut off */
        {"{\"password\": \"a b", "{\"password\": \"***"},
        {"--password='a b", "--password='***"},
        {"{\"password\":", NULL},
        /* not names of secrets */
        {"cargo test token::parse", NULL},
        {"pytest tests/test_key.py::test_a", NULL},
        {"docker run -v /run/secret:/run/secret:ro x/token:latest", NULL},
        {"vault read secret://a/b", NULL},
    };

    check_all(pairs, ARRAY_SIZE(pairs), &default_words);
}

static void test_quotes(void **state _unused_)
{
    static const struct pair pairs[] = {
        {"sh -c x --password='a b' c", "sh -c x --password='***' c"},
        {"sh -c x --password \"a b\" c", "sh -c x --password \"***\" c"},
        {"'--password' 'a b' c", "'--password' '***' c"},
        {"--password='it'\\''s' c", "--password=*** c"},
        {"--password=\"a\"b c", "--password=*** c"},
        {"--password=\"a\"\"b\" c", "--password=*** c"},
        {"--password=a\"b c", "--password=*** c"},
        {"-c \"password=abc\" d", "-c \"password=***\" d"},
        {"-c 'password=' d", NULL},
        {"-c \"X-Token: abc\" d", "-c \"X-Token: ***\" d"},
        {"-c \\\"token=abc\\\" d", "-c \\\"token=***\\\" d"},
    };

    check_all(pairs, ARRAY_SIZE(pairs), &default_words);
}

static void test_urls(void **state _unused_)
{
    static const struct pair pairs[] = {
        {"curl https://h/?token=abc&x=1", "curl https://h/?token=***&x=1"},
        {"curl https://h/?x=1&token=abc#y", "curl https://h/?x=1&token=***#y"},
        {"curl 'https://h/?token=abc' x", "curl 'https://h/?token=***' x"},
        {"curl https://h/?password=it's&x=1", "curl https://h/?password=***&x=1"},
        {"{\"u\":\"https://h/?token=it's\",\"x\":1}", "{\"u\":\"https://h/?token=***\",\"x\":1}"},
        {"curl 'https://u:p@h/?key=a&token=b' x", "curl 'https://u:***@h/?key=***&token=***' x"},
        {"curl -d a=b&password=it's&x=1", "curl -d a=b&password=***&x=1"},
        {"curl https://h/?token=&x=1", NULL},
        {"https://h/#access_token=abc&x=1", "https://h/#access_token=***&x=1"},
        {"https://user:pass@host/x", "https://user:***@host/x"},
        {"https://user:p@ss:word@host", "https://user:***@host"},
        {"redis://:pass@host", "redis://:***@host"},
        {"git clone https://token:abc@host/x y", "git clone https://token:***@host/x y"},
        {"https://user:@host", NULL},
        {"https://user:***@host", NULL},
        {"https://user@host:80/", NULL},
        {"http://host:8080/a@b", NULL},
        {"http://host:8080", NULL},
        {"http://[::1]:80", NULL},
        {"http://key:8080/x", NULL},
        {"http://host:8080 a:b@c", NULL},
        {"--url=https://u:p@h/?key=x&y=z", "--url=https://u:***@h/?key=***&y=z"},
        {"--token https://u:p@h", "--token ***"},
        {"https://user:pa", "https://user:***"}, /* cut before the @ */
        {"https://user:pa/ss@host", "https://user:***@host"},
        {"https://user:12&34@host", "https://user:***@host"},
        {"jdbc:sqlserver://host;password=/ab#c;user=x y", "jdbc:sqlserver://host;password=*** y"},
        {"'jdbc:sqlserver://host;password=ab' y", "'jdbc:sqlserver://host;password=***' y"},
        {"http://host:$PORT/x", NULL},
        {"http://host:port x", NULL},
        {"://", NULL},
    };

    check_all(pairs, ARRAY_SIZE(pairs), &default_words);
}

static void test_other_arguments(void **state _unused_)
{
    static const char *items[] = {"", "client_id", "Пароль"};
    static const struct text_list words = {items, ARRAY_SIZE(items)}, none = {NULL, 0};
    static const struct pair pairs[] = {
        {"--client_id=x --password=y", "--client_id=*** --password=y"},
        {"Пароль=x", "Пароль=***"},
        {"https://u:p@h", "https://u:***@h"},
    };
    static const struct pair kept[] = {{"--password=x https://u:p@h", NULL}};

    check_all(pairs, ARRAY_SIZE(pairs), &words);
    check_all(kept, ARRAY_SIZE(kept), &none);
}

static void test_result_is_appended(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};

    text_append_string(&out, "before ");
    assert_int_equal(redact_text("nothing here", &default_words, &out), 0);
    assert_int_equal(redact_text("key=x y", &default_words, &out), 1);
    assert_string_equal(out.bytes, "before key=*** y");
    out.error = -ENOMEM;
    assert_int_equal(redact_text("key=x y", &default_words, &out), -ENOMEM);
}

/* ---- properties ---- */

static const char *pick(const char *const *from, size_t count)
{
    return from[(size_t)rand() % count];
}

/* From relevant pieces in any order: valid text stays valid, and a second pass changes nothing. */
static void test_random_texts(void **state _unused_)
{
    static const char *const pieces[] = {
        "--password",
        "token",
        "Key",
        "-secret",
        "=",
        ":",
        "://",
        "@",
        "?",
        "&",
        "#",
        "/",
        " ",
        "  ",
        "\"",
        "'",
        "\\",
        "\\\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ";",
        "***",
        "*",
        "-",
        ".",
        "_",
        "a",
        "B",
        "7",
        "é",
        "\t",
        "=>",
        "::",
        "https://u:",
        "\"key\": ",
        "?key=",
        "&token=",
        "Bearer",
        "Basic ",
        "Authorization: ",
        "cookie",
        "auth",
        "PWD",
        "a=b; ",
        "pass",
        "\xF0\x9F\x94\x91",
    };

    srand(11);
    for (int round = 0; round < 200000; round++) {
        _cleanup_text_ struct text text = {0}, once = {0}, twice = {0};
        for (int i = rand() % 16; i >= 0; i--)
            text_append_string(&text, pick(pieces, ARRAY_SIZE(pieces)));
        int r = redact_text(text.bytes, &default_words, &once);
        assert_true(r == 0 || r == 1);
        if (r == 0)
            continue;
        assert_true(utf8_valid(once.bytes, once.length));
        assert_string_not_equal(once.bytes, text.bytes);
        if (redact_text(once.bytes, &default_words, &twice) != 0)
            fail_msg("<%s>\n gave <%s>\n then <%s>", text.bytes, once.bytes, twice.bytes);
    }
}

/* Command lines of all forms: every secret is removed, and all other text is kept. */
static void test_no_secret_is_left(void **state _unused_)
{
    static const char *const forms[] = {
        "--db-password=%s",
        "--password %s",
        "-secret %s",
        "API_KEY=%s",
        "-Dauth.token=%s",
        "{\"password\": \"%s\"}",
        "{'accessToken':'%s'}",
        "X-Api-Key: %s",
        "Authorization: Bearer %s",
        "Cookie: %s",
        "GITHUB_PAT=%s",
        "--db-pass %s",
        "--secret='%s'",
        "--secret \"%s\"",
        "https://user:%s@host/",
        "https://h/?a=b&key=%s&c=d",
        "token: %s",
        "\"secret = %s\"",
        "{\\\"key\\\":\\\"%s\\\"}",
    };
    static const char *const innocent[] = {"make",  "-j4",   "a=b",           "/usr/bin/key",
                                           "--x y", "é",     "https://h:80/", "{\"a\": \"b\"}",
                                           "it",    "max=5", "x:y",           "--verbose"};
    static const char secret_chars[] = "SECRT0123456789!$%+.^~_";

    srand(12);
    for (int round = 0; round < 20000; round++) {
        _cleanup_text_ struct text text = {0}, expected = {0}, out = {0};
        char secret[24] = "S";
        size_t length = 2 + (size_t)rand() % 20;
        for (size_t i = 1; i < length; i++)
            secret[i] = secret_chars[(size_t)rand() % (sizeof(secret_chars) - 1)];
        for (int i = rand() % 6; i >= 0; i--) {
            const char *form = pick(forms, ARRAY_SIZE(forms)), *value = strstr(form, "%s");
            const char *other = pick(innocent, ARRAY_SIZE(innocent));
            text_printf(&text, "%.*s%s%s %s ", (int)(value - form), form, secret, value + 2, other);
            text_printf(&expected, "%.*s***%s %s ", (int)(value - form), form, value + 2, other);
        }
        assert_int_equal(redact_text(text.bytes, &default_words, &out), 1);
        assert_string_equal(out.bytes, expected.bytes);
    }
}

/* ---- buffers, records, arguments ---- */

static void test_buffer(void **state _unused_)
{
    char room[40] = "curl --token abc", tight[] = "key=a \xC3\xA4", plain[] = "make";

    redact_buffer(&default_words, room, sizeof(room));
    assert_string_equal(room, "curl --token ***");
    redact_buffer(&default_words, tight, sizeof(tight)); /* grows by two bytes: cut */
    assert_string_equal(tight, "key=*** ");
    redact_buffer(&default_words, plain, sizeof(plain));
    redact_buffer(NULL, plain, sizeof(plain));
    assert_string_equal(plain, "make");
}

/* Every text that the tables mark, also in inner records, and no other. */
static void test_record(void **state _unused_)
{
    static const char secret[] = "login --password=x", shown[] = "login --password=***";
    _cleanup_(arena_done) struct arena arena = {0};
    struct process_event event;
    struct anomaly anomaly;
    struct job job;

    record_init(&process_event_record, &event);
    event.command = event.sender_command = event.details = event.job_id = secret;
    record_init(&job_record, &job);
    job.command = job.cause = job.job_type = job.cwd = secret;
    job.chain = (struct process_event_list){&event, 1};
    assert_int_equal(redact_record(&default_words, &job_record, &arena, &job), 0);
    assert_string_equal(job.command, shown);
    assert_string_equal(job.cause, shown);
    assert_string_equal(job.job_type, shown);
    assert_string_equal(job.cwd, shown);
    assert_string_equal(event.command, shown);
    assert_string_equal(event.sender_command, shown);
    assert_string_equal(event.details, shown);
    assert_string_equal(event.job_id, secret);

    struct job_progress progress = {.job_id = secret, .status = secret};
    assert_int_equal(redact_record(&default_words, &job_progress_record, &arena, &progress), 0);
    assert_string_equal(progress.status, shown);
    assert_string_equal(progress.job_id, secret);
    struct sheet sheet = {.name = secret};
    assert_int_equal(redact_record(&default_words, &sheet_record, &arena, &sheet), 0);
    assert_string_equal(sheet.name, shown);

    record_init(&anomaly_record, &anomaly);
    anomaly.description = secret;
    assert_int_equal(redact_record(NULL, &anomaly_record, &arena, &anomaly), 0);
    assert_ptr_equal(anomaly.description, secret);
    assert_int_equal(redact_record(&default_words, &anomaly_record, &arena, &anomaly), 0);
    assert_string_equal(anomaly.description, shown);
}

/* The argument before one may name the secret, even if that is redacted itself. */
static void test_argument(void **state _unused_)
{
    static const struct {
        const char *before, *argument, *shown;
    } cases[] = {
        {"", "env", "env"},
        {"env", "API_TOKEN=abc", "API_TOKEN=***"},
        {"mysql", "--password", "--password"},
        {"--password", "hunter2 x", "***"},
        {"hunter2 x", "--key=a", "--key=***"},
        {"--key=a", "db", "db"},
        {"--token", "--verbose", "--verbose"},
        {"-H", "Authorization: Bearer abc", "Authorization: Bearer ***"},
        {"--cookie", "a=b; c=d", "***"},
    };
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *argument = cases[i].argument;
        assert_int_equal(redact_argument(NULL, cases[i].before, &arena, &argument), 0);
        assert_ptr_equal(argument, cases[i].argument);
        assert_int_equal(redact_argument(&default_words, cases[i].before, &arena, &argument), 0);
        assert_string_equal(argument, cases[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_narrow_words),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_options_and_variables),
        cmocka_unit_test(test_colons_and_json),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_other_arguments),
        cmocka_unit_test(test_result_is_appended),
        cmocka_unit_test(test_random_texts),
        cmocka_unit_test(test_no_secret_is_left),
        cmocka_unit_test(test_buffer),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_argument),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
