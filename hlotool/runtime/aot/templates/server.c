/* ${ABOUT}

   Serves the library ${NAME} over HTTP/1.1: GET /health, GET / (what it takes and gives, as JSON), POST /ENTRY.  A
   request has all arguments: their bytes one after the other (application/octet-stream), or an .npz archive as
   numpy.savez writes it (application/zip); the answer has the results in the same form.  Replicas are processes that
   accept connections from one socket, each on processors of its own. */
#define _GNU_SOURCE
#include "${NAME}.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  HEAD_BYTES = 16384,      /* of the head of a request */
  CONNECTIONS = 256,       /* at once, of a replica */
  SECONDS = 30,            /* that a connection may say nothing */
  GRACE_SECONDS = 10,      /* that requests have to end when the server is told to */
  LEFT_BYTES = 1 << 26,    /* of a refused request that are taken nevertheless */
  REPLICAS = 1024,
  CANNOT_START = 78        /* exit code of a replica that will not start another time either */
};

static const hlo_library *library;
static hlo_context context;
static void *workspace;
static uint64_t workspace_bytes;
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER; /* whoever holds it has the workspace and the threads */
static atomic_int connections;
static volatile sig_atomic_t stopping;

static void complain(const char *format, ...) {
  va_list words;
  va_start(words, format);
  fputs("${NAME}-server: ", stderr);
  vfprintf(stderr, format, words);
  fputc('\n', stderr);
  va_end(words);
}

/* ---- text that grows */

typedef struct {
  char *bytes;
  size_t length, room;
  int failed;
} text;

static void add_bytes(text *to, const void *bytes, size_t length) {
  if (to->failed)
    return;
  if (to->length + length + 1 > to->room) {
    size_t room = 2 * (to->length + length) + 256;
    char *bigger = realloc(to->bytes, room);
    if (!bigger) {
      to->failed = 1;
      return;
    }
    to->bytes = bigger, to->room = room;
  }
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
  to->bytes[to->length] = 0;
}

static void add(text *to, const char *format, ...) {
  char line[512];
  va_list words;
  va_start(words, format);
  int length = vsnprintf(line, sizeof line, format, words);
  va_end(words);
  add_bytes(to, line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
}

static void add_quoted(text *to, const char *words) {
  add(to, "\"");
  for (; *words; words++) {
    unsigned char c = (unsigned char)*words;
    if (c == '"' || c == '\\')
      add(to, "\\%c", c);
    else if (c < 32 || c == 127)
      add(to, "\\u%04x", c);
    else
      add_bytes(to, words, 1);
  }
  add(to, "\"");
}

static void add_arrays(text *to, const hlo_array *arrays, uint32_t count) {
  add(to, "[");
  for (uint32_t n = 0; n < count; n++) {
    add(to, "%s{\"name\": ", n ? ", " : "");
    add_quoted(to, arrays[n].name);
    add(to, ", \"type\": \"%s\", \"dimensions\": [", arrays[n].type);
    for (uint32_t d = 0; d < arrays[n].rank; d++)
      add(to, "%s%lld", d ? ", " : "", (long long)arrays[n].dimensions[d]);
    add(to, "], \"bytes\": %llu}", (unsigned long long)arrays[n].bytes);
  }
  add(to, "]");
}

static text signature(void) {
  text to = {0};
  add(&to, "{\"name\": \"${NAME}\", \"hlotool\": ");
  add_quoted(&to, library->hlotool);
  add(&to, ", \"entries\": [");
  for (uint32_t n = 0; n < library->entry_count; n++) {
    const hlo_entry *entry = &library->entries[n];
    add(&to, "%s{\"name\": \"%s\", \"arguments\": ", n ? ", " : "", entry->name);
    add_arrays(&to, entry->arguments, entry->argument_count);
    add(&to, ", \"results\": ");
    add_arrays(&to, entry->results, entry->result_count);
    add(&to, "}");
  }
  add(&to, "]}\n");
  return to;
}

/* ---- archives: .npz is ZIP (PKWARE's APPNOTE.TXT) without compression, of .npy files (NumPy Enhancement Proposal 1) */

static uint32_t number(const unsigned char *at, int bytes) {
  uint32_t value = 0;
  while (bytes--)
    value = value << 8 | at[bytes];
  return value;
}

static void put(text *to, uint64_t value, int bytes) {
  unsigned char raw[8];
  for (int n = 0; n < bytes; n++)
    raw[n] = (unsigned char)(value >> 8 * n);
  add_bytes(to, raw, (size_t)bytes);
}

static uint32_t crc_table[256];

static void make_crc_table(void) {
  for (uint32_t n = 0; n < 256; n++) {
    uint32_t value = n;
    for (int bit = 0; bit < 8; bit++)
      value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
    crc_table[n] = value;
  }
}

static uint32_t crc(uint32_t before, const unsigned char *bytes, uint64_t length) {
  uint32_t value = ~before;
  while (length--)
    value = crc_table[(value ^ *bytes++) & 255] ^ value >> 8;
  return ~value;
}

/* How NumPy calls an element type; what it has no name for are unsigned integers of that size. */
static const char *descriptor(const hlo_array *array) {
  static const char *const names[][2] = {
      {"pred", "|b1"}, {"s8", "|i1"}, {"u8", "|u1"}, {"s16", "<i2"}, {"u16", "<u2"}, {"s32", "<i4"}, {"u32", "<u4"},
      {"s64", "<i8"}, {"u64", "<u8"}, {"f16", "<f2"}, {"f32", "<f4"}, {"f64", "<f8"}, {"c64", "<c8"}, {"c128", "<c16"}};
  for (size_t n = 0; n < sizeof names / sizeof *names; n++)
    if (!strcmp(names[n][0], array->type))
      return names[n][1];
  return array->element_bytes == 1 ? "|u1" : array->element_bytes == 2 ? "<u2" : "<u4";
}

/* The data of an .npy file that is such an array; else null, and why not. */
static unsigned char *npy_data(unsigned char *file, uint64_t length, const hlo_array *array, text *why) {
  if (length < 12 || memcmp(file, "\x93NUMPY", 6)) {
    add(why, "%s: no .npy file\n", array->name);
    return NULL;
  }
  uint64_t start = file[6] == 1 ? 10 : 12, head_length = number(file + 8, file[6] == 1 ? 2 : 4);
  char head[1024];
  if (head_length >= sizeof head || start + head_length > length) {
    add(why, "%s: an .npy file without a header that can be read\n", array->name);
    return NULL;
  }
  memcpy(head, file + start, head_length);
  head[head_length] = 0;
  char wanted[64];
  snprintf(wanted, sizeof wanted, "'descr': '%s'", descriptor(array));
  int fits = strstr(head, wanted) != NULL && strstr(head, "'fortran_order': True") == NULL;
  const char *at = strstr(head, "'shape': (");
  if (at)
    at += strlen("'shape': (");
  uint32_t rank = 0;
  for (; at && *at && *at != ')'; rank++) {
    char *end;
    long long size = strtoll(at, &end, 10);
    if (end == at)
      break;
    fits &= rank < array->rank && array->dimensions[rank] == size;
    at = end;
    while (*at == ',' || *at == ' ')
      at++;
  }
  fits &= at != NULL && *at == ')' && rank == array->rank && length - start - head_length == array->bytes;
  if (!fits) {
    add(why, "%s: expected %s[", array->name, array->type);
    for (uint32_t d = 0; d < array->rank; d++)
      add(why, "%s%lld", d ? "," : "", (long long)array->dimensions[d]);
    add(why, "], row by row, with %s\n", wanted);
    return NULL;
  }
  return file + start + head_length;
}

/* Points arguments at the arrays of an archive, by their names or as arg0, arg1, ...; 0, and why, if that cannot be. */
static int read_npz(const hlo_entry *entry, unsigned char *data, uint64_t length, const void **arguments, text *why) {
  uint64_t end = length, least = length > 65557 ? length - 65557 : 0;
  while (end >= least + 22 && memcmp(data + end - 22, "PK\5\6", 4))
    end--;
  if (end < least + 22 || length > UINT32_MAX) {
    add(why, "no .npz archive of less than 4 GiB\n");
    return 0;
  }
  const unsigned char *tail = data + end - 22;
  uint32_t count = number(tail + 10, 2);
  uint64_t at = number(tail + 16, 4);
  for (uint32_t n = 0; n < entry->argument_count; n++)
    arguments[n] = NULL;
  for (uint32_t member = 0; member < count; member++) {
    if (at + 46 > length || memcmp(data + at, "PK\1\2", 4)) {
      add(why, "the archive is damaged\n");
      return 0;
    }
    const unsigned char *row = data + at;
    uint32_t method = number(row + 10, 2), sum = number(row + 16, 4), size = number(row + 24, 4);
    uint32_t name_length = number(row + 28, 2);
    uint64_t local = number(row + 42, 4);
    char name[256];
    at += 46 + name_length + number(row + 30, 2) + number(row + 32, 2);
    if (at > length || local + 30 > length || memcmp(data + local, "PK\3\4", 4)) {
      add(why, "the archive is damaged\n");
      return 0;
    }
    if (name_length < 5 || name_length >= sizeof name || memcmp(row + 46 + name_length - 4, ".npy", 4))
      continue;
    memcpy(name, row + 46, name_length - 4);
    name[name_length - 4] = 0;
    uint64_t from = local + 30 + number(data + local + 26, 2) + number(data + local + 28, 2);
    for (uint32_t n = 0; n < entry->argument_count; n++) {
      char numbered[16];
      snprintf(numbered, sizeof numbered, "arg%u", n);
      if (arguments[n] || (strcmp(name, numbered) && strcmp(name, entry->arguments[n].name)))
        continue;
      if (method != 0) {
        add(why, "%s is compressed: numpy.savez writes what is not\n", name);
        return 0;
      }
      if (from + size > length || crc(0, data + from, size) != sum) {
        add(why, "%s is damaged\n", name);
        return 0;
      }
      arguments[n] = npy_data(data + from, size, &entry->arguments[n], why);
      if (!arguments[n])
        return 0;
      break;
    }
  }
  for (uint32_t n = 0; n < entry->argument_count; n++)
    if (!arguments[n]) {
      add(why, "no array arg%u or %s\n", n, entry->arguments[n].name);
      return 0;
    }
  return 1;
}

/* ---- a run */

typedef struct {
  unsigned char *bytes;
  uint64_t length;
  const char *type; /* of its contents */
  int status;       /* of HTTP */
} answer;

static answer refused(int status, text *why) {
  return (answer){(unsigned char *)why->bytes, why->length, "text/plain; charset=utf-8", status};
}

static const char *const RAW = "application/octet-stream";
static const char *const NPZ = "application/zip";

/* Where each result lies in an answer that is an archive: its own header and that of .npy come first. */
static uint64_t npz_layout(const hlo_entry *entry, text *heads, uint64_t *offsets) {
  uint64_t at = 0;
  for (uint32_t n = 0; n < entry->result_count; n++) {
    const hlo_array *array = &entry->results[n];
    text shape = {0};
    for (uint32_t d = 0; d < array->rank; d++)
      add(&shape, "%s%lld%s", d ? ", " : "", (long long)array->dimensions[d], array->rank == 1 ? "," : "");
    add(&heads[n], "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descriptor(array),
        shape.bytes ? shape.bytes : "");
    free(shape.bytes);
    while ((heads[n].length + 11) % 64)
      add(&heads[n], " ");
    add(&heads[n], "\n");
    char name[24];
    offsets[n] = at + 30 + (uint64_t)snprintf(name, sizeof name, "out%u.npy", n) + 10 + heads[n].length;
    at = offsets[n] + array->bytes;
  }
  return at;
}

static void npz_finish(const hlo_entry *entry, text *heads, const uint64_t *offsets, unsigned char *bytes, text *tail) {
  uint64_t start = 0;
  for (uint32_t n = 0; n < entry->result_count; n++) {
    const hlo_array *array = &entry->results[n];
    text head = {0}, own = {0};
    char name[24];
    uint32_t name_length = (uint32_t)snprintf(name, sizeof name, "out%u.npy", n);
    add_bytes(&own, "\x93NUMPY\1\0", 8);
    put(&own, heads[n].length, 2);
    add_bytes(&own, heads[n].bytes, heads[n].length);
    uint64_t size = own.length + array->bytes;
    uint32_t sum = crc(crc(0, (unsigned char *)own.bytes, own.length), bytes + offsets[n], array->bytes);
    text fields = {0}; /* that both headers have: version, flags, method, time and day (1980), sum, sizes, names */
    put(&fields, 20, 2), put(&fields, 0, 2), put(&fields, 0, 2), put(&fields, 0, 2), put(&fields, 33, 2);
    put(&fields, sum, 4), put(&fields, size, 4), put(&fields, size, 4), put(&fields, name_length, 2);
    put(&fields, 0, 2);
    add_bytes(&head, "PK\3\4", 4);
    add_bytes(&head, fields.bytes, fields.length);
    add_bytes(&head, name, name_length);
    add_bytes(&head, own.bytes, own.length);
    add_bytes(tail, "PK\1\2\24\0", 6);
    add_bytes(tail, fields.bytes, fields.length);
    put(tail, 0, 2), put(tail, 0, 2), put(tail, 0, 2), put(tail, 0, 4), put(tail, start, 4);
    add_bytes(tail, name, name_length);
    if (head.failed || own.failed || fields.failed)
      tail->failed = 1;
    else
      memcpy(bytes + start, head.bytes, head.length);
    free(head.bytes), free(own.bytes), free(fields.bytes);
    start = offsets[n] + array->bytes;
  }
  uint64_t listed = tail->length;
  add_bytes(tail, "PK\5\6\0\0\0\0", 8);
  put(tail, entry->result_count, 2), put(tail, entry->result_count, 2);
  put(tail, listed, 4), put(tail, start, 4), put(tail, 0, 2);
}

static uint64_t raw_bytes(const hlo_array *arrays, uint32_t count) {
  uint64_t bytes = 0;
  for (uint32_t n = 0; n < count; n++)
    bytes += arrays[n].bytes;
  return bytes;
}

static answer run(const hlo_entry *entry, unsigned char *body, uint64_t length, int is_npz) {
  text why = {0};
  const void **arguments = calloc(entry->argument_count + 1, sizeof *arguments);
  void **results = calloc(entry->result_count + 1, sizeof *results);
  text *heads = calloc(entry->result_count + 1, sizeof *heads);
  uint64_t *offsets = calloc(entry->result_count + 1, sizeof *offsets);
  text tail = {0};
  answer done = {0};
  if (!arguments || !results || !heads || !offsets) {
    add(&why, "out of memory\n");
    done = refused(503, &why);
    goto end;
  }
  if (is_npz) {
    if (!read_npz(entry, body, length, arguments, &why)) {
      done = refused(400, &why);
      goto end;
    }
  } else {
    uint64_t expected = raw_bytes(entry->arguments, entry->argument_count), at = 0;
    if (length != expected) {
      add(&why, "%s takes %llu bytes, there are %llu; GET / says of which arrays\n", entry->name,
          (unsigned long long)expected, (unsigned long long)length);
      done = refused(400, &why);
      goto end;
    }
    for (uint32_t n = 0; n < entry->argument_count; n++) {
      arguments[n] = body + at;
      at += entry->arguments[n].bytes;
    }
  }
  uint64_t bytes;
  if (is_npz) {
    bytes = npz_layout(entry, heads, offsets);
    for (uint32_t n = 0; n < entry->result_count; n++)
      if (heads[n].failed)
        why.failed = 1;
  } else {
    bytes = raw_bytes(entry->results, entry->result_count);
    for (uint32_t n = 1; n < entry->result_count; n++)
      offsets[n] = offsets[n - 1] + entry->results[n - 1].bytes;
  }
  if (is_npz && bytes > UINT32_MAX / 2) {
    add(&why, "the results are too large for an archive: ask for application/octet-stream\n");
    done = refused(400, &why);
    goto end;
  }
  done = (answer){malloc(bytes + 1), bytes, is_npz ? NPZ : RAW, 200};
  if (!done.bytes || why.failed) {
    free(done.bytes);
    add(&why, "out of memory\n");
    done = refused(503, &why);
    goto end;
  }
  for (uint32_t n = 0; n < entry->result_count; n++) {
    int32_t alias = entry->results[n].alias;
    results[n] = alias < 0 ? done.bytes + offsets[n] : (void *)(uintptr_t)arguments[alias];
  }
  pthread_mutex_lock(&running);
  int32_t code = entry->run(arguments, results, workspace, workspace_bytes, &context);
  pthread_mutex_unlock(&running);
  if (code) {
    free(done.bytes);
    add(&why, "%s\n", ${NAME}_message(code));
    done = refused(500, &why);
    goto end;
  }
  for (uint32_t n = 0; n < entry->result_count; n++)
    if (entry->results[n].alias >= 0)
      memcpy(done.bytes + offsets[n], results[n], entry->results[n].bytes);
  if (is_npz) {
    npz_finish(entry, heads, offsets, done.bytes, &tail);
    unsigned char *whole = tail.failed ? NULL : realloc(done.bytes, bytes + tail.length);
    if (!whole) {
      free(done.bytes);
      add(&why, "out of memory\n");
      done = refused(503, &why);
      goto end;
    }
    memcpy(whole + bytes, tail.bytes, tail.length);
    done.bytes = whole, done.length = bytes + tail.length;
  }
end:
  for (uint32_t n = 0; heads && n < entry->result_count; n++)
    free(heads[n].bytes);
  free(tail.bytes), free(arguments), free(results), free(heads), free(offsets);
  if (done.status == 200)
    free(why.bytes);
  return done;
}

/* ---- HTTP/1.1 (RFC 9112) */

static int send_all(int to, const void *bytes, uint64_t length, int more) {
  const char *at = bytes;
  while (length) {
    ssize_t sent = send(to, at, length, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return 0;
    at += sent, length -= (uint64_t)sent;
  }
  return 1;
}

static const char *reason_of(int status) {
  switch (status) {
  case 200: return "OK";
  case 400: return "Bad Request";
  case 404: return "Not Found";
  case 405: return "Method Not Allowed";
  case 411: return "Length Required";
  case 413: return "Content Too Large";
  case 415: return "Unsupported Media Type";
  case 431: return "Request Header Fields Too Large";
  case 503: return "Service Unavailable";
  default: return "Internal Server Error";
  }
}

static int send_answer(int to, const answer *what, int keep) {
  char head[256];
  int length = snprintf(head, sizeof head,
                        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %llu\r\nConnection: %s\r\n\r\n",
                        what->status, reason_of(what->status), what->type, (unsigned long long)what->length,
                        keep ? "keep-alive" : "close");
  return send_all(to, head, (uint64_t)length, what->length != 0) && send_all(to, what->bytes, what->length, 0);
}

static answer said(int status, const char *format, ...) {
  char line[256];
  va_list words;
  va_start(words, format);
  vsnprintf(line, sizeof line, format, words);
  va_end(words);
  text copy = {0};
  add(&copy, "%s\n", line);
  return refused(status, &copy);
}

/* The value of a field of the head, without the spaces around it; null where there is none. */
static char *field(char *head, const char *name, char *value, size_t room) {
  size_t length = strlen(name);
  for (char *line = strstr(head, "\r\n"); line && line[2]; line = strstr(line + 2, "\r\n")) {
    char *at = line + 2;
    if (strncasecmp(at, name, length) || at[length] != ':')
      continue;
    at += length + 1;
    at += strspn(at, " \t");
    size_t end = strcspn(at, "\r\n");
    while (end && (at[end - 1] == ' ' || at[end - 1] == '\t'))
      end--;
    if (end >= room)
      end = room - 1;
    memcpy(value, at, end);
    value[end] = 0;
    return value;
  }
  return NULL;
}

static const hlo_entry *entry_called(const char *name) {
  for (uint32_t n = 0; n < library->entry_count; n++)
    if (!strcmp(library->entries[n].name, name))
      return &library->entries[n];
  return NULL;
}

/* One request of a connection, of which `have` bytes are there already; whether it may have another one. */
static int serve_request(int socket, char *head, size_t *have) {
  char *end;
  while (!(end = memmem(head, *have, "\r\n\r\n", 4))) {
    if (*have == HEAD_BYTES) {
      answer long_head = said(431, "the head of a request has at most %d bytes", HEAD_BYTES);
      send_answer(socket, &long_head, 0);
      free(long_head.bytes);
      return 0;
    }
    ssize_t got = recv(socket, head + *have, HEAD_BYTES - *have, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return 0;
    *have += (size_t)got;
  }
  if (memchr(head, 0, (size_t)(end - head)))
    return 0;
  size_t head_length = (size_t)(end - head) + 4, early = *have - head_length;
  end[2] = 0; /* between the head and what has come of the body */
  char method[16], path[256], version[16], value[256];
  answer reply = {0};
  int keep = 0;
  uint64_t length = 0;
  unsigned char *body = NULL;
  const hlo_entry *entry = NULL;
  int is_npz = 0;
  if (sscanf(head, "%15[A-Z] %255[^ \r\n] HTTP/%15[0-9.]\r\n", method, path, version) != 3) {
    reply = said(400, "this is no request of HTTP/1.1");
    goto send;
  }
  path[strcspn(path, "?")] = 0;
  keep = !strcmp(version, "1.1");
  if (field(head, "Connection", value, sizeof value))
    keep = keep ? strcasecmp(value, "close") != 0 : !strcasecmp(value, "keep-alive");
  if (field(head, "Transfer-Encoding", value, sizeof value)) {
    reply = said(411, "a body needs a Content-Length");
    keep = 0;
    goto send;
  }
  if (field(head, "Content-Length", value, sizeof value)) {
    char *after;
    errno = 0;
    length = strtoull(value, &after, 10);
    if (!*value || *after || *value == '-' || errno) {
      reply = said(400, "Content-Length is no number");
      keep = 0;
      goto send;
    }
  }
  if (!strcmp(method, "POST")) {
    entry = entry_called(path + 1);
    if (!entry)
      reply = said(404, "there is no entry %s; GET / lists them", path + 1);
    else if (field(head, "Content-Type", value, sizeof value)) {
      value[strcspn(value, "; ")] = 0;
      is_npz = !strcasecmp(value, NPZ) || !strcasecmp(value, "application/x-npz");
      if (!is_npz && strcasecmp(value, RAW) && strcasecmp(value, "application/x-www-form-urlencoded")) /* curl's */
        reply = said(415, "%s: expected %s or %s", value, RAW, NPZ);
    }
    if (!reply.status) {
      uint64_t most = raw_bytes(entry->arguments, entry->argument_count);
      if (is_npz)
        most += 65536 + 4096 * (uint64_t)entry->argument_count;
      if (length > most)
        reply = said(413, "%s takes at most %llu bytes; GET / says of which arrays", entry->name,
                     (unsigned long long)most);
    }
  } else if (strcmp(method, "GET")) {
    reply = said(405, "there are GET and POST");
  } else if (!strcmp(path, "/health")) {
    reply = said(200, "ok");
  } else if (!strcmp(path, "/")) {
    text words = signature();
    reply = (answer){(unsigned char *)words.bytes, words.length, "application/json", 200};
  } else {
    reply = said(404, "there are GET /, GET /health and POST /ENTRY");
  }
  if (reply.status && length > early) { /* of a body that is not read, the connection would have the rest */
    keep = 0;
    goto send;
  }
  if (!reply.status) {
    body = malloc(length + 1);
    if (!body) {
      reply = said(503, "out of memory");
      keep = 0;
      goto send;
    }
    uint64_t got = early < length ? early : length;
    memcpy(body, head + head_length, got);
    if (got < length && field(head, "Expect", value, sizeof value) && !strcasecmp(value, "100-continue") &&
        !send_all(socket, "HTTP/1.1 100 Continue\r\n\r\n", 25, 0))
      goto gone;
    while (got < length) {
      ssize_t more = recv(socket, body + got, length - got, 0);
      if (more < 0 && errno == EINTR)
        continue;
      if (more <= 0)
        goto gone;
      got += (uint64_t)more;
    }
    reply = run(entry, body, length, is_npz);
  }
  size_t used = head_length + (length < early ? length : early);
  memmove(head, head + used, *have - used);
  *have -= used;
send:
  if (!send_answer(socket, &reply, keep))
    keep = 0;
  free(reply.bytes), free(body);
  return keep;
gone:
  free(body);
  return 0;
}

static void *serve_connection(void *argument) {
  int socket = (int)(intptr_t)argument;
  char *head = malloc(HEAD_BYTES + 1);
  size_t have = 0;
  if (head)
    while (serve_request(socket, head, &have) && !stopping)
      ;
  free(head);
  shutdown(socket, SHUT_WR);
  struct timeval limit = {.tv_sec = 1};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char rest[4096]; /* of a body that was refused: its sender looks at the answer once all is sent */
  for (int n = 0; n < LEFT_BYTES / (int)sizeof rest && recv(socket, rest, sizeof rest, 0) > 0; n++)
    ;
  close(socket);
  atomic_fetch_sub(&connections, 1);
  return NULL;
}

/* ---- replicas */

static void stop(int signal_number) {
  (void)signal_number;
  stopping = 1;
}

static int read_weights(const char *program, const char *path) {
  if (!library->weights_bytes)
    return 1;
  char beside[4096];
  if (!path) {
    const char *slash = strrchr(program, '/');
    snprintf(beside, sizeof beside, "%.*s${NAME}.weights", slash ? (int)(slash - program + 1) : 0, program);
    path = beside;
  }
  int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat about;
  if (file < 0 || fstat(file, &about)) {
    complain("cannot read %s: %s", path, strerror(errno));
    return 0;
  }
  void *found = mmap(NULL, (size_t)about.st_size + !about.st_size, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  int32_t code = found == MAP_FAILED ? HLO_NO_WEIGHTS : ${NAME}_weights_check(found, (size_t)about.st_size);
  if (code) {
    complain("%s: %s", path, ${NAME}_message(code));
    return 0;
  }
  context.weights = found;
  return 1;
}

/* Puts a replica on processors of its own, as long as there are as many. */
static void pin(uint32_t replica, uint32_t threads) {
  cpu_set_t all, own;
  if (sched_getaffinity(0, sizeof all, &all))
    return;
  uint32_t count = (uint32_t)CPU_COUNT(&all), seen = 0;
  if (threads >= count)
    return;
  CPU_ZERO(&own);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all)) {
      if ((seen + count - replica * threads % count) % count < threads)
        CPU_SET(cpu, &own);
      seen++;
    }
  sched_setaffinity(0, sizeof own, &own);
}

static int prepare(uint32_t threads) {
  for (uint32_t n = 0; n < library->entry_count; n++)
    if (library->entries[n].workspace_bytes > workspace_bytes)
      workspace_bytes = library->entries[n].workspace_bytes;
  if (posix_memalign(&workspace, HLO_ALIGNMENT, workspace_bytes + HLO_ALIGNMENT)) {
    complain("out of memory");
    return 0;
  }
  if (threads > 1) {
    void *pool;
    if (posix_memalign(&pool, HLO_ALIGNMENT, ${NAME_UPPER}_THREADS_BYTES) ||
        ${NAME}_threads_start(pool, ${NAME_UPPER}_THREADS_BYTES, threads)) {
      complain("no %u threads can be started", threads);
      return 0;
    }
    context.threads = pool;
    context.parallel_for = ${NAME}_threads_run;
    context.parallel_for_short = ${NAME}_threads_run_short;
  }
  return 1;
}

static int serve(int listening, uint32_t replica, uint32_t threads) {
  sigset_t blocked, open_mask;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM), sigaddset(&blocked, SIGINT);
  sigprocmask(SIG_SETMASK, &blocked, NULL); /* threads inherit it: signals come to this one, while it waits */
  sigemptyset(&open_mask);
  struct sigaction action = {.sa_handler = stop};
  sigaction(SIGTERM, &action, NULL), sigaction(SIGINT, &action, NULL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  pin(replica, threads);
  if (!prepare(threads))
    return CANNOT_START;
  while (!stopping) {
    struct pollfd ready = {.fd = listening, .events = POLLIN};
    if (ppoll(&ready, 1, NULL, &open_mask) <= 0)
      continue;
    int socket = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (socket < 0) /* another replica was faster */
      continue;
    struct timeval limit = {.tv_sec = SECONDS};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    pthread_t thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&detached, 4 << 20); /* code of a program may use the stack for tiles */
    if (atomic_fetch_add(&connections, 1) >= CONNECTIONS ||
        pthread_create(&thread, &detached, serve_connection, (void *)(intptr_t)socket)) {
      answer busy = said(503, "too many connections");
      send_answer(socket, &busy, 0);
      free(busy.bytes);
      close(socket);
      atomic_fetch_sub(&connections, 1);
    }
    pthread_attr_destroy(&detached);
  }
  close(listening);
  for (int waits = 0; waits < 100 * GRACE_SECONDS; waits++) { /* a request that is computed is answered */
    if (!atomic_load(&connections))
      return 0;
    if (!pthread_mutex_trylock(&running)) {
      pthread_mutex_unlock(&running);
      if (waits >= 100) /* those that are left say nothing */
        return 0;
    }
    usleep(10000);
  }
  return 0;
}

static pid_t start_replica(int listening, uint32_t replica, uint32_t threads) {
  pid_t child = fork();
  if (!child) {
    _exit(serve(listening, replica, threads));
  }
  if (child < 0)
    complain("no replica %u: %s", replica, strerror(errno));
  return child;
}

/* Starts replicas, and those that die again, until it is told to stop. */
static int keep_serving(int listening, uint32_t replicas, uint32_t threads) {
  static pid_t children[REPLICAS];
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGTERM), sigaddset(&awaited, SIGINT), sigaddset(&awaited, SIGCHLD);
  sigprocmask(SIG_BLOCK, &awaited, NULL);
  int code = 0, told = 0;
  uint32_t alive = 0;
  for (uint32_t n = 0; n < replicas; n++) {
    children[n] = start_replica(listening, n, threads);
    if (children[n] < 0)
      return 1;
    alive++;
  }
  while (alive) {
    int number_of = 0;
    sigwait(&awaited, &number_of);
    if (number_of != SIGCHLD && !told) {
      told = 1;
      for (uint32_t n = 0; n < replicas; n++)
        if (children[n] > 0)
          kill(children[n], SIGTERM);
    }
    int status;
    for (pid_t gone; (gone = waitpid(-1, &status, WNOHANG)) > 0;)
      for (uint32_t n = 0; n < replicas; n++) {
        if (children[n] != gone)
          continue;
        children[n] = 0, alive--;
        if (told)
          continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_START) {
          told = 1, code = 1;
          for (uint32_t other = 0; other < replicas; other++)
            if (children[other] > 0)
              kill(children[other], SIGTERM);
          continue;
        }
        complain("replica %u ended by %s %d; it is started again", n, WIFSIGNALED(status) ? "signal" : "exit code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        sleep(1);
        children[n] = start_replica(listening, n, threads);
        alive += children[n] > 0;
      }
  }
  return code;
}

/* ---- the program */

static int run_once(const hlo_entry *entry, uint32_t threads) {
  if (!prepare(threads))
    return 1;
  text body = {0};
  static char piece[65536];
  for (size_t got; (got = fread(piece, 1, sizeof piece, stdin)) > 0;)
    add_bytes(&body, piece, got);
  if (body.failed || ferror(stdin)) {
    complain("cannot read standard input");
    return 1;
  }
  int is_npz = body.length >= 4 && !memcmp(body.bytes, "PK\3\4", 4);
  answer reply = run(entry, (unsigned char *)body.bytes, body.length, is_npz);
  if (reply.status != 200) {
    complain("%.*s", (int)reply.length - 1, (char *)reply.bytes);
    return 1;
  }
  return fwrite(reply.bytes, 1, reply.length, stdout) != reply.length || fflush(stdout) ? 1 : 0;
}

static const char USAGE[] =
    "usage: server [--address 0.0.0.0] [--port 8080] [--replicas ${REPLICAS}] [--threads ${THREADS}]"
    " [--weights FILE]\n"
    "       server --once ENTRY < arguments > results\n"
    "Serves ${NAME}: GET /health, GET /, POST /ENTRY with arguments as raw bytes or an .npz archive.\n"
    "--port 0 takes a free port, which is printed.  --once runs an entry on standard input.\n";

static int whole(const char *words, long most, long *value) {
  char *end;
  *value = strtol(words, &end, 10);
  return *words && !*end && *value >= 0 && *value <= most;
}

int main(int count, char **words) {
  long port = 8080, replicas = ${REPLICAS}, threads = ${THREADS};
  const char *address = "0.0.0.0", *once = NULL, *weights = NULL;
  for (int n = 1; n < count; n++) {
    const char *word = words[n], *value = n + 1 < count ? words[n + 1] : NULL;
    int good = value != NULL;
    if (!strcmp(word, "--help"))
      return fputs(USAGE, stdout), 0;
    if (good && !strcmp(word, "--address"))
      address = value;
    else if (good && !strcmp(word, "--once"))
      once = value;
    else if (good && !strcmp(word, "--weights"))
      weights = value;
    else if (good && !strcmp(word, "--port"))
      good = whole(value, 65535, &port);
    else if (good && !strcmp(word, "--replicas"))
      good = whole(value, REPLICAS, &replicas) && replicas;
    else if (good && !strcmp(word, "--threads"))
      good = whole(value, 1024, &threads) && threads;
    else
      good = 0;
    if (!good)
      return complain("what does %s mean here?", word), fputs(USAGE, stderr), 2;
    n++;
  }
  library = ${NAME}_library();
  make_crc_table();
  if (!read_weights(words[0], weights))
    return 1;
  if (once) {
    const hlo_entry *entry = entry_called(once);
    if (!entry)
      return complain("there is no entry %s", once), 2;
    return run_once(entry, (uint32_t)threads);
  }
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  if (inet_pton(AF_INET, address, &place.sin_addr) != 1)
    return complain("%s is no address of IPv4", address), 2;
  int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  socklen_t length = sizeof place;
  if (listening < 0 || bind(listening, (struct sockaddr *)&place, sizeof place) || listen(listening, 1024) ||
      getsockname(listening, (struct sockaddr *)&place, &length))
    return complain("cannot listen on %s:%ld: %s", address, port, strerror(errno)), 1;
  printf("${NAME} listens on %s:%u, %ld replicas of %ld threads\n", address, ntohs(place.sin_port), replicas, threads);
  fflush(stdout);
  return keep_serving(listening, (uint32_t)replicas, (uint32_t)threads);
}
