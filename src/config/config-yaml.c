/* Parses YAML into a tree of nodes with their positions. This is the only code that uses libyaml.
 *
 * sonde accepts a subset of YAML: one document, no anchors, aliases or tags. Scalars stay text
 * here; the schema decides their types. The depth and the number of nodes are bounded, so memory
 * use stays proportional to the file size. */
#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "config/config-load.h"

struct reader {
    yaml_parser_t parser;
    const char *file;
    const char *bytes;
    size_t length;
    struct arena *arena;
    struct config_errors *errors;
    size_t nodes;
    unsigned depth;
};

#define _cleanup_event_ __attribute__((cleanup(yaml_event_delete)))

static int fail_at(struct reader *reader, yaml_mark_t mark, const char *message)
{
    config_errors_add(reader->errors, reader->file, (unsigned)mark.line + 1,
                      (unsigned)mark.column + 1, message);
    return -EINVAL;
}

static int fail_limit(struct reader *reader, const yaml_event_t *event, const char *what,
                      unsigned limit)
{
    char message[64];

    snprintf(message, sizeof(message), "%s (limit: %u)", what, limit);
    return fail_at(reader, event->start_mark, message);
}

/* libyaml's reader reports only a byte offset. This function counts lines and characters up to it.
 */
static yaml_mark_t mark_of_offset(const struct reader *reader, size_t offset)
{
    yaml_mark_t mark = {0};

    for (size_t i = 0; i < offset && i < reader->length; i++) {
        if (reader->bytes[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else if (((unsigned char)reader->bytes[i] & 0xC0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

/* Returns whether the line is indented with a tab up to the mark. libyaml's own message for this
 * case is unclear. */
static bool is_tab_at(const struct reader *reader, yaml_mark_t mark)
{
    const char *at = reader->bytes, *end = reader->bytes + reader->length;

    for (size_t line = 0; line < mark.line && at; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    return at && mark.column < (size_t)(end - at) && at[mark.column] == '\t';
}

static int fail_parser(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    _cleanup_text_ struct text message = {0};
    yaml_mark_t mark = parser->problem_mark;

    if (parser->error == YAML_MEMORY_ERROR)
        return -ENOMEM;
    if (parser->error == YAML_READER_ERROR)
        mark = mark_of_offset(reader, parser->problem_offset);

    text_append_string(&message, "not valid YAML: ");
    if (is_tab_at(reader, mark)) {
        text_append_string(&message, "a tab instead of spaces");
    } else {
        text_append_string(&message, parser->problem ? parser->problem : "unknown problem");
        if (parser->context)
            text_printf(&message, " %s", parser->context);
    }
    if (text_error(&message) < 0)
        return -ENOMEM;
    return fail_at(reader, mark, text_string(&message));
}

static int next_event(struct reader *reader, yaml_event_t *ret)
{
    return yaml_parser_parse(&reader->parser, ret) ? 0 : fail_parser(reader);
}

static int node_new(struct reader *reader, const yaml_event_t *event, struct config_node **ret)
{
    if (++reader->nodes > CONFIG_NODES_MAX)
        return fail_limit(reader, event, "too many keys and values", CONFIG_NODES_MAX);

    struct config_node *node = arena_alloc(reader->arena, sizeof(*node));
    if (!node)
        return -ENOMEM;
    *node = (struct config_node){
        .line = (unsigned)event->start_mark.line + 1,
        .column = (unsigned)event->start_mark.column + 1,
    };
    *ret = node;
    return 0;
}

static int fill_scalar(struct reader *reader, const yaml_event_t *event, struct config_node *node)
{
    node->kind = NODE_SCALAR;
    node->length = event->data.scalar.length;
    node->text = arena_copy(reader->arena, (const char *)event->data.scalar.value,
                            event->data.scalar.length);
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return node->text ? 0 : -ENOMEM;
}

static void mark_unsupported(struct config_node *node, const yaml_char_t *anchor,
                             const yaml_char_t *tag)
{
    if (anchor)
        node->unsupported = "anchors";
    else if (tag)
        node->unsupported = "tags";
}

static int read_node(struct reader *reader, const yaml_event_t *event, struct config_node **ret);

/* Reads the children of a list or a mapping up to its end. */
static int read_children(struct reader *reader, struct config_node *parent, yaml_event_type_t end)
{
    struct config_node **tail = &parent->first;

    for (;;) {
        _cleanup_event_ yaml_event_t event = {0};
        int r = next_event(reader, &event);
        if (r < 0)
            return r;
        if (event.type == end)
            return 0;
        r = read_node(reader, &event, tail);
        if (r < 0)
            return r;
        tail = &(*tail)->next;
    }
}

static int read_collection(struct reader *reader, const yaml_event_t *event,
                           struct config_node *node, yaml_event_type_t end)
{
    if (reader->depth == CONFIG_DEPTH_MAX)
        return fail_limit(reader, event, "too many levels", CONFIG_DEPTH_MAX);

    reader->depth++;
    int r = read_children(reader, node, end);
    reader->depth--;
    return r;
}

static int read_node(struct reader *reader, const yaml_event_t *event, struct config_node **ret)
{
    struct config_node *node;
    int r = node_new(reader, event, &node);
    if (r < 0)
        return r;

    switch (event->type) {
    case YAML_SCALAR_EVENT:
        mark_unsupported(node, event->data.scalar.anchor, event->data.scalar.tag);
        r = fill_scalar(reader, event, node);
        break;
    case YAML_SEQUENCE_START_EVENT:
        node->kind = NODE_LIST;
        mark_unsupported(node, event->data.sequence_start.anchor, event->data.sequence_start.tag);
        r = read_collection(reader, event, node, YAML_SEQUENCE_END_EVENT);
        break;
    case YAML_MAPPING_START_EVENT:
        node->kind = NODE_MAPPING;
        mark_unsupported(node, event->data.mapping_start.anchor, event->data.mapping_start.tag);
        r = read_collection(reader, event, node, YAML_MAPPING_END_EVENT);
        break;
    default:
        node->kind = NODE_ALIAS;
        node->unsupported = "aliases";
        break;
    }
    if (r < 0)
        return r;
    *ret = node;
    return 0;
}

/* Reads the start of the stream, at most one document, and the end of the stream. */
static int read_stream(struct reader *reader, struct config_node **ret_root)
{
    struct config_node *root = NULL;

    for (unsigned documents = 0;;) {
        _cleanup_event_ yaml_event_t event = {0};
        int r = next_event(reader, &event);
        if (r < 0)
            return r;

        switch (event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT: break;
        case YAML_DOCUMENT_START_EVENT:
            if (documents++)
                return fail_at(reader, event.start_mark, "more than one document");
            break;
        case YAML_STREAM_END_EVENT: *ret_root = root; return 0;
        default:
            r = read_node(reader, &event, &root);
            if (r < 0)
                return r;
        }
    }
}

int config_yaml_parse(const char *file, const char *bytes, size_t length, struct arena *arena,
                      struct config_node **ret_root, struct config_errors *errors)
{
    struct reader reader = {
        .file = file, .bytes = bytes, .length = length, .arena = arena, .errors = errors};

    if (!yaml_parser_initialize(&reader.parser))
        return -ENOMEM;
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)bytes, length);
    int r = read_stream(&reader, ret_root);
    yaml_parser_delete(&reader.parser);
    return r;
}
